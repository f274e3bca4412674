"""What the scheduling queue costs by itself: `python -m tools.bench.queue_throughput [--pods N] [--rounds R]`.

No other process and no cluster: pods of a hundred classes are added, popped, requeued as unschedulable, woken by an
event, taken from back-off, popped again and done. Prints, for each step, the microseconds of CPU time per pod (the best
of some rounds, since other work on the machine only ever adds), and the memory of a pod that waits for an event.
"""

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator

from trireme.cache import pod_projection
from trireme.framework.cluster_event import ActionType, ClusterEvent, Resource
from trireme.queueing import assembly, pending_pod, pod_info, pre_enqueue, queued_pod, scheduling_queue
from trireme.queueing.hints import hint_evaluation, queueing_hint_map

CLASSES = 100
PRIORITIES = 5
T0 = 1_000_000.0
NODE_ADD = ClusterEvent(Resource.NODE, ActionType.ADD)
NODE_LABEL = ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_LABEL)
FIT = frozenset({"NodeResourcesFit"})


def make_queue() -> scheduling_queue.SchedulingQueue:
    """A queue of one profile whose only plugin wants to hear of new nodes."""
    hints = hint_evaluation.HintEvaluator(
        queueing_hint_map.QueueingHintMap(
            {"default-scheduler": [queueing_hint_map.EventRegistration("NodeResourcesFit", NODE_ADD)]}
        )
    )
    return assembly.build_queue(hints, lambda pod: pre_enqueue.PreEnqueueResult.ALLOWED)


def records(count: int) -> list[pod_info.PodInfo]:
    """Pods of all classes, mixed. The queue does not look at their objects."""
    pod = pending_pod.PendingPod(pod_projection.parse({"metadata": {"namespace": "ns", "name": "pod"}}), 0, 0)
    return [
        pod_info.make_pod_info(
            f"ns/pod-{number}",
            f"uid-{number}",
            number % CLASSES,
            "default-scheduler",
            number % CLASSES % PRIORITIES,
            pod=pod,
        )
        for number in range(count)
    ]


def batches(queue: scheduling_queue.SchedulingQueue, now: float, size: int) -> Iterator[list[queued_pod.QueuedPodInfo]]:
    """All that can be popped."""
    while (batch := queue.pop(now, size)) is not None:
        yield batch.pods


def run(count: int, size: int) -> dict[str, float]:
    """One round: step to CPU seconds."""
    queue, pods = make_queue(), records(count)
    times: dict[str, float] = {}

    def timed(step: str, work: Callable[[], None]) -> None:
        started = time.process_time()
        work()
        times[step] = time.process_time() - started

    def add() -> None:
        for index, record in enumerate(pods):
            queue.add(record, T0 + index * 1e-6)

    def requeue() -> None:
        for batch in batches(queue, T0 + 1, size):
            for pod in batch:
                queue.requeue(pod, T0 + 1, rejectors=FIT)

    def update() -> None:
        for record in pods:
            queue.update(record._replace(resource_version="2"), (NODE_LABEL,), None, None, T0 + 1)

    def pop() -> None:
        for batch in batches(queue, T0 + 9, size):
            for pod in batch:
                queue.done(pod.uid, T0 + 9)
                queue.delete(pod.key, pod.uid, T0 + 9)

    timed("add", add)
    timed("pop and requeue", requeue)
    timed("update", update)
    timed("event", lambda: [queue.on_event(NODE_ADD, None, None, T0 + 1) for _ in range(2)] and None)
    timed("back-off ends", lambda: queue.flush_backoff(T0 + 9) and None)
    timed("pop and done", pop)
    assert not queue.contents.pods()
    return times


def bytes_per_pod(count: int, size: int) -> float:
    """The memory that the queue takes for a pod that waits for an event, beside what the caller knows of it."""
    pods = records(count)
    gc.collect()
    tracemalloc.start()
    queue = make_queue()
    for index, record in enumerate(pods):
        queue.add(record, T0 + index * 1e-6)
    for batch in batches(queue, T0 + 1, size):
        for pod in batch:
            queue.requeue(pod, T0 + 1, rejectors=FIT)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / count


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rounds = [run(options.pods, options.batch) for _ in range(options.rounds)]
    for step in rounds[0]:
        best = min(each[step] for each in rounds)
        print(f"{step:<16} {best / options.pods * 1e6:6.2f} us/pod")
    total = min(sum(each.values()) for each in rounds)
    print(f"{'together':<16} {total / options.pods * 1e6:6.2f} us/pod")
    print(f"{'memory':<16} {bytes_per_pod(options.pods, options.batch):6.0f} bytes/pod")


if __name__ == "__main__":
    main()
