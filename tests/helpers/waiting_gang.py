"""A gang that would preempt, as insight knows it, and a recording of that moment."""

from typing import Any

from tests.helpers.recordings import BEGIN, encoded, end_frame, header
from tests.helpers.simulated_insight import PROFILE, SimulatedInsight, default_configuration, stored
from trireme.recording import full_state
from trireme.v1 import cycle_pb2, recording_pb2, scheduling_pb2, snapshot_pb2

FEATURES = {"GenericWorkload": True}
LOW, MEMBER = 1, 2


async def waiting_gang(members: int, *, priority: int = 100, cpu: str = "2", **spec: Any) -> SimulatedInsight:
    """Two nodes of 2 CPUs, full of pods of priority 1, and members of a gang of two, which wait; `spec` is of these."""
    insight = await SimulatedInsight(n0="2", n1="2").start(FEATURES)
    group = scheduling_pb2.PodGroup()
    group.metadata.namespace, group.metadata.name, group.metadata.uid = "default", "gang", "gang"
    group.spec.priority = priority
    group.spec.scheduling_policy.gang.min_count = 2
    insight.builder.apply(objects=[snapshot_pb2.ClusterObject(pod_group=group)])
    insight.builder.add_class(LOW, stored(cpu="1", priority=1))
    insight.builder.add_class(
        MEMBER, stored(cpu=cpu, priority=priority, schedulingGroup={"podGroupName": "gang"}, **spec)
    )
    insight.builder.place(LOW, "n0", "n0", "n1", "n1")
    queued = [
        snapshot_pb2.QueuedPod(
            pod=cycle_pb2.PodIdentity(namespace="default", name=f"m{number}", uid=f"uid-of-m{number}"),
            pod_class=MEMBER,
            profile=PROFILE,
            state=snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE,
            pod_group="gang",
        )
        for number in range(members)
    ]
    insight.service.cluster.apply_queue(snapshot_pb2.QueueDelta(reset=True, pods=queued))
    return insight


def recorded(insight: SimulatedInsight) -> bytes:
    """A recording of the moment."""
    frames = [
        recording_pb2.RecordedFrame(
            unix_time_ns=BEGIN,
            state_part=recording_pb2.STATE_PART_MORE,
            message=snapshot_pb2.SyncRequest(delta=delta),
        )
        for delta in full_state.full_sync(insight.builder.snap)
    ]
    queue = snapshot_pb2.QueueDelta(reset=True, pods=insight.service.cluster.queue.all())
    last = recording_pb2.STATE_PART_LAST
    message = snapshot_pb2.SyncRequest(queue=queue)
    frames.append(recording_pb2.RecordedFrame(unix_time_ns=BEGIN, state_part=last, message=message))
    hello = snapshot_pb2.Hello(configuration=default_configuration(FEATURES))
    return b"".join(encoded(header(hello=hello), [*frames, end_frame()]))
