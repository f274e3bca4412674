"""What the tests of the scheduling queue build it from: records of pods, and a queue with a few plugins."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trireme.cache import pod_projection
from trireme.framework.cluster_event import ActionType, ClusterEvent, Resource
from trireme.queueing.assembly import build_queue
from trireme.queueing.backoff import BackoffPolicy
from trireme.queueing.hints.hint_evaluation import HintEvaluator
from trireme.queueing.hints.queueing_hint_map import EventRegistration, HintAnswer, HintFunction, QueueingHintMap
from trireme.queueing.pending_pod import PendingPod
from trireme.queueing.pod_info import PodInfo, make_pod_info
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.scheduling_queue import Batch, PodBatch, SchedulingQueue
from trireme.queueing.states import QueueState

NODE_ADD = ClusterEvent(Resource.NODE, ActionType.ADD)
NODE_TAINT = ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_TAINT)
POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, ActionType.DELETE)
OWN_LABEL = ClusterEvent(Resource.TARGET_POD, ActionType.UPDATE_POD_LABEL)
GATES_GONE = ClusterEvent(Resource.TARGET_POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
T0 = 1_000_000.0


# Evaluates one pod: (pod, event, old object, new object).
OneHint = Callable[[QueuedPodInfo, ClusterEvent, Any, Any], HintAnswer]


def one_by_one(hint: OneHint) -> HintFunction:
    """A function of one pod as one of many. It may raise for one pod without an effect on the others."""

    def hint_all(event: ClusterEvent, old: Any, new: Any, pods: Sequence[QueuedPodInfo]) -> Sequence[HintAnswer]:
        return [_hint_one(hint, pod, event, old, new) for pod in pods]

    return hint_all


def _hint_one(hint: OneHint, pod: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> HintAnswer:
    try:
        return hint(pod, event, old, new)
    except Exception:
        return HintAnswer.ERROR


@functools.cache
def pending(name: str = "p", uid: str = "u") -> PendingPod:
    """A pod in namespace ns with only a name."""
    return PendingPod(pod_projection.parse({"metadata": {"namespace": "ns", "name": name, "uid": uid}}), 1, 1)


def record(name: str, class_id: int = 1, priority: int = 0, uid: str = "", **more: Any) -> PodInfo:
    """The record of a pod in namespace ns."""
    uid = uid or f"uid-{name}"
    return make_pod_info(f"ns/{name}", uid, class_id, "default-scheduler", priority, pod=pending(name, uid), **more)


def helps(answer: bool, evaluated: list[tuple[str, Any]] | None = None) -> Any:
    """A hint that always answers the same, and records the pods that it evaluates."""

    def hint(pod: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> HintAnswer:
        if evaluated is not None:
            evaluated.append((pod.record.key, new if new is not None else old))
        return HintAnswer.QUEUE if answer else HintAnswer.SKIP

    return one_by_one(hint)


REGISTRATIONS = (
    # Fit: any event of its kinds helps.
    EventRegistration("Fit", NODE_ADD),
    EventRegistration("Fit", POD_DELETE),
    # Taint: only what its hint agrees to.
    EventRegistration(
        "Taint", ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT), helps(False)
    ),
    EventRegistration("Label", OWN_LABEL),
    EventRegistration("Gates", GATES_GONE),
    EventRegistration("Far", NODE_ADD, remote=True),
    EventRegistration("Far", OWN_LABEL, remote=True),
)


def queue(
    registrations: Iterable[EventRegistration] = REGISTRATIONS,
    pre_enqueue: Callable[[QueuedPodInfo], str | PreEnqueueResult] = lambda pod: PreEnqueueResult.ALLOWED,
    **more: Any,
) -> SchedulingQueue:
    """A queue of one profile."""
    return build_queue(HintEvaluator(QueueingHintMap({"default-scheduler": registrations})), pre_enqueue, **more)


def exact(**more: Any) -> BackoffPolicy:
    """A policy without early pops, whose expiries are exact."""
    return BackoffPolicy(pop_early=False, **more)


def keys(pods: Sequence[QueuedPodInfo]) -> list[str]:
    """The pods' names."""
    return [pod.record.key.removeprefix("ns/") for pod in pods]


def pop_names(queue: SchedulingQueue, now: float, max_batch: int = 1) -> list[str]:
    """The names of the next batch."""
    batch = queue.pop(now, max_batch)
    return keys(_pods_of(batch)) if batch else []


def fail(queue: SchedulingQueue, now: float, *rejectors: str, max_batch: int = 1, **more: Any) -> list[QueuedPodInfo]:
    """Pops a batch and puts it back refused by these plugins, by error if there are none."""
    batch = queue.pop(now, max_batch)
    assert batch is not None
    pods = _pods_of(batch)
    for pod in pods:
        queue.requeue(pod, now, rejectors=frozenset(rejectors), **more)
    return pods


def place(queue: SchedulingQueue, name: str) -> type[QueueState] | None:
    """Where the pod is."""
    found = queue.contents.get(f"ns/{name}")
    return type(found.state) if found else None


def pod(queue: SchedulingQueue, name: str) -> QueuedPodInfo:
    """The pod, which must be there."""
    found = queue.contents.get(f"ns/{name}")
    assert found is not None
    return found


def popped(queue: SchedulingQueue, now: float, max_batch: int = 8) -> list[QueuedPodInfo]:
    """The pods of the next batch; there must be one."""
    batch = queue.pop(now, max_batch)
    assert batch is not None
    return _pods_of(batch)


def _pods_of(batch: Batch) -> list[QueuedPodInfo]:
    assert isinstance(batch, PodBatch), "a pod group"
    return batch.pods


def gate_of(closed: Mapping[str, str | PreEnqueueResult]) -> Callable[[QueuedPodInfo], str | PreEnqueueResult]:
    """A PreEnqueue that refuses the pods named, each by the plugin named."""
    return lambda pod: closed.get(pod.record.key.removeprefix("ns/"), PreEnqueueResult.ALLOWED)


def parked(name: str = "p", *plugins: str, **more: Any) -> SchedulingQueue:
    """A queue whose only pod was refused at T0 by these plugins (Fit), so that it backs off until T0 + 1."""
    parking = queue(**more)
    parking.add(record(name), T0)
    fail(parking, T0, *(plugins or ("Fit",)))
    return parking
