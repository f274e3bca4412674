"""A preemption executor with placed pods, and a bind that deletes them when it is let."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from tests.helpers import queue_builders
from trireme.framework import status
from trireme.frontend import scheduler_metrics
from trireme.queueing import nominator, pod_info, queued_pod
from trireme.scheduling import (
    item_batches,
    pods_in_pre_bind,
    preemption_executor,
    preemption_history,
    preemption_retries,
    preemptions_under_way,
    waiting_pods,
)
from trireme.v1 import bind_pb2, cycle_pb2
from trireme.wire import status as wire_status


def evict(uid: str) -> bind_pb2.Action:
    """The eviction of a pod on the node."""
    action = bind_pb2.Action(pod=cycle_pb2.PodIdentity(namespace="ns", name=f"name-{uid}", uid=uid))
    action.evict.message = "m"
    action.evict.node_name = "node"
    return action


def record(uid: str, priority: int) -> pod_info.PodInfo:
    """A pending pod of this priority."""
    return pod_info.make_pod_info(f"ns/{uid}", uid, 1, "p", priority, pod=queue_builders.pending(uid, uid))


class World:
    """Placed pods, and a bind that deletes them when it is let."""

    def __init__(self, *uids: str) -> None:
        self.placed = {uid: SimpleNamespace(flags=0, evicting=0, generation=3) for uid in uids}
        self.failing: set[str] = set()
        self.asked: list[list[str]] = []
        self.generations: dict[str, int] = {}
        self.go = asyncio.Event()
        self.activated: list[tuple[str, str]] = []
        self.told: list[str] = []
        self.lagging = False
        self.held: dict[str, str] = {}
        self.patience = 0.0
        self.deletion_callbacks: dict[str, list[Callable[[], None]]] = {}
        self.waiting = waiting_pods.WaitingPods()
        self.nominations = nominator.Nominator()
        self.pre_binding = pods_in_pre_bind.PodsInPreBind()
        self.metrics = scheduler_metrics.SchedulerMetrics(groups=True)
        cache: Any = SimpleNamespace(
            pod=self.placed.get, set_evicting=self._set_evicting, call_on_deletion=self._call_on_deletion
        )
        results: Any = SimpleNamespace(report_preempted=self._preempted, report_not_preempted=self._not_preempted)
        self.under_way = preemptions_under_way.PreemptionsUnderWay(cache)
        self.preempting = preemption_executor.PreemptionExecutor(
            cache=cache,
            nominations=self.nominations,
            waiting=self.waiting,
            reporter=results,
            apply=self._apply,
            activate=self.activated.extend,
            observer=self.metrics,
            pre_binding=self.pre_binding,
            version_of=lambda uid: f"1{len(uid)}",
            held_preemptors=self.held,
            retries=preemption_retries.PreemptionRetries(
                lambda times: self.patience if times else 0.0, self.activated.extend, lambda: 1000.0
            ),
            under_way=self.under_way,
            history=preemption_history.PreemptionHistory(lambda: 12.5),
        )
        self.vip = queued_pod.QueuedPodInfo(record("vip", 100), 0.0)

    def start(self, *uids: str, preemptor: str = "vip") -> None:
        """Have the preemptor evict these pods from the node, in the background."""
        pod = self.vip
        if preemptor != "vip":
            pod = queued_pod.QueuedPodInfo(record(preemptor, 100), 0.0)
        self.preempting.evict_in_background(pod, "node", [evict(uid) for uid in uids])

    def evicting(self) -> set[str]:
        """The pods that are marked as being evicted."""
        return {uid for uid, pod in self.placed.items() if pod.evicting}

    def go_away(self, uid: str) -> None:
        """The watch tells that the pod is gone."""
        self.placed.pop(uid, None)
        for callback in self.deletion_callbacks.pop(uid, ()):
            callback()

    def _call_on_deletion(self, uid: str, callback: Callable[[], None]) -> Callable[[], None]:
        callbacks = self.deletion_callbacks.setdefault(uid, [])
        callbacks.append(callback)
        return lambda: callbacks.remove(callback) if callback in callbacks else None

    def _set_evicting(self, uid: str, evicting: bool) -> None:
        if uid in self.placed:
            self.placed[uid].evicting = int(evicting)

    async def settle(self) -> None:
        """Let everything that can go on go on."""
        for _ in range(20):
            await asyncio.sleep(0)
        await asyncio.sleep(2 * item_batches.LINGER_SECONDS)
        for _ in range(20):
            await asyncio.sleep(0)

    def _not_preempted(self, pod: queued_pod.QueuedPodInfo, victim: Any, node_name: str, failure: str) -> None:
        self.told.append(f"{pod.uid}: not {victim.name} on {node_name}: {failure}")

    def _preempted(self, victim: Any, message: str, profile: str) -> None:
        self.told.append(f"{victim.name}: {message}")
        assert victim.resource_version == f"1{len(victim.uid)}"

    async def _apply(
        self, actions: Sequence[bind_pb2.Action], on_result: Callable[[int, bind_pb2.BindResult], None]
    ) -> None:
        self.asked.append([f"{action.WhichOneof('action')} {action.pod.uid}" for action in actions])
        self.generations.update({action.pod.uid: action.evict.observed_generation for action in actions})
        await self.go.wait()
        for index, action in enumerate(actions):
            failed = action.pod.uid in self.failing
            if not failed and not self.lagging:
                self.go_away(action.pod.uid)
            said = status.error("", "no") if failed else status.SUCCESS
            on_result(index, bind_pb2.BindResult(index=index, status=wire_status.to_message(said)))
