"""Names and amounts in manifests: what no API server has is refused, and what is very large is added up right."""

from typing import Any

import grpc
import pytest

from tests.helpers.simulated_insight import Json, SimulatedInsight, manifest, stored
from trireme.v1 import snapshot_pb2

_LARGEST = 2**63 - 1
_HUGE = {"cpu": str(_LARGEST), "memory": "7Ei", "pods": str(_LARGEST)}


def _node(name: str = "big", **allocatable: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def _pod(name: str = "p", namespace: str = "", **resources: Any) -> Json:
    made = manifest(name)
    made["metadata"] |= {"namespace": namespace} if namespace else {}
    made["spec"]["containers"][0] |= {"resources": resources} if resources else {}
    return made


REFUSED: list[Any] = [
    pytest.param(_pod("A b/../c\x1b[31m"), "metadata.name: ", id="a name with a steering character"),
    pytest.param(_pod("a" * 254), "metadata.name: ", id="a long name"),
    pytest.param(_pod(namespace="a.b"), "metadata.namespace: ", id="a namespace with a dot"),
    pytest.param(
        _pod(requests={"cpu": "-1000"}), "spec.containers[0].resources.requests[cpu]: ", id="a negative request"
    ),
    pytest.param(_pod(limits={"cpu": -1}), "spec.containers[0].resources.limits[cpu]: ", id="a negative number"),
    pytest.param(manifest(overhead={"cpu": "-1"}), "spec.overhead[cpu]: ", id="a negative overhead"),
    pytest.param(_node(cpu="-5", pods="9"), "status.allocatable[cpu]: ", id="a negative amount of a node"),
    pytest.param(_node("N", cpu="5", pods="9"), "metadata.name: ", id="a name of a node"),
    pytest.param(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c/d"}, "spec": {}},
        "metadata.name: ",
        id="a name of a claim",
    ),
    pytest.param(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "v"},
            "spec": {"capacity": {"storage": "-5Gi"}},
        },
        "spec.capacity[storage]: ",
        id="a volume of less than nothing",
    ),
    pytest.param(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"resources": {"requests": {"storage": "-5Gi"}}},
        },
        "spec.resources.requests[storage]: ",
        id="a claim to less than nothing",
    ),
    pytest.param(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "c", "namespace": "default"},
            "storageClassName": "s",
            "capacity": "-5Gi",
        },
        "capacity: ",
        id="storage of less than nothing",
    ),
    pytest.param({**_pod(), "metadata": {"name": "p", "labels": {"a b": "c"}}}, "metadata.labels: ", id="a label"),
]


@pytest.mark.parametrize(("wanted", "text"), REFUSED)
@pytest.mark.slow
async def test_what_no_api_server_has_is_refused(wanted: Json, text: str) -> None:
    """The answer would be about a cluster that cannot be: pods of less than nothing make room."""
    insight = await SimulatedInsight(n0="2").start()
    questions: list[Json] = [{"scenario": {"changes": [{"apply": {"manifest": wanted}}]}}]
    if wanted["kind"] == "Pod":
        questions += [
            {"scenario": {"changes": [{"addPods": {"manifest": wanted}}]}},
            {"singlePods": {"manifests": [wanted]}},
            {"howMany": {"manifest": wanted}},
        ]
    for question in questions:
        code, said = await insight.refusal(**question)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert f"manifest{'s[0]' if 'singlePods' in question else ''}: {text}" in said
        assert said.isprintable()


async def test_names_that_the_api_server_makes_are_no_names_yet() -> None:
    """A manifest with generateName, as of a Job, would be refused."""
    insight = await SimulatedInsight(n0="2").start()
    made = manifest()
    made["metadata"] = {"generateName": "batch-"}
    assert len((await insight.change({"addPods": {"manifest": made}})).placements) == 1


async def test_the_largest_amounts_are_added_up() -> None:
    """Sums that wrap around are less than their parts, and what is less than nothing fits no message."""
    insight = SimulatedInsight(n0={"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "9"}})
    insight.builder.add_class(1, stored())
    insight.builder.place(1, "n0")
    await insight.start()
    amounts = {"cpu": str(_LARGEST), "memory": str(_LARGEST), "pods": str(_LARGEST)}
    changes = [{"apply": {"manifest": _node(name, **amounts)}} for name in ("one", "two")]
    answer = await insight.change(*changes)
    found = {each.name: each.allocatable for each in answer.after.resources}
    assert found == {"cpu": _LARGEST, "memory": _LARGEST}
    assert 0 < answer.after.reference_pods <= _LARGEST
    assert 0 <= answer.after.fragmentation < 1


TWINS: list[Any] = [
    pytest.param([{"manifest": _pod("twin")}] * 2, "twin", id="a name twice"),
    pytest.param([{"count": 2, "manifest": _pod("twin")}] * 2, "twin-0", id="numbers twice"),
    pytest.param([{"manifest": _pod("twin-1")}, {"count": 2, "manifest": _pod("twin")}], "twin-1", id="a number"),
    pytest.param([{"manifest": _pod("waits")}], "waits", id="the name of a pod that waits"),
    pytest.param([{"manifest": _pod("pod-0")}], "pod-0", id="the name of a pod on a node"),
]


async def _with_pods() -> SimulatedInsight:
    """pod-0 is on a node with room for three more pods, another one waits; so does one of a stateful set."""
    insight = await SimulatedInsight(n0="4").start()
    insight.builder.add_class(1, stored())
    insight.builder.add_class(2, stored(cpu="9"))
    insight.builder.place(1, "n0")
    insight.queue(("waits", 2))
    return insight


@pytest.mark.parametrize(("added", "name"), TWINS)
async def test_a_pod_whose_name_is_in_use_is_refused(added: list[Json], name: str) -> None:
    """One of two pods of a name displaced the other in the queue, and was said to be held back."""
    insight = await _with_pods()
    code, said = await insight.refusal(scenario={"changes": [{"addPods": each} for each in added]})
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    expected = f"changes[{len(added) - 1}].addPods.manifest.metadata.name: there is a pod default/{name} already"
    assert expected in said


async def test_the_same_name_in_another_namespace_is_another_pod() -> None:
    """Two teams call their pods alike."""
    insight = await _with_pods()
    answer = await insight.change(
        {"addPods": {"manifest": _pod("twin")}}, {"addPods": {"manifest": _pod("twin", namespace="other")}}
    )
    assert [(each.pod.namespace, each.pod.name) for each in answer.placements] == [
        ("default", "twin"),
        ("other", "twin"),
    ]


async def test_names_that_the_api_server_makes_are_each_another_one() -> None:
    """A manifest with generateName can be created as often as one likes."""
    insight = await _with_pods()
    made = _pod()
    made["metadata"] = {"generateName": "pod-"}
    answer = await insight.change(*[{"addPods": {"manifest": made}}] * 2, {"addPods": {"count": 1, "manifest": made}})
    assert len({each.pod.name for each in answer.placements}) == 3


async def test_a_stateful_set_makes_no_pod_whose_name_another_one_has() -> None:
    """The set's controller waits until the other pod is gone, so the pod would not be there."""
    insight = await _with_pods()
    insight.builder.add_class(3, stored(owner="StatefulSet/db"))
    insight.queue(("db-0", 3), ("db-1", 1))
    scale = {"kind": "statefulset", "namespace": "default", "name": "db", "replicas": 3}
    _, said = await insight.refusal(scenario={"changes": [{"scale": scale}]})
    assert "there is a pod default/db-1 already that is not of statefulset/db" in said


@pytest.mark.parametrize("without_pending_pods", [False, True], ids=["with", "without"])
async def test_pods_that_take_no_part_have_their_names_still(without_pending_pods: bool) -> None:
    """A scenario with a pod that the API server would refuse to create seems to be possible."""
    insight = await _with_pods()
    insight.queue(("gated", 1), state=snapshot_pb2.QUEUED_POD_STATE_GATED)
    for name in ("gated", "waits") if without_pending_pods else ("gated",):
        changes = [{"addPods": {"manifest": _pod(name)}}]
        wanted = {"changes": changes, "withoutPendingPods": without_pending_pods}
        code, said = await insight.refusal(scenario=wanted)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert f"addPods.manifest.metadata.name: there is a pod default/{name} already" in said


async def test_a_name_may_be_used_again_once_its_pod_is_deleted() -> None:
    """A scenario that makes a pod anew would be refused."""
    insight = await _with_pods()
    for name in ("waits", "pod-0"):
        deleted = {"delete": {"kind": "pod", "namespace": "default", "name": name}}
        answer = await insight.change(deleted, {"addPods": {"manifest": _pod(name)}})
        assert name in [each.pod.name for each in answer.placements]


async def test_names_with_their_numbers_are_names() -> None:
    """No API server has pods or nodes of 255 characters."""
    insight = await SimulatedInsight(n0="9").start()
    longest = "x" * 253
    for change in ({"addPods": {"manifest": _pod(longest)}}, {"addNodes": {"manifest": _node(longest, cpu="1")}}):
        await insight.change(change)
        ((kind, of),) = change.items()
        code, said = await insight.refusal(scenario={"changes": [{kind: {**of, "count": 3}}]})
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert f"{kind}.manifest.metadata.name: " in said
        assert "253" in said


@pytest.mark.parametrize("count", [1, 3])
async def test_requests_of_pods_on_a_node_are_not_beyond_64_bits(count: int) -> None:
    """The sum would wrap around, so that the node has room again."""
    insight = await _with_pods()
    added = {"count": count, "manifest": manifest("p", cpu=str(_LARGEST), nodeName="n0")}
    code, said = await insight.refusal(scenario={"changes": [{"addPods": added}]})
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "addPods.manifest.spec.containers: the pods on node n0 would request more cpu than 64 bits hold" in said


async def test_names_that_are_not_found_steer_no_terminal() -> None:
    """The error is printed where the command runs, and is logged."""
    insight = await SimulatedInsight(n0="9").start()
    for change in ({"drain": {"nodeNames": ["n\x1b[31m"]}}, {"delete": {"kind": "pod", "name": "p\x1b[31m"}}):
        code, said = await insight.refusal(scenario={"changes": [change]})
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert said.isprintable()


async def test_nodes_of_the_cluster_may_have_the_largest_amounts() -> None:
    """One virtual node would end every simulation of its cluster."""
    insight = SimulatedInsight(n0="2", **{name: {"allocatable": _HUGE} for name in ("one", "two")})
    insight.builder.add_class(1, stored())
    insight.builder.place(1, "n0")
    await insight.start()
    pod = _pod("new")
    questions: list[Json] = [
        {"scenario": {"changes": [{"drain": {"nodeNames": ["n0"]}}]}},
        {"singlePods": {"manifests": [pod]}},
        {"howMany": {"manifest": pod}},
        {"compaction": {}},
    ]
    for question in questions:
        answer = await insight.ask(**question)
        if answer.HasField("before"):
            assert {each.allocatable for each in answer.before.resources} == {_LARGEST}
