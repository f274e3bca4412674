"""Evaluators that let other tasks run before each long call: a cycle of a large group makes many without a pause.

Tests: tests/unit/simulation/test_questions.py.
"""

import asyncio
from collections.abc import Sequence

from trireme.in_process import in_process_evaluators
from trireme.v1 import core_pb2, filter_phase_pb2
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer


class YieldingEvaluators(in_process_evaluators.InProcessEvaluators):
    """As InProcessEvaluators; at every call, so that a simulation's own tasks run in the same order each time."""

    async def filter(
        self,
        profile: str,
        class_id: int,
        count: int,
        generation: int,
        nominee: core_pb2.Pod | None = None,
        preemptors: Sequence[core_pb2.Pod] = (),
    ) -> FilterAnswer:
        """Filter, once other tasks ran."""
        await asyncio.sleep(0)
        return await super().filter(profile, class_id, count, generation, nominee, preemptors)

    async def place(
        self, profile: str, class_id: int, count: int, filtered: FilterAnswer, extra_scores: Sequence[int] = ()
    ) -> PlaceAnswer:
        """Choose slots, once other tasks ran."""
        await asyncio.sleep(0)
        return await super().place(profile, class_id, count, filtered, extra_scores)

    async def place_in_turn(
        self, profile: str, wanted: Sequence[tuple[int, int]], generation: int
    ) -> Sequence[tuple[FilterAnswer, PlaceAnswer]]:
        """Filter and place, once other tasks ran."""
        await asyncio.sleep(0)
        return await super().place_in_turn(profile, wanted, generation)

    async def run_post_filter(
        self, profile: str, class_id: int, generation: int, pods: Sequence[core_pb2.Pod], filtered: FilterAnswer
    ) -> filter_phase_pb2.RunPostFilterResponse:
        """Run PostFilter, once other tasks ran."""
        await asyncio.sleep(0)
        return await super().run_post_filter(profile, class_id, generation, pods, filtered)
