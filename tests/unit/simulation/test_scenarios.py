"""Scenarios: what the scheduler does on a changed copy of the cluster, by the RPC."""

import asyncio

import grpc
import pytest
from google.protobuf import json_format

from tests.helpers.simulated_insight import Json, SimulatedInsight, budget, manifest, nodes_of, pending_in, stored
from tests.helpers.snapshot_views import view
from trireme.simulation import pacing
from trireme.v1 import simulation_pb2, snapshot_pb2


async def test_pods_are_placed_as_long_as_there_is_room() -> None:
    insight = await SimulatedInsight(n0="2", n1="2").start()
    answer = await insight.change({"addPods": {"count": 5, "manifest": manifest(cpu="1")}})
    assert sorted(nodes_of(answer).values()) == ["n0", "n0", "n1", "n1"]
    (group,) = answer.pending
    assert [pod.name for pod in group.pods] == ["p-4"]
    assert group.message.startswith("0/2 nodes are available: 2 Insufficient cpu. preemption: ")
    assert [(refusal.plugin, refusal.node_count) for refusal in group.refusals] == [("NodeResourcesFit", 2)]
    assert answer.placements[0].origin == simulation_pb2.POD_ORIGIN_ADDED


async def test_a_simulation_leaves_the_cluster_as_it_is() -> None:
    """Insight would explain pods on a cluster that does not exist."""
    insight = await SimulatedInsight(n0="4", n1="4").start()
    insight.builder.add_class(1, stored(owner="ReplicaSet/web"))
    insight.builder.place(1, "n0", "n0")
    before = view(insight.builder.snap)
    answer = await insight.change(
        {"drain": {"nodeNames": ["n0"]}},
        {"addNodes": {"likeNode": "n1"}},
        {"addPods": {"count": 3, "manifest": manifest(labels={"a": "b"})}},
        {"delete": {"kind": "node", "name": "n1"}},
    )
    assert answer.placements
    assert view(insight.builder.snap) == before
    assert insight.builder.snap.generation == answer.evaluated_generation


async def test_added_nodes_take_pods_that_are_pending_now() -> None:
    """`--add-nodes` is asked for the sake of these."""
    insight = await SimulatedInsight(n0="1").start()
    insight.builder.add_class(1, stored(cpu="1"))
    insight.builder.place(1, "n0")
    insight.queue(("waits", 1), ("waits-too", 1), ("third", 1))
    answer = await insight.change({"addNodes": {"count": 2, "likeNode": "n0"}})
    assert sorted(nodes_of(answer).values()) == ["n0-added-1", "n0-added-2"]
    assert [each.origin for each in answer.placements] == [simulation_pb2.POD_ORIGIN_QUEUED] * 2
    assert answer.placements[0].pod.uid == "uid-of-waits"
    assert pending_in(answer) == ["third"]
    assert (answer.before.node_count, answer.after.node_count) == (1, 3)
    assert (answer.before.placed_pods, answer.after.placed_pods) == (1, 3)
    alone = await insight.change({"addNodes": {"count": 2, "likeNode": "n0"}}, withoutPendingPods=True)
    assert not alone.placements


async def test_pods_that_are_held_back_are_named_and_not_tried() -> None:
    """A gated pod would seem to be scheduled as soon as there is room."""
    insight = await SimulatedInsight(n0="4").start()
    insight.builder.add_class(1, stored())
    insight.queue(("gated", 1), state=snapshot_pb2.QUEUED_POD_STATE_GATED)
    answer = await insight.change()
    assert not answer.placements
    assert "held back: 1" in answer.not_simulated[0]


async def test_a_pod_of_higher_priority_evicts_and_is_placed_there() -> None:
    """Preemption decides whether an urgent pod fits; its victims are what that costs."""
    insight = await SimulatedInsight(n0="2", n1="2").start()
    insight.builder.add_class(1, stored(cpu="2", priority=1))
    insight.builder.add_class(2, stored(cpu="2", priority=50))
    insight.builder.place(1, "n0")
    insight.builder.place(2, "n1")
    answer = await insight.change({"addPods": {"manifest": manifest(cpu="1", priority=10)}})
    assert nodes_of(answer) == {"p": "n0"}
    (eviction,) = answer.evictions
    assert (eviction.pod.name, eviction.node_name, eviction.preemptor.name) == ("pod-0", "n0", "p")


async def test_victims_are_there_until_all_other_pods_were_tried() -> None:
    """A cluster takes seconds to delete them: pods that are tried meanwhile would be said to go where they are."""
    insight = await SimulatedInsight(n0="16", n1="3").start()
    insight.builder.add_class(1, stored(cpu="16", priority=1))
    insight.builder.place(1, "n0")
    answer = await insight.change(
        {"addPods": {"manifest": manifest("urgent", cpu="4", priority=10)}},
        {"addPods": {"manifest": manifest("other", cpu="2")}},
    )
    assert nodes_of(answer) == {"urgent": "n0", "other": "n1"}


async def test_pods_that_were_tried_first_are_tried_first_again() -> None:
    """The second copy may only follow the first one: before that no preemption helps it, and nothing wakes it again.

    It is woken by the first victim that leaves, the first copy by the last one of both.
    """
    nodes = {
        f"n-{zone}": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "20"},
            "labels": {"zone": zone, "kubernetes.io/hostname": f"n-{zone}"},
        }
        for zone, cpu in (("a", "2"), ("b", "3"))
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    of_pods: Json = {"labels": {"app": "web"}, "priority": 10, "topologySpreadConstraints": [spread]}
    insight = await SimulatedInsight(**nodes).start()
    insight.builder.add_class(1, stored(cpu="1", priority=1))
    insight.builder.add_class(2, stored(cpu="1", **of_pods))
    insight.builder.place(1, "n-a", "n-a", "n-b", "n-b")
    insight.builder.place(2, "n-b")
    answer = await insight.change({"addPods": {"count": 2, "manifest": manifest(cpu="2", **of_pods)}})
    assert nodes_of(answer) == {"p-0": "n-a", "p-1": "n-b"}


async def test_a_victim_with_a_controller_comes_again() -> None:
    """Its replica is not gone, it waits: who reads the answer has to know."""
    insight = await SimulatedInsight(n0="2").start()
    insight.builder.add_class(1, stored(cpu="2", priority=1, owner="ReplicaSet/web"))
    insight.builder.place(1, "n0")
    answer = await insight.change({"addPods": {"manifest": manifest(cpu="1", priority=10)}})
    assert nodes_of(answer) == {"p": "n0"}
    (group,) = answer.pending
    assert [pod.name for pod in group.pods] == ["web-simulated-1"]
    assert list(group.origins) == [simulation_pb2.POD_ORIGIN_REPLACEMENT]


async def test_a_drain_moves_pods_as_far_as_budgets_allow() -> None:
    """A drain without budgets would promise what `kubectl drain` does not do."""
    insight = await SimulatedInsight(n0="9", n1="2").start()
    insight.builder.add_class(1, stored(labels={"app": "web"}, owner="ReplicaSet/web"))
    insight.builder.add_class(2, stored(cpu="100m", owner="DaemonSet/agent"))
    insight.builder.place(1, "n0", "n0", "n0")
    insight.builder.place(2, "n0")
    insight.builder.apply(objects=[snapshot_pb2.ClusterObject(pod_disruption_budget=budget("web", 1, app="web"))])
    answer = await insight.change({"drain": {"nodeNames": ["n0"]}})
    # Each replacement that has a node frees the budget for the next eviction; the third has no room.
    assert [each.node_name for each in answer.placements] == ["n1", "n1"]
    assert [each.replaces.name for each in answer.placements] == ["pod-0", "pod-1"]
    assert [each.pod.name for each in answer.evictions] == ["pod-0", "pod-1", "pod-2"]
    assert all(not each.HasField("preemptor") for each in answer.evictions)
    assert pending_in(answer) == ["web-simulated-3"]


async def test_a_budget_that_allows_nothing_blocks_a_drain() -> None:
    """The operator would wait for a node that never becomes empty."""
    insight = await SimulatedInsight(n0="9", n1="9").start()
    insight.builder.add_class(1, stored(labels={"app": "web"}, owner="ReplicaSet/web"))
    insight.builder.place(1, "n0")
    insight.builder.apply(objects=[snapshot_pb2.ClusterObject(pod_disruption_budget=budget("web", 0, app="web"))])
    answer = await insight.change({"drain": {"nodeNames": ["n0"]}})
    (blocked,) = answer.blocked
    assert (blocked.pod.name, blocked.node_name, list(blocked.budgets)) == ("pod-0", "n0", ["default/web"])
    assert not answer.evictions


async def test_scaling_adds_pods_like_those_of_the_workload_and_removes_them() -> None:
    """`--scale deployment/web=200` asks whether they fit."""
    insight = await SimulatedInsight(n0="4", n1="4").start()
    insight.builder.add_class(1, stored(owner="ReplicaSet/web-1"))
    insight.builder.place(1, "n0", "n0", "n1")
    replica_set = snapshot_pb2.ClusterObject()
    replica_set.replica_set.metadata.namespace, replica_set.replica_set.metadata.name = "default", "web-1"
    replica_set.replica_set.metadata.owner_references.add(kind="Deployment", name="web", controller=True)
    insight.builder.apply(objects=[replica_set])
    scale = {"kind": "deployment", "namespace": "default", "name": "web"}
    more = await insight.change({"scale": {**scale, "replicas": 9}})
    assert len(more.placements) == 5
    assert len(pending_in(more)) == 1
    fewer = await insight.change({"scale": {**scale, "replicas": 1}}, {"addPods": {"manifest": manifest(cpu="4")}})
    assert fewer.after.placed_pods == 2
    # Of equal pods those on the node with the most go first, so n0 keeps one or none; the large pod needs a whole node.
    assert nodes_of(fewer)["p"] in ("n0", "n1")


async def test_objects_can_be_applied_and_deleted() -> None:
    """A node that changes, a pod that comes back larger, a budget that is in the way: all of them are questions."""
    insight = await SimulatedInsight(n0="2", n1="2").start()
    insight.builder.add_class(1, stored(cpu="2"))
    insight.builder.place(1, "n0")
    cordoned = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"cpu": "2", "pods": "9"}},
    }
    pod = {"addPods": {"manifest": manifest(cpu="2")}}
    assert nodes_of(await insight.change(pod)) == {"p": "n1"}
    assert pending_in(await insight.change({"apply": {"manifest": cordoned}}, pod)) == ["p"]
    deleted = {"delete": {"kind": "pod", "name": "pod-0"}}
    assert nodes_of(await insight.change({"apply": {"manifest": cordoned}}, deleted, pod)) == {"p": "n0"}
    larger = {"apply": {"manifest": manifest("pod-0", cpu="1")}}
    answer = await insight.change(larger)
    assert list(nodes_of(answer)) == ["pod-0"]
    assert answer.after.placed_pods == 1
    gone = await insight.change({"delete": {"kind": "node", "name": "n1"}}, pod)
    assert pending_in(gone) == ["p"]


async def test_the_pods_of_a_node_that_is_deleted_come_again_elsewhere() -> None:
    """A node that fails is the most frequent what-if."""
    insight = await SimulatedInsight(n0="2", n1="2").start()
    insight.builder.add_class(1, stored(owner="StatefulSet/db"))
    insight.builder.place(1, "n0")
    answer = await insight.change({"delete": {"kind": "node", "name": "n0"}})
    assert nodes_of(answer) == {"pod-0": "n1"}


async def test_a_node_without_pods_can_be_deleted_after_a_pod_has_left_the_cluster() -> None:
    """The rows of pods that left would be taken for pods of the node, and the question would fail."""
    insight = await SimulatedInsight(n0="2", n1="2").start()
    insight.builder.add_class(1, stored())
    insight.builder.remove(*insight.builder.place(1, "n0"))
    answer = await insight.change({"delete": {"kind": "node", "name": "n1"}}, {"addPods": {"manifest": manifest()}})
    assert nodes_of(answer) == {"p": "n0"}


async def test_pods_that_share_a_claim_get_its_devices_one_after_the_other() -> None:
    """The second pod waits until the claim is written for the first; it would be said to stay pending."""
    insight = await SimulatedInsight(n0="4", n1="4").start()
    group = {"apiVersion": "resource.k8s.io/v1"}
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    devices = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": [{"name": "gpu-0"}]}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    objects: list[Json] = [
        {**group, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        {**group, "kind": "ResourceSlice", "metadata": {"name": "gpus"}, "spec": devices},
        *(
            {
                **group,
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"devices": {"requests": [request]}},
            }
            for name in ("shared", "other")
        ),
    ]

    def using(name: str, claim: str) -> Json:
        return {"addPods": {"manifest": manifest(name, resourceClaims=[{"name": "gpu", "resourceClaimName": claim}])}}

    changes = [{"apply": {"manifest": each}} for each in objects]
    pods = [using("first", "shared"), using("second", "shared"), using("third", "other")]
    answer = await insight.change(*changes, *pods)
    assert nodes_of(answer) == {"first": "n1", "second": "n1"}
    assert pending_in(answer) == ["third"]


async def test_other_profiles_and_plugins_left_out_change_the_decision() -> None:
    """`--config new.yaml` asks what would change."""
    insight = await SimulatedInsight(n0="4", n1="4").start()
    insight.builder.add_class(1, stored(cpu="2"))
    insight.builder.place(1, "n0")
    pod = {"changes": [{"addPods": {"manifest": manifest(cpu="1")}}]}
    assert nodes_of(await insight.ask(scenario=pod)) == {"p": "n1"}
    packing = snapshot_pb2.Profile()
    packing.CopyFrom(insight.service._configuration.profiles[0])
    for args in packing.plugin_args:
        if args.name == "NodeResourcesFit":
            args.args_json = b'{"scoringStrategy":{"type":"MostAllocated","resources":[{"name":"cpu","weight":1}]}}'
    for point in packing.plugin_sets:
        for plugin in point.plugins:
            plugin.weight = 100 if plugin.name == "NodeResourcesFit" else plugin.weight
    other = json_format.MessageToDict(simulation_pb2.SimulateRequest(profiles=[packing]))
    assert nodes_of(await insight.ask(scenario=pod, **other)) == {"p": "n0"}
    large = {"changes": [{"addPods": {"manifest": manifest(cpu="9")}}]}
    assert pending_in(await insight.ask(scenario=large)) == ["p"]
    assert nodes_of(await insight.ask(scenario=large, withoutPlugins=["NodeResourcesFit"]))


async def test_a_gang_is_placed_as_a_whole_or_waits() -> None:
    """Half of a gang on nodes is what gangs are there to prevent."""
    insight = await SimulatedInsight(n0="2", n1="1").start({"GenericWorkload": True})
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "default", "uid": "gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    member = manifest("m", cpu="1", schedulingGroup={"podGroupName": "gang"})
    fits = await insight.change({"apply": {"manifest": group}}, {"addPods": {"count": 3, "manifest": member}})
    assert sorted(nodes_of(fits).values()) == ["n0", "n0", "n1"]
    large = manifest("m", cpu="1100m", schedulingGroup={"podGroupName": "gang"})
    waits = await insight.change({"apply": {"manifest": group}}, {"addPods": {"count": 3, "manifest": large}})
    assert not waits.placements
    assert len(pending_in(waits)) == 3


INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ({}, "the request has no question"),
        ({"scenario": {"changes": [{}]}}, "scenario.changes[0]: must have one change"),
        ({"scenario": {"changes": [{"drain": {}}]}}, "changes[0].drain.nodeNames: must name a node"),
        ({"scenario": {"changes": [{"drain": {"nodeNames": ["x"]}}]}}, "drain.nodeNames: there is no node x"),
        ({"scenario": {"changes": [{"addNodes": {}}]}}, "changes[0].addNodes: must have likeNode or manifest"),
        ({"scenario": {"changes": [{"addNodes": {"likeNode": "x"}}]}}, "addNodes.likeNode: there is no node x"),
        (
            {"scenario": {"changes": [{"addNodes": {"likeNode": "n0", "count": 10001}}]}},
            "addNodes.count: at most 10000",
        ),
        ({"scenario": {"changes": [{"addPods": {"count": 100001, "manifest": manifest()}}]}}, "addPods.count: at most"),
        ({"scenario": {"changes": [{"addPods": {"manifest": {"kind": "Pod"}}}]}}, "manifest: metadata.name: must be"),
        ({"scenario": {"changes": [{"addPods": {"manifest": {"kind": "Node"}}}]}}, "metadata.name: must be given"),
        (
            {"scenario": {"changes": [{"addPods": {"manifest": manifest(schedulerName="other")}}]}},
            "addPods.manifest.spec.schedulerName: there is no profile other; known are default-scheduler",
        ),
        (
            {"scenario": {"changes": [{"addPods": {"manifest": manifest(cpu="lots")}}]}},
            "addPods.manifest: spec.containers[0].resources.requests",
        ),
        (
            {"scenario": {"changes": [{"addPods": {"manifest": manifest(nodeName="x")}}]}},
            "addPods.manifest.spec.nodeName: there is no node x",
        ),
        (
            {"scenario": {"changes": [{"addPods": {"manifest": manifest(tolerationz=[], hostNetwerk=True)}}]}},
            "changes[0].addPods.manifest: spec.hostNetwerk: unknown field of Pod; spec.tolerationz: unknown field of",
        ),
        (
            {"scenario": {"changes": [{"addNodes": {"manifest": {"kind": "Node", "metadata": {"nam": "x"}}}}]}},
            "changes[0].addNodes.manifest: metadata.nam: unknown field of Node",
        ),
        (
            {"scenario": {"changes": [{"apply": {"manifest": {"kind": "Pod", "apiVersion": "v2"}}}]}},
            "changes[0].apply.manifest: kind: Pod of v2 is not known",
        ),
        ({"scenario": {"changes": [{"apply": {"manifest": {"kind": "Secret"}}}]}}, "Secret does not take part"),
        ({"scenario": {"changes": [{"delete": {"kind": "pod", "name": "x"}}]}}, "there is no pod default/x"),
        ({"scenario": {"changes": [{"delete": {"kind": "service", "name": "x"}}]}}, "delete.name: there is no service"),
        ({"scenario": {"changes": [{"scale": {"kind": "deployment"}}]}}, "changes[0].scale.namespace: must be given"),
        (
            {"scenario": {"changes": [{"scale": {"kind": "cat", "namespace": "a", "name": "b"}}]}},
            "kind: cat cannot be scaled; known are deployment",
        ),
        ({"scenario": {"changes": [{"drain": {"nodeNames": ["n0"]}}] * 1001}}, "scenario.changes: there are more than"),
        ({"scenario": {}, "withoutPlugins": ["Nope"]}, "withoutPlugins: no profile has a plugin Nope"),
        ({"scenario": {}, "profiles": [{}]}, "profiles: each must have a schedulerName"),
        (
            {
                "scenario": {},
                "profiles": [
                    {
                        "schedulerName": "a",
                        "pluginSets": [{"extensionPoint": "EXTENSION_POINT_FILTER", "plugins": [{"name": "Nope"}]}],
                    }
                ],
            },
            "profiles: profile a: there is no plugin Nope",
        ),
        ({"singlePods": {}}, "singlePods.manifests: there must be 1 to 5000"),
        ({"singlePods": {"manifests": [manifest(nodeName="n0")]}}, "singlePods.manifests[0].spec.nodeName: must not"),
        ({"singlePods": {"manifests": [manifest(scheduler="x")]}}, "singlePods.manifests[0]: spec.scheduler: unknown"),
        ({"howMany": {"manifest": {"kind": "Node"}}}, "howMany.manifest: metadata.name"),
        ({"howMany": {"manifest": manifest(scheduler="x")}}, "howMany.manifest: spec.scheduler: unknown field of Pod"),
        ({"compaction": {"maxTried": 1001}}, "compaction.maxTried: at most 1000"),
    ],
)
async def test_what_cannot_be_simulated_is_named(question: dict[str, object], text: str) -> None:
    insight = await SimulatedInsight(n0="2").start()
    code, said = await insight.refusal(**question)
    assert code is INVALID
    assert text in said


async def test_a_selector_by_a_label_that_nobody_selects_by_is_refused() -> None:
    """Insight does not know which pods have the label: an answer would be a guess."""
    insight = await SimulatedInsight(n0="2").start()
    insight.builder.apply(classes=[snapshot_pb2.PodClass(id=1, pod=stored(), labels_projected=True)])
    insight.builder.place(1, "n0")
    term = {"labelSelector": {"matchLabels": {"team": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    change = {"addPods": {"manifest": manifest(affinity=apart)}}
    code, said = await insight.refusal(scenario={"changes": [change]})
    assert code is INVALID
    assert "scenario.changes[0].addPods: no selector in the cluster uses the label key team" in said


async def test_nothing_is_simulated_before_the_cluster_is_known() -> None:
    """A replica that has just started would answer for an empty cluster."""
    insight = SimulatedInsight()
    insight.builder.snap.apply(snapshot_pb2.Delta(reset=True, partial=True, to_generation=1))
    code, said = await insight.refusal(scenario={})
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "ask again" in said


_NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "z"}, "status": {"allocatable": {"cpu": "1"}}}


@pytest.mark.parametrize(
    "change",
    [
        {"addNodes": {"count": 1000, "likeNode": "n0"}},
        {"addNodes": {"count": 1000, "manifest": _NODE}},
        {"drain": {"nodeNames": ["n0"]}},
        {"scale": {"kind": "replicaset", "namespace": "default", "name": "web", "replicas": 0}},
    ],
    ids=["like", "manifest", "drain", "scale"],
)
@pytest.mark.slow
async def test_large_changes_leave_time_for_other_calls(change: Json) -> None:
    """Nobody would get an explanation, and the frontend would give up this replica, until the simulation is over."""
    insight = SimulatedInsight(n0={"allocatable": {"cpu": "1000", "memory": "1Ti", "pods": "2000"}})
    insight.builder.add_class(1, stored(cpu="1m", owner="ReplicaSet/web"))
    insight.builder.place(1, *["n0"] * 1000)
    await insight.start()
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count_turns())
    await insight.change(change, withoutPendingPods=True)
    counting.cancel()
    few = asyncio.create_task(count_turns())
    large, turns = turns, 0
    await insight.change(withoutPendingPods=True)
    few.cancel()
    assert large >= turns + 1000 / pacing.AT_ONCE


@pytest.mark.slow
async def test_the_nodes_of_all_changes_count() -> None:
    """A thousand changes would add ten million nodes."""
    insight = await SimulatedInsight(n0="1").start()
    change = {"addNodes": {"count": 6000, "likeNode": "n0"}}
    code, text = await insight.refusal(scenario={"changes": [change, change]})
    assert (code, text.partition(": ")[2] or text) == (INVALID, "at most 10000 nodes in a scenario")


async def test_nodes_like_one_that_were_added_before_have_other_names() -> None:
    """The second change would replace nodes of the first one."""
    insight = await SimulatedInsight(n0="1").start()
    change = {"addNodes": {"count": 2, "likeNode": "n0"}}
    answer = await insight.change(change, {"delete": {"kind": "node", "name": "n0-added-1"}}, change)
    assert answer.after.node_count == 4
