"""Filter plugins in mode Shadow: called for the nodes that the plugins of the profile let pass, and compared.

Also change: internal/trireme/remote/compared_scores.py (filter and score are alike here).

Tests: tests/unit/remote/test_compared_plugins.py, tests/unit/remote/test_plugin_failures.py,
tests/contract/test_plugin_shadow.py.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from trireme.evaluation.filtering import class_verdicts
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import comparison_counts, comparison_queue, remote_filter
from trireme.snapshot import arrays, classes, snapshot

#: The verdicts of the profile's plugins about a class, brought up to date.
Evaluate = Callable[[str, int], Awaitable[class_verdicts.ClassVerdicts]]


class ComparedFilters:
    """The filter plugins in mode Shadow of one configuration, by profile."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        plugins: Mapping[str, Sequence[remote_filter.RemoteFilterPlugin]],
        evaluate: Evaluate,
    ) -> None:
        self._snap = snap
        self._plugins = plugins
        self._evaluate = evaluate
        self.queue = comparison_queue.ComparisonQueue(self.compare, self._count_skipped)

    def observe(self, profile: str, class_id: int) -> None:
        """Filter has answered about the class: have it compared in the background, if there is a plugin to compare."""
        if self._plugins.get(profile):
            self.queue.request(profile, class_id)

    async def compare(self, profile: str, class_id: int) -> None:
        """Ask each plugin about the nodes that pass, and count those that it alone would refuse."""
        pod_class = self._snap.classes.get(class_id)
        if pod_class is None:
            return
        verdicts = await self._evaluate(profile, class_id)
        if verdicts.refusal is not None:
            return
        nodes = self._snap.nodes
        size = min(nodes.size, verdicts.index.shape[0])
        passes = (verdicts.index[:size] == interfaces.PASSES) & (verdicts.capacity[:size] > 0)
        slots = np.flatnonzero(passes & nodes.alive[:size])
        if not slots.size:
            return
        for plugin in self._plugins[profile]:
            refused = await self._count_refused(plugin, pod_class, slots)
            _record(plugin.comparisons, refused)

    async def _count_refused(
        self, plugin: remote_filter.RemoteFilterPlugin, pod_class: classes.PodClass, slots: arrays.SlotArray
    ) -> int | None:
        """How many of the nodes the plugin refuses; None: it failed."""
        found = await plugin.pre_filter(pod_class, self._snap)
        if found.unanswered or (found.status is not None and found.status.code is status.Code.ERROR):
            return None
        if found.status is not None:
            return int(slots.size)
        if found.skip:
            return 0
        outside = 0
        if found.nodes is not None:
            names = self._snap.nodes.names
            inside = np.array([names[slot] in found.nodes for slot in slots.tolist()], dtype=np.bool_)
            outside, slots = int(slots.size - inside.sum()), slots[inside]
        # Nodes may have gone meanwhile.
        slots = slots[self._snap.nodes.alive[slots]]
        if not slots.size:
            return outside
        table = interfaces.StatusTable()
        if await plugin.prepare(pod_class, self._snap, found.state, slots, table) is not None:
            return None
        if found.state.unanswered:
            return None
        return outside + int(np.count_nonzero(found.state.read(slots, table).index != interfaces.PASSES))

    def _count_skipped(self, profile: str) -> None:
        for plugin in self._plugins[profile]:
            plugin.comparisons.skipped += 1


def _record(counts: comparison_counts.ComparisonCounts, refused: int | None) -> None:
    """Count one comparison."""
    counts.compared += 1
    if refused is None:
        counts.failed += 1
        return
    counts.refused_nodes += refused
    counts.differed += refused > 0
