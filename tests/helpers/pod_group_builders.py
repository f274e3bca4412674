"""What the tests of pod groups build them from: PodGroups, members, and a queue that knows groups."""

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from trireme.cache import pod_projection
from trireme.framework.cluster_event import ActionType, ClusterEvent, Resource
from trireme.queueing.assembly import build_queue
from trireme.queueing.groups.group_settings import GroupSettings
from trireme.queueing.groups.queued_group import PodGroupBatch, QueuedPodGroupInfo, in_scheduling_order
from trireme.queueing.hints.hint_evaluation import HintEvaluator
from trireme.queueing.hints.queueing_hint_map import EventRegistration, QueueingHintMap
from trireme.queueing.nominator import Nominator
from trireme.queueing.pending_pod import PendingPod
from trireme.queueing.pod_info import PodInfo, make_pod_info
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.scheduling_queue import SchedulingQueue
from trireme.queueing.states import Gone, QueueState
from trireme.v1 import scheduling_pb2

T0 = 1_000_000.0
PROFILE = "default-scheduler"


def pod_group(
    name: str, min_count: int = 0, priority: int = 0, uid: str = "", parent: str = ""
) -> scheduling_pb2.PodGroup:
    """A PodGroup in namespace ns; with no minimum any number goes."""
    group = scheduling_pb2.PodGroup()
    group.metadata.namespace, group.metadata.name, group.metadata.uid = "ns", name, uid or f"uid-of-{name}"
    group.spec.priority = priority
    if min_count:
        group.spec.scheduling_policy.gang.min_count = min_count
    else:
        group.spec.scheduling_policy.basic.SetInParent()
    if parent:
        group.spec.parent_composite_pod_group_name = parent
    return group


def too_few(minimum: int, scheduled: int, unschedulable: int, not_evaluated: int) -> str:
    """The message about a group if too few of its members fit."""
    progress = f"{scheduled} scheduled, {unschedulable} unschedulable, {not_evaluated} not-evaluated"
    return f"scheduling policy's minimum threshold ({minimum}) cannot be satisfied: {progress}"


def of_groups(name: str, min_count: int = 0, parent: str = "", priority: int = 0) -> scheduling_pb2.CompositePodGroup:
    """A group of groups in namespace ns; with no minimum any number of them goes."""
    group = scheduling_pb2.CompositePodGroup()
    group.metadata.namespace, group.metadata.name, group.metadata.uid = "ns", name, f"uid-of-{name}"
    group.spec.priority = priority
    if min_count:
        group.spec.scheduling_policy.gang.min_group_count = min_count
    else:
        group.spec.scheduling_policy.basic.SetInParent()
    if parent:
        group.spec.parent_composite_pod_group_name = parent
    return group


def parsed(name: str, group: str, **more: Any) -> pod_projection.ParsedPod:
    """A member as the informer sees it."""
    raw = {
        "metadata": {"namespace": "ns", "name": name, "uid": more.pop("uid", f"uid-{name}"), "resourceVersion": "1"},
        "spec": {"schedulerName": PROFILE, "schedulingGroup": {"podGroupName": group}, **more},
    }
    return pod_projection.parse(raw)


def member(name: str, group: str, class_id: int = 1, priority: int = 0, **more: Any) -> PodInfo:
    """The record of a member."""
    pod = parsed(name, group, priority=priority, **more)
    return make_pod_info(f"ns/{name}", pod.uid, class_id, PROFILE, priority, pod=PendingPod(pod, class_id, class_id))


class Notified:
    """Groups reported because something is missing, and PodGroups that are gone."""

    def __init__(self) -> None:
        self.lacking: list[str] = []
        #: What each of them waits for; empty: members.
        self.missing: list[str] = []
        self.gone: list[str] = []

    def notify(self, group: QueuedPodGroupInfo, missing: str) -> None:
        self.lacking.append(group.full_name)
        self.missing.append(missing)


def grouping_queue(
    notified: Notified | None = None,
    registrations: Iterable[EventRegistration] = (),
    pre_enqueue: Callable[[QueuedPodInfo], str | PreEnqueueResult] = lambda pod: PreEnqueueResult.ALLOWED,
    preempting: Callable[[str], bool] = lambda key: False,
    composite: bool = False,
    nominator: Nominator | None = None,
    *,
    gang_profiles: Set[str] = frozenset({PROFILE}),
) -> SchedulingQueue:
    """A queue of one profile, with GangScheduling if that is in `gang_profiles`."""
    notified = notified or Notified()
    groups = GroupSettings(
        gang_profiles=gang_profiles,
        preempting=preempting,
        notify=notified.notify,
        gone=notified.gone.append,
        composite=composite,
    )
    return build_queue(
        HintEvaluator(QueueingHintMap({PROFILE: registrations})), pre_enqueue, nominator=nominator, groups=groups
    )


def queue_gated_by_claims(closed: Mapping[str, bool]) -> SchedulingQueue:
    """A queue in which Claims gates pods while `closed["closed"]`, and looks again when a node is added."""
    return grouping_queue(
        registrations=[EventRegistration("Claims", ClusterEvent(Resource.NODE, ActionType.ADD))],
        pre_enqueue=lambda pod: "Claims" if closed["closed"] else PreEnqueueResult.ALLOWED,
    )


def place(queue: SchedulingQueue, name: str) -> type[QueueState]:
    found = queue.contents.get(f"ns/{name}")
    return type(found.state) if found else Gone


def popped(queue: SchedulingQueue, now: float = T0) -> tuple[QueuedPodGroupInfo, list[QueuedPodInfo]]:
    batch = queue.pop(now, 100)
    assert batch is not None
    assert isinstance(batch, PodGroupBatch)
    group = batch.group
    assert group.attempt is not None
    return group, in_scheduling_order([group.members[uid] for uid in group.attempt])


def popped_and_refused(queue: SchedulingQueue) -> QueuedPodGroupInfo:
    """The group that is popped; each member is requeued because a plugin refused it, and the attempt goes on."""
    group, pods = popped(queue)
    for pod in pods:
        queue.requeue(pod, T0, rejectors=frozenset({"Fit"}))
    return group


def names(pods: list[QueuedPodInfo]) -> list[str]:
    return [pod.key.removeprefix("ns/") for pod in pods]


def of_three(queue: SchedulingQueue, count: int = 3) -> None:
    assert queue.groups is not None
    queue.groups.set_group(pod_group("g", min_count=3), T0)
    for number in range(count):
        queue.add(member(f"p{number}", "g"), T0 + number)


def forgotten(queue: SchedulingQueue) -> bool:
    """Whether the queue keeps no event for anybody."""
    queue.on_event(ClusterEvent(Resource.NODE, ActionType.ADD), None, object(), T0)
    return not queue.statistics().in_flight_events
