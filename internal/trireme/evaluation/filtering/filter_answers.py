"""What filter answers about a class: its columns, whole or as a patch, and what PreFilter of its plugins answered.

Tests: tests/unit/plugins/default_preemption/test_post_filter.py, tests/unit/evaluation/test_post_filter_results.py.
"""

from collections.abc import Mapping, Sequence

from trireme.evaluation import plugin_timer
from trireme.evaluation.filtering import class_verdicts, filter_chain, nominated_filter
from trireme.framework import domain_rules
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, snapshot
from trireme.wire import domain_constraints, node_columns, packing, phase_answers


class FilterAnswers:
    """Makes the answers under one profile of what was evaluated."""

    def __init__(self, snap: snapshot.Snapshot, chain: filter_chain.FilterChain, *, always_reserve: bool) -> None:
        """`always_reserve`: a plugin must be called at Reserve for every pod."""
        self._snap = snap
        self._chain = chain
        self._always_reserve = always_reserve
        self._looking_beyond_node = tuple(
            plugin.name for plugin in chain.plugins if plugin.depends_on == interfaces.Dependency.CLUSTER
        )

    def answer_of_class(
        self,
        verdicts: class_verdicts.ClassVerdicts,
        columns: node_columns.NodeColumns,
        constraints: Sequence[domain_rules.DomainConstraint],
        timer: plugin_timer.PluginTimer,
        *,
        demand: Mapping[str, int] | None = None,
        admitted_nodes: bytes = b"",
    ) -> phase_answers.FilterAnswer:
        """Make the answer about all nodes; a `demand` and `admitted_nodes` are added as they are.

        The batch is as small as the plugins want it: 1 where pods are placed one at a time, 0 where none has a limit.
        """
        results = self._pre_filter_results(verdicts)
        max_batch = min((each.max_batch for each in results if each.max_batch), default=0)
        needs_reserve, needs_pre_bind = self._needs_reserve_and_pre_bind(results)
        return phase_answers.FilterAnswer(
            refusal=verdicts.refusal,
            narrowed=None if verdicts.narrowed is None else frozenset(verdicts.narrowed),
            narrowed_by=frozenset(verdicts.narrowed_by),
            nodes_left=() if verdicts.refusal is None else self._nodes_left(verdicts),
            columns=columns,
            constraints=[domain_constraints.to_message(each) for each in constraints],
            max_batch=1 if self._chain.places_one_by_one else max_batch,
            needs_reserve=needs_reserve,
            needs_pre_bind=needs_pre_bind,
            evaluated=self._evaluated_plugins(verdicts),
            timings=tuple(timer.timing_messages()),
            demand=demand,
            admitted_nodes=admitted_nodes,
        )

    def answer_of_class_in_turn(
        self,
        verdicts: class_verdicts.ClassVerdicts,
        passing: arrays.BoolArray,
        demand: Mapping[str, int],
        timer: plugin_timer.PluginTimer,
    ) -> phase_answers.FilterAnswer:
        """Make the answer about a class with this demand: which nodes pass, and nothing else about them.

        Shape: passing (slot,).
        """
        columns = node_columns.NodeColumns(verdicts.generation, size=passing.shape[0])
        admitted = packing.to_bits(passing)
        return self.answer_of_class(verdicts, columns, (), timer, demand=demand, admitted_nodes=admitted)

    def answer_of_nominated(
        self, admitted: int, generation: int, verdicts: class_verdicts.ClassVerdicts, timer: plugin_timer.PluginTimer
    ) -> phase_answers.FilterAnswer:
        """The answer where so many nominated pods are admitted, to a call that named this generation."""
        needs_reserve, needs_pre_bind = self._needs_reserve_and_pre_bind(self._pre_filter_results(verdicts))
        return phase_answers.FilterAnswer(
            columns=node_columns.NodeColumns(generation),
            needs_reserve=needs_reserve,
            needs_pre_bind=needs_pre_bind,
            evaluated=self._evaluated_plugins(verdicts),
            timings=tuple(timer.timing_messages()),
            admitted=admitted,
        )

    def may_return_constraints(self, cached: class_verdicts.ClassVerdicts) -> bool:
        """Whether the answer says how placements change other nodes, where there is to be more than one."""
        return cached.refusal is None and not self._chain.places_one_by_one

    def columns_of_class(self, cached: class_verdicts.ClassVerdicts, base_generation: int) -> node_columns.NodeColumns:
        """The class's columns; a patch where the caller has those of `base_generation`, and little has changed."""
        size = self._snap.nodes.size
        cached.forget_answered()
        # These columns number their statuses by themselves: a patch holds only for an answer that was taken from them.
        if 0 <= cached.first_answered <= base_generation <= cached.generation:
            slots = cached.changed.since(base_generation, size)
            if slots.size * 2 < size:
                index, capacity = cached.as_answered(cached.index[slots]), cached.capacity[slots]
                statuses = tuple(cached.answered_statuses)
                return node_columns.NodeColumns(
                    cached.generation, base_generation, size, slots, statuses, index, capacity
                )
        if cached.first_answered < 0:
            cached.first_answered = cached.generation
        return self._complete_answer(cached, cached.index[:size], cached.capacity[:size].copy())

    def columns_with_own_verdict(
        self, cached: class_verdicts.ClassVerdicts, own: nominated_filter.SlotVerdict
    ) -> node_columns.NodeColumns:
        """The columns for one pod of the class, whose verdict on one slot is another one than that of the others."""
        size = self._snap.nodes.size
        index, capacity = cached.index[:size].copy(), cached.capacity[:size].copy()
        index[own.slot], capacity[own.slot] = own.index, own.capacity
        return self._complete_answer(cached, index, capacity)

    def _complete_answer(
        self, cached: class_verdicts.ClassVerdicts, index: arrays.Int16Array, capacity: arrays.Int32Array
    ) -> node_columns.NodeColumns:
        """The answer about all nodes: these statuses by their numbers in the class's table, and capacities."""
        numbers = cached.as_answered(index)
        statuses = tuple(cached.answered_statuses)
        return node_columns.NodeColumns.complete(cached.generation, statuses, numbers, capacity)

    def _pre_filter_results(self, cached: class_verdicts.ClassVerdicts) -> Sequence[interfaces.PreFilterResult]:
        return [cached.plugins[name].prefilter for name in self._chain.order if name in cached.plugins]

    def _nodes_left(self, cached: class_verdicts.ClassVerdicts) -> Sequence[tuple[str, int]]:
        """How many nodes of the cluster each plugin that narrowed them left by itself, by its name, ascending."""
        known = self._snap.nodes.slot_of_name
        return tuple(
            (name, sum(node in known for node in cached.plugins[name].prefilter.nodes or ()))
            for name in sorted(cached.narrowed_by)
        )

    def taken_by_pod(
        self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts
    ) -> tuple[Mapping[str, int], frozenset[tuple[str, str, str]]] | None:
        """What a pod of the class takes of its node, where a placed pod changes nothing else for those that have this.

        PreFilter of all plugins has answered about the class.

        Of a class with claims or host ports it may change more on its node, and for pods with the same claims: the
        second result are the objects that Reserve takes for a pod. None: some plugin that looks at placed pods is not
        skipped, Reserve may change more, or nominated pods count.
        """
        plugins, demanding = cached.plugins, self._chain.demanding
        if demanding is None or cached.nominated.size or self._always_reserve or pod_class.resize_deferred:
            return None
        looking = self._looking_beyond_node if pod_class.takes_more_than_resources else self._chain.depending_on_pods
        if any(not plugins[name].prefilter.skip for name in looking):
            return None
        results = self._pre_filter_results(cached)
        if any((each.max_batch or each.reserves) and each.takes is None for each in results):
            return None
        own = plugins[demanding.name].prefilter
        demand = None if own.skip else demanding.demand(pod_class, own.state)
        if demand is None:
            return None
        return demand, frozenset().union(*(each.takes for each in results if each.takes))

    def _needs_reserve_and_pre_bind(self, results: Sequence[interfaces.PreFilterResult]) -> tuple[bool, bool]:
        reserves = any(result.reserves for result in results)
        return reserves or self._always_reserve, reserves

    def _evaluated_plugins(self, cached: class_verdicts.ClassVerdicts) -> Sequence[str]:
        """The plugins that were not skipped."""
        order = self._chain.order
        return [name for name in order if name in cached.plugins and not cached.plugins[name].prefilter.skip]
