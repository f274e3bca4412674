"""PostFilter's results for several pods of one class in one call, equal to those of one call after the other.

Many preemptors of a class often come at once. Between two of them nothing changes but the nomination of the first one
and the state of its victims, which is known here too. So the result for the second one assumes the nomination of the
first. That holds only if a nomination changes nothing for the next pod but on its own node; otherwise there is a result
for the first pod alone.
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence

import numpy as np

from trireme.evaluation.filtering import columns, dry_run_filter, evaluation, nominated_pods
from trireme.evaluation.preemption import post_filtering, preemption
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, snapshot
from trireme.v1 import cycle_pb2, filter_pb2, filter_phase_pb2


class PostFilterResults:
    """Runs PostFilter for pods of one class, at the generation of its columns."""

    def __init__(
        self,
        cycle: cycle_pb2.Cycle,
        chain: evaluation.Chain,
        plugins: Sequence[post_filtering.PostFilter],
        kept: columns.ClassColumns,
        refresh: preemption.Refresh,
        snap: snapshot.Snapshot,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._cycle = cycle
        self._class: classes.PodClass = snap.classes[cycle.pod_class]
        self._chain = chain
        self._plugins = plugins
        self._kept = kept
        self._refresh = refresh
        self._snap = snap
        self._clock = clock

    async def of(self, pods: Sequence[filter_phase_pb2.Preemptor]) -> AsyncIterator[filter_phase_pb2.PostFilterResult]:
        """Results for the first pods, in order; none if a node takes a pod, or a plugin failed or is a service."""
        services = self._chain.remote or any(plugin.remote for plugin in self._plugins)
        nominated = any(each.pod.uid in self._snap.nominations for each in pods)
        if services or nominated or not self._plugins or not self._refused():
            return
        index = None if self._kept.refusal is not None else self._kept.index[: self._snap.nodes.size].copy()
        before = preemption.Before(self._class.id)
        for number, pod in enumerate(pods):
            started = self._clock()
            result = filter_phase_pb2.PostFilterResult()
            if number and index is not None:
                result.slot = before.slots[-1]
                result.status_index = index[result.slot] = self._status_of(result.slot, index, before)
            result.answer.CopyFrom(await self._ask(pod, index, before))
            result.duration_us = round((self._clock() - started) * 1_000_000)
            yield result
            slot = self._snap.nodes.slots.get(result.answer.nominated_node)
            evicting = all(action.HasField("evict") for action in result.answer.actions)
            if slot is None or not evicting or not before.holds:
                return
            before.take(slot)

    def _refused(self) -> bool:
        """No node takes a pod of the class, and no plugin failed."""
        if self._kept.refusal is not None:
            return self._kept.refusal.code is not status.Code.ERROR
        size = self._snap.nodes.size
        index, statuses = self._kept.index[:size], self._kept.table.statuses
        if ((index == interfaces.PASSES) & (self._kept.capacity[:size] > 0)).any():
            return False
        said = np.flatnonzero(np.bincount(index)).tolist()
        return all(statuses[number - 1].code is not status.Code.ERROR for number in said if number)

    async def _ask(
        self,
        preemptor: filter_phase_pb2.Preemptor,
        index: arrays.Int16Array | None,
        before: preemption.Before,
    ) -> filter_pb2.PostFilterResponse:
        question = preemption.Question(
            post_filtering.cycle_for(self._cycle, preemptor),
            self._class,
            self._chain,
            self._kept,
            self._refresh,
            tuple(self._kept.table.statuses),
            index,
            self._kept.refusal,
            before=before,
            seed=preemptor.seed,
        )
        answer = await post_filtering.post_filter(self._plugins, question, self._snap)
        assert not isinstance(answer, tuple)  # no candidates were requested
        return answer

    def _status_of(self, slot: int, index: arrays.Int16Array, before: preemption.Before) -> int:
        """Why the node at the slot refuses pods of the class, now that one more is nominated to it."""
        nominees = before.beside(nominated_pods.nominees(self._snap, self._class.priority))
        dry_run = dry_run_filter.DryRunFilter(self._chain, self._kept, self._class, self._snap, nominees)
        ((_, verdicts),) = dry_run.filter_with_nominees(np.array([slot]))
        said = int(verdicts.index[0])
        return said if said != interfaces.PASSES else int(index[slot])
