"""PreFilter of the synchronous plugins: called where its answer may have changed, and put together for the class.

Tests: tests/unit/evaluation/test_filtering.py, tests/unit/evaluation/test_kept_verdicts.py.
"""

from collections.abc import Sequence

from trireme.evaluation import plugin_timer
from trireme.evaluation.filtering import class_verdicts, filter_chain, filter_column
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, snapshot


class PreFiltering:
    """PreFilter of one profile, on one snapshot."""

    def __init__(self, snap: snapshot.Snapshot, chain: filter_chain.FilterChain) -> None:
        self._snap = snap
        self._chain = chain

    def refresh(
        self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts, timer: plugin_timer.PluginTimer
    ) -> bool:
        """Call PreFilter where its answer may have changed; return whether to combine the verdicts on all nodes anew.

        Sets why the class is refused on all nodes (`refusal`), or which nodes are left (`narrowed`).
        """
        changed = False
        for plugin in self._chain.synchronous:
            column = cached.plugins.get(plugin.name)
            if column is None or column.is_stale(plugin, self._snap):
                started = timer.now()
                answer = self.call(plugin, pod_class, cached.table)
                timer.record_plugin(plugin.name, "PreFilter", started, _pre_filter_code_for_metrics(answer))
                if column is None:
                    cached.plugins[plugin.name] = filter_column.FilterColumn(answer, self._snap.generation)
                    changed = True
                    continue
                changed |= answer.skip != column.prefilter.skip
                column.store_pre_filter(
                    answer, self._snap.generation, self._slots_affected_by_new_answer(plugin, column, answer)
                )
        return self.merge_answers(cached) or changed

    def call(
        self, plugin: interfaces.FilterPlugin, pod_class: classes.PodClass, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Call PreFilter of one plugin; it is skipped for classes that the plugin is not for."""
        if self._chain.skips_class(plugin.name, pod_class):
            return interfaces.PreFilterResult(skip=True)
        return plugin.pre_filter(pod_class, self._snap, table)

    def _slots_affected_by_new_answer(
        self, plugin: interfaces.FilterPlugin, column: filter_column.FilterColumn, answer: interfaces.PreFilterResult
    ) -> arrays.SlotArray | None:
        """The slots that the plugin's new answer to PreFilter affects; None: all, as far as anybody knows."""
        before = column.prefilter.state
        if column.generation < 0 or before is None or answer.state is None:
            return None
        by_domain = self._chain.by_domain.get(plugin.name)
        if by_domain is None:
            return None
        return by_domain.affected_slots(self._snap, before, answer.state, column.generation)

    def merge_answers(self, cached: class_verdicts.ClassVerdicts) -> bool:
        """Merge all plugins' PreFilter answers; return whether they refuse the class, or leave out nodes otherwise.

        Any refusal but a plain UNSCHEDULABLE ends it; of plain ones the last in order counts. Node names that plugins
        give are intersected: none left is a refusal too.
        """
        before = cached.narrowed, cached.narrowed_by
        cached.refusal = None
        cached.narrowed_by = ()
        narrowed: frozenset[str] | None = None
        narrowing: list[str] = []
        for name in self._chain.order:
            answer = cached.plugins[name].prefilter
            if answer.status is not None:
                cached.refusal = answer.status
                if answer.status.code != status.Code.UNSCHEDULABLE:
                    return True
            if answer.nodes is not None:
                narrowed = answer.nodes if narrowed is None else narrowed & answer.nodes
                narrowing.append(name)
                if not narrowed:
                    cached.refusal = _no_node_left_status(narrowing)
                    cached.narrowed_by = tuple(narrowing)
                    return True
        cached.narrowed, cached.narrowed_by = narrowed, tuple(narrowing)
        return before != (cached.narrowed, cached.narrowed_by)


def status_of_left_out_nodes(narrowing: Sequence[str]) -> status.Status:
    """The status of nodes that PreFilter left out. Source: pkg/scheduler/framework (FitError)."""
    names = " ".join(sorted(narrowing))
    reason = status.Reason.of("leftOut", {"plugins": ",".join(sorted(narrowing))})
    return status.unresolvable("", f"node(s) didn't satisfy plugin(s) [{names}]", reasons=(reason,))


def _pre_filter_code_for_metrics(answer: interfaces.PreFilterResult) -> status.Code:
    """How a PreFilter ended, as metrics say it."""
    if answer.status is not None:
        return answer.status.code
    return status.Code.SKIP if answer.skip else status.Code.SUCCESS


def _no_node_left_status(narrowing: Sequence[str]) -> status.Status:
    """The refusal where the nodes that these plugins name have none in common, or the only one names none."""
    reason = status.Reason.of("noCommonNode", {"plugins": ",".join(narrowing)})
    if len(narrowing) == 1:
        return status.unresolvable("", f"node(s) didn't satisfy plugin {narrowing[0]}", reasons=(reason,))
    names = " ".join(narrowing)
    text = f"node(s) didn't satisfy plugin(s) [{names}] simultaneously"
    return status.unresolvable("", text, reasons=(reason,))
