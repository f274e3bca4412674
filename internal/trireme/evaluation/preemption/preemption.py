"""DefaultPreemption: a node where the pod fits once less important pods are gone, the best of several.

It answers what is to be done and does nothing: bind deletes the victims, the frontend nominates the pod. Which nodes
are tried first is random, but the same for the same question, so that every replica gives the same answer.

Source: pkg/scheduler/framework/plugins/defaultpreemption, pkg/scheduler/framework/preemption.
"""

import dataclasses
import functools
import operator
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trireme.evaluation import class_priorities
from trireme.evaluation.filtering import columns, dry_run_filter, filter_chain, nominated_pods
from trireme.evaluation.preemption import (
    dry_run_memory,
    dry_run_services,
    group_dry_run,
    group_victims,
    preemption_budgets,
    preemption_victims,
)
from trireme.framework import fit_reasons, status
from trireme.snapshot import arrays, classes, pods, snapshot
from trireme.v1 import bind_pb2, cycle_pb2, filter_pb2, filter_phase_pb2
from trireme.wire import status as wire_status

NAME = "DefaultPreemption"

_NOT_HELPFUL = status.unresolvable("", "Preemption is not helpful for scheduling")
_NO_VICTIMS = status.unresolvable("", "No preemption victims found for incoming pod")
# How often the dry runs begin anew because the cluster changed while services were asked.
TRIES = 5
_PREFIX = "preemption: "
# Added to priorities before they are summed up, so that more victims never sum up to less.
_PRIORITY_SHIFT = 2**31

# Brings the columns of the class that is asked about up to date.
Refresh = Callable[[], Awaitable[columns.ClassColumns]]

# The nodes to choose from, at least one.
Candidates = tuple[filter_phase_pb2.PreemptionCandidate, ...]


@dataclass(frozen=True, slots=True)
class Args:
    """DefaultPreemptionArgs: how many candidates are enough to choose from."""

    min_percentage: int = 10
    min_absolute: int = 100

    def enough(self, nodes: int) -> int:
        """The number of candidates to look for among so many nodes."""
        return min(max(nodes * self.min_percentage // 100, self.min_absolute), nodes)


@dataclass(slots=True)
class Before:
    """What was decided in the same call for pods of the class, and is not in the snapshot yet."""

    class_id: int
    # The slots that they were nominated to, in order.
    slots: list[int] = field(default_factory=list)
    # Of these slots what dry runs found since, None: nothing yet. What is known of them from before does not hold.
    outcomes: dict[int, dry_run_memory.Found | None] = field(default_factory=dict)
    # A nomination changes nothing for the next pod of the class but on its own node.
    holds: bool = False

    def take(self, slot: int) -> None:
        """One more pod is nominated to the slot."""
        self.slots.append(slot)
        self.outcomes[slot] = None

    def beside(self, nominees: nominated_pods.Nominees) -> nominated_pods.Nominees:
        """These nominees, and those of this call."""
        own = np.array(self.slots, dtype=np.int32)
        return nominated_pods.Nominees(
            np.concatenate([nominees.class_ids, np.full(own.shape, self.class_id, dtype=np.int32)]),
            np.concatenate([nominees.slots, own]),
        )


@dataclass(frozen=True, slots=True)
class Question:
    """A pod that fits nowhere. `cycle.pod` is its name, UID and nomination; `refusals` and `index` say why, by slot
    (None: PreFilter refused it on all nodes, by `pre_filter`). `refresh` answers `kept`, as the cluster is by then.
    Shape: index (slot,).
    """

    cycle: cycle_pb2.Cycle
    pod_class: classes.PodClass
    chain: filter_chain.FilterChain
    kept: columns.ClassColumns
    refresh: Refresh
    refusals: tuple[status.Status, ...]
    index: arrays.Int16Array | None
    pre_filter: status.Status | None
    # Answer the candidates; or: choose among these. Extenders have a say in them.
    offer: bool = False
    chosen: Sequence[filter_phase_pb2.PreemptionCandidate] | None = None
    # Where several pods of the class are asked about in one call.
    before: Before | None = None
    # What the order depends on in which nodes are tried.
    seed: int = 0

    def status_at(self, slot: int) -> status.Status | None:
        """Why the node at the slot refuses; None: it does not, or is not there."""
        if self.index is None:
            return self.pre_filter
        number = int(self.index[slot]) if slot < self.index.shape[0] else 0
        return self.refusals[number - 1] if number else None

    def resolvable(self, live: arrays.SlotArray) -> arrays.SlotArray:
        """The slots that refuse in a way that evicting pods may change. Shape: (n,)."""
        if self.index is None:
            refused = self.pre_filter is not None and self.pre_filter.code == status.Code.UNSCHEDULABLE
            return live if refused else live[:0]
        codes = np.array([0, *(refusal.code for refusal in self.refusals)])
        known = live[live < self.index.shape[0]]
        return known[codes[self.index[known]] == status.Code.UNSCHEDULABLE]


@dataclass(slots=True)
class _Found:
    """What the dry runs found: candidates, and how many nodes were refused with which status. Of candidates that break
    a budget, and of those that break none, as many as wanted are kept, the first ones.
    """

    wanted: int = 0
    candidates: list[preemption_victims.Candidate] = field(default_factory=list)
    breaking: int = 0
    refused: Counter[status.Status] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def enough(self) -> bool:
        """Whether there are as many candidates as wanted, and one that breaks no budget."""
        return len(self.candidates) >= self.wanted and len(self.candidates) > self.breaking

    def keep(self, candidate: preemption_victims.Candidate) -> None:
        """Keep the candidate, unless there are as many like it as wanted."""
        breaking = bool(candidate.violations)
        alike = self.breaking if breaking else len(self.candidates) - self.breaking
        if alike < self.wanted:
            self.candidates.append(candidate)
            self.breaking += breaking


class DefaultPreemption:
    """The in-tree PostFilter plugin."""

    name = NAME

    def __init__(self, args: Args, *, groups: bool = False) -> None:
        """`groups`: pods may be of groups, which are disrupted as their PodGroup says."""
        self._args = args
        self._groups = groups

    async def post_filter(
        self, question: Question, snap: snapshot.Snapshot
    ) -> filter_pb2.PostFilterResponse | Candidates:
        """Evict the victims on the best node, or say why that would not help. A status of any kind has a text."""
        ineligible = self._ineligible(question, snap)
        if ineligible:
            return _answer(status.unschedulable(NAME, ineligible))
        if question.chosen is not None:
            left = _taken_back(question.chosen, snap)
            if left:
                return _preempt(question, snap, _best(left, snap))
            return _answer(status.unschedulable(NAME, "no candidate node for preemption"))
        for _ in range(TRIES):
            try:
                found = await self._find(question, snap)
                break
            except snapshot.OutOfStepError as error:
                moved = str(error)
                # What takes long to find is found here, where others are answered meanwhile.
                question = dataclasses.replace(question, kept=await question.refresh())
        else:
            return _answer(status.error(NAME, moved))
        if found.candidates and question.offer:
            return _offered(found.candidates, snap)
        if found.candidates:
            return _preempt(question, snap, _best(found.candidates, snap))
        if found.faults:
            texts = list(dict.fromkeys(found.faults))
            return _answer(status.error(NAME, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"))
        others = snap.nodes.count - found.refused.total()
        refusals = [*found.refused.items(), (_NOT_HELPFUL, others)] if others else list(found.refused.items())
        text = fit_reasons.sentence(snap.nodes.count, refusals)
        return _answer(status.unschedulable(NAME, text), clear_nomination=True)

    def _ineligible(self, question: Question, snap: snapshot.Snapshot) -> str:
        """Why the pod may not preempt at all; empty: it may."""
        pod_class = question.pod_class
        if pod_class.pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        slot = snap.nodes.slots.get(question.cycle.pod.status.nominated_node_name)
        if slot is None:
            return ""
        refusal = question.status_at(slot)
        if refusal is not None and refusal.code == status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        rows = self._victims(snap, np.array([slot]), pod_class.priority)
        if (snap.pods.flags[rows] & pods.PREEMPTED).any():
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _victims(self, snap: snapshot.Snapshot, slots: arrays.SlotArray, priority: int) -> arrays.SlotArray:
        """Rows of the pods that may go from these slots: by slot, the most important first. Shape: (victim,)."""
        if self._groups and not group_victims.none(snap):
            return group_victims.on_slots(snap, slots, priority)
        return preemption_victims.potential_victims(snap, slots, priority=priority)

    def _disrupted_as_one(self, snap: snapshot.Snapshot, victims: arrays.SlotArray) -> arrays.SlotArray:
        """The slots of those of the victims that go with others. Shape: (slot,)."""
        return np.unique(
            snap.pods.slot[victims[group_victims.membership(snap).whole[snap.pods.pod_class[victims]] > 0]]
        )

    async def _find(self, question: Question, snap: snapshot.Snapshot) -> _Found:
        found = _Found()
        potential = question.resolvable(snap.nodes.live_slots())
        if not potential.size:
            return found
        wanted = found.wanted = self._args.enough(potential.size)
        potential = np.roll(potential, -_offset(question, potential.size))
        priority = question.pod_class.priority
        together = potential[:0]
        if self._groups and not group_victims.none(snap):
            victims = group_victims.on_slots(snap, potential, priority)
            together = self._disrupted_as_one(snap, victims)
            victims_on: preemption_victims.VictimsOn = functools.partial(preemption_victims.of_slots, snap, victims)
            has_victims = np.isin(potential, snap.pods.slot[victims])
        else:
            victims_on = functools.partial(preemption_victims.potential_victims, snap, priority=priority)
            has_victims = preemption_victims.with_victims(snap, priority)[potential]
        found.refused[_NO_VICTIMS] += int(np.count_nonzero(~has_victims))
        potential = potential[has_victims]
        nominees = nominated_pods.nominees(snap, priority, question.cycle.pod.metadata.uid)
        before = question.before
        if before is not None and before.slots:
            nominees = before.beside(nominees)
        services = dry_run_services.of(question.chain, question.kept, question.pod_class, snap, nominees)
        asked = frozenset() if services is None else services.names
        of_class = question.chain, question.kept, question.pod_class, snap, nominees, asked
        budgets = preemption_budgets.Budgets(snap)
        dry_run = dry_run_filter.DryRunFilter(*of_class)
        run: dry_run_memory.Runs = preemption_victims.DryRun(snap, dry_run, budgets, victims_on, services)
        if dry_run.by_slot and not (question.chain.asynchronous or budgets.any or together.size):
            decided = {} if before is None else before.outcomes
            run = dry_run_memory.remembering(
                question.kept, run, snap, question.chain.synchronous, question.cycle, decided
            )
            if before is not None:
                before.holds = True
        if together.size:
            everywhere = dry_run_filter.DryRunFilter(*of_class, isolated=False)
            of_groups = group_dry_run.GroupDryRun(snap, everywhere, budgets, priority, services)
        tried = 0
        while potential.size and not found.enough:
            # As many as it takes if nodes refuse as often as they did so far: a round costs more than a few nodes more.
            count = max(wanted - len(found.candidates), 1)
            if found.candidates:
                count = count * tried // len(found.candidates) + 1
            chosen = potential[:count]
            if together.size:
                self._take(await of_groups.run(chosen[np.isin(chosen, together)]), question, snap, found)
                chosen = chosen[~np.isin(chosen, together)]
            self._take(await run.run(chosen), question, snap, found)
            potential, tried = potential[count:], tried + count
        found.refused = +found.refused
        return found

    def _take(
        self, outcome: preemption_victims.Outcome, question: Question, snap: snapshot.Snapshot, found: _Found
    ) -> None:
        for candidate in outcome.candidates:
            if candidate.rows:
                found.keep(candidate)
            else:
                name = snap.nodes.names[candidate.slot]
                found.faults.append(f'expected at least one victim pod on node "{name}"')
        for number, nodes in Counter(number for _, number in outcome.refused).items():
            refusal = question.kept.table.statuses[number - 1]
            found.refused[refusal] += nodes
            if refusal.code == status.Code.ERROR:
                found.faults.append(refusal.message)


def _offset(question: Question, nodes: int) -> int:
    cycle = question.cycle
    return random.Random(f"{question.seed} {cycle.pod_class} {cycle.pod.metadata.uid}").randrange(nodes)


def _best(candidates: list[preemption_victims.Candidate], snap: snapshot.Snapshot) -> preemption_victims.Candidate:
    """The candidate that hurts least; the first of several that hurt alike."""
    new = [candidate for candidate in candidates if not candidate.harm]
    if new:
        _weigh(new, snap)
    return min(candidates, key=operator.attrgetter("harm"))


def _weigh(candidates: list[preemption_victims.Candidate], snap: snapshot.Snapshot) -> None:
    """Say of each candidate how much it hurts. Of the numbers the first one counts most."""
    counts = np.array([len(candidate.rows) for candidate in candidates])
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rows = np.fromiter((row for candidate in candidates for row in candidate.rows), dtype=np.intp)
    priority = class_priorities.of(snap)[snap.pods.pod_class[rows]]
    start = snap.pods.start[rows]
    start = np.where(start == 0, preemption_victims.NOT_STARTED, start)
    important = priority == np.repeat(np.maximum.reduceat(priority, first), counts)
    earliest = np.minimum.reduceat(np.where(important, start, preemption_victims.NOT_STARTED), first)
    total = np.add.reduceat(priority + _PRIORITY_SHIFT, first)
    columns_of = (priority[first].tolist(), total.tolist(), counts.tolist(), (-earliest).tolist())
    for candidate, *harm in zip(candidates, *columns_of, strict=True):
        candidate.harm = (candidate.violations, *harm)


def _offered(candidates: list[preemption_victims.Candidate], snap: snapshot.Snapshot) -> Candidates:
    """The candidates by name, for extenders to have a say."""
    return tuple(
        filter_phase_pb2.PreemptionCandidate(
            node_name=snap.nodes.names[candidate.slot],
            victims=[_identity(snap, row) for row in candidate.rows],
            violations=candidate.violations,
        )
        for candidate in candidates
    )


def _taken_back(
    chosen: Sequence[filter_phase_pb2.PreemptionCandidate], snap: snapshot.Snapshot
) -> list[preemption_victims.Candidate]:
    """The candidates that are left, without those whose node or victims have gone meanwhile. A victim is on the node,
    or goes with one that is.
    """
    slots = {each.node_name: snap.nodes.slots.get(each.node_name, pods.NO_SLOT) for each in chosen}
    named = [slot for slot in slots.values() if slot != pods.NO_SLOT]
    placed = snap.pods.slot[: snap.pods.size]
    whole = group_victims.membership(snap).whole[snap.pods.pod_class[: snap.pods.size]]
    candidates = np.flatnonzero(np.isin(placed, named) | ((placed != pods.NO_SLOT) & (whole > 0))).tolist()
    row_of = {snap.pods.uids[row]: row for row in candidates}
    out = []
    for each in chosen:
        slot = slots[each.node_name]
        rows = [row_of[victim.uid] for victim in each.victims if victim.uid in row_of]
        rows = [row for row in rows if placed[row] == slot or whole[row]]
        if rows and len(rows) == len(each.victims):
            out.append(preemption_victims.Candidate(slot, tuple(rows), each.violations))
    return out


def _identity(snap: snapshot.Snapshot, row: int) -> cycle_pb2.PodIdentity:
    namespace = snap.classes[int(snap.pods.pod_class[row])].namespace
    return cycle_pb2.PodIdentity(namespace=namespace, name=snap.pods.names[row], uid=snap.pods.uids[row])


def _preempt(
    question: Question, snap: snapshot.Snapshot, chosen: preemption_victims.Candidate
) -> filter_pb2.PostFilterResponse:
    node_name = snap.nodes.names[chosen.slot]
    text = f"found a potential placement for pod on node {node_name}, preempting {len(chosen.rows)} victims"
    answer = _answer(status.Status(status.Code.SUCCESS, "", (text,)))
    answer.nominated_node = node_name
    answer.disruption.victims = len(chosen.rows)
    answer.disruption.violations = chosen.violations
    preemptor = question.cycle.pod.metadata
    for row in chosen.rows:
        if snap.pods.flags[row] & pods.TERMINATING:
            # It is going already.
            continue
        action = answer.actions.add(pod=_identity(snap, row))
        action.evict.CopyFrom(
            bind_pb2.Evict(
                message=f"{question.cycle.profile}: preempting to accommodate a higher priority pod",
                preemptor=cycle_pb2.PodIdentity(namespace=preemptor.namespace, name=preemptor.name, uid=preemptor.uid),
                node_name=node_name,
            )
        )
    return answer


def _answer(said: status.Status, *, clear_nomination: bool = False) -> filter_pb2.PostFilterResponse:
    prefixed = status.Status(said.code, said.plugin, tuple(_PREFIX + text for text in said.messages))
    return filter_pb2.PostFilterResponse(status=wire_status.to_message(prefixed), clear_nomination=clear_nomination)
