"""The state that the console's pages are made from: a few nodes, pods in the queue, and what a frontend has sent."""

from typing import Any

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.insight import observed_cluster
from trireme.insight.console import console_state
from trireme.v1 import cycle_pb2, scheduler_status_pb2, snapshot_pb2

# Milliseconds since 1970.
T0 = 1_700_000_000_000
UNSCHEDULABLE = snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE


def console(nodes: int = 3) -> console_state.ConsoleState:
    """Nodes n0, n1 …, with the pod pod-0 on n0; nothing is in the queue."""
    builder = SnapshotBuilder()
    for number in range(nodes):
        builder.set_node(
            f"n{number}",
            allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"},
            labels={"topology.kubernetes.io/zone": f"zone-{number % 2}"},
        )
    builder.add_class(1, pod_of(requesting(cpu="1")))
    builder.place(1, "n0")
    return console_state.ConsoleState(observed_cluster.ObservedCluster(builder.snap), lambda: 0.0, lambda: T0 / 1000)


def queued(name: str, *plugins: str, **fields: Any) -> snapshot_pb2.QueuedPod:
    """A pod in the queue, refused by these plugins."""
    identity = cycle_pb2.PodIdentity(namespace="default", name=name, uid=f"uid-of-{name}")
    values: dict[str, Any] = {"state": UNSCHEDULABLE, "attempts": 1, "queued_since_ms": T0, **fields}
    return snapshot_pb2.QueuedPod(pod=identity, plugins=plugins, **values)


def transition(at_ms: int, to: str, cause: str = "") -> scheduler_status_pb2.QueueTransition:
    """A change of state."""
    return scheduler_status_pb2.QueueTransition(at_ms=at_ms, to=to, cause=cause)


def status(second: int, *, bound: int = 0, latencies: tuple[int, ...] = (0, 0, 0), **fields: Any) -> Any:
    """What a frontend sends in this second; `latencies` counts pods up to 0.1 s, up to 1 s, and beyond."""
    histogram = scheduler_status_pb2.LatencyHistogram(bounds_s=(0.1, 1.0), counts=latencies)
    return scheduler_status_pb2.SchedulerStatus(
        at_ms=T0 + 1000 * second,
        leader=fields.pop("leader", "me"),
        queue=scheduler_status_pb2.QueueCounts(),
        bound_total=bound,
        attempt_latency=histogram,
        pod_latency=histogram,
        **fields,
    )


def missed_wake_up(number: int) -> scheduler_status_pb2.MissedWakeUp:
    """A pod that fitted when a node came, and that nothing woke."""
    out = scheduler_status_pb2.MissedWakeUp(
        number=number, at_ms=T0, pod_count=1, plugins=["NodeAffinity"], node_name="n1", woken=True, event_count=1
    )
    out.pod.namespace, out.pod.name = "default", "late"
    out.events.add(at_ms=T0, label="NodeAdd", object_name="n1")
    return out


def preemption(number: int) -> scheduler_status_pb2.PreemptionRecord:
    """A preemption of one pod."""
    out = scheduler_status_pb2.PreemptionRecord(number=number, at_ms=T0, node_name="n1", victim_count=1)
    out.preemptor.namespace, out.preemptor.name = "default", "vip"
    victim = out.victims.add(node_name="n1")
    victim.pod.namespace, victim.pod.name = "default", f"victim-{number}"
    return out
