"""PostFilter's results for several pods of one class in one call, equal to those of one call after the other.

Many preemptors of a class often come at once. Between two of them nothing changes but the nomination of the first one
and the state of its victims, which is known here too. So the result for the second one assumes the nomination of the
first. That holds only if a nomination changes nothing for the next pod but on its own node; otherwise there is a result
for the first pod alone.
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence

import numpy as np

from trireme.evaluation.filtering import columns, dry_run_filter, filter_chain, nominated_pods
from trireme.evaluation.preemption import post_filtering, preemption
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, snapshot
from trireme.v1 import cycle_pb2, filter_phase_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status


class PostFilterResults:
    """Runs PostFilter for pods of one class, at the generation of its columns."""

    def __init__(
        self,
        cycle: cycle_pb2.Cycle,
        chain: filter_chain.FilterChain,
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

    async def with_filter(
        self, preemptors: Sequence[filter_phase_pb2.Preemptor]
    ) -> AsyncIterator[filter_phase_pb2.PostFilterResult]:
        """Results for the first pods of a class that has just been filtered, in order; none where a node takes a pod, a
        plugin failed or is a service, or one of the pods is nominated.
        """
        if not self._plugins or not self._is_refused() or not self._predictable(preemptors):
            return
        index = self._kept.index[: self._snap.nodes.size].copy()
        async for result in self._results(preemptors, index, list(self._kept.table.statuses), self._kept.refusal, None):
            yield result

    async def after_filter(
        self,
        preemptors: Sequence[filter_phase_pb2.Preemptor],
        refused: node_columns.NodeColumns,
        pre_filter: status.Status | None,
    ) -> AsyncIterator[filter_phase_pb2.PostFilterResult]:
        """Results for the first pods, at least for one, in order. `refused` says why all nodes refuse the class, unless
        PreFilter does.
        """
        alone = not self._is_refused() or not self._predictable(preemptors)
        pods = preemptors[:1] if alone else preemptors
        async for result in self._results(pods, refused.index.copy(), list(refused.statuses), pre_filter, refused):
            yield result

    async def _results(
        self,
        preemptors: Sequence[filter_phase_pb2.Preemptor],
        index: arrays.Int16Array,
        statuses: list[status.Status],
        pre_filter: status.Status | None,
        refused: node_columns.NodeColumns | None,
    ) -> AsyncIterator[filter_phase_pb2.PostFilterResult]:
        """`index` and `statuses` say why nodes refuse the class, which each nomination changes."""
        before = preemption.Before(self._class.id)
        for number, preemptor in enumerate(preemptors):
            started = self._clock()
            result = filter_phase_pb2.PostFilterResult()
            if number and pre_filter is None:
                changed = self._status_at(before.slots[-1], before)
                if changed is not None:
                    index[before.slots[-1]] = _number_of(changed, statuses)
                result.changed_slot = before.slots[-1]
                result.changed_status.CopyFrom(wire_status.to_message(statuses[index[before.slots[-1]] - 1]))
            question = preemption.Question(
                post_filtering.cycle_for(self._cycle, preemptor),
                self._class,
                self._chain,
                self._kept,
                self._refresh,
                tuple(statuses),
                index if pre_filter is None else None,
                pre_filter,
                before=before,
                seed=preemptor.seed,
            )
            answer = await post_filtering.post_filter(self._plugins, question, self._snap, refused)
            assert not isinstance(answer, tuple)  # no candidates were requested
            result.answer.CopyFrom(answer)
            result.duration_us = round((self._clock() - started) * 1_000_000)
            yield result
            slot = self._snap.nodes.slots.get(answer.nominated_node)
            evicting = all(action.HasField("evict") for action in answer.actions)
            if slot is None or not evicting or not before.holds:
                return
            before.take(slot)

    def _predictable(self, preemptors: Sequence[filter_phase_pb2.Preemptor]) -> bool:
        """Whether the result for a pod follows from those before: no plugin is a service, and no pod is nominated."""
        services = self._chain.asynchronous or any(plugin.remote for plugin in self._plugins)
        return not services and not any(each.pod.uid in self._snap.nominations for each in preemptors)

    def _is_refused(self) -> bool:
        """Whether no node takes a pod of the class, and no plugin failed."""
        if self._kept.refusal is not None:
            return self._kept.refusal.code is not status.Code.ERROR
        size = self._snap.nodes.size
        index, statuses = self._kept.index[:size], self._kept.table.statuses
        if ((index == interfaces.PASSES) & (self._kept.capacity[:size] > 0)).any():
            return False
        numbers = np.flatnonzero(np.bincount(index)).tolist()
        return all(statuses[number - 1].code is not status.Code.ERROR for number in numbers if number)

    def _status_at(self, slot: int, before: preemption.Before) -> status.Status | None:
        """Why the node at the slot refuses pods of the class beside those that are nominated to it; None: it takes one
        beside them.
        """
        nominees = before.beside(nominated_pods.nominees(self._snap, self._class.priority))
        dry_run = dry_run_filter.DryRunFilter(self._chain, self._kept, self._class, self._snap, nominees)
        ((_, verdicts),) = dry_run.filter_with_nominees(np.array([slot]))
        number = int(verdicts.index[0])
        return None if number == interfaces.PASSES else self._kept.table.statuses[number - 1]


def _number_of(entry: status.Status, statuses: list[status.Status]) -> int:
    """The status's number, from 1; it joins the others where it is new."""
    if entry not in statuses:
        statuses.append(entry)
    return statuses.index(entry) + 1
