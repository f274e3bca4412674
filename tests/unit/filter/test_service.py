"""FilterPhase: complete answers and patches, what a remote plugin changes, and what is refused."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest

from tests.helpers import phase_calls
from tests.helpers.fake_remote_filter import FakeRemoteFilter
from tests.helpers.phase_calls import Aborted, context
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.filter import service
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, snapshot
from trireme.v1 import cycle_pb2, filter_phase_pb2, snapshot_pb2, status_pb2
from trireme.wire import node_columns

NODES = [f"n{number}" for number in range(8)]


class Remote(FakeRemoteFilter):
    """A remote plugin that refuses the nodes that it is told to refuse."""

    def __init__(self, name: str) -> None:
        super().__init__(name, interfaces.Dependency.CLUSTER)
        self.refused: set[str] = set()
        self.while_asked: Callable[[], None] = lambda: None
        self.fails = False

    def passes(self, snap: snapshot.Snapshot, slot: int) -> bool:
        return snap.nodes.names[slot] not in self.refused

    async def answering(self) -> status.Status | None:
        await asyncio.sleep(0)
        self.while_asked()
        return status.error(self.name, "broken") if self.fails else None


class Caller:
    """A frontend that keeps a replica's answer about one class, and patches it."""

    def __init__(self, phase: service.FilterPhase, builder: SnapshotBuilder, number: int) -> None:
        self._phase = phase
        self._builder = builder
        self._number = number
        self.generation = 0
        self.patched = 0
        self._index: arrays.Int16Array = np.zeros(0, dtype=np.int16)
        self._capacity: arrays.Int32Array = np.zeros(0, dtype=np.int32)
        self._statuses: tuple[status.Status, ...] = ()

    async def ask(self) -> dict[str, tuple[str, int]]:
        """The message of the refusal and the capacity, by node."""
        request = filter_phase_pb2.FilterPhaseFilterRequest(
            cycle=phase_calls.cycle(self._builder, self._number), base_generation=self.generation
        )
        response = await self._phase.Filter(request, context())
        columns = node_columns.from_message(response.columns)
        self._statuses = columns.statuses
        if columns.slots is None:
            self._index, self._capacity = columns.index, columns.capacity
        else:
            assert columns.base_generation == self.generation
            self.patched += 1
            self._index = _grown(self._index, columns.size)
            self._capacity = _grown(self._capacity, columns.size)
            self._index[columns.slots] = columns.index
            self._capacity[columns.slots] = columns.capacity
        self.generation = columns.generation
        names = self._builder.snap.nodes.slot_of_name
        return {name: (self._text(int(self._index[slot])), int(self._capacity[slot])) for name, slot in names.items()}

    def _text(self, index: int) -> str:
        return self._statuses[index - 1].message if index else ""


def _grown(column: Any, size: int) -> Any:
    return arrays.grow_last_axis(column, size) if column.shape[0] < size else column


async def _phase(builder: SnapshotBuilder, *remotes: Remote) -> service.FilterPhase:
    by_name = {remote.name: remote for remote in remotes}

    def make(config: snapshot_pb2.RemotePlugin, profile: str) -> interfaces.AsyncFilter:
        return by_name[config.name]

    phase = service.FilterPhase(builder.snap, make)
    message = phase_calls.configuration(["TaintToleration", "NodeResourcesFit", *by_name], [], by_name)
    await phase_calls.greet(phase, message)
    return phase


def _cluster() -> SnapshotBuilder:
    builder = SnapshotBuilder()
    for name in NODES:
        builder.set_node(name, allocatable={"cpu": "2", "pods": "9"})
    builder.add_class(1, pod_of(requesting(cpu="1")))
    builder.add_class(2, pod_of(requesting(cpu="3")))
    return builder


async def test_an_answer_is_complete_first_and_then_a_patch() -> None:
    builder = _cluster()
    caller = Caller(await _phase(builder), builder, 1)
    assert await caller.ask() == dict.fromkeys(NODES, ("", 2))
    assert await caller.ask() == dict.fromkeys(NODES, ("", 2))
    builder.place(1, "n3", "n3", "n4")
    builder.set_node("n9", allocatable={"cpu": "1", "pods": "9"})
    expected = {**dict.fromkeys(NODES, ("", 2)), "n3": ("Insufficient cpu", 0), "n4": ("", 1), "n9": ("", 1)}
    assert await caller.ask() == expected
    builder.remove_node("n5")
    del expected["n5"]
    assert await caller.ask() == expected
    assert caller.patched == 3


async def test_a_patch_is_sent_only_to_a_caller_with_these_columns() -> None:
    builder = _cluster()
    phase = await _phase(builder)
    caller = Caller(phase, builder, 2)
    await caller.ask()
    # The replica starts over at the same generation; what it numbers now it did not number then.
    again = await _phase(builder)
    for name in NODES[:4]:
        builder.set_node(name, taints=[(name, "", "NoSchedule")], allocatable={"cpu": "2", "pods": "9"})
    await Caller(phase, builder, 2).ask()
    caller = Caller(again, builder, 2)
    caller.generation = builder.snap.generation
    answer = await caller.ask()
    assert caller.patched == 0
    assert answer["n0"] == ("node(s) had untolerated taint(s)", 0)
    assert answer["n7"] == ("Insufficient cpu", 0)


async def test_a_changed_remote_answer_reaches_callers_without_a_delta() -> None:
    builder = _cluster()
    remote = Remote("Remote")
    caller = Caller(await _phase(builder, remote), builder, 1)

    def move_on() -> None:
        builder.place(2, "n0")

    # The plugin is asked at one generation, and the answer is given at the next.
    remote.while_asked = move_on
    remote.refused = {"n1"}
    first = await caller.ask()
    assert (first["n0"], first["n1"]) == (("Insufficient cpu", 0), ("no", 0))
    remote.while_asked = lambda: None
    remote.refused = {"n2"}
    second = await caller.ask()
    assert (second["n1"], second["n2"]) == (("", 2), ("no", 0))
    assert caller.generation == builder.snap.generation


async def test_a_remote_plugin_that_fails_fails_the_pod_until_it_answers_again() -> None:
    builder = _cluster()
    remote = Remote("Remote")
    phase = await _phase(builder, remote)
    caller = Caller(phase, builder, 1)
    await caller.ask()
    remote.fails = True
    calls: list[None] = []
    remote.while_asked = lambda: calls.append(None)
    request = filter_phase_pb2.FilterPhaseFilterRequest(cycle=phase_calls.cycle(builder, 1))
    builder.place(1, "n0")
    request.cycle.generation = builder.snap.generation
    response = await phase.Filter(request, context())
    assert response.pre_filter.status.messages == ["broken"]
    assert len(calls) == 1, "a plugin that hangs would hold up the pod for two deadlines"
    assert not response.HasField("columns")
    remote.fails = False
    remote.refused = {"n1"}
    assert (await caller.ask())["n1"] == ("no", 0)
    assert (await caller.ask())["n0"] == ("", 1)


async def test_a_call_fails_when_its_snapshot_is_replaced() -> None:
    builder = _cluster()
    remote = Remote("Remote")
    phase = await _phase(builder, remote)
    remote.while_asked = lambda: builder.snap.apply(snapshot_pb2.Delta(reset=True, to_generation=9))
    with pytest.raises(Aborted, match="replaced") as ended:
        await phase.Filter(filter_phase_pb2.FilterPhaseFilterRequest(cycle=phase_calls.cycle(builder, 1)), context())
    assert ended.value.code is grpc.StatusCode.FAILED_PRECONDITION


ONE_POD = filter_phase_pb2.Preemptor(pod=cycle_pb2.PodIdentity(uid="u", name="pod", namespace="default"))


@pytest.mark.parametrize("preemptors", [[], [ONE_POD]], ids=["none", "one"])
async def test_a_class_that_ends_during_a_call_gets_its_answer(preemptors: list[filter_phase_pb2.Preemptor]) -> None:
    """The deletion of a controller's last pod does not fail the call under way."""
    builder = _cluster()
    remote = Remote("Remote")
    phase = await _phase(builder, remote)
    remote.while_asked = lambda: builder.apply(removed_classes=[1]) if 1 in builder.snap.classes else None
    response = await phase.Filter(
        filter_phase_pb2.FilterPhaseFilterRequest(cycle=phase_calls.cycle(builder, 1), preemptors=preemptors), context()
    )
    assert node_columns.from_message(response.columns).capacity.tolist() == [2] * len(NODES)


async def test_a_class_that_ends_before_post_filter_begins_gets_its_answer() -> None:
    builder = _cluster()
    remote = Remote("Remote")
    phase = await _phase(builder, remote)
    remote.while_asked = lambda: builder.apply(removed_classes=[2]) if 2 in builder.snap.classes else None
    request = filter_phase_pb2.RunPostFilterRequest(cycle=phase_calls.cycle(builder, 2), preemptors=[ONE_POD])
    request.pre_filter.code = status_pb2.CODE_UNSCHEDULABLE
    assert len((await phase.RunPostFilter(request, context())).results) == 1
    assert 2 not in builder.snap.classes


async def test_a_class_of_a_group_that_ends_during_a_call_is_named() -> None:
    """What its pods would take is not known any more, so that no victim can be chosen for them."""
    builder = _cluster()
    remote = Remote("Remote")
    phase = await _phase(builder, remote)
    remote.while_asked = lambda: builder.apply(removed_classes=[2]) if 2 in builder.snap.classes else None
    request = filter_phase_pb2.ReprievePodGroupVictimsRequest(cycle=phase_calls.cycle(builder, 1))
    for number in (1, 2):
        request.placed.add(pod_class=number)
    with pytest.raises(Aborted, match="placed: no class 2") as ended:
        await phase.ReprievePodGroupVictims(request, context())
    assert ended.value.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_answers_name_the_generation_that_they_were_computed_from() -> None:
    builder = _cluster()
    phase = await _phase(builder)
    cycle = phase_calls.cycle(builder, 1)
    builder.apply(removed_classes=[])
    ahead = builder.snap.generation
    assert ahead > cycle.generation
    answers = [
        await phase.Prepare(filter_phase_pb2.FilterPhasePrepareRequest(cycle=cycle), context()),
        await phase.Filter(filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle), context()),
        await phase.FilterNominated(
            filter_phase_pb2.FilterNominatedRequest(cycle=cycle, nominees=[filter_phase_pb2.Nominee()]), context()
        ),
        await phase.ListPodGroupVictims(filter_phase_pb2.ListPodGroupVictimsRequest(cycle=cycle), context()),
        await phase.ReprievePodGroupVictims(filter_phase_pb2.ReprievePodGroupVictimsRequest(cycle=cycle), context()),
    ]
    assert [answer.evaluated_generation for answer in answers] == [ahead] * len(answers)


async def test_preparing_makes_the_answer_ready() -> None:
    builder = _cluster()
    phase = await _phase(builder)
    await phase.Prepare(filter_phase_pb2.FilterPhasePrepareRequest(cycle=phase_calls.cycle(builder, 1)), context())
    prepared = phase.statistics().slots_evaluated
    await Caller(phase, builder, 1).ask()
    assert phase.statistics().slots_evaluated == prepared > 0


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        pytest.param({"profile": "q"}, grpc.StatusCode.INVALID_ARGUMENT, "cycle.profile", id="profile"),
        pytest.param({"pod_class": 99}, grpc.StatusCode.INVALID_ARGUMENT, "cycle.pod_class", id="class"),
        pytest.param({"generation": 10**6}, grpc.StatusCode.FAILED_PRECONDITION, "cycle.generation", id="generation"),
        pytest.param({"config_hash": 5}, grpc.StatusCode.FAILED_PRECONDITION, "cycle.config_hash", id="configuration"),
    ],
)
async def test_a_question_that_cannot_be_answered_is_refused(
    changes: dict[str, Any], code: grpc.StatusCode, text: str
) -> None:
    builder = _cluster()
    phase = await _phase(builder)
    request = filter_phase_pb2.FilterPhaseFilterRequest(cycle=phase_calls.cycle(builder, 1))
    for name, value in changes.items():
        setattr(request.cycle, name, value)
    with pytest.raises(Aborted, match=text) as ended:
        await phase.Filter(request, context())
    assert ended.value.code is code


async def test_a_deposed_leader_is_refused() -> None:
    builder = _cluster()
    phase = await _phase(builder)
    await phase_calls.greet(phase, phase_calls.configuration([], []), epoch=5)
    await phase.Filter(
        filter_phase_pb2.FilterPhaseFilterRequest(cycle=phase_calls.cycle(builder, 1, epoch=5)), context()
    )
    with pytest.raises(Aborted) as ended:
        await phase.Filter(
            filter_phase_pb2.FilterPhaseFilterRequest(cycle=phase_calls.cycle(builder, 1, epoch=4)), context()
        )
    assert ended.value.code is grpc.StatusCode.FAILED_PRECONDITION
