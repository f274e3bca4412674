"""Single pods, capacity and compaction, by the RPC."""

import inspect
import sys
from typing import Any

import pytest

from tests.helpers.simulated_insight import SimulatedInsight, manifest, nodes_of, stored
from trireme.evaluation import engine
from trireme.insight.simulations import simulator as simulating
from trireme.simulation import manifests
from trireme.v1 import simulation_pb2


async def test_single_pods_do_not_see_each_other() -> None:
    """A thousand what-ifs would fill the cluster."""
    insight = await SimulatedInsight(n0="2", n1="1").start()
    pods = [manifest(f"p{number}", cpu="2") for number in range(5)]
    answer = await insight.ask(singlePods={"manifests": [*pods, manifest("large", cpu="3")]})
    assert nodes_of(answer) == {f"p{number}": "n0" for number in range(5)}
    (group,) = answer.pending
    assert [pod.name for pod in group.pods] == ["large"]
    assert group.message.startswith("0/2 nodes are available: 2 Insufficient cpu")
    assert [each.code for each in group.reasons] == ["notHelpful"]


async def test_single_pods_leave_nothing_computed_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks about their classes again, and a thousand of them would take the memory of as many columns."""
    made: list[engine.Engine] = []
    begin = engine.Engine.__init__

    def note(self: engine.Engine, *arguments: Any) -> None:
        begin(self, *arguments)
        made.append(self)

    insight = await SimulatedInsight(n0="2", n1="1").start()
    monkeypatch.setattr(engine.Engine, "__init__", note)
    pods = [manifest(f"p{number}", cpu=f"{100 + number}m") for number in range(5)]
    assert len(nodes_of(await insight.ask(singlePods={"manifests": pods}))) == 5
    assert [
        (each.filter.evaluator.statistics().classes, each.score.evaluator.statistics().classes) for each in made
    ] == [(0, 0)]


async def test_a_single_pod_that_preempts_names_node_and_victims() -> None:
    """It would be placed once they are gone."""
    insight = await SimulatedInsight(n0="2").start()
    insight.builder.add_class(1, stored(cpu="2"))
    insight.builder.place(1, "n0")
    answer = await insight.ask(singlePods={"manifests": [manifest(cpu="1", priority=10)]})
    assert answer.pending[0].nominated_node == "n0"
    assert [(each.pod.name, each.preemptor.name) for each in answer.evictions] == [("pod-0", "p")]


async def test_how_many_is_what_nodes_take_one_after_the_other() -> None:
    """It is the sum of Filter's capacities, and agrees with pods that are scheduled."""
    insight = await SimulatedInsight(n0="5", n1="3", n2="1").start()
    insight.builder.add_class(1, stored(cpu="2"))
    insight.builder.place(1, "n0")
    answer = await insight.ask(howMany={"manifest": manifest(cpu="1")})
    assert answer.capacity.pods == 7
    assert [(node.node_name, node.pods) for node in answer.capacity.nodes] == [("n0", 3), ("n1", 3), ("n2", 1)]
    scheduled = await insight.change({"addPods": {"count": 20, "manifest": manifest(cpu="1")}})
    assert len(scheduled.placements) == 7


async def test_how_many_obeys_constraints_between_the_copies() -> None:
    """Filter's capacities alone would count nodes that spread forbids."""
    zones = {"a": "8", "b": "2"}
    nodes = {
        f"n-{zone}": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "20"},
            "labels": {"zone": zone, "kubernetes.io/hostname": f"n-{zone}"},
        }
        for zone, cpu in zones.items()
    }
    insight = await SimulatedInsight(**nodes).start()
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    pod = manifest(cpu="1", labels={"app": "web"}, topologySpreadConstraints=[spread])
    answer = await insight.ask(howMany={"manifest": pod})
    scheduled = await insight.change({"addPods": {"count": 12, "manifest": pod}})
    assert answer.capacity.pods == len(scheduled.placements) == 5
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    alone = await insight.ask(howMany={"manifest": manifest(labels={"app": "web"}, affinity=apart)})
    assert alone.capacity.pods == 2


async def test_how_many_counts_copies_on_nodes_that_the_first_of_them_open() -> None:
    """An area that is ahead of the others takes none at first, and again as they come level with it."""
    nodes = {
        f"n-{zone}": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "20"},
            "labels": {"zone": zone, "kubernetes.io/hostname": f"n-{zone}"},
        }
        for zone, cpu in {"a": "2", "b": "9", "c": "2"}.items()
    }
    insight = await SimulatedInsight(**nodes).start()
    labels = {"app": "web"}
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    insight.builder.add_class(1, stored(cpu="1", labels=labels))
    insight.builder.place(1, "n-b")
    pod = manifest(cpu="1", labels=labels, topologySpreadConstraints=[spread])
    answer = await insight.ask(howMany={"manifest": pod})
    scheduled = await insight.change({"addPods": {"count": 12, "manifest": pod}})
    assert answer.capacity.pods == len(scheduled.placements) == 6
    assert {node.node_name: node.pods for node in answer.capacity.nodes} == {"n-a": 2, "n-b": 2, "n-c": 2}


async def test_how_many_evicts_nobody() -> None:
    """Room that others use is not free."""
    insight = await SimulatedInsight(n0="2").start()
    insight.builder.add_class(1, stored(cpu="2"))
    insight.builder.place(1, "n0")
    answer = await insight.ask(howMany={"manifest": manifest(cpu="1", priority=100)})
    assert answer.capacity.pods == 0


async def test_a_plan_empties_nodes_whose_pods_fit_elsewhere() -> None:
    """Each step was simulated on the outcome of those before; a node with a pod that nobody makes again stays."""
    insight = await SimulatedInsight(n0="4", n1="4", n2="4", n3="4", n4="4").start()
    insight.builder.add_class(1, stored(cpu="1", owner="ReplicaSet/web"))
    insight.builder.add_class(2, stored(cpu="1"))
    insight.builder.place(1, "n0", "n1", "n1", "n2", "n2")
    insight.builder.place(2, "n3")
    answer = await insight.ask(compaction={})
    emptied = [each.node_name for each in answer.moves]
    assert list(answer.cordoned) == ["n4"]
    assert "n3" not in emptied
    assert len(emptied) == 2
    moved = [(each.replaces.name, each.node_name) for step in answer.moves for each in step.placements]
    assert all(node not in (*emptied[:1], "n4") for _, node in moved)
    assert answer.after.used_nodes == answer.before.used_nodes - 2
    one = await insight.ask(compaction={"maxNodes": 1})
    assert len(one.moves) == 1


async def test_fragmentation_is_the_share_that_the_reference_shape_cannot_use() -> None:
    """The definition of docs/simulate.md, with numbers."""
    insight = await SimulatedInsight(n0="3", n1="3", n2="3").start()
    insight.builder.add_class(1, stored(cpu="2"))
    insight.builder.place(1, "n0", "n1", "n2")
    usage = (await insight.change()).before
    # 1 CPU is free on each node: a pod of 2 CPU fits nowhere, though 3 CPU are free.
    assert dict(usage.reference_requests) == {"cpu": 2000}
    assert (usage.reference_pods, usage.reference_pods_in_one_piece) == (0, 1)
    assert usage.fragmentation == 1.0
    assert {each.name: (each.allocatable, each.requested) for each in usage.resources}["cpu"] == (9000, 6000)
    empty = await SimulatedInsight(n0="3").start()
    assert (await empty.change()).before.fragmentation == 0.0


async def test_pods_of_one_class_are_recognised() -> None:
    insight = await SimulatedInsight(n0="9").start()
    insight.builder.add_class(1, stored(cpu="1", labels={"app": "web"}))
    insight.builder.place(1, "n0")
    simulator = simulating.Simulator(insight.service.cluster, insight.service._make_simulation_setup)
    made = simulator._fork(insight.service._make_simulation_setup(simulation_pb2.SimulateRequest()))
    try:
        pod = manifests.read_pod(manifest(cpu="1", labels={"app": "web"}), "p", "u", made.setup.reads.paths).parsed
        assert made.class_of(pod) == 1
    finally:
        await made.close()


@pytest.mark.slow
async def test_many_nodes_can_be_emptied() -> None:
    """Each emptied node would be one more state to read through, until Python's stack has no room for them."""
    depth = 40
    large = {"allocatable": {"cpu": "100", "memory": "1Ti", "pods": "100"}}
    small = {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "20"}}
    insight = SimulatedInsight(large=large, **{f"n{number}": small for number in range(depth)})
    insight.builder.add_class(1, stored(cpu="1", owner="ReplicaSet/web"))
    insight.builder.place(1, "large", *(f"n{number}" for number in range(depth)))
    await insight.start()
    frames = len(inspect.stack())
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(frames + 120)
    try:
        answer = await insight.ask(compaction={})
    finally:
        sys.setrecursionlimit(before)
    assert len(answer.moves) == depth
