"""What remote filter and score plugins answered, by slot."""

import numpy as np

from trireme.plugin_api import interfaces
from trireme.remote import remote_filter, remote_score


def test_slots_beyond_those_that_were_answered_pass_until_they_are() -> None:
    """Broken, a node that is added while a plugin is called ends the evaluation by an exception."""
    state = remote_filter.RemoteFilterState(b"")
    state.write(np.array([0, 2]), interfaces.Verdicts(np.array([0, 4], dtype=np.int16)))
    verdicts = state.read(np.array([2, 5]))
    assert verdicts.index.tolist() == [4, interfaces.PASSES]
    assert verdicts.as_of == -1


def test_an_answer_about_one_slot_leaves_the_others() -> None:
    """Broken, nodes are chosen by scores and capacities of other nodes, or a patch undoes what was answered before."""
    state = remote_filter.RemoteFilterState(b"")
    capacity = np.array([7, 8], dtype=np.int32)
    state.write(np.array([1, 3]), interfaces.Verdicts(np.zeros(2, dtype=np.int16), capacity))
    state.write(np.array([3]), interfaces.Verdicts(np.array([2], dtype=np.int16)))
    verdicts = state.read(np.array([1, 3]))
    assert verdicts.index.tolist() == [0, 2]
    assert verdicts.capacity is not None
    assert verdicts.capacity.tolist() == [7, interfaces.UNLIMITED]

    scores = remote_score.RemoteScoreState()
    scores.write(np.array([1, 3]), np.array([10, 30]))
    scores.write(np.array([9]), np.array([90]))
    assert scores.raw[[1, 3, 9]].tolist() == [10, 30, 90]
