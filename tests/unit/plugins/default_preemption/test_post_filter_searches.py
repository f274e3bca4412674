"""Dry runs of preemption beside a plugin whose answers take long to find: others are answered while it searches."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.helpers import phase_calls
from tests.helpers.fake_remote_filter import FakeRemoteFilter
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.evaluation.filtering import filter_chain, filter_evaluator
from trireme.evaluation.preemption import post_filter_context
from trireme.framework import pausing, status
from trireme.plugin_api import interfaces
from trireme.plugins.default_preemption import post_filter
from trireme.plugins.node_resources_fit import args as fit_args
from trireme.plugins.node_resources_fit import filter as node_resources_fit
from trireme.snapshot import arrays, classes, snapshot
from trireme.v1 import cycle_pb2, filter_pb2

PREEMPTOR = 100
PROFILE = phase_calls.PROFILE


class Searching:
    """Prepares its answers, once somebody else was answered meanwhile.

    What it found is good for one question about the cluster as it was then; asked more, it fails.
    """

    name = "Searching"
    depends_on = interfaces.Dependency.NODE
    reads: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.others_answered: Callable[[], bool] = lambda: True
        self.generations: list[int] = []
        self._found: list[int] = []

    async def prepare(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray, remembering: bool = True
    ) -> None:
        def search() -> None:
            while not self.others_answered():
                pausing.pause()

        if slots.size:
            await pausing.run(search)
            self.generations.append(snap.generation)
            self._found = [snap.generation]

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        return interfaces.PreFilterResult(state=self)

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        if slots.size:
            assert self._found == [snap.generation], "it is searched in one go"
            self._found.clear()
        return interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))


class Service(FakeRemoteFilter):
    """A plugin in another process, which refuses PreFilter if it is told to; the cluster moves on while it answers."""

    def __init__(self, refusal: status.Status | None, while_asked: Callable[[], None]) -> None:
        super().__init__("Service", interfaces.Dependency.NODE_PODS)
        self._refusal = refusal
        self._while_asked = while_asked

    def passes(self, snap: snapshot.Snapshot, slot: int) -> bool:
        return True

    async def pre_filter(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> interfaces.PreFilterResult:
        return dataclasses.replace(await super().pre_filter(pod_class, snap), status=self._refusal)

    async def dry_runs(self, *request: Any) -> interfaces.Verdicts:
        runs = request[3]
        self._while_asked()
        return interfaces.Verdicts(np.zeros(len(runs), dtype=np.int16))


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(None, id="no-node-fits"),
        pytest.param(status.unschedulable("Service", "not now"), id="a-service-refused-at-pre-filter"),
    ],
)
async def test_others_are_answered_while_a_dry_run_waits_for_a_search(refusal: status.Status | None) -> None:
    builder = SnapshotBuilder()
    builder.set_node("n0", allocatable={"cpu": "4", "pods": "110"})
    builder.add_class(PREEMPTOR, pod_of({**requesting(cpu="3"), "priority": 100}))
    builder.add_class(1, pod_of({**requesting(cpu="2"), "priority": 10}))
    builder.add_class(2, pod_of({**requesting(cpu="1"), "priority": 20}))
    builder.place(1, "n0")
    # It can stay, and so every plugin is asked twice about the node.
    builder.place(2, "n0")
    searching = Searching()
    moved: list[int] = []
    answered = asyncio.Event()

    def move_on() -> None:
        if not moved:
            builder.set_node("n0", allocatable={"cpu": "4", "pods": "100"})
            moved.append(builder.snap.generation)
            searching.others_answered = answered.is_set
            asyncio.get_running_loop().call_soon(answered.set)

    fit = node_resources_fit.NodeResourcesFitFilter(fit_args.Args())
    remote: Any = Service(refusal, move_on)
    chain = filter_chain.FilterChain((fit, searching, remote))
    evaluator = filter_evaluator.FilterEvaluator(builder.snap, {PROFILE: chain})
    pod_class = builder.snap.classes[PREEMPTOR]
    cycle: cycle_pb2.Cycle = phase_calls.cycle(builder, PREEMPTOR)

    async def preempt() -> filter_pb2.PostFilterResponse:
        kept = await evaluator.evaluate(PROFILE, pod_class)
        pod_context = post_filter_context.PostFilterContext(
            cycle,
            pod_class,
            chain,
            kept,
            lambda: evaluator.evaluate(PROFILE, pod_class),
            kept.table.statuses,
            None if kept.refusal else kept.index[: builder.snap.nodes.size].copy(),
            kept.refusal,
        )
        return await post_filter.DefaultPreemption(post_filter.WantedCandidateCount()).post_filter(
            pod_context, builder.snap
        )

    answer = await asyncio.wait_for(preempt(), 10)
    assert answer.nominated_node == "n0"
    assert moved[0] in searching.generations
    assert answered.is_set()
