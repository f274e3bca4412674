"""Verdicts about manifests: whether they fit, after whose eviction, or why not and what would help."""

from typing import Any

import grpc
import pytest

from tests.helpers.simulated_insight import SimulatedInsight, manifest, stored
from trireme.v1 import simulation_pb2, snapshot_pb2

Json = dict[str, Any]
V = simulation_pb2


def workload(kind: str, name: str, replicas: int, cpu: str = "1", version: str = "apps/v1", **spec: Any) -> Json:
    """A workload whose pods have the label app=NAME."""
    template = manifest(cpu=cpu, labels={"app": name}, **spec)
    of_kind: Json = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": template["metadata"], "spec": template["spec"]},
    }
    del of_kind["template"]["metadata"]["name"]
    if kind == "StatefulSet":
        of_kind["serviceName"] = name
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": of_kind}


def claim(name: str, storage_class: str | None = None) -> Json:
    spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def storage(name: str, mode: str, *, default: bool = False, **fields: Any) -> Json:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": "example.com/disks",
        "volumeBindingMode": mode,
        **fields,
    }


def using(claim_name: str, **fields: Any) -> Json:
    return manifest(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}], **fields)


async def judged(insight: SimulatedInsight, *manifests: Json, **scenario: Any) -> list[V.ManifestVerdict]:
    answer = await insight.ask(scenario={"manifests": list(manifests), **scenario})
    return list(answer.verdicts)


async def test_a_claim_whose_selector_cannot_be_read_is_refused() -> None:
    """No API server has it; the simulation broke off."""
    insight = await SimulatedInsight(n0="2").start()
    data = claim("data")
    data["spec"]["selector"] = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    code, said = await insight.refusal(scenario={"manifests": [data]})
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert 'spec.selector: "Near" is not a valid label selector operator' in said


async def test_pods_that_fit_are_counted_by_node() -> None:
    insight = await SimulatedInsight(n0="2", n1="1").start()
    (found,) = await judged(insight, workload("Deployment", "web", 3))
    assert (found.document, found.kind, found.namespace, found.name) == (1, "Deployment", "default", "web")
    assert (found.verdict, found.pod_count, found.placed_count) == (V.VERDICT_FITS, 3, 3)
    assert [(each.node_name, each.pods) for each in found.nodes] == [("n0", 2), ("n1", 1)]


async def test_pods_that_preempt_fit_after_evictions() -> None:
    insight = await SimulatedInsight(n0="2").start()
    insight.builder.add_class(1, stored(cpu="2"))
    insight.builder.place(1, "n0")
    (found,) = await judged(insight, manifest("urgent", priority=10))
    assert found.verdict == V.VERDICT_FITS_AFTER_EVICTIONS
    assert [(each.pod.name, each.node_name) for each in found.evictions] == [("pod-0", "n0")]
    assert [each.node_name for each in found.nodes] == ["n0"]


async def test_pods_that_do_not_fit_have_reasons_and_what_would_help() -> None:
    insight = await SimulatedInsight(n0="2").start()
    (found,) = await judged(insight, workload("ReplicaSet", "big", 2, cpu="3"))
    assert (found.verdict, found.placed_count) == (V.VERDICT_DOES_NOT_FIT, 0)
    (unplaced,) = found.unplaced
    assert len(unplaced.pending.pods) == 2
    assert unplaced.pending.refusals[0].messages == ["Insufficient cpu"]
    lower: Any = unplaced.proposals[0]["lowerRequest"]
    assert lower["current"]["string"] == "3"


async def test_what_would_help_is_searched_for_where_the_others_have_their_nodes() -> None:
    """Half of the node is taken by the first document: the second one has to request less than half."""
    insight = await SimulatedInsight(n0="4").start()
    _, second = await judged(insight, manifest("a", cpu="2"), manifest("b", cpu="3"))
    lower: Any = second.unplaced[0].proposals[0]["lowerRequest"]
    assert lower["proposed"]["string"] == "2"


async def test_some_pods_of_a_workload_may_fit() -> None:
    insight = await SimulatedInsight(n0="2").start()
    (found,) = await judged(insight, workload("StatefulSet", "db", 3))
    assert (found.verdict, found.pod_count, found.placed_count) == (V.VERDICT_DOES_NOT_FIT, 3, 2)
    assert [pod.name for pod in found.unplaced[0].pending.pods] == ["db-2"]


async def test_gated_pods_are_held_back() -> None:
    insight = await SimulatedInsight(n0="2").start()
    (found,) = await judged(insight, manifest(schedulingGates=[{"name": "example.com/quota"}]))
    assert found.verdict == V.VERDICT_HELD_BACK
    assert list(found.notes) == ["scheduling gates hold it back: example.com/quota"]


async def test_a_workload_without_pods_says_so() -> None:
    insight = await SimulatedInsight(n0="2").start()
    (found,) = await judged(insight, workload("Deployment", "web", 0))
    assert (found.verdict, list(found.notes)) == (V.VERDICT_NO_PODS, ["it has no replicas"])


async def test_the_pods_that_a_workload_has_make_room_for_the_new_ones() -> None:
    """After the rollout they are gone."""
    insight = await SimulatedInsight(n0="2").start()
    insight.builder.add_class(1, stored(cpu="2", owner="StatefulSet/db"))
    insight.builder.place(1, "n0")
    (found,) = await judged(insight, workload("StatefulSet", "db", 2))
    assert found.verdict == V.VERDICT_FITS
    assert list(found.notes) == ["in place of the 1 pod that is there now"]


async def test_priorities_are_those_of_classes_among_the_documents() -> None:
    insight = await SimulatedInsight(n0="2").start()
    insight.builder.add_class(1, stored(cpu="2"))
    insight.builder.place(1, "n0")
    of = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}
    (known,) = await judged(insight, manifest(priorityClassName="high"), of)
    assert known.verdict == V.VERDICT_FITS_AFTER_EVICTIONS
    (unknown,) = await judged(insight, manifest(priorityClassName="high"))
    assert unknown.verdict == V.VERDICT_DOES_NOT_FIT
    assert "insight does not know the cluster's PriorityClass high" in unknown.notes[0]


@pytest.mark.parametrize("mode", ["WaitForFirstConsumer", "Immediate"])
async def test_claims_among_the_documents_are_bound_as_their_class_says(mode: str) -> None:
    insight = await SimulatedInsight(n0="2").start()
    answer = await insight.ask(scenario={"manifests": [claim("data", "fast"), storage("fast", mode), using("data")]})
    assert [each.verdict for each in answer.verdicts] == [V.VERDICT_FITS]
    bound = "claim default/data is bound at once, to a volume that is taken to be made where all nodes reach it"
    assert list(answer.not_simulated) == ([bound] if mode == "Immediate" else [])


async def test_a_claim_without_a_class_has_the_default_class() -> None:
    insight = await SimulatedInsight(n0="2").start()
    default = storage("fast", "WaitForFirstConsumer", default=True)
    (found,) = await judged(insight, default, claim("data"), using("data"))
    assert found.verdict == V.VERDICT_FITS


async def test_a_claim_takes_the_smallest_volume_that_suits() -> None:
    of_n1 = {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "20"}, "labels": {"zone": "b"}}
    insight = await SimulatedInsight(n0="2", n1=of_n1).start()
    volume: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
                }
            },
        },
    }
    (found,) = await judged(insight, volume, claim("data", ""), using("data"))
    assert [each.node_name for each in found.nodes] == ["n1"]


async def test_a_claim_without_a_volume_stays_unbound() -> None:
    insight = await SimulatedInsight(n0="2").start()
    answer = await insight.ask(scenario={"manifests": [claim("data", "gone"), using("data")]})
    assert answer.verdicts[0].verdict == V.VERDICT_DOES_NOT_FIT
    assert "no volume suits it, and none is made: class gone is not there" in answer.not_simulated[0]


async def test_claims_of_single_pods_are_made() -> None:
    """By the controllers of ephemeral volumes and of StatefulSets."""
    insight = await SimulatedInsight(n0="2").start()
    template = {"volumeClaimTemplate": {"spec": claim("", "fast")["spec"]}}
    pod = manifest("own", volumes=[{"name": "scratch", "ephemeral": template}])
    database = workload("StatefulSet", "db", 1)
    database["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim("", "fast")["spec"]}]
    found = await judged(insight, storage("fast", "WaitForFirstConsumer"), pod, database)
    assert [each.verdict for each in found] == [V.VERDICT_FITS, V.VERDICT_FITS]


def device_documents(count: int) -> list[Json]:
    """A device class, two devices of it on n0, and as many pods with a claim by a template."""
    api = "resource.k8s.io/v1"
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    pods = [
        manifest(f"p{number}", cpu="100m", resourceClaims=[{"name": "g", "resourceClaimTemplateName": "one-gpu"}])
        for number in range(count)
    ]
    return [
        {"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        {
            "apiVersion": api,
            "kind": "ResourceSlice",
            "metadata": {"name": "slice"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "n0",
                "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
            },
        },
        {
            "apiVersion": api,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one-gpu"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        },
        *pods,
    ]


async def test_claims_for_devices_are_made_of_their_templates() -> None:
    insight = await SimulatedInsight(n0="9", n1="9").start()
    found = await judged(insight, *device_documents(3))
    assert [each.verdict for each in found].count(V.VERDICT_FITS) == 2
    assert [each.verdict for each in found].count(V.VERDICT_DOES_NOT_FIT) == 1
    assert {node.node_name for each in found for node in each.nodes} == {"n0"}


async def test_a_template_that_is_not_among_the_documents_is_named() -> None:
    insight = await SimulatedInsight(n0="9").start()
    pod = device_documents(1)[-1]
    code, text = await insight.refusal(scenario={"manifests": [pod]})
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    start = "document 1 (Pod p0): spec.resourceClaims[0].resourceClaimTemplateName: there is no ResourceClaimTemplate"
    assert start in text


async def test_a_group_fits_as_a_whole() -> None:
    insight = await SimulatedInsight(n0="2").start({"GenericWorkload": True})
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    members = [manifest(f"m{number}", schedulingGroup={"podGroupName": "gang"}) for number in range(3)]
    of_group, *of_members = await judged(insight, group, *members)
    assert (of_group.kind, of_group.verdict, of_group.pod_count) == ("PodGroup", V.VERDICT_DOES_NOT_FIT, 3)
    assert {each.verdict for each in of_members} == {V.VERDICT_DOES_NOT_FIT}
    of_group, *_ = await judged(insight, group, *members[:2])
    assert of_group.verdict == V.VERDICT_HELD_BACK
    of_group, *_ = await judged(insight, group, *members, changes=[{"addNodes": {"likeNode": "n0"}}])
    assert of_group.verdict == V.VERDICT_FITS


async def test_selectors_by_labels_that_nothing_uses_are_answered_with_a_remark() -> None:
    """A new workload brings the labels with it: a refusal would be the answer to most of them."""
    insight = await SimulatedInsight(n0="2", n1="2").start()
    projected = snapshot_pb2.PodClass(id=1, pod=stored(), labels_projected=True)
    insight.builder.apply(classes=[projected])
    insight.builder.place(1, "n0")
    answer = await insight.ask(scenario={"manifests": [workload("Deployment", "web", 2)]})
    assert answer.verdicts[0].verdict == V.VERDICT_FITS
    assert "no selector in the cluster uses the label app" in answer.not_simulated[0]


async def test_other_kinds_that_may_make_pods_are_named() -> None:
    insight = await SimulatedInsight(n0="2").start()
    ray = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}}
    answer = await insight.ask(scenario={"manifests": [ray, manifest()]})
    assert list(answer.not_simulated) == ["RayCluster ray: which pods ray.io/v1 makes of it is not known"]
    assert [each.document for each in answer.verdicts] == [2]


async def test_nodes_and_namespaces_of_the_request_count() -> None:
    insight = await SimulatedInsight(n0="1").start()
    extra: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "extra"}}
    extra["status"] = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}}
    (found,) = await judged(insight, manifest(cpu="4"), extra, namespace="there")
    assert (found.namespace, found.verdict, found.nodes[0].node_name) == ("there", V.VERDICT_FITS, "extra")


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        (
            "schedulerName",
            "nobody",
            "document 1 (Deployment web): spec.template.spec.schedulerName: there is no profile",
        ),
        ("nodeName", "n0", "document 1 (Deployment web): spec.template.spec.nodeName: must not be set"),
    ],
)
async def test_what_cannot_be_scheduled_is_named_with_its_document(field: str, value: str, text: str) -> None:
    insight = await SimulatedInsight(n0="2").start()
    code, found = await insight.refusal(scenario={"manifests": [workload("Deployment", "web", 1, **{field: value})]})
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text in found


async def test_a_refusal_has_the_codes_of_all_nodes_that_say_the_same() -> None:
    """Nodes of many pools say one thing: which taints these are is behind it."""
    fields = {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "20"}}
    taints = [[("pool", value, "NoSchedule")] for value in ("a", "b")]
    insight = await SimulatedInsight(n0={**fields, "taints": taints[0]}, n1={**fields, "taints": taints[1]}).start()
    (found,) = await judged(insight, manifest())
    (refusal,) = found.unplaced[0].pending.refusals
    assert refusal.node_count == 2
    assert [(each.code, each.parameters["value"]) for each in refusal.reasons] == [
        ("untoleratedTaint", "a"),
        ("untoleratedTaint", "b"),
    ]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_more_pods_than_can_be_simulated_are_refused_before_they_are_made(kind: str) -> None:
    """Two thousand million pods would be the last question that a replica reads."""
    insight = await SimulatedInsight(n0="2").start()
    code, text = await insight.refusal(scenario={"manifests": [workload(kind, "web", 2_000_000_000)]})
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert f"document 1 ({kind} web): spec: at most 100000 pods can be simulated at once" in text


async def test_pods_with_generated_names_have_one() -> None:
    insight = await SimulatedInsight(n0="2").start()
    pod = manifest()
    pod["metadata"] = {"generateName": "run-"}
    answer = await insight.ask(scenario={"manifests": [pod, pod]})
    assert [each.pod.name for each in answer.placements] == ["run-simulated-1", "run-simulated-2"]
