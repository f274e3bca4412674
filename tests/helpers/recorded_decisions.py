"""A cluster whose pods are scheduled by the services of filter and score, as the frontend calls them, and recorded.

Also change: tests/helpers/domain_cluster.py (clusters for tests).
"""

import itertools
import pathlib
import random
from typing import Any, cast

import pytest

from tests.helpers import phase_calls
from tests.helpers.frontend_world_services import FakePhase
from tests.helpers.phase_calls import HASH, PROFILE, context
from tests.helpers.recordings import BEGIN, SECOND, encoded, end_frame, header
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.filter import service as filter_service
from trireme.frontend import scheduler_metrics
from trireme.frontend.phase_clients import (
    class_answers,
    decision_log,
    follower_replicas,
    recording_evaluators,
    remote_evaluators,
)
from trireme.recording import full_state, segment_writer
from trireme.registry import remote_makers
from trireme.remote import remote_plugins
from trireme.score import service as score_service
from trireme.v1 import (
    core_pb2,
    cycle_pb2,
    decision_pb2,
    filter_pb2,
    filter_phase_pb2,
    plugin_pb2,
    recording_pb2,
    score_phase_pb2,
    snapshot_pb2,
)
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer

FILTERS = ("TaintToleration", "NodeResourcesFit")
SCORES = (("NodeResourcesFit", 1), ("TaintToleration", 3))
SMALL, LARGE, IMPORTANT = 1, 2, 3
CLASSES = {
    SMALL: pod_of(requesting(cpu="1")),
    LARGE: pod_of(requesting(cpu="3")),
    IMPORTANT: pod_of({**requesting(cpu="4"), "priority": 100}),
}


class _Metrics:
    """Of calls, which nobody reads."""

    def clock(self) -> float:
        return 0.0

    def record_phase_call(self, *_: Any) -> None:
        """Nothing."""


def preempting_configuration() -> snapshot_pb2.Configuration:
    """One profile, which preempts."""
    out = phase_calls.configuration(FILTERS, SCORES)
    at = out.profiles[0].plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_POST_FILTER)
    at.plugins.add(name="DefaultPreemption")
    return out


def add_remote(configuration: snapshot_pb2.Configuration, plugin: snapshot_pb2.RemotePlugin) -> None:
    """Have the profile name the service at all points of filter and score, at PostFilter before preemption."""
    configuration.remote_plugins.append(plugin)
    points = {each.extension_point: each for each in configuration.profiles[0].plugin_sets}
    points[plugin_pb2.EXTENSION_POINT_FILTER].plugins.add(name=plugin.name)
    points[plugin_pb2.EXTENSION_POINT_SCORE].plugins.add(name=plugin.name, weight=2)
    points[plugin_pb2.EXTENSION_POINT_POST_FILTER].plugins.insert(0, snapshot_pb2.WeightedPlugin(name=plugin.name))
    reserve = configuration.profiles[0].plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_RESERVE)
    reserve.plugins.add(name=plugin.name)


class RecordedCluster:
    """Nodes of 4 CPUs, pods of CLASSES, and the frames of what insight would have received; `open` it first."""

    def __init__(self, nodes: int, plugin: snapshot_pb2.RemotePlugin | None = None) -> None:
        """`plugin` is a service at Filter, PostFilter, Reserve and Score; none: all plugins are in-tree."""
        self.configuration = preempting_configuration()
        if plugin is not None:
            add_remote(self.configuration, plugin)
        self.builder = SnapshotBuilder()
        self.builder.snap.store_node_objects(messages=True, json=True)
        self.builder.snap.apply(snapshot_pb2.Delta(reset=True, to_generation=1))
        self.builder.apply = self._apply  # type: ignore[method-assign]
        remote = bool(plugin)
        self.log = decision_log.DecisionLog(lambda: self.builder.snap.generation, lambda profile: remote)
        self.log.wanted = lambda: True
        self.placed: list[int] = []
        self._now = 0.0
        self._numbers = itertools.count()
        self._messages: list[snapshot_pb2.SyncRequest] = []
        for number in range(nodes):
            self.builder.set_node(f"n{number}", allocatable={"cpu": "4", "pods": "9"})
        for number, pod in CLASSES.items():
            self.builder.add_class(number, pod)
        self._state = tuple(full_state.full_sync(self.builder.snap))
        self._messages.clear()
        self.remotes = remote_plugins.RemotePlugins(self.builder.snap, lambda: cycle_pb2.Cycle(config_hash=HASH))
        self._services = (
            filter_service.FilterPhase(
                self.builder.snap,
                remote_makers.no_remote_plugin if plugin is None else self.remotes.make_filter_plugin,
                self.remotes.make_reserve_plugin,
                self.remotes.make_post_filter_plugin,
            ),
            score_service.ScorePhase(
                self.builder.snap, remote_makers.no_remote_plugin if plugin is None else self.remotes.make_score_plugin
            ),
        )
        phases = (FakePhase(self._respond, lambda request: None) for _ in self._services)
        filters, scores = (cast("follower_replicas.FollowerReplicas", each) for each in phases)
        self._recorded = remote_evaluators.RemoteEvaluators(
            filters,
            scores,
            class_answers.ClassAnswers(),
            lambda: cycle_pb2.Fence(epoch=1),
            lambda: HASH,
            self.log.wants_remote_answers,
            metrics=cast("scheduler_metrics.SchedulerMetrics", _Metrics()),
        )
        #: How long each recorded call takes, in seconds.
        self.call_seconds = 0.0
        self.filters_remotely = remote
        self.evaluators = recording_evaluators.RecordingEvaluators(
            self._recorded, self.log, self._clock, lambda profile: self.filters_remotely
        )

    async def open(self) -> "RecordedCluster":
        """Configure the services."""
        for service in self._services:
            await phase_calls.greet(service, self.configuration)
        return self

    async def _respond(self, rpc: str, request: Any) -> Any:
        service = next(each for each in self._services if hasattr(each, rpc))
        return await getattr(service, rpc)(request, context())

    def _clock(self) -> float:
        self._now += self.call_seconds
        return self._now

    def _apply(self, **fields: Any) -> None:
        """The next delta, with the decisions before it, as a link sends it."""
        generation = self.builder.snap.generation
        delta = snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1, **fields)
        self._record(snapshot_pb2.SyncRequest(delta=delta))
        self.builder.snap.apply(delta)

    def _record(self, message: snapshot_pb2.SyncRequest) -> None:
        content = message.SerializeToString() + self.log.take()
        self._messages.append(snapshot_pb2.SyncRequest.FromString(content))

    # Scheduling

    @property
    def generation(self) -> int:
        return self.builder.snap.generation

    async def filter(self, number: int, count: int = 1) -> FilterAnswer:
        return await self.evaluators.filter(PROFILE, number, count, self.generation)

    async def filter_with(self, answer: FilterAnswer, number: int, count: int = 1) -> FilterAnswer:
        """Filter, where this is the answer."""

        async def answer_with(*_: Any) -> FilterAnswer:
            return answer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self._recorded, "filter", answer_with)
            return await self.filter(number, count)

    async def place(self, number: int, count: int, filtered: FilterAnswer) -> PlaceAnswer:
        return await self.evaluators.place(PROFILE, number, count, filtered)

    async def schedule(self, number: int, count: int) -> int:
        """Place pods of the class, or preempt for one; returns how many were placed."""
        filtered = await self.filter(number, count)
        if filtered.is_refused_everywhere(-1):
            await self.evaluators.run_post_filter(PROFILE, number, self.generation, [self.pod()], filtered)
            return 0
        placed = await self.place(number, count, filtered)
        names = self.builder.snap.nodes.names
        self.placed += self.builder.place(number, *(names[slot] for slot in placed.slots))
        return len(placed.slots)

    async def schedule_in_turn(self, *wanted: tuple[int, int]) -> int:
        """Place pods of the classes (number, count) by one call; returns of how many classes some were placed."""
        answers = await self.evaluators.place_in_turn(PROFILE, wanted, self.generation)
        names = list(self.builder.snap.nodes.names)
        for (number, _), (_, placed) in zip(wanted, answers, strict=False):
            self.placed += self.builder.place(number, *(names[slot] for slot in placed.slots))
        return len(answers)

    def pod(self) -> core_pb2.Pod:
        """A pod that is tried, by its names."""
        out, name = core_pb2.Pod(), f"p{next(self._numbers)}"
        out.metadata.namespace, out.metadata.name, out.metadata.uid = "default", name, name
        return out

    async def nominate(self, number: int, node: str) -> None:
        """A pod is nominated for the node, and tried there."""
        pod, slot = self.pod(), self.builder.snap.nodes.slot_of_name[node]
        identity = cycle_pb2.PodIdentity(namespace="default", name=pod.metadata.name, uid=pod.metadata.uid)
        self.builder.apply(nominations=[snapshot_pb2.Nomination(pod=identity, pod_class=number, slot=slot)])
        await self.evaluators.filter_nominated(PROFILE, number, self.generation, [pod], [slot])
        await self.evaluators.filter(PROFILE, number, 1, self.generation, pod)
        self.builder.apply(removed_nominations=[pod.metadata.uid])

    async def schedule_at_random(self, steps: int, seed: int = 1) -> None:
        """Pods come and go."""
        draw = random.Random(seed)
        for _ in range(steps):
            await self.schedule(draw.choice([SMALL, SMALL, LARGE, IMPORTANT]), draw.choice([1, 1, 2, 5]))
            if len(self.placed) > 3 and draw.random() < 0.7:
                gone = [self.placed.pop(draw.randrange(len(self.placed))) for _ in range(draw.randint(1, 3))]
                self.builder.remove(*gone)
            if draw.random() < 0.3:
                await self.schedule_in_turn((SMALL, draw.choice([1, 2])), (LARGE, 1), (IMPORTANT, 1))
            if draw.random() < 0.1:
                await self.nominate(draw.choice(list(CLASSES)), draw.choice(self.builder.snap.nodes.names))

    # The recording

    @property
    def header(self) -> recording_pb2.RecordingHeader:
        hello = snapshot_pb2.Hello(configuration=self.configuration, config_hash=HASH)
        return header(hello=hello)

    def frames(self) -> list[recording_pb2.RecordedFrame]:
        """All that was recorded so far, a second apart."""
        if self.log.waiting:
            self._record(snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta()))
        out = []
        for number, delta in enumerate(self._state):
            last = number == len(self._state) - 1
            part = recording_pb2.STATE_PART_LAST if last else recording_pb2.STATE_PART_MORE
            message = snapshot_pb2.SyncRequest(delta=delta)
            out.append(recording_pb2.RecordedFrame(unix_time_ns=BEGIN, state_part=part, message=message))
        for number, message in enumerate(self._messages, start=1):
            out.append(recording_pb2.RecordedFrame(unix_time_ns=BEGIN + number * SECOND, message=message))
        return out

    def decisions(self) -> list[decision_pb2.Decision]:
        """All that were recorded so far."""
        return [
            decision_pb2.Decision.FromString(content) for each in self.frames() for content in each.message.decisions
        ]

    def content(self) -> bytes:
        """The recording as an exported file."""
        return b"".join(encoded(self.header, [*self.frames(), end_frame()]))


async def with_every_call() -> RecordedCluster:
    """Calls of Reserve, of preemption with extenders, and about a pod group that preempts."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(LARGE, 3)
    evaluators, pod = cluster.evaluators, cluster.pod()
    identity = cycle_pb2.PodIdentity(namespace="default", name=pod.metadata.name, uid=pod.metadata.uid)
    about = PROFILE, IMPORTANT, cluster.generation
    cycle = evaluators.cycle(*about)
    await evaluators.reserve(cycle, [filter_pb2.Placement(pod=identity, node_name="n0", slot=0)])
    filtered = await cluster.filter(IMPORTANT)
    candidates = (await evaluators.list_preemption_candidates(*about, pod, filtered)).candidates
    # The extenders leave the one that would not be chosen.
    chosen = await evaluators.select_preemption_candidate(*about, pod, filtered, candidates)
    left = [each for each in candidates if each.node_name != chosen.answer.nominated_node]
    await evaluators.select_preemption_candidate(*about, pod, filtered, left)
    members = [filter_phase_pb2.PodGroupMember(pod_class=IMPORTANT)]
    listed = await evaluators.list_pod_group_victims(
        filter_phase_pb2.ListPodGroupVictimsRequest(cycle=cycle, priority=100, members=members)
    )
    placed = filter_phase_pb2.PlacedPodGroupMember(pod=identity, pod_class=IMPORTANT, slot=1)
    await evaluators.reprieve_pod_group_victims(
        filter_phase_pb2.ReprievePodGroupVictimsRequest(
            cycle=cycle, pod_group=identity, priority=100, victims=listed.victims, placed=[placed]
        )
    )
    tried = [filter_phase_pb2.TriedPodGroupMember(pod=identity, pod_class=IMPORTANT)]
    await evaluators.list_releasable_claims(
        filter_phase_pb2.ListReleasableClaimsRequest(cycle=cycle, pod_group=identity, tried=tried)
    )
    placements = [score_phase_pb2.CandidatePlacement(slots=[slot], pod_classes=[SMALL]) for slot in (0, 1)]
    await evaluators.score_pod_group_placements(
        score_phase_pb2.ScorePodGroupPlacementsRequest(cycle=cycle, placements=placements)
    )
    return cluster


def with_decision_changed(
    frames: list[recording_pb2.RecordedFrame], number: int, **fields: Any
) -> list[recording_pb2.RecordedFrame]:
    """The frames, where the fields of one decision are others; without fields, it is left out."""
    out = []
    for frame in frames:
        copy = recording_pb2.RecordedFrame.FromString(frame.SerializeToString())
        found = [decision_pb2.Decision.FromString(content) for content in copy.message.decisions]
        for decision in found:
            if decision.number == number:
                decision.MergeFrom(decision_pb2.Decision(**fields))
        if not fields:
            found = [decision for decision in found if decision.number != number]
        copy.message.ClearField("decisions")
        copy.message.decisions.extend(decision.SerializeToString() for decision in found)
        out.append(copy)
    return out


async def record_folder(folder: pathlib.Path) -> None:
    """Record a pod that is placed after one second."""
    cluster = await RecordedCluster(2).open()
    await cluster.schedule(SMALL, 1)
    writer = segment_writer.RecordingWriter(folder, segment_writer.Limits(1 << 24, 1e6))
    state, *messages = cluster.frames()
    writer.begin(cluster.header)
    writer.append(state.SerializeToString(), completes_state=True)
    for frame in messages:
        writer.append(frame.SerializeToString())
    writer.end(BEGIN + 10**9)
    writer.release()
