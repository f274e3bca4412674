"""ScoreEngine: answers every request to score, from a snapshot and the plugins of the configured profiles.

It has no server. The caller sees to it that the snapshot is at the generation that the request needs.

Also change: internal/trireme/evaluation/filter_engine.py, internal/trireme/filter/service.py,
internal/trireme/score/service.py,
internal/trireme/in_process/in_process_evaluators.py (filter and score are alike here).

Tests: tests/unit/evaluation/test_score_engine.py, tests/unit/score/test_service.py,
tests/unit/evaluation/test_classes_in_turn.py.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trireme.evaluation import plugin_timer, request_errors
from trireme.evaluation.scoring import (
    class_scores,
    classes_in_turn,
    copy_search,
    group_placements,
    placement,
    placers,
    pods_in_turn,
    ranking,
    sampling,
    score_chain,
    score_column,
    score_evaluator,
)
from trireme.framework import domain_rules, status
from trireme.plugin_api import placements, scorers
from trireme.snapshot import arrays, classes, node_usage, snapshot
from trireme.v1 import cycle_pb2, score_phase_pb2
from trireme.wire import node_columns, phase_answers


@dataclass(frozen=True, slots=True)
class ScoreProfiles:
    """The plugins that score nodes, and those that score placements of groups by name; both by profile."""

    chains: Mapping[str, score_chain.ScoreChain] = field(default_factory=dict)
    placement_scorers: Mapping[str, Mapping[str, placements.PlacementScorePlugin]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PluginScores:
    """One plugin's scores of some nodes; None: it has nothing to say. Shape: (node,), as in the request."""

    plugin: str
    weight: int
    scores: arrays.Int64Array | None


@dataclass(frozen=True, slots=True)
class _PlacedBatch:
    """The slots and choices of a batch, in order, and the columns that it was placed by.

    `is_cut_short`: it ends where a score with copies on the node stays unknown.
    """

    slots: Sequence[int]
    choices: Sequence[placement.ChosenNode]
    is_cut_short: bool
    columns: class_scores.ClassScores


class ScoreEngine:
    """Everything that score computes, without I/O: an operation for each RPC, on one snapshot.

    Each request begins with a cycle, which names profile and class.
    """

    def __init__(self, snap: snapshot.Snapshot, profiles: ScoreProfiles, *, timed: bool = True) -> None:
        """`timed`: answers say how long extension points and plugins took."""
        self._snap = snap
        #: The plugins, by profile.
        self.profiles = profiles
        self.evaluator = score_evaluator.ScoreEvaluator(snap, profiles.chains)
        self._ties = np.zeros(0, dtype=np.int64)
        self._timers = plugin_timer.PluginTimers(timed=timed)

    def columns_of(self, cycle: cycle_pb2.Cycle) -> class_scores.ClassScores:
        """What is cached of the class."""
        return self.evaluator.columns_of(cycle.profile, self._class_of_cycle(cycle))

    async def prepare(self, cycle: cycle_pb2.Cycle) -> status.Status | None:
        """Bring the class's raw scores up to date. The status where a plugin fails."""
        cached = await self.evaluator.evaluate(
            cycle.profile, self._class_of_cycle(cycle), self._timers.timer_of_next_call()
        )
        return cached if isinstance(cached, status.Status) else None

    async def raw_scores(
        self, cycle: cycle_pb2.Cycle, slots: arrays.SlotArray
    ) -> Sequence[PluginScores] | status.Status:
        """Each plugin's scores of these slots, which are all that passed; the status where one fails."""
        pod_class = self._class_of_cycle(cycle)
        cached = await self.evaluator.evaluate(cycle.profile, pod_class)
        if isinstance(cached, status.Status):
            return cached
        self._check_slots_hold_nodes(slots)
        out = []
        for name, weight in self.profiles.chains[cycle.profile].weights.items():
            column = cached.plugins[name]
            skipped = column.silent or getattr(column.state, "skipped", False)
            raw = None if skipped else self._raw_scores_of_plugin(cycle.profile, pod_class, name, column, slots)
            out.append(PluginScores(name, weight, raw))
        return out

    async def normalized_scores(
        self, cycle: cycle_pb2.Cycle, slots: arrays.SlotArray, raw: Sequence[PluginScores]
    ) -> Sequence[PluginScores] | status.Status:
        """These scores of the slots, each plugin's normalised as it normalises; the status where one fails."""
        pod_class = self._class_of_cycle(cycle)
        cached = await self.evaluator.evaluate(cycle.profile, pod_class)
        if isinstance(cached, status.Status):
            return cached
        self._check_slots_hold_nodes(slots)
        out = []
        for each in raw:
            scores = each.scores
            if scores is not None:
                if scores.shape != slots.shape:
                    text = f"columns.scores: {each.plugin} has {scores.size} for {slots.size} nodes"
                    raise request_errors.InvalidRequestError(text)
                answer = await self._normalize_scores_of_plugin(
                    cycle.profile, pod_class, each.plugin, cached.plugins.get(each.plugin), slots, scores
                )
                if isinstance(answer, status.Status):
                    return answer
                scores = answer
            out.append(PluginScores(each.plugin, each.weight, scores))
        return out

    async def totals(self, cycle: cycle_pb2.Cycle) -> tuple[arrays.SlotArray, arrays.Int64Array] | None:
        """The slots that take pods of the class by filter's last answer, and their totals now.

        Shapes: (node,), (node,). None: there are fewer than two such nodes, or a plugin fails.
        """
        pod_class = self._class_of_cycle(cycle)
        known = self.evaluator.columns_of(cycle.profile, pod_class)
        known.refresh_open_slots(self._snap.nodes)
        if known.open_count < 2:
            return None
        cached = await self.evaluator.evaluate(cycle.profile, pod_class)
        if isinstance(cached, status.Status):
            return None
        known.refresh_open_slots(self._snap.nodes)
        slots = self._slots_open_or_admissible(known, ())
        if slots.size < 2:
            return None
        totals = np.zeros(slots.shape[0], dtype=np.int64)
        for name, weight in self.profiles.chains[cycle.profile].weights.items():
            column = cached.plugins[name]
            if column.silent:
                continue
            raw = self._raw_scores_of_plugin(cycle.profile, pod_class, name, column, slots)
            scores = await self._normalize_scores_of_plugin(cycle.profile, pod_class, name, column, slots, raw)
            if isinstance(scores, status.Status):
                return None
            totals += weight * scores
        return slots, totals

    async def place(
        self,
        cycle: cycle_pb2.Cycle,
        count: int,
        capacities: node_columns.NodeColumns,
        constraints: Sequence[domain_rules.DomainConstraint] = (),
        extra_scores: Sequence[int] = (),
        seed: int = 0,
    ) -> phase_answers.PlaceAnswer:
        """The slots of the next pods, in order; fewer than `count` where no more fit.

        `capacities` and `constraints` are filter's answer, which may be a patch to the one before; `extra_scores`, by
        slot, are added to the plugins'. With one node to choose from, nothing is scored. Where a plugin has to be
        called for each pod, one is placed, and `more` says that there is room for others.

        Raises: StaleRequestError for a patch to another answer than was given last.
        """
        pod_class = self._class_of_cycle(cycle)
        known = self.evaluator.columns_of(cycle.profile, pod_class)
        known.store_filter_answer(capacities)
        known.refresh_open_slots(self._snap.nodes)
        if known.open_count < 2:
            return _place_on_at_most_one_node(count, known, bool(constraints))
        timer = self._timers.timer_of_next_call()
        requested, one_by_one = count, self.profiles.chains[cycle.profile].places_one_by_one
        if one_by_one:
            count, constraints = 1, ()
        placed = await self._place_with_scores(
            cycle,
            count,
            pod_class,
            known,
            constraints=constraints,
            extra_scores=extra_scores,
            seed=seed,
            timer=timer,
        )
        if isinstance(placed, status.Status):
            return phase_answers.PlaceAnswer(failure=placed)
        more = placed.is_cut_short or (one_by_one and len(placed.choices) == count < requested)
        return _answer_of_batch(placed, timer, more=more)

    async def place_classes(
        self,
        cycle: cycle_pb2.Cycle,
        wanted: Sequence[classes_in_turn.PodsToPlace],
    ) -> Sequence[phase_answers.PlaceAnswer]:
        """As `place`, of pods of several classes: each class as if the pods of those before were on their nodes.

        It ends after the first class whose pods were not all placed, and before one whose choice depends on more than
        what pods take of their nodes; that may be the first.

        Raises: InvalidRequestError as `place`.
        """
        if not wanted:
            raise request_errors.InvalidRequestError("classes: there is none")
        first = cycle_pb2.Cycle()
        first.CopyFrom(cycle)
        first.pod_class = wanted[0].class_id
        return await self._place_in_turn(first, wanted, node_usage.UsageWithPods(self._snap))

    async def place_after(
        self,
        cycle: cycle_pb2.Cycle,
        wanted: classes_in_turn.PodsToPlace,
        before: Sequence[node_usage.PlacedPod],
    ) -> phase_answers.PlaceAnswer | None:
        """As `place`, as if the pods `before`, of classes with a demand, were on their nodes.

        None: what they change is not only a matter of resources.

        Raises: InvalidRequestError as `place`.
        """
        answers = await self._place_in_turn(cycle, [wanted], node_usage.UsageWithPods(self._snap, before))
        return answers[0] if answers else None

    async def _place_in_turn(
        self, cycle: cycle_pb2.Cycle, wanted: Sequence[classes_in_turn.PodsToPlace], before: node_usage.UsageWithPods
    ) -> Sequence[phase_answers.PlaceAnswer]:
        """As `place_classes`, beside these pods; none where other things than usage matter for the first class."""
        self._class_of_cycle(cycle)
        timer = self._timers.timer_of_next_call()
        chain = self.profiles.chains[cycle.profile]
        collecting = classes_in_turn.ClassesInTurn(
            self._snap, self.evaluator, cycle.profile, chain, timer, before=before.slots.shape[0]
        )
        found = await collecting.collect(wanted)
        if not found:
            return ()
        started = timer.now()
        ties = self._tie_order_of_slots()
        placed = pods_in_turn.PodsInTurn([each.wanted for each in found], before, ties, timer).place()
        timer.record_point("Score", started)
        scored = sum(each.scores is not None for each in found)
        timings = tuple(timer.timing_messages(scored)) if scored else ()
        out = []
        for each, choices in zip(found, placed, strict=True):
            if choices:
                out.append(
                    phase_answers.PlaceAnswer(
                        slots=[choice.slot for choice in choices],
                        totals=[choice.total for choice in choices],
                        timings=() if each.scores is None else timings,
                        evaluated=_evaluated_plugins(chain, each),
                    )
                )
            if len(choices) < each.wanted.count:
                break
        return out

    def _rank(
        self,
        chain: score_chain.ScoreChain,
        pod_class: classes.PodClass,
        known: class_scores.ClassScores,
    ) -> tuple[ranking.Ranking, placers.PlacerFactory]:
        """The class's ranking, up to date, and what makes placers by it."""
        ties = self._tie_order_of_slots()
        ranked = known.refresh_ranking(*placers.ranked_plugins(chain, known), ties)
        return ranked, placers.PlacerFactory(self._snap, chain, pod_class, known, ranked, ties)

    async def _place_with_scores(
        self,
        cycle: cycle_pb2.Cycle,
        count: int,
        pod_class: classes.PodClass,
        known: class_scores.ClassScores,
        *,
        constraints: Sequence[domain_rules.DomainConstraint],
        extra_scores: Sequence[int],
        seed: int,
        timer: plugin_timer.PluginTimer,
    ) -> _PlacedBatch | status.Status:
        """Bring the class's scores up to date and place by them; the status where a plugin fails.

        Where a score with copies on the node turns out to be needed that nobody has found out, it is found out, and all
        is placed again. `known` are the class's columns with filter's answer. Where they are dropped meanwhile, as the
        class is gone or plugins may answer otherwise, the plugins are called anew and nothing is decided by the old.

        Raises: OutOfStepError where the snapshot was replaced meanwhile.
        """
        search = copy_search.CopySearch(self.evaluator, cycle.profile, pod_class, count)
        while True:
            evaluated = await self.evaluator.evaluate(cycle.profile, pod_class, timer)
            if isinstance(evaluated, status.Status):
                return evaluated
            if evaluated is not known:
                evaluated.take_over(known)
                known = evaluated
            started = timer.now()
            known.refresh_open_slots(self._snap.nodes)
            made = await self._make_placer(
                cycle, count, pod_class, known, constraints=constraints, extra_scores=extra_scores, seed=seed
            )
            if isinstance(made, status.Status):
                return made
            placer, slots = made
            choices = placer.place(count)
            timer.record_point("Score", started)
            chosen = [int(slots[choice.node_number]) for choice in choices]
            if placer.unknown is None or not await search.find(known, placer, slots, len(choices)):
                copy_search.remember(known, chosen)
                return _PlacedBatch(chosen, choices, placer.unknown is not None, known)

    async def score_pod_group_placements(
        self, request: score_phase_pb2.ScorePodGroupPlacementsRequest
    ) -> Sequence[int] | status.Status:
        """How good each placement of a group is; the status where a plugin fails."""
        self._class_of_cycle(request.cycle)
        return group_placements.placement_totals(
            request, self._snap, self.profiles.placement_scorers[request.cycle.profile]
        )

    async def _make_placer(
        self,
        cycle: cycle_pb2.Cycle,
        count: int,
        pod_class: classes.PodClass,
        known: class_scores.ClassScores,
        *,
        constraints: Sequence[domain_rules.DomainConstraint],
        extra_scores: Sequence[int],
        seed: int,
    ) -> tuple[placers.AnyPlacer, arrays.SlotArray] | status.Status:
        """Make what places so many pods, with the slots of the nodes that it numbers; the status where a plugin fails.

        If a placement changes only its own node's score, the best nodes of the cached ranking do. Otherwise all open
        nodes are compared (a sample if the profile scores a percentage).
        """
        chain = self.profiles.chains[cycle.profile]
        ranked, factory = self._rank(chain, pod_class, known)
        if not extra_scores and factory.affects_own_node_only(constraints) and ranked.keeps_maxima(count):
            slots = ranked.best_open_slots(count)
            return factory.make_for_best_nodes(slots), slots
        slots = self._slots_open_or_admissible(known, constraints)
        if chain.percentage:
            slots = sampling.sample_slots(slots, self._snap.nodes.count, chain.percentage, seed)
        custom = await self._custom_normalized_scores(chain, pod_class, known, slots)
        if isinstance(custom, status.Status):
            return custom
        extra = np.zeros(self._snap.nodes.size if extra_scores else 0, dtype=np.int64)
        given = np.array(extra_scores, dtype=np.int64)[: extra.shape[0]]
        extra[: given.shape[0]] = given
        return factory.make_for_all_nodes(slots, constraints, extra, custom, count), slots

    async def _custom_normalized_scores(
        self,
        chain: score_chain.ScoreChain,
        pod_class: classes.PodClass,
        known: class_scores.ClassScores,
        slots: arrays.SlotArray,
    ) -> Mapping[str, arrays.Int64Array] | status.Status:
        """The scores of these slots by plugins that normalise by themselves, by name; the status where one fails.

        Raises: OutOfStepError where the snapshot was replaced meanwhile.
        """
        out = {}
        incarnation = self._snap.incarnation
        for name, plugin in chain.asynchronous.items():
            column = known.plugins[name]
            if plugin.normalization == scorers.Normalization.CUSTOM and not column.silent:
                scores = await plugin.normalize(pod_class, self._snap, column.state, slots, column.raw[slots])
                self._snap.check_incarnation(incarnation)
                if isinstance(scores, status.Status):
                    return scores
                out[name] = scores
        return out

    def _slots_open_or_admissible(
        self, known: class_scores.ClassScores, constraints: Sequence[domain_rules.DomainConstraint]
    ) -> arrays.SlotArray:
        """The slots that take pods of the class, or will when a domain constraint admits them. Shape: (slot,)."""
        takes = self._slots_with_own_capacity(known) if constraints else known.open
        takes = takes[: min((each.domain.shape[0] for each in constraints), default=None)]
        return np.arange(takes.shape[0]) if takes.all() else np.flatnonzero(takes)

    def _slots_with_own_capacity(self, known: class_scores.ClassScores) -> arrays.BoolArray:
        """Mark the slots whose nodes take pods of the class by themselves, domain constraints apart. Shape: (slot,)."""
        # Filter may be ahead of this replica, or behind it: what is no node here cannot be chosen here.
        size = min(self._snap.nodes.size, known.capacity.shape[0])
        takes: arrays.BoolArray = known.capacity[:size] > 0
        takes &= self._snap.nodes.alive[:size]
        return takes

    async def _normalize_scores_of_plugin(
        self,
        profile: str,
        pod_class: classes.PodClass,
        name: str,
        column: score_column.ScoreColumn | None,
        slots: arrays.SlotArray,
        raw: arrays.Int64Array,
    ) -> arrays.Int64Array | status.Status:
        """Normalise one plugin's raw scores of these slots as the plugin does; an error status if the profile lacks it.

        `column` is the plugin's of the class; None: the profile lacks the plugin. Slots may repeat; plugins that score
        all nodes together see each once.
        """
        chain = self.profiles.chains[profile]
        if column is None:
            return status.error(name, f"no score plugin {name} in profile {profile}")
        if name in chain.joint:
            each, first, place = np.unique(slots, return_index=True, return_inverse=True)
            return self._joint_scores(chain.joint[name], pod_class, column, each).normalized_scores(raw[first])[place]
        prepared = chain.asynchronous.get(name)
        if prepared is None:
            return placement.normalize_scores(raw, chain.plain[name].normalization)
        if prepared.normalization != scorers.Normalization.CUSTOM:
            return placement.normalize_scores(raw, prepared.normalization)
        return await prepared.normalize(pod_class, self._snap, column.state, slots, raw)

    def _raw_scores_of_plugin(
        self,
        profile: str,
        pod_class: classes.PodClass,
        name: str,
        column: score_column.ScoreColumn,
        slots: arrays.SlotArray,
    ) -> arrays.Int64Array:
        """One plugin's raw scores of these slots, which are all that passed. Shape: as `slots`."""
        joint = self.profiles.chains[profile].joint.get(name)
        if joint is not None:
            each, place = np.unique(slots, return_inverse=True)
            return self._joint_scores(joint, pod_class, column, each).raw_scores()[place]
        raw: arrays.Int64Array = column.raw[slots]
        return raw

    def _joint_scores(
        self,
        plugin: scorers.JointScorePlugin,
        pod_class: classes.PodClass,
        column: score_column.ScoreColumn,
        slots: arrays.SlotArray,
    ) -> scorers.JointScores:
        """The scores that one joint plugin gives these slots together, all of them feasible."""
        scores = plugin.joint(pod_class, self._snap, column.state, slots)
        scores.set_feasible(np.ones(slots.shape[0], dtype=np.bool_))
        return scores

    def _tie_order_of_slots(self) -> arrays.Int64Array:
        """The places of slots among equal scores, for as many as the snapshot has, or more. Shape: (slot,)."""
        if self._ties.shape[0] < self._snap.nodes.size:
            self._ties = _tie_order(self._snap.nodes.capacity)
        return self._ties

    def _check_slots_hold_nodes(self, slots: arrays.SlotArray) -> None:
        """Raises: InvalidRequestError if one of the slots has no node."""
        if (slots >= self._snap.nodes.size).any() or not self._snap.nodes.alive[slots].all():
            raise request_errors.InvalidRequestError("nodes.slots: there is no node at some of them")

    def _class_of_cycle(self, cycle: cycle_pb2.Cycle) -> classes.PodClass:
        """The class that the cycle names. Raises: InvalidRequestError."""
        return request_errors.class_of(cycle, self.profiles.chains, self._snap)


def _answer_of_batch(placed: _PlacedBatch, timer: plugin_timer.PluginTimer, *, more: bool) -> phase_answers.PlaceAnswer:
    """The answer; `more`: there is room for others."""
    return phase_answers.PlaceAnswer(
        slots=placed.slots,
        totals=[choice.total for choice in placed.choices],
        more=more,
        timings=tuple(timer.timing_messages()),
        evaluated=[name for name, column in placed.columns.plugins.items() if not column.silent],
    )


def _evaluated_plugins(chain: score_chain.ScoreChain, placed: classes_in_turn.ClassInTurn) -> Sequence[str]:
    """The plugins that have something to say about the class: by usage not those of its family."""
    if placed.scores is None:
        return ()
    by_usage = {each.plugin.name for each in placed.wanted.scorers}
    return [
        name
        for name, column in placed.scores.plugins.items()
        if (name in by_usage if name in chain.by_usage else not column.silent)
    ]


def _place_on_at_most_one_node(
    count: int, known: class_scores.ClassScores, constrained: bool
) -> phase_answers.PlaceAnswer:
    """Place all on the only open node, or nowhere: nothing is scored, so no plugin can fail by it either.

    `constrained`: other nodes may be admitted after one placement, or this one no more, so one pod is placed at a time.
    """
    requested = count
    if constrained:
        count = 1
    slots = np.flatnonzero(known.open).tolist() if known.open_count else []
    hosts = [slot for slot in slots for _ in range(min(count, int(known.capacity[slot])))]
    return phase_answers.PlaceAnswer(slots=hosts, totals=[0] * len(hosts), more=bool(hosts) and count < requested)


@functools.lru_cache(maxsize=2)
def _tie_order(capacity: int) -> arrays.Int64Array:
    """The places of the first slots among equal scores: the same for all engines, as on forks of a snapshot.

    Shape: (slot,), read-only.
    """
    out = placement.tie_order(np.arange(capacity))
    out.flags.writeable = False
    return out
