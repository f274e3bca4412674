"""Filter and score in this process, without gRPC.

An engine on one snapshot, asked as the processes are, and what the scheduler would hear of it.

Each case is a full sync of the same snapshot, so that what was kept of the case before must not show. With
`by_deltas` the snapshot gets something else first, is asked about it, and comes to the case by deltas.
"""

import asyncio
import types
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from tests.conformance.decision_phases import Filtered
from trireme.cache import cluster_cache
from trireme.evaluation import engine, score_engine
from trireme.framework import amounts, status
from trireme.in_process import in_process_evaluators
from trireme.registry import filter_profiles, score_profiles
from trireme.snapshot import arrays, snapshot
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, snapshot_pb2
from trireme.wire import identities

Answer = TypeVar("Answer")


class InProcessPhases:
    """One engine, of one configuration at a time; a context manager."""

    def __init__(self, configuration: snapshot_pb2.Configuration, *, by_deltas: bool = False) -> None:
        self.follows_deltas = by_deltas
        self._configuration = configuration
        self._snap = snapshot.Snapshot()
        self._evaluators = evaluators_of(self._snap, configuration)
        # A Runner would make a handler of signals for each question, which takes longer than most answers.
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> "InProcessPhases":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._loop.close()

    @property
    def _engine(self) -> engine.Engine:
        return self._evaluators.engine

    def next_leader(self, configuration: snapshot_pb2.Configuration | None = None) -> None:
        """From now on another configuration holds, if one is given."""
        if configuration is not None and configuration is not self._configuration:
            self._configuration = configuration
            self._evaluators = evaluators_of(self._snap, configuration)

    def sync_others(self, deltas: Iterable[snapshot_pb2.Delta], generation: int) -> None:
        """The cluster before the case, where that comes by deltas."""
        self._apply(deltas)
        assert self._snap.generation == generation

    def tell_others(self, delta: snapshot_pb2.Delta) -> None:
        """Come nearer to the case, where that comes by deltas."""
        if self.follows_deltas:
            self._apply([delta])

    def sync_first(self, deltas: Iterable[snapshot_pb2.Delta], generation: int) -> None:
        """The cluster of the case, where that does not come by deltas."""
        if not self.follows_deltas:
            self._apply(deltas)
        assert self._snap.generation == generation

    def sync_all(self, deltas: Iterable[snapshot_pb2.Delta], generation: int) -> None:
        """The cluster of the case."""
        self._apply(deltas)
        assert self._snap.generation == generation

    def tell_changes(self, cache: cluster_cache.ClusterCache) -> None:
        """What has changed since this was told last."""
        delta = cache.take_delta()
        if delta is not None:
            self._apply([delta])

    def prepare_others(self, cycle: cycle_pb2.Cycle) -> None:
        """Evaluate the class on the way to the case."""
        self._run(self._engine.filter.prepare(cycle))
        self._run(self._engine.score.prepare(cycle))

    def cycle(self, profile: str, class_id: int, generation: int, pod: core_pb2.Pod | None = None) -> cycle_pb2.Cycle:
        """What each question begins with; `pod` is the one that is asked about, where it matters."""
        return cycle_pb2.Cycle(generation=generation, profile=profile, pod=pod, pod_class=class_id)

    def ask_filter(self, cycle: cycle_pb2.Cycle) -> Filtered:
        """Filter's answer about the class."""
        answer = self._run(self._engine.filter.filter(cycle))
        columns = answer.columns if answer.refusal is None else None
        return Filtered(answer.refusal, answer.narrowed, columns, answer.needs_reserve)

    def ask_scores(
        self, cycle: cycle_pb2.Cycle, slots: arrays.SlotArray
    ) -> Sequence[score_engine.PluginScores] | status.Status:
        """The normalised scores of these slots, or what failed."""
        raw = self._run(self._engine.score.raw_scores(cycle, slots))
        return (
            raw
            if isinstance(raw, status.Status)
            else self._run(self._engine.score.normalized_scores(cycle, slots, raw))
        )

    def ask_place(self, cycle: cycle_pb2.Cycle, filtered: Filtered) -> tuple[int, int]:
        """The slot that the next pod goes to, and its total."""
        assert filtered.columns is not None
        placed = self._run(self._engine.score.place(cycle, 1, filtered.columns, seed=cycle.generation))
        assert placed.failure is None, placed.failure
        again = self._run(self._place(cycle))
        assert again == placed.slots, (again, placed.slots)
        return placed.slots[0], placed.totals[0]

    def ask_reserve(self, cycle: cycle_pb2.Cycle, placement: filter_pb2.Placement) -> filter_pb2.Reservation:
        """What Reserve assumes beside the placement."""
        (reservation,) = self._run(self._engine.filter.reserve(cycle, [placement])).reservations
        return reservation

    def ask_post_filter(self, cycle: cycle_pb2.Cycle, filtered: Filtered) -> filter_pb2.PostFilterResponse:
        """How room can be made for the cycle's pod."""
        preemptors = [identities.preemptor(cycle.pod, cycle.generation)]
        asked = self._engine.filter.run_post_filter(cycle, filtered.refused, filtered.refusal, preemptors)
        response = self._run(asked).results[0].answer
        again = self._run(self._post_filter(cycle))
        assert (again.nominated_node, [*again.actions]) == (response.nominated_node, [*response.actions]), again
        return response

    def ask_releasable_claims(
        self, question: filter_phase_pb2.ListReleasableClaimsRequest
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """Which claims a group may give up."""
        return self._engine.filter.list_releasable_claims(question)

    async def _place(self, cycle: cycle_pb2.Cycle) -> Sequence[int]:
        """Where the scheduler would place the pod, which asks the evaluators."""
        profile, class_id, generation = cycle.profile, cycle.pod_class, cycle.generation
        filtered = await self._evaluators.filter(profile, class_id, 1, generation, cycle.pod)
        return (await self._evaluators.place(profile, class_id, 1, filtered)).slots

    async def _post_filter(self, cycle: cycle_pb2.Cycle) -> filter_pb2.PostFilterResponse:
        """What the scheduler would hear of the pod."""
        profile, class_id, generation = cycle.profile, cycle.pod_class, cycle.generation
        filtered = await self._evaluators.filter(profile, class_id, 1, generation, cycle.pod)
        found = await self._evaluators.run_post_filter(profile, class_id, generation, [cycle.pod], filtered)
        return found.results[0].answer

    def _apply(self, deltas: Iterable[snapshot_pb2.Delta]) -> None:
        for delta in deltas:
            # Its own copy, as if it came by a stream: the cache goes on with its messages.
            self._snap.apply(snapshot_pb2.Delta.FromString(delta.SerializeToString()))

    def _run(self, asked: Coroutine[Any, Any, Answer]) -> Answer:
        return self._loop.run_until_complete(asked)


def evaluators_of(
    snap: snapshot.Snapshot, configuration: snapshot_pb2.Configuration
) -> in_process_evaluators.InProcessEvaluators:
    """Evaluators of the configuration's profiles, which have no remote plugins."""
    snap.amount_rules = amounts.rules_of(configuration.feature_gates)
    filters = filter_profiles.make_profiles(configuration)
    scores = score_profiles.make_profiles(configuration)
    return in_process_evaluators.InProcessEvaluators(engine.Engine(snap, filters, scores))
