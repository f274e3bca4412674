"""PostFilter's results for several pods of one class in one call, equal to those of one call after the other.

Preemptors of one class often come in a row. Between two of them nothing changes but the nomination of the first one and
the state of its victims, which is known here too. So the result for the second one assumes the nomination of the first.
That holds only if a nomination changes nothing for the next pod but on its own node; otherwise there is a result for
the first pod alone.

Tests: tests/unit/evaluation/test_post_filter_results.py.
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence

import numpy as np

from trireme.evaluation.filtering import class_verdicts, dry_run_filter, filter_chain, nominated_pods
from trireme.evaluation.preemption import post_filter_context, post_filter_plugins
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, snapshot
from trireme.v1 import cycle_pb2, filter_phase_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status


class PostFilterResults:
    """Runs PostFilter for several pods of one class in a row, each as if those before it were nominated."""

    def __init__(
        self,
        cycle: cycle_pb2.Cycle,
        chain: filter_chain.FilterChain,
        plugins: Sequence[post_filter_plugins.HostedPostFilter],
        class_columns: class_verdicts.ClassVerdicts,
        refresh: post_filter_context.Refresh,
        snap: snapshot.Snapshot,
        *,
        pod_class: classes.PodClass,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`pod_class` is the cycle's, which may be gone by now."""
        self._cycle = cycle
        self._class = pod_class
        self._chain = chain
        self._plugins = plugins
        self._columns = class_columns
        self._refresh = refresh
        self._snap = snap
        self._clock = clock

    async def results_with_filter_answer(
        self, preemptors: Sequence[filter_phase_pb2.Preemptor], own: node_columns.NodeColumns | None = None
    ) -> AsyncIterator[filter_phase_pb2.PostFilterResult]:
        """Yield results for the first pods, with the answer of Filter about them, in order.

        `own` is the answer if it is about the cycle's pod, which is nominated: only that one has a result then. There
        is none where a node takes a pod, a plugin failed or is called in another process, or another pod is nominated.
        """
        refused = own if own is not None else self._complete_answer_of_class()
        if not self._plugins or self._calls_remote_plugins() or not self._is_refused_everywhere(refused):
            return
        if own is not None:
            preemptors = [each for each in preemptors[:1] if each.pod.uid == self._cycle.pod.metadata.uid]
        elif self._is_any_preemptor_nominated(preemptors):
            return
        async for result in self._results_in_order(preemptors, refused, self._columns.refusal):
            yield result

    async def results_after_filter(
        self,
        preemptors: Sequence[filter_phase_pb2.Preemptor],
        refused: node_columns.NodeColumns,
        pre_filter: status.Status | None,
    ) -> AsyncIterator[filter_phase_pb2.PostFilterResult]:
        """Yield results for the first pods, at least for one, in order.

        `refused` says why all nodes refuse the class, unless PreFilter does.
        """
        alone = (
            self._calls_remote_plugins()
            or self._is_any_preemptor_nominated(preemptors)
            or not self._is_refused_everywhere(self._complete_answer_of_class())
        )
        async for result in self._results_in_order(preemptors[:1] if alone else preemptors, refused, pre_filter):
            yield result

    async def _results_in_order(
        self,
        preemptors: Sequence[filter_phase_pb2.Preemptor],
        refused: node_columns.NodeColumns | None,
        pre_filter: status.Status | None,
    ) -> AsyncIterator[filter_phase_pb2.PostFilterResult]:
        """Yield results in order, each as if the snapshot had the nominations of those before.

        Ends after the first whose effect on the next ones is not known here: it nominates no node, does more than
        evict, or lets a nomination change the answer about other nodes.
        """
        pending = post_filter_context.PendingNominations(self._class.id)
        # Each nomination changes why its node refuses the class.
        index = np.zeros(0, dtype=np.int16) if refused is None else refused.index.copy()
        statuses = [] if refused is None else list(refused.statuses)
        for number, preemptor in enumerate(preemptors):
            started = self._clock()
            result = filter_phase_pb2.PostFilterResult()
            if number and pre_filter is None:
                slot = result.changed_slot = pending.slots[-1]
                self._update_refusal_of_slot(slot, pending, index, statuses)
                result.changed_status.CopyFrom(wire_status.to_message(statuses[index[slot] - 1]))
            context = post_filter_context.PostFilterContext(
                post_filter_context.cycle_for(self._cycle, preemptor),
                self._class,
                self._chain,
                self._columns,
                self._refresh,
                statuses,
                index if pre_filter is None else None,
                pre_filter,
                pending=pending,
                seed=preemptor.seed,
            )
            answer = await post_filter_plugins.run_in_order(self._plugins, context, self._snap, refused)
            assert not isinstance(answer, tuple)  # no candidates were requested
            result.answer.CopyFrom(answer)
            result.duration_us = round((self._clock() - started) * 1_000_000)
            yield result
            nominated_slot = self._snap.nodes.slot_of_name.get(answer.nominated_node)
            only_evicts = all(action.HasField("evict") for action in answer.actions)
            if nominated_slot is None or not only_evicts or not pending.independent:
                return
            pending.add(nominated_slot)

    def _complete_answer_of_class(self) -> node_columns.NodeColumns | None:
        """The complete answer about the class; None: PreFilter refused it."""
        if self._columns.refusal is not None:
            return None
        size, statuses = self._snap.nodes.size, tuple(self._columns.table.statuses)
        index, capacity = self._columns.index[:size], self._columns.capacity[:size]
        return node_columns.NodeColumns(self._columns.generation, 0, size, None, statuses, index, capacity)

    def _is_refused_everywhere(self, answer: node_columns.NodeColumns | None) -> bool:
        """Whether no node takes a pod, by this answer or PreFilter's refusal, and no plugin failed."""
        if self._columns.refusal is not None:
            return self._columns.refusal.code is not status.Code.ERROR
        assert answer is not None
        if ((answer.index == interfaces.PASSES) & (answer.capacity > 0)).any():
            return False
        numbers = np.flatnonzero(np.bincount(answer.index)).tolist()
        return all(answer.statuses[number - 1].code is not status.Code.ERROR for number in numbers if number)

    def _calls_remote_plugins(self) -> bool:
        """Whether a plugin is called in another process, which takes time."""
        return bool(self._chain.asynchronous) or any(plugin.remote for plugin in self._plugins)

    def _is_any_preemptor_nominated(self, preemptors: Sequence[filter_phase_pb2.Preemptor]) -> bool:
        return any(each.pod.uid in self._snap.nominations for each in preemptors)

    def _update_refusal_of_slot(
        self,
        slot: int,
        pending: post_filter_context.PendingNominations,
        index: arrays.Int16Array,
        statuses: list[status.Status],
    ) -> None:
        """Set why the node at the slot refuses pods of the class beside those that are nominated to it.

        If it passes beside them, the status that it has without them stays.
        """
        nominees = pending.added_to(nominated_pods.nominees_of_at_least(self._snap, self._class.priority))
        dry_run = dry_run_filter.DryRunFilter(self._chain, self._columns, self._class, self._snap, nominees)
        ((_, verdicts),) = dry_run.filter_with_nominees(np.array([slot]))
        number = int(verdicts.index[0])
        if number == interfaces.PASSES:
            return
        entry = self._columns.table.statuses[number - 1]
        if entry not in statuses:
            statuses.append(entry)
        index[slot] = statuses.index(entry) + 1
