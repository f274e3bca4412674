"""Finds what plugins take time to answer, before a class is evaluated: the part of an evaluation that waits.

Some plugins of this process answer faster what they prepared. An AsyncFilter, such as a service, answers only about
what it prepared, and nodes change while it is called: its verdicts are about the nodes as they were when the call
began. Nodes that changed meanwhile go into a further call, a few times over. A node that has still no answer about its
current state is refused (`FilterColumn.unanswered_slots`), whatever the column has about an earlier one; so no node is
ever feasible that a plugin has not seen as it is.

Tests: tests/unit/evaluation/test_preparing.py, tests/unit/plugins/default_preemption/test_post_filter_searches.py.
"""

import numpy as np

from trireme.evaluation import plugin_timer
from trireme.evaluation.filtering import class_verdicts, filter_chain, filter_column
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, snapshot

# Calls of one plugin for one evaluation: the first, and those about nodes that changed under the one before.
ROUNDS = 3


class Preparation:
    """Prepares the plugins of one profile, on one snapshot."""

    def __init__(self, snap: snapshot.Snapshot, plugins: filter_chain.FilterChain) -> None:
        self._snap = snap
        self._chain = plugins

    async def prepare_asynchronous(
        self,
        pod_class: classes.PodClass,
        cached: class_verdicts.ClassVerdicts,
        timer: plugin_timer.PluginTimer,
        *,
        only_changed: bool,
    ) -> status.Status | None:
        """Bring the columns of AsyncFilters up to date; a status where one failed and the pod with it.

        `only_changed`: they have answered for this evaluation before, and are called only about nodes that changed
        since.

        Raises: OutOfStepError where the snapshot was replaced meanwhile.
        """
        incarnation = self._snap.incarnation
        plugins = self._chain.asynchronous
        # Concurrent evaluations of one class share the calls: the second finds the answers of the first.
        async with cached.preparing:
            for number in range(ROUNDS):
                for plugin in plugins:
                    self._snap.check_incarnation(incarnation)
                    started = timer.now()
                    failed = await self._prepare_by_plugin(plugin, pod_class, cached, only_changed or number > 0)
                    code = status.Code.SUCCESS if failed is None else failed.code
                    timer.record_plugin(plugin.name, "Filter", started, code)
                    timer.record_point("Filter", started, code)
                    if failed is not None:
                        return failed
                if not any(self._slots_to_ask_about(plugin, cached, only_changed=True).size for plugin in plugins):
                    break
        return None

    async def prepare_in_tree(self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts) -> None:
        """Let in-tree plugins whose answers take long find them in steps, while other calls are answered.

        Only for slots that Filter will be called about, and nothing if the columns are up to date. Raises:
        OutOfStepError where the snapshot was replaced meanwhile.
        """
        if not self._chain.preparing or cached.generation == self._snap.generation:
            return
        incarnation = self._snap.incarnation
        for plugin in self._chain.preparing:
            if self._chain.skips_class(plugin.name, pod_class):
                continue
            live = self._snap.nodes.alive[: self._snap.nodes.size]
            column = cached.plugins.get(plugin.name)
            if column is None or column.is_stale(plugin, self._snap):
                await plugin.prepare(pod_class, self._snap, np.flatnonzero(live))
            elif not column.prefilter.skip:
                await plugin.prepare(pod_class, self._snap, column.due_slots(plugin, self._snap, live))
        self._snap.check_incarnation(incarnation)

    async def prepare_slot(self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts, slot: int) -> None:
        """As prepare_in_tree, for one slot, even if the columns are up to date."""
        incarnation = self._snap.incarnation
        for plugin in self._chain.preparing:
            if self._chain.skips_class(plugin.name, pod_class):
                continue
            column = cached.plugins.get(plugin.name)
            if column is None or column.is_stale(plugin, self._snap) or not column.prefilter.skip:
                await plugin.prepare(pod_class, self._snap, np.array([slot]))
        self._snap.check_incarnation(incarnation)

    async def _prepare_by_plugin(
        self,
        plugin: interfaces.AsyncFilter,
        pod_class: classes.PodClass,
        cached: class_verdicts.ClassVerdicts,
        only_changed: bool,
    ) -> status.Status | None:
        """Let one plugin find its verdicts; a status where it failed and the pod with it.

        PreFilter is called first if it has not answered yet or, unless `only_changed`, its answer may have changed.
        The cluster may change meanwhile: the verdicts are of the generation when the call began, and what changed after
        it is due next time.
        """
        incarnation = self._snap.incarnation
        column = cached.plugins.get(plugin.name)
        if column is None or not (only_changed or _may_keep_pre_filter_answer(plugin, column)):
            failed = await self._call_and_store_pre_filter(plugin, pod_class, cached)
            if failed is not None:
                return failed
            column = cached.plugins[plugin.name]
        generation = self._snap.generation
        state: interfaces.PreparedVerdicts = column.prefilter.state
        slots = self._slots_to_ask_about(plugin, cached, only_changed)
        unanswered = False
        if slots.size:
            failed = await plugin.prepare(pod_class, self._snap, state, slots, cached.table)
            self._snap.check_incarnation(incarnation)
            if failed is not None:
                return failed
            cached.uncombined.append(slots)
            unanswered = state.unanswered
        # After a failure that is ignored there are nodes that the plugin is still to be called about.
        if unanswered or (only_changed and column.unanswered_generation > column.generation):
            column.unanswered_generation = generation
        else:
            column.generation = max(column.generation, generation)
        return None

    async def _call_and_store_pre_filter(
        self, plugin: interfaces.AsyncFilter, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts
    ) -> status.Status | None:
        """Call PreFilter of an asynchronous plugin and store its answer; a status where that fails the pod."""
        generation, incarnation = self._snap.generation, self._snap.incarnation
        answer = await plugin.pre_filter(pod_class, self._snap)
        self._snap.check_incarnation(incarnation)
        if answer.status is not None and answer.status.code == status.Code.ERROR:
            return answer.status
        old = cached.plugins.get(plugin.name)
        if old is not None and old.prefilter.skip != answer.skip:
            cached.generation = -1  # The plugin's refusals begin or cease to count, on all nodes.
        cached.plugins[plugin.name] = filter_column.FilterColumn(answer, generation, asynchronous=plugin.depends_on)
        return None

    def _slots_to_ask_about(
        self, plugin: interfaces.AsyncFilter, cached: class_verdicts.ClassVerdicts, only_changed: bool
    ) -> arrays.SlotArray:
        """Return the slots to call the plugin about; none if its PreFilter skips or refuses the class.

        With `only_changed` they are those that changed since its last answer, also where that was a failure that its
        policy ignores; otherwise all those whose verdict may have changed.
        """
        column = cached.plugins[plugin.name]
        if column.prefilter.skip or column.prefilter.status is not None:
            return np.zeros(0, dtype=np.intp)
        nodes = self._snap.nodes
        live = nodes.alive[: nodes.size]
        since = column.answered_generation if only_changed else column.generation
        if since < 0:
            return np.flatnonzero(live)
        changed = column.changed_since(nodes, since)
        return changed[live[changed]]


def _may_keep_pre_filter_answer(plugin: interfaces.AsyncFilter, column: filter_column.FilterColumn) -> bool:
    """Whether PreFilter's answer still holds: it neither refused nor failed, and does not depend on the cluster."""
    if column.prefilter.status is not None or column.prefilter.unanswered:
        return False
    return plugin.depends_on != interfaces.Dependency.CLUSTER
