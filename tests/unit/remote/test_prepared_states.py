"""What remote filter and score plugins answered, by slot."""

import asyncio

import numpy as np

from tests.helpers.snapshot_views import SnapshotBuilder
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import filter_state, remote_score, shared_answers
from trireme.snapshot import arrays


def test_slots_beyond_those_that_were_answered_pass_until_they_are() -> None:
    """If this fails, a node that is added while a plugin is called ends the evaluation by an exception."""
    state = filter_state.RemoteFilterState(b"")
    state.write(np.array([0, 2]), interfaces.Verdicts(np.array([0, 4], dtype=np.int16)))
    verdicts = state.read(np.array([2, 5]), interfaces.StatusTable())
    assert verdicts.index.tolist() == [4, interfaces.PASSES]


def test_an_answer_about_one_slot_leaves_the_others() -> None:
    """If this fails, nodes get the scores and capacities of other nodes, or a patch undoes earlier answers."""
    state = filter_state.RemoteFilterState(b"")
    capacity = np.array([7, 8], dtype=np.int32)
    state.write(np.array([1, 3]), interfaces.Verdicts(np.zeros(2, dtype=np.int16), capacity))
    state.write(np.array([3]), interfaces.Verdicts(np.array([2], dtype=np.int16)))
    verdicts = state.read(np.array([1, 3]), interfaces.StatusTable())
    assert verdicts.index.tolist() == [0, 2]
    assert verdicts.capacity is not None
    assert verdicts.capacity.tolist() == [7, interfaces.UNLIMITED]
    state.write(np.array([0]), interfaces.Verdicts(np.array([5], dtype=np.int16)))
    assert state.read(np.array([0, 1]), interfaces.StatusTable()).index.tolist() == [5, 0]

    scores = remote_score.RemoteScoreState()
    scores.write(np.array([1, 3]), np.array([10, 30]))
    scores.write(np.array([9]), np.array([90]))
    scores.write(np.array([3]), np.array([31]))
    assert scores.raw[[1, 3, 9]].tolist() == [10, 31, 90]


def test_classes_that_share_answers_read_one_array_each_by_its_own_statuses() -> None:
    """If this fails, each class takes memory for what it shares, or has the refusals of another class's table."""
    builder = SnapshotBuilder()
    for name in ("n0", "n1"):
        builder.set_node(name)
    snap, slots, full = builder.snap, np.array([0, 1]), status.unschedulable("Remote", "full")
    answers: filter_state.SharedVerdicts = shared_answers.AnswersAboutPod(np.int16)
    first, second = (filter_state.SharedFilterState(b"", answers, snap.nodes) for _ in range(2))
    tables = interfaces.StatusTable(), interfaces.StatusTable()
    tables[1].intern(status.unschedulable("Other", "another"))
    called: list[list[int]] = []

    async def refuse_n1(about: arrays.SlotArray, statuses: interfaces.StatusTable) -> interfaces.Verdicts:
        called.append(about.tolist())
        return interfaces.Verdicts(np.where(about == 1, statuses.intern(full), 0).astype(np.int16))

    for state, table in zip((first, second), tables, strict=True):
        asyncio.run(state.update(snap, slots, table, refuse_n1))
    assert called == [[0, 1]]
    assert [state.read(slots, table).index.tolist() for state, table in zip((first, second), tables, strict=True)] == [
        [0, 1],
        [0, 2],
    ]
    builder.set_node("n1", labels={"changed": "yes"})
    # There is no answer about the node as it is now.
    assert first.read(slots, tables[0]).index.tolist() == [0, 0]
