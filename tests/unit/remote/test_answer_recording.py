"""What remote plugins answer in a call that is recorded, and only then."""

import contextvars
from typing import Any

import numpy as np
import pytest

from trireme.evaluation.scoring import class_scores, score_column
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import answer_recording
from trireme.v1 import cycle_pb2, filter_pb2, remote_answer_pb2, status_pb2
from trireme.wire import status as wire_status

CLOSED, FULL = status.unschedulable("P", "closed"), status.unschedulable("P", "full")


def table() -> interfaces.StatusTable:
    """Numbers 1 and 2 are `FULL` and `CLOSED`."""
    made = interfaces.StatusTable()
    assert [made.intern(each) for each in (FULL, CLOSED)] == [1, 2]
    return made


def read(collected: answer_recording.CollectedAnswers) -> remote_answer_pb2.RemoteAnswers:
    """What is recorded."""
    return remote_answer_pb2.RemoteAnswers.FromString(collected.content())


def add_runs(*slots: int) -> None:
    """P refuses dry runs on these nodes: even slots are closed, the first odd one passes, others are full."""
    index = np.array([2 if slot % 2 == 0 else slot > 1 for slot in slots], dtype=np.int16)
    runs = [interfaces.DryRun(slot, [slot, 9], [7]) for slot in slots]
    answer_recording.add_dry_runs("P", 3, runs, index, table())


def test_dry_runs_have_their_verdicts_and_each_status_once() -> None:
    with answer_recording.recording(wanted=True) as collected:
        assert collected is not None
        add_runs(1, 2, 3, 4)
    (answer,) = read(collected).answers
    assert (answer.plugin, answer.pod_class) == ("P", 3)
    about = answer.dry_runs
    assert [wire_status.from_message(each) for each in about.statuses] == [CLOSED, FULL]
    assert [run.status for run in about.runs] == [0, 1, 2, 1]
    assert [(run.slot, list(run.removed_rows), list(run.added_classes)) for run in about.runs] == [
        (slot, [slot, 9], [7]) for slot in (1, 2, 3, 4)
    ]


def test_of_too_many_dry_runs_none_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of them would look like all."""
    monkeypatch.setattr(answer_recording, "MAX_DRY_RUNS", 3)
    with answer_recording.recording(wanted=True) as collected:
        assert collected is not None
        add_runs(1, 2)
        add_runs(3)
        assert read(collected).complete
        answer_recording.add_verdicts("P", 3, np.array([0]), np.array([1], dtype=np.int16), table())
        add_runs(4)
        add_runs(5)
        answer_recording.add_post_filter("P", None)
    answers = read(collected)
    assert not answers.complete
    assert all(each.WhichOneof("answer") not in ("dry_runs", "nodes") for each in answers.answers)


def test_verdicts_on_nodes_are_kept_by_class() -> None:
    with answer_recording.recording(wanted=True) as collected:
        assert collected is not None
        for pod_class in (3, 4, 3):
            answer_recording.add_verdicts("P", pod_class, np.array([0]), np.array([1], dtype=np.int16), table())
    answers = read(collected)
    assert answers.complete
    assert [(each.plugin, each.pod_class, each.WhichOneof("answer")) for each in answers.answers] == [
        ("P", 3, "nodes"),
        ("P", 4, "nodes"),
    ]


def test_a_post_filter_whose_failure_is_ignored_has_answered_nothing() -> None:
    done = filter_pb2.PostFilterResponse(nominated_node="n")
    with answer_recording.recording(wanted=True) as collected:
        assert collected is not None
        answer_recording.add_post_filter("P", None)
        answer_recording.add_post_filter("P", done)
    ignored, answered = read(collected).answers
    assert ignored.WhichOneof("answer") == "post_filter"
    assert not ignored.post_filter.HasField("response")
    assert answered.post_filter.response == done


def test_reservations_are_recorded_by_pod_without_the_plugins_state() -> None:
    """The state is for PreBind, which no recording makes again."""
    success = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
    placements = [filter_pb2.Placement(pod=cycle_pb2.PodIdentity(uid=uid)) for uid in ("u", "v")]
    reservations = [filter_pb2.Reservation(status=success, state=b"licence 7"), filter_pb2.Reservation()]
    with answer_recording.recording(wanted=True) as collected:
        assert collected is not None
        answer_recording.add_reservations("P", placements, reservations)
    (answer,) = read(collected).answers
    assert list(answer.reservations.uid) == ["u", "v"]
    assert list(answer.reservations.reservations) == [
        filter_pb2.Reservation(status=success),
        filter_pb2.Reservation(),
    ]
    assert reservations[0].state == b"licence 7"


def test_normalised_scores_are_recorded_unless_the_plugin_failed() -> None:
    slots = np.array([4, 2])
    with answer_recording.recording(wanted=True) as collected:
        assert collected is not None
        answer_recording.add_normalized("P", slots, CLOSED)
        answer_recording.add_normalized("P", slots, np.array([50, 100], dtype=np.int64))
    (answer,) = read(collected).answers
    assert (list(answer.scores.normalized_slots), list(answer.scores.normalized)) == ([4, 2], [50, 100])


def test_the_scores_by_which_a_class_was_placed_are_recorded_by_plugin() -> None:
    """Those of plugins that were not called for it are none."""
    with_copies = score_column.ScoreColumn(None, 1, raw=np.array([7, 8]))
    with_copies.copies.write(np.array([1]), np.array([[6, 5]]))
    columns = {"Q": with_copies, "Silent": score_column.ScoreColumn(None, 1, silent=True, raw=np.array([3]))}
    plugins: Any = dict.fromkeys(["NotCalled", "Silent", "Q"])
    with answer_recording.recording(wanted=True) as collected:
        assert collected is not None
        answer_recording.add_scores(collected, plugins, class_scores.ClassScores(plugins=columns))
    silent, scored = read(collected).answers
    assert (silent.plugin, silent.scores) == ("Silent", remote_answer_pb2.RemoteScores(silent=True))
    assert (scored.plugin, scored.scores) == (
        "Q",
        remote_answer_pb2.RemoteScores(raw=[7, 8], copied_slots=[1], copies=[2], copied=[6, 5]),
    )


def test_nothing_is_kept_outside_a_recorded_call() -> None:
    with answer_recording.recording(wanted=True) as outer:
        assert outer is not None
        other_task = contextvars.copy_context()
    with answer_recording.recording(wanted=False) as none:
        assert none is None
        add_runs(1)
    for add in (
        lambda: answer_recording.add_post_filter("P", None),
        lambda: answer_recording.add_reservations("P", [], []),
        lambda: answer_recording.add_normalized("P", np.array([1]), np.array([1])),
        lambda: answer_recording.add_verdicts("P", 1, np.array([0]), np.array([1], dtype=np.int16), table()),
    ):
        add()
    assert not read(outer).answers
    # A task that began within the call still answers for it.
    other_task.run(answer_recording.add_post_filter, "P", None)
    assert len(read(outer).answers) == 1
