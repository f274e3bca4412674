"""The plugin's own tests: a cluster is made of a delta, as the scheduler sends one."""

from decimal import Decimal

import pod_requests
import pytest
import spot_batch

from trireme import sdk
from trireme.v1 import core_pb2, filter_pb2, snapshot_pb2, status_pb2

RESOURCES = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin="NodeResourcesFit", messages=["cpu"])
TAINT = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE, plugin="TaintToleration", messages=["t"])


def pod(cpu: str, tier: str = "", name: str = "") -> core_pb2.Pod:
    """A pod of one container."""
    out = core_pb2.Pod()
    out.metadata.namespace, out.metadata.name, out.metadata.uid = "default", name, f"uid-{name}"
    if tier:
        out.metadata.labels[spot_batch.LABEL] = tier
    out.spec.containers.add().resources.requests["cpu"].string = cpu
    return out


def cluster(*nodes: list[tuple[str, str, int, bool]]) -> sdk.ClusterState:
    """Nodes node-0, … of 4 CPUs, each with pods by CPU, tier, start time, and whether they are being deleted."""
    delta = snapshot_pb2.Delta(reset=True, to_generation=1)
    rows = 0
    for slot, pods in enumerate(nodes):
        node = delta.nodes.add(slot=slot).node
        node.metadata.name = f"node-{slot}"
        for resource, amount in (("cpu", "4"), ("memory", "8Gi"), ("pods", "10")):
            node.status.allocatable[resource].string = amount
        for cpu, tier, started, terminating in pods:
            rows += 1
            delta.classes.add(id=rows, pod=pod(cpu, tier))
            columns = delta.pods
            columns.row.append(rows)
            columns.pod_class.append(rows)
            columns.slot.append(slot)
            columns.uid.append(f"u{rows}")
            columns.name.append(f"p{rows}")
            columns.start_time_s.append(started)
            columns.flags.append(1 if terminating else 0)
    out = sdk.ClusterState()
    out.apply(delta)
    return out


def ask(
    state: sdk.ClusterState, cpu: str = "2", tier: str = "", refusal: status_pb2.Status = RESOURCES
) -> filter_pb2.PostFilterResponse | sdk.Status:
    """The plugin's answer about a pod that all nodes refuse."""
    count = len(state.nodes)
    columns = filter_pb2.NodeColumns(size=count, statuses=[refusal], status_index=[1] * count, capacity=[0] * count)
    call = sdk.Call(pod(cpu, tier, "web"), "default-scheduler", cluster=state)
    return spot_batch.SpotBatch().post_filter(call, columns)


def victims(answer: filter_pb2.PostFilterResponse | sdk.Status) -> list[str]:
    """The names of the pods that are evicted."""
    assert isinstance(answer, filter_pb2.PostFilterResponse), answer
    return [action.pod.name for action in answer.actions]


BATCH = spot_batch.VALUE


def test_the_fewest_pods_are_evicted_the_youngest_first() -> None:
    """If this fails, work is lost that need not be."""
    state = cluster(
        [("1", BATCH, 10, False), ("1", BATCH, 30, False), ("1", BATCH, 20, False), ("1", "", 5, False)],
        [("1", BATCH, 10, False), ("2", BATCH, 20, False), ("1", "", 5, False)],
    )
    answer = ask(state)
    assert victims(answer) == ["p6"]
    assert isinstance(answer, filter_pb2.PostFilterResponse)
    assert answer.nominated_node == "node-1"
    evict = answer.actions[0].evict
    assert (evict.preemptor.name, evict.preemptor.uid, evict.node_name) == ("web", "uid-web", "node-1")
    assert victims(ask(state, cpu="3")) == ["p6", "p5"]


def test_pods_that_are_no_batch_pods_are_never_evicted() -> None:
    """If this fails, services go down."""
    answer = ask(cluster([("3", "", 1, False), ("1", BATCH, 1, False)]))
    assert isinstance(answer, sdk.Status)
    assert answer.message == "evicting batch pods makes no room"


def test_while_evicted_pods_end_no_more_are_evicted() -> None:
    """If this fails, one pod that waits empties a node."""
    answer = ask(cluster([("2", BATCH, 1, True), ("2", BATCH, 1, False)]))
    assert isinstance(answer, sdk.Status)
    assert answer.message == "batch pods that make room are ending"


def test_batch_pods_evict_nobody() -> None:
    """If this fails, batch pods evict each other forever."""
    answer = ask(cluster([("4", BATCH, 1, False)]), tier=BATCH)
    assert isinstance(answer, sdk.Status)


def test_a_node_that_refuses_for_another_reason_is_left_alone() -> None:
    """If this fails, pods are evicted in vain."""
    answer = ask(cluster([("4", BATCH, 1, False)]), refusal=TAINT)
    assert isinstance(answer, sdk.Status)


@pytest.mark.parametrize(
    ("text", "number"), [("250m", "0.25"), ("2", "2"), ("1Ki", "1024"), ("1.5G", "1500000000"), ("3e2", "300")]
)
def test_quantities_are_numbers(text: str, number: str) -> None:
    """If this fails, room is counted wrongly."""
    assert pod_requests.quantity(text) == Decimal(number)


def test_a_pod_requests_the_most_of_its_containers_and_init_containers() -> None:
    """If this fails, too little room is made, and the pod waits on."""
    waiting = pod("1")
    waiting.spec.init_containers.add().resources.requests["cpu"].string = "3"
    waiting.spec.overhead["cpu"].string = "500m"
    assert pod_requests.of_pod(waiting)["cpu"] == Decimal("3.5")
    waiting.spec.init_containers.add(restart_policy="Always").resources.requests["cpu"].string = "2500m"
    assert pod_requests.of_pod(waiting)["cpu"] == Decimal("4")
