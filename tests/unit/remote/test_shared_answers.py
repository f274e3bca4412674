"""What classes that are equal to a plugin share of its answers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import remote_connection, shared_answers
from trireme.snapshot import arrays, snapshot
from trireme.v1 import core_pb2, meta_pb2, snapshot_pb2

Answers = shared_answers.AnswersAboutPod[str, np.int64]
ALL = np.arange(3)


def cluster() -> snapshot.Snapshot:
    """Three nodes, at generation 5."""
    snap = snapshot.Snapshot()
    snap.apply(snapshot_pb2.Delta(reset=True, to_generation=5, nodes=[entry(slot, "a") for slot in ALL.tolist()]))
    return snap


def entry(slot: int, label: str) -> snapshot_pb2.NodeEntry:
    """A node with this label."""
    metadata = meta_pb2.ObjectMeta(name=f"node-{slot}", labels={"label": label})
    return snapshot_pb2.NodeEntry(slot=slot, node=core_pb2.Node(metadata=metadata))


def change(snap: snapshot.Snapshot, changed: Sequence[int] = (), removed: Sequence[int] = ()) -> None:
    """Nodes change, or go."""
    at, nodes = snap.generation, [entry(slot, "b") for slot in changed]
    snap.apply(snapshot_pb2.Delta(from_generation=at, to_generation=at + 1, nodes=nodes, removed_slots=removed))


@dataclass
class Plugin:
    """Answers ten times the slot and the number of calls, and notes what it is called about."""

    asked: list[list[int]] = field(default_factory=list)
    fails: bool = False
    meanwhile: Callable[[], None] = lambda: None

    async def __call__(self, slots: arrays.SlotArray) -> arrays.Int64Array:
        self.asked.append(slots.tolist())
        answer = 10 * slots + len(self.asked)
        await asyncio.sleep(0)
        self.meanwhile()
        if self.fails:
            raise remote_connection.PluginError("down")
        return answer


@pytest.fixture
def answers() -> Answers:
    return shared_answers.AnswersAboutPod(np.int64)


async def test_what_was_answered_is_not_asked_again(answers: Answers) -> None:
    """If this fails, each class costs the plugin a call about all nodes, though it gets the same pod."""
    snap, plugin = cluster(), Plugin()
    assert (await answers.complete(snap, ALL[:2], b"", plugin)).tolist() == [1, 11]
    assert (await answers.complete(snap, ALL, b"", plugin)).tolist() == [1, 11, 22]
    assert (await answers.complete(snap, ALL, b"", plugin)).tolist() == [1, 11, 22]
    assert plugin.asked == [[0, 1], [2]]


async def test_a_node_that_changed_since_the_call_began_is_asked_about_again(answers: Answers) -> None:
    """If this fails, a class gets an answer about a node as it was."""
    snap, plugin = cluster(), Plugin()
    plugin.meanwhile = lambda: change(snap, changed=[1])
    await answers.complete(snap, ALL, b"", plugin)
    plugin.meanwhile = lambda: None
    assert (await answers.complete(snap, ALL, b"", plugin)).tolist() == [1, 12, 21]
    change(snap, changed=[2])
    await answers.complete(snap, ALL, b"", plugin)
    assert plugin.asked == [[0, 1, 2], [1], [2]]


async def test_a_new_node_in_the_place_of_an_old_one_is_asked_about(answers: Answers) -> None:
    """If this fails, a node gets the answer about one that is gone, or the plugin is called about none."""
    snap, plugin = cluster(), Plugin()
    await answers.complete(snap, ALL, b"", plugin)
    change(snap, removed=[1])
    await answers.complete(snap, ALL, b"", plugin)
    change(snap, changed=[1])
    await answers.complete(snap, ALL, b"", plugin)
    assert plugin.asked == [[0, 1, 2], [1]]


async def test_more_nodes_than_before_are_asked_about(answers: Answers) -> None:
    """If this fails, an evaluation after the cluster has grown ends by an exception."""
    snap, plugin = cluster(), Plugin()
    await answers.complete(snap, ALL, b"", plugin)
    new = range(3, 200)
    change(snap, changed=new)
    assert (await answers.complete(snap, np.arange(200), b"", plugin)).tolist()[-1] == 1992
    assert plugin.asked[1:] == [list(new)]


async def test_another_state_of_the_first_call_makes_all_answers_void(answers: Answers) -> None:
    """If this fails, Filter's answers follow from what PreFilter found out some time ago."""
    snap, plugin = cluster(), Plugin()
    await answers.complete(snap, ALL, b"", plugin)
    await answers.complete(snap, ALL, b"other", plugin)
    await answers.complete(snap, ALL, b"other", plugin)
    assert plugin.asked == [[0, 1, 2], [0, 1, 2]]


async def test_requests_at_the_same_time_share_a_call_and_its_failure(answers: Answers) -> None:
    """If this fails, each of many classes waits in turn for a plugin that does not answer; or a failure is forever."""
    snap, plugin = cluster(), Plugin(fails=True)

    def request() -> Awaitable[arrays.Int64Array]:
        return answers.complete(snap, ALL, b"", plugin)

    failed = await asyncio.gather(*(request() for _ in range(3)), return_exceptions=True)
    assert [str(each) for each in failed] == ["down"] * 3
    assert len(plugin.asked) == 1
    plugin.fails = False
    found = await asyncio.gather(*(request() for _ in range(3)))
    assert [each.tolist() for each in found] == [[2, 12, 22]] * 3
    assert len(plugin.asked) == 2


@pytest.mark.parametrize("waits", [False, True], ids=["the caller", "one that waits"])
async def test_a_request_ends_if_the_snapshot_is_replaced_meanwhile(answers: Answers, waits: bool) -> None:
    """If this fails, the plugin is called about slots of another snapshot, or answers about these are used there."""
    snap, plugin = cluster(), Plugin()
    plugin.meanwhile = lambda: snap.apply(snapshot_pb2.Delta(reset=True, to_generation=9))
    requests = [answers.complete(snap, ALL, b"", plugin) for _ in range(1 + waits)]
    ended = await asyncio.gather(*requests, return_exceptions=True)
    assert {type(each) for each in ended} == {snapshot.OutOfStepError}
    assert len(plugin.asked) == 1


async def test_the_first_answer_is_shared_if_it_holds(answers: Answers) -> None:
    """If this fails, a refusal by PreFilter outlives its reason, or PreFilter is called for each class."""
    given = iter(["refused", "passes", "unused"])

    async def call() -> str:
        await asyncio.sleep(0)
        return next(given)

    def holds(answer: str) -> bool:
        return answer != "refused"

    found = [await answers.first_answer(call, holds) for _ in range(3)]
    assert found == ["refused", "passes", "passes"]


SLOTS = st.sets(st.integers(0, 5))


@given(steps=st.lists(st.tuples(SLOTS, SLOTS, SLOTS, SLOTS), max_size=12))
def test_an_answer_is_that_about_the_node_as_it_is(steps: list[tuple[set[int], set[int], set[int], set[int]]]) -> None:
    """If this fails, a class gets an answer that the plugin would not give it now.

    In each step nodes change and go, the plugin is called about some, and others change meanwhile.
    """
    snap, truth = snapshot.Snapshot(), dict.fromkeys(range(6), 1)
    nodes = [entry(slot, "a") for slot in truth]
    snap.apply(snapshot_pb2.Delta(reset=True, to_generation=5, nodes=nodes))

    def replace(changed: set[int], removed: set[int]) -> None:
        gone = removed & truth.keys() - changed
        change(snap, sorted(changed), sorted(gone))
        for slot in changed:
            truth[slot] = snap.generation
        for slot in gone:
            del truth[slot]

    async def run() -> None:
        answers: Answers = shared_answers.AnswersAboutPod(np.int64)
        for changed, removed, about, meanwhile in steps:
            replace(changed, removed)
            slots = np.array(sorted(about & truth.keys()), dtype=np.intp)

            async def call(missing: arrays.SlotArray, meanwhile: set[int] = meanwhile) -> arrays.Int64Array:
                found = np.array([truth[slot] for slot in missing.tolist()], dtype=np.int64)
                replace(meanwhile, set())
                return found

            found = await answers.complete(snap, slots, b"", call)
            known = dict(zip(slots.tolist(), found.tolist(), strict=True))
            assert {slot: known[slot] for slot in known.keys() - meanwhile} == {
                slot: truth[slot] for slot in known.keys() - meanwhile
            }

    asyncio.run(run())


def said_about(slot: int, generation: int) -> status.Status:
    """A plugin's answer about a node whose load differs each time."""
    return status.unschedulable("Load", f"node-{slot}: load {generation}")


@given(
    steps=st.lists(st.tuples(SLOTS, SLOTS, st.sampled_from([b"", b"", b"", b"other"])), min_size=4, max_size=40),
    limits=st.tuples(st.integers(6, 12), st.integers(1, 12)),
)
def test_a_node_has_what_the_plugin_said_of_it_last(
    steps: list[tuple[set[int], set[int], bytes]], limits: tuple[int, int]
) -> None:
    """If this fails, `trireme explain` has the load of another node, of weeks ago, for a node that is refused.

    In each step nodes change, and the plugin is called about some: each time it says something else. The table takes
    hardly more statuses than there are nodes.
    """

    async def run() -> None:
        snap, answers = snapshot.Snapshot(), shared_answers.AnswersAboutPod[str, np.int16](np.int16)
        snap.apply(snapshot_pb2.Delta(reset=True, to_generation=5, nodes=[entry(slot, "a") for slot in range(6)]))
        last: dict[int, status.Status] = {}

        async def call(missing: arrays.SlotArray) -> arrays.Int16Array:
            last.update({slot: said_about(slot, snap.generation) for slot in missing.tolist()})
            return np.array([answers.statuses.intern(last[slot]) for slot in missing.tolist()], dtype=np.int16)

        for changed, about, state in steps:
            change(snap, sorted(changed))
            slots = np.array(sorted(about), dtype=np.intp)
            numbers = await answers.complete(snap, slots, state, call)
            found = [answers.statuses.statuses[number - 1] for number in numbers.tolist()]
            assert found == [last[slot] for slot in slots.tolist()]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(interfaces, "MAX_STATUSES", limits[0])
        patched.setattr(shared_answers, "LEAST_STALE_STATUSES", limits[1])
        asyncio.run(run())


async def test_statuses_of_before_are_forgotten_and_answers_are_not() -> None:
    """If this fails, memory grows with each change of a node, or each change of one has the plugin called about all."""
    nodes, rounds = 100, 400
    snap, answers = snapshot.Snapshot(), shared_answers.AnswersAboutPod[str, np.int16](np.int16)
    snap.apply(snapshot_pb2.Delta(reset=True, to_generation=5, nodes=[entry(slot, "a") for slot in range(nodes)]))
    asked = 0

    async def call(missing: arrays.SlotArray) -> arrays.Int16Array:
        nonlocal asked
        asked += missing.size
        said = [said_about(slot, snap.generation) for slot in missing.tolist()]
        return np.array([answers.statuses.intern(each) for each in said], dtype=np.int16)

    for number in range(rounds):
        await answers.complete(snap, np.arange(nodes), b"", call)
        assert len(answers.statuses.statuses) <= nodes + shared_answers.LEAST_STALE_STATUSES + 1
        change(snap, [number % nodes])
    assert asked == nodes + rounds - 1


def test_a_fork_and_a_replaced_snapshot_have_answers_of_their_own() -> None:
    """If this fails, a question about a simulated node is answered about the real one of the same slot."""
    shared: shared_answers.SharedAnswers[str, np.int64] = shared_answers.SharedAnswers(np.int64)
    snap = cluster()
    about = shared.about(snap, b"pod")
    assert shared.about(snap, b"pod") is about
    assert shared.about(snap, b"other") is not about
    fork = snap.fork(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))
    assert shared.about(fork, b"pod") is not about
    snap.apply(snapshot_pb2.Delta(reset=True, to_generation=9))
    assert shared.about(snap, b"pod") is not about


def test_the_pods_used_longest_ago_are_forgotten() -> None:
    """If this fails, memory grows with each pod that was ever tried."""
    shared: shared_answers.SharedAnswers[str, np.int64] = shared_answers.SharedAnswers(np.int64)
    snap = cluster()
    first, second = shared.about(snap, b"0"), shared.about(snap, b"1")
    for number in range(2, shared_answers.MAX_PODS):
        shared.about(snap, str(number).encode())
    assert shared.about(snap, b"0") is first
    shared.about(snap, b"more")
    assert shared.about(snap, b"0") is first
    assert shared.about(snap, b"1") is not second


async def test_statuses_of_nodes_that_are_gone_are_forgotten() -> None:
    """If this fails, the answers about a large cluster stay when it has become small."""
    nodes = 200
    snap, answers = snapshot.Snapshot(), shared_answers.AnswersAboutPod[str, np.int16](np.int16)
    snap.apply(snapshot_pb2.Delta(reset=True, to_generation=5, nodes=[entry(slot, "a") for slot in range(nodes)]))

    async def call(missing: arrays.SlotArray) -> arrays.Int16Array:
        said = [said_about(slot, snap.generation) for slot in missing.tolist()]
        return np.array([answers.statuses.intern(each) for each in said], dtype=np.int16)

    await answers.complete(snap, np.arange(nodes), b"", call)
    change(snap, removed=range(1, nodes))
    for _ in range(2 * nodes):
        change(snap, [0])
        await answers.complete(snap, np.arange(1), b"", call)
    assert len(answers.statuses.statuses) <= nodes // 2
