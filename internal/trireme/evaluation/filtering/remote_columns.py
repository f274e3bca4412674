"""The columns of filter plugins that are services, brought up to date while the cluster goes on changing.

A call takes time, and nodes change under it: what comes back is about the nodes as they were when the call began.
Those that changed meanwhile go into a further call, a few times over. A node that has still no answer about its current
state is refused by `PluginColumn.unanswered`, whatever the column says of an earlier one; so no node is ever feasible
that a plugin has not seen as it is.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from trireme.evaluation import stopwatch
from trireme.evaluation.filtering import columns
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, snapshot

# Calls of one plugin for one evaluation: the first, and those about nodes that changed under the one before.
ROUNDS = 3


class RemoteFilter(Protocol):
    """A filter plugin that is a service of its own."""

    name: str
    depends_on: interfaces.Dependency

    async def pre_filter(
        self, profile: str, pod_class: classes.PodClass, generation: int
    ) -> interfaces.PreFilterResult:
        """As FilterPlugin.pre_filter. A failure is answered as a status, or skips, by the plugin's policy."""
        ...

    async def filter(
        self,
        profile: str,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: object,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts | status.Status | None:
        """Verdicts about the nodes as they are when it is called; a status where the plugin failed and the pod with
        it; None where the failure is ignored.
        """
        ...

    async def dry_runs(
        self,
        profile: str,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: object,
        runs: Sequence[interfaces.DryRun],
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts | status.Status | None:
        """As filter, about nodes as if pods were gone and others there."""
        ...


class RemoteColumns:
    """Brings the columns of services up to date, on one snapshot."""

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._snap = snap

    async def refresh(
        self,
        remotes: Sequence[RemoteFilter],
        profile: str,
        pod_class: classes.PodClass,
        kept: columns.ClassColumns,
        watch: stopwatch.Stopwatch,
        only_changed: bool,
    ) -> status.Status | None:
        """Call the services about what changed; a status where one failed and the pod with it.

        `only_changed`: they have answered for this evaluation before, and are called only about nodes that changed
        since.

        Raises: OutOfStepError where the snapshot was replaced meanwhile.
        """
        incarnation = self._snap.incarnation
        # Concurrent evaluations of one class share the calls: the second finds the answers of the first.
        async with kept.asking:
            for number in range(ROUNDS):
                for remote in remotes:
                    self._snap.must_still_be(incarnation)
                    started = watch.now()
                    failed = await self._call(remote, profile, pod_class, kept, only_changed or number > 0)
                    code = status.Code.SUCCESS if failed is None else failed.code
                    watch.plugin(remote.name, "Filter", started, code)
                    watch.point("Filter", started, code)
                    if failed is not None:
                        return failed
                if not any(self._due(remote, kept, only_changed=True).size for remote in remotes):
                    break
        return None

    async def _call(
        self,
        remote: RemoteFilter,
        profile: str,
        pod_class: classes.PodClass,
        kept: columns.ClassColumns,
        only_changed: bool,
    ) -> status.Status | None:
        """Call one service and write its verdicts to its column; a status where it failed and the pod with it.

        PreFilter is called first if it has not answered yet or, unless `only_changed`, its answer may have changed.
        """
        incarnation = self._snap.incarnation
        column = kept.plugins.get(remote.name)
        if column is None or not (only_changed or _keeps_pre_filter(remote, column)):
            failed = await self._pre_filter(remote, profile, pod_class, kept)
            if failed is not None:
                return failed
            column = kept.plugins[remote.name]
        generation = self._snap.generation
        slots = self._due(remote, kept, only_changed)
        if slots.size:
            verdicts = await remote.filter(profile, pod_class, self._snap, column.prefilter.state, slots, kept.table)
            self._snap.must_still_be(incarnation)
            if isinstance(verdicts, status.Status):
                return verdicts
            kept.uncombined.append(slots)
            if verdicts is None:
                # The failure is ignored for now, and the plugin called again next time: the column learns nothing.
                passes = interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))
                column.write(slots, passes, self._snap.nodes.capacity)
                column.ignored_generation = generation
                return None
            column.write(slots, verdicts, self._snap.nodes.capacity)
        if only_changed and column.ignored_generation > column.generation:
            column.ignored_generation = generation  # There are nodes that it is still to be called about.
        else:
            column.generation = max(column.generation, generation)
        return None

    async def _pre_filter(
        self, remote: RemoteFilter, profile: str, pod_class: classes.PodClass, kept: columns.ClassColumns
    ) -> status.Status | None:
        generation, incarnation = self._snap.generation, self._snap.incarnation
        answer = await remote.pre_filter(profile, pod_class, generation)
        self._snap.must_still_be(incarnation)
        if answer.status is not None and answer.status.code == status.Code.ERROR:
            return answer.status
        old = kept.plugins.get(remote.name)
        if old is not None and old.prefilter.skip != answer.skip:
            kept.generation = -1  # The plugin's refusals begin or cease to count, on all nodes.
        kept.plugins[remote.name] = columns.PluginColumn(answer, generation, remote=remote.depends_on)
        return None

    def _due(self, remote: RemoteFilter, kept: columns.ClassColumns, only_changed: bool) -> arrays.SlotArray:
        """The slots to call the plugin about.

        `only_changed`: those that changed since its last answer, ignored failures included; otherwise all those whose
        verdict may have changed.
        """
        column = kept.plugins[remote.name]
        if column.prefilter.skip or column.prefilter.status is not None:
            return np.zeros(0, dtype=np.intp)
        nodes = self._snap.nodes
        live = nodes.alive[: nodes.size]
        since = column.answered_generation if only_changed else column.generation
        if since < 0 or (remote.depends_on == interfaces.Dependency.CLUSTER and not only_changed):
            return np.flatnonzero(live)
        changed = column.changed_since(nodes, since)
        return changed[live[changed]]


def _keeps_pre_filter(remote: RemoteFilter, column: columns.PluginColumn) -> bool:
    if column.prefilter.status is not None or column.prefilter.unanswered:
        return False
    return remote.depends_on != interfaces.Dependency.CLUSTER
