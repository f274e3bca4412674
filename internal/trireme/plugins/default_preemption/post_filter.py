"""DefaultPreemption's PostFilter: the best node where the pod fits once less important pods are evicted.

It decides what is to be done and does nothing: bind deletes the victims, the frontend nominates the pod. Which nodes
are tried first is random, but the same for the same request, so that every replica returns the same answer.

Source: pkg/scheduler/framework/plugins/defaultpreemption, pkg/scheduler/framework/preemption.
"""

import dataclasses
import functools
import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from trireme.evaluation.filtering import dry_run_filter, nominated_pods
from trireme.evaluation.preemption import (
    async_dry_runs,
    candidate_selection,
    disruption_budgets,
    dry_run,
    dry_run_cache,
    post_filter_context,
    potential_victims,
    victims_with_groups,
    whole_group_dry_run,
)
from trireme.framework import fit_reasons, status
from trireme.plugin_kit import plugin_context
from trireme.plugins.default_preemption import args
from trireme.plugins.default_preemption.spec import SPEC
from trireme.snapshot import arrays, pods, snapshot
from trireme.v1 import bind_pb2, cycle_pb2, filter_pb2
from trireme.wire import status as wire_status

_REASONS = (status.Reason("notHelpful"),)
_NOT_HELPFUL = status.unresolvable("", "Preemption is not helpful for scheduling", reasons=_REASONS)
_NO_VICTIMS = status.unresolvable("", "No preemption victims found for incoming pod", reasons=_REASONS)


@dataclass(frozen=True, slots=True)
class WantedCandidateCount:
    """How many candidates are enough to choose from, by the plugin's arguments."""

    min_percentage: int = args.DEFAULT_PERCENTAGE
    min_absolute: int = args.DEFAULT_ABSOLUTE

    def for_nodes(self, nodes: int) -> int:
        """Return the number of candidates to look for among so many nodes."""
        return min(max(nodes * self.min_percentage // 100, self.min_absolute), nodes)


@dataclass(slots=True)
class _CandidateSearch:
    """What dry runs have found so far: candidates, and how many nodes were refused with which status.

    Of the candidates that violate a budget, and of those that violate none, it has the first `wanted` ones.
    """

    wanted: int = 0
    candidates: list[dry_run.Candidate] = field(default_factory=list)
    violating: int = 0
    refused: Counter[status.Status] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether as many candidates as wanted were found, one of which violates no disruption budget."""
        return len(self.candidates) >= self.wanted and len(self.candidates) > self.violating

    def add(self, candidate: dry_run.Candidate) -> None:
        """Add the candidate, unless as many as wanted of its sort (violating a budget, or none) are there already."""
        violating = bool(candidate.violations)
        alike = self.violating if violating else len(self.candidates) - self.violating
        if alike < self.wanted:
            self.candidates.append(candidate)
            self.violating += violating


class DefaultPreemption:
    """DefaultPreemption at PostFilter: finds the node where evicting pods of lower priority costs least."""

    name = SPEC.name

    def __init__(self, count: WantedCandidateCount, *, groups: bool = False) -> None:
        """`groups`: pods may be of groups, which are disrupted as their PodGroup says."""
        self._count = count
        self._groups = groups

    async def post_filter(
        self, context: post_filter_context.PostFilterContext, snap: snapshot.Snapshot
    ) -> filter_pb2.PostFilterResponse | post_filter_context.Candidates:
        """Nominate the best node and evict its victims, or say why that would not help; a status always has a text.

        With `list_candidates` it returns the candidates instead; with `candidates` it chooses among these, as extenders
        left them. If the snapshot changes meanwhile, the search begins anew, a few times.
        """
        ineligible = self._reason_not_to_preempt(context, snap)
        if ineligible is not None:
            return _response_with_prefix(ineligible)
        if context.candidates is not None:
            left = candidate_selection.from_messages(context.candidates, snap)
            if left:
                return _nominate_and_evict(context, snap, candidate_selection.select_candidate(left, snap))
            reasons = (status.Reason("noCandidate"),)
            none = status.unschedulable(self.name, "no candidate node for preemption", reasons=reasons)
            return _response_with_prefix(none)
        for _ in range(post_filter_context.MAX_TRIES):
            try:
                found = await self._search_candidates(context, snap)
                break
            except snapshot.OutOfStepError as error:
                moved = str(error)
                # The columns are brought up to date here, where other calls are answered meanwhile.
                context = dataclasses.replace(context, columns=await context.refresh())
        else:
            return _response_with_prefix(status.error(self.name, moved))
        if found.candidates and context.list_candidates:
            return candidate_selection.to_messages(found.candidates, snap)
        if found.candidates:
            return _nominate_and_evict(context, snap, candidate_selection.select_candidate(found.candidates, snap))
        return self._response_without_candidates(found, snap.nodes.count)

    def _response_without_candidates(self, found: _CandidateSearch, nodes: int) -> filter_pb2.PostFilterResponse:
        """Say that no node helps: the errors of dry runs if there were any, else how often each refusal occurred.

        Nodes without a pod of lower priority are counted as "not helpful". The nomination is cleared, except after an
        error.
        """
        if found.errors:
            texts = list(dict.fromkeys(found.errors))
            return _response_with_prefix(
                status.error(self.name, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
            )
        others = nodes - found.refused.total()
        refusals = [*found.refused.items(), (_NOT_HELPFUL, others)] if others else list(found.refused.items())
        text = fit_reasons.reasons_sentence(nodes, refusals)
        refused = status.unschedulable(self.name, text, reasons=_REASONS)
        return _response_with_prefix(refused, clear_nomination=True)

    def _reason_not_to_preempt(
        self, context: post_filter_context.PostFilterContext, snap: snapshot.Snapshot
    ) -> status.Status | None:
        """Return why the pod may not preempt at all; None: it may.

        It may not if its policy is Never, or while victims that were preempted on its nominated node are still
        terminating, unless that node refuses it for good by now.
        """
        pod_class = context.pod_class
        if pod_class.pod.spec.preemption_policy == "Never":
            text, reasons = "not eligible due to preemptionPolicy=Never.", (status.Reason("neverPreempts"),)
            return status.unschedulable(self.name, text, reasons=reasons)
        slot = snap.nodes.slot_of_name.get(context.cycle.pod.status.nominated_node_name)
        if slot is None:
            return None
        refusal = context.status_at(slot)
        if refusal is not None and refusal.code == status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        rows = self._potential_victims(snap, np.array([slot]), pod_class.priority)
        if (snap.pods.flags[rows] & pods.PREEMPTED).any():
            text = "not eligible due to a terminating pod on the nominated node."
            return status.unschedulable(self.name, text, reasons=(status.Reason("victimsTerminating"),))
        return None

    def _potential_victims(self, snap: snapshot.Snapshot, slots: arrays.SlotArray, priority: int) -> arrays.RowArray:
        """Rows of the potential victims on these slots: by slot, the most important first. Shape: (victim,)."""
        if self._groups and not victims_with_groups.has_no_groups(snap):
            return victims_with_groups.rows_on_slots(snap, slots, priority)
        return potential_victims.rows_on_slots(snap, slots, priority=priority)

    async def _search_candidates(
        self, context: post_filter_context.PostFilterContext, snap: snapshot.Snapshot
    ) -> _CandidateSearch:
        """Find candidates by dry runs on nodes where preemption may help, until they are enough.

        The first node depends on the context's seed. Nodes without pods of lower priority are counted as refusals.
        Raises: OutOfStepError.
        """
        found = _CandidateSearch()
        slots = context.slots_where_preemption_may_help(snap.nodes.live_slots())
        if not slots.size:
            return found
        wanted = found.wanted = self._count.for_nodes(slots.size)
        slots = np.roll(slots, -_first_node_to_try(context, slots.size))
        dry_runs = _DryRunsOfPod(context, snap, slots, groups=self._groups)
        found.refused[_NO_VICTIMS] += int(np.count_nonzero(~dry_runs.has_victims))
        slots = slots[dry_runs.has_victims]
        tried = 0
        while slots.size and not found.is_complete:
            # As many as it takes if nodes refuse as often as they did so far: a round costs more than a few nodes more.
            count = max(wanted - len(found.candidates), 1)
            if found.candidates:
                count = count * tried // len(found.candidates) + 1
            for result in await dry_runs.run(slots[:count]):
                _add_dry_run_results(result, context, found)
            slots, tried = slots[count:], tried + count
        found.refused = +found.refused
        return found


class _DryRunsOfPod:
    """The dry runs for one pod: on slots with victims that are evicted with all of their group, and on other slots."""

    def __init__(
        self,
        context: post_filter_context.PostFilterContext,
        snap: snapshot.Snapshot,
        slots: arrays.SlotArray,
        *,
        groups: bool,
    ) -> None:
        priority = context.pod_class.priority
        # The slots with pods that are evicted with all of their group.
        self._group_slots = slots[:0]
        if groups and not victims_with_groups.has_no_groups(snap):
            victims = victims_with_groups.rows_on_slots(snap, slots, priority)
            self._group_slots = _slots_of_whole_groups(snap, victims)
            find_victims: dry_run.FindVictims = functools.partial(potential_victims.restricted_to, snap, victims)
            self.has_victims = np.isin(slots, snap.pods.slot[victims])
        else:
            find_victims = functools.partial(potential_victims.rows_on_slots, snap, priority=priority)
            self.has_victims = potential_victims.has_victims(snap, priority)[slots]
        nominees = nominated_pods.nominees_of_at_least(snap, priority, context.cycle.pod.metadata.uid)
        pending = context.pending
        if pending is not None and pending.slots:
            nominees = pending.added_to(nominees)
        chain = context.chain
        asynchronous = async_dry_runs.async_dry_runs_of_class(chain, context.columns, context.pod_class, snap, nominees)
        excluded = frozenset[str]() if asynchronous is None else asynchronous.names
        of_class = chain, context.columns, context.pod_class, snap, nominees, excluded
        budgets = disruption_budgets.DisruptionBudgets(snap)
        filters = dry_run_filter.DryRunFilter(*of_class)
        self._plain: dry_run_cache.DryRuns = dry_run.DryRun(snap, filters, budgets, find_victims, asynchronous)
        if filters.depends_on_own_slot_only and not (chain.asynchronous or budgets or self._group_slots.size):
            self._plain = _with_class_cache(self._plain, context, snap)
        self._of_groups: dry_run_cache.DryRuns | None = None
        if self._group_slots.size:
            filters = dry_run_filter.DryRunFilter(*of_class, isolated=False)
            self._of_groups = whole_group_dry_run.WholeGroupDryRun(snap, filters, budgets, priority, asynchronous)

    async def run(self, slots: arrays.SlotArray) -> list[dry_run.DryRunResult]:
        """Try these slots, which all have potential victims. Raises: OutOfStepError."""
        if self._of_groups is None:
            return [await self._plain.run(slots)]
        with_groups = np.isin(slots, self._group_slots)
        return [await self._of_groups.run(slots[with_groups]), await self._plain.run(slots[~with_groups])]


def _with_class_cache(
    runs: dry_run_cache.DryRuns, context: post_filter_context.PostFilterContext, snap: snapshot.Snapshot
) -> dry_run_cache.DryRuns:
    """Wrap dry runs so that they reuse the class's results on nodes that have not changed.

    Only for dry runs whose result on a node depends on that node alone.
    """
    pending = context.pending
    if pending is not None:
        pending.independent = True
    results = {} if pending is None else pending.results
    return dry_run_cache.dry_runs_with_cache(
        runs, context.columns, snap, context.chain.synchronous, context.cycle, results
    )


def _slots_of_whole_groups(snap: snapshot.Snapshot, victims: arrays.RowArray) -> arrays.SlotArray:
    """Return the slots with a victim that would be evicted together with all of its group. Shape: (slot,)."""
    whole_group = victims_with_groups.group_membership_of(snap).whole_group[snap.pods.class_index[victims]]
    return np.unique(snap.pods.slot[victims[whole_group > 0]])


def _add_dry_run_results(
    result: dry_run.DryRunResult,
    context: post_filter_context.PostFilterContext,
    found: _CandidateSearch,
) -> None:
    """Add the results of dry runs to the search.

    A candidate without victims is one only for extenders, which may add some: their own resources are short there.
    """
    for candidate in result.candidates:
        if candidate.rows or context.list_candidates:
            found.add(candidate)
        else:
            found.refused[_NO_VICTIMS] += 1
    for number, nodes in Counter(number for _, number in result.refused).items():
        refusal = context.columns.table.statuses[number - 1]
        found.refused[refusal] += nodes
        if refusal.code == status.Code.ERROR:
            found.errors.append(refusal.message)


def _first_node_to_try(context: post_filter_context.PostFilterContext, nodes: int) -> int:
    """Return a random position among `nodes`; the same request (seed, class and pod) gets the same one."""
    cycle = context.cycle
    return random.Random(f"{context.seed} {cycle.pod_class} {cycle.pod.metadata.uid}").randrange(nodes)


def _nominate_and_evict(
    context: post_filter_context.PostFilterContext, snap: snapshot.Snapshot, candidate: dry_run.Candidate
) -> filter_pb2.PostFilterResponse:
    """Nominate the candidate's node and evict its victims, except those that are terminating already."""
    node_name = snap.nodes.names[candidate.slot]
    text = f"found a potential placement for pod on node {node_name}, preempting {len(candidate.rows)} victims"
    response = _response_with_prefix(status.Status(status.Code.SUCCESS, "", (text,)))
    response.nominated_node = node_name
    response.disruption.victims = len(candidate.rows)
    response.disruption.violations = candidate.violations
    preemptor = context.cycle.pod.metadata
    for row in candidate.rows:
        if snap.pods.flags[row] & pods.TERMINATING:
            continue
        action = response.actions.add(pod=candidate_selection.pod_identity(snap, row))
        action.evict.CopyFrom(
            bind_pb2.Evict(
                message=f"{context.cycle.profile}: preempting to accommodate a higher priority pod",
                preemptor=cycle_pb2.PodIdentity(namespace=preemptor.namespace, name=preemptor.name, uid=preemptor.uid),
                node_name=node_name,
            )
        )
    return response


def _response_with_prefix(entry: status.Status, *, clear_nomination: bool = False) -> filter_pb2.PostFilterResponse:
    """Make the response of a failed preemption, the prefix before each of its texts."""
    prefixed = status.Status(
        entry.code,
        entry.plugin,
        tuple(post_filter_context.TEXT_PREFIX + text for text in entry.messages),
        entry.reasons,
    )
    return filter_pb2.PostFilterResponse(status=wire_status.to_message(prefixed), clear_nomination=clear_nomination)


def make(context: plugin_context.PluginContext) -> DefaultPreemption:
    """Make the plugin for PostFilter, by its arguments and the gate GenericWorkload (groups as victims)."""
    percentage = context.args.get("minCandidateNodesPercentage", args.DEFAULT_PERCENTAGE)
    count = WantedCandidateCount(percentage, context.args.get("minCandidateNodesAbsolute", args.DEFAULT_ABSOLUTE))
    return DefaultPreemption(count, groups=context.features.get("GenericWorkload", False))
