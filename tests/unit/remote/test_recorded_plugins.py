"""What recorded plugins answer: that of their own decision, and nothing that is not recorded."""

from typing import Any

import numpy as np
import pytest

from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.remote import recorded_plugins
from trireme.v1 import cycle_pb2, decision_pb2, filter_pb2, remote_answer_pb2, status_pb2
from trireme.wire import status as wire_status

NO = status.unschedulable("Far", "no")
ANY: Any = None


def answers_of(*answers: remote_answer_pb2.RemoteAnswer, failure: status.Status | None = None) -> Any:
    """The answers in a decision about class 1; `failure` is that of Place."""
    decision = decision_pb2.Decision(pod_class=1)
    decision.remote.answers.extend(answers)
    if failure is not None:
        decision.place.failure.CopyFrom(wire_status.to_message(failure))
    out = recorded_plugins.RemoteAnswers()
    out.take(decision)
    return out


def scores(plugin: str = "Far", **fields: Any) -> remote_answer_pb2.RemoteAnswer:
    return remote_answer_pb2.RemoteAnswer(plugin=plugin, scores=remote_answer_pb2.RemoteScores(**fields))


def score_plugin(answers: recorded_plugins.RemoteAnswers) -> recorded_plugins.RecordedScorePlugin:
    return recorded_plugins.RecordedScorePlugin(
        "Far", interfaces.Dependency.CLUSTER, scorers.Normalization.NONE, answers
    )


def dry_runs(*runs: tuple[int, list[int], list[int], int], pod_class: int = 0) -> remote_answer_pb2.RemoteAnswer:
    """Runs by slot, removed rows, added classes and the number of the status: 1 is NO."""
    out = remote_answer_pb2.RemoteAnswer(plugin="Far", pod_class=pod_class)
    out.dry_runs.statuses.append(wire_status.to_message(NO))
    for slot, rows, added, number in runs:
        out.dry_runs.runs.add(slot=slot, removed_rows=rows, added_classes=added, status=number)
    return out


async def test_scores_are_the_recorded_ones_and_zero_of_a_node_beyond_them() -> None:
    plugin = score_plugin(answers_of(scores(raw=[7, 8]), scores("Other", raw=[1])))
    prepared = await plugin.prepare(ANY, ANY, None, np.array([1, 3]))
    assert (prepared.silent, prepared.failure) == (False, None)
    assert plugin.score(ANY, ANY, prepared.state, np.array([1, 3, 0])).tolist() == [8, 0, 7]
    assert plugin.score(ANY, ANY, prepared.state, np.array([], dtype=np.intp)).tolist() == []


async def test_scores_that_are_recorded_in_parts_are_one() -> None:
    """Raw scores and normalised ones are answers of two calls."""
    plugin = score_plugin(answers_of(scores(raw=[7, 8]), scores(normalized_slots=[1, 0], normalized=[90, 10])))
    state = (await plugin.prepare(ANY, ANY, None, ANY)).state
    assert plugin.score(ANY, ANY, state, np.array([0, 1])).tolist() == [7, 8]
    normalized: Any = await plugin.normalize(ANY, ANY, state, np.array([0, 1]), ANY)
    assert normalized.tolist() == [10, 90]
    with pytest.raises(recorded_plugins.MissingAnswerError, match="normalised scores of Far"):
        await plugin.normalize(ANY, ANY, state, np.array([0, 2]), ANY)


async def test_a_plugin_that_said_nothing_is_silent() -> None:
    assert (await score_plugin(answers_of(scores(silent=True))).prepare(ANY, ANY, None, ANY)).silent


async def test_scores_that_are_not_recorded_are_not_made_up() -> None:
    with pytest.raises(recorded_plugins.MissingAnswerError, match="the scores of Far"):
        await score_plugin(answers_of(scores("Other", raw=[1]))).prepare(ANY, ANY, None, ANY)


@pytest.mark.parametrize("by", ["Far", "Other"])
async def test_only_the_plugin_that_failed_the_pods_fails_again(by: str) -> None:
    failure = status.error(by, "broken")
    plugin = score_plugin(answers_of(scores(raw=[7], normalized_slots=[0], normalized=[9]), failure=failure))
    prepared = await plugin.prepare(ANY, ANY, None, ANY)
    normalized = await plugin.normalize(
        ANY, ANY, remote_answer_pb2.RemoteScores(normalized_slots=[0], normalized=[9]), np.array([0]), ANY
    )
    if by == "Far":
        assert prepared.failure == failure
        assert normalized == failure
    else:
        assert prepared.failure is None
        assert isinstance(normalized, np.ndarray)


async def test_scores_of_copies_are_those_of_their_slots() -> None:
    plugin = score_plugin(answers_of(scores(copied_slots=[4, 2], copies=[3, 2], copied=[9, 8, 7, 60, 50])))
    state = (await plugin.prepare(ANY, ANY, None, ANY)).state
    found = await plugin.prepare_copies(ANY, ANY, state, np.array([2, 3, 4]), 5)
    assert found is not None
    unknown = scorers.UNKNOWN
    assert found.tolist() == [[60, 50, unknown], [unknown] * 3, [9, 8, 7]]
    without = await plugin.prepare_copies(ANY, ANY, remote_answer_pb2.RemoteScores(), np.array([2]), 5)
    assert without is not None
    assert without.shape == (1, 0)


@pytest.mark.parametrize(
    "fields",
    [
        {"copied_slots": [4], "copies": [1, 1], "copied": [9, 8]},
        {"copied_slots": [4, 2], "copies": [1, 1], "copied": [9]},
    ],
)
def test_scores_of_copies_that_do_not_fit_together_are_refused(fields: dict[str, list[int]]) -> None:
    with pytest.raises(ValueError, match=r"remote\.scores: Far has"):
        answers_of(scores(**fields))


def test_a_dry_run_has_its_own_verdict() -> None:
    """By slot, removed pods in any order, added classes in theirs, and the class that it is for."""
    answers = answers_of(dry_runs((4, [3, 1], [2, 5], 1), (4, [1], [], 0)), dry_runs((4, [1], [], 1), pod_class=8))
    assert answers.dry_run_of("Far", 1, interfaces.DryRun(4, (1, 3), (2, 5))) == NO
    assert answers.dry_run_of("Far", 1, interfaces.DryRun(4, (1,))) is None
    assert answers.dry_run_of("Far", 8, interfaces.DryRun(4, (1,))) == NO
    for plugin, run in (
        ("Far", interfaces.DryRun(4, (1, 3), (5, 2))),
        ("Far", interfaces.DryRun(5, (1,))),
        ("Other", interfaces.DryRun(4, (1,))),
    ):
        with pytest.raises(recorded_plugins.MissingAnswerError, match=f"a dry run of {plugin}"):
            answers.dry_run_of(plugin, 1, run)
    with pytest.raises(ValueError, match="a run of Far refers to status 2"):
        answers_of(dry_runs((4, [], [], 2)))


def test_a_class_that_the_plugin_skipped_passes_each_dry_run() -> None:
    skipped = remote_answer_pb2.RemoteAnswer(plugin="Far")
    skipped.nodes.skipped = True
    answers = answers_of(skipped)
    assert answers.dry_run_of("Far", 1, interfaces.DryRun(4, ())) is None
    assert answers.verdicts_of("Far", 1) is not None
    assert answers.verdicts_of("Far", 2) is None
    with pytest.raises(recorded_plugins.MissingAnswerError):
        answers.dry_run_of("Far", 2, interfaces.DryRun(4, ()))


async def test_answers_of_post_filter_come_in_their_order_and_once() -> None:
    made = [remote_answer_pb2.RemoteAnswer(plugin="Far") for _ in range(3)]
    made[0].post_filter.response.nominated_node = "n1"
    made[1].post_filter.SetInParent()
    made[2].post_filter.response.nominated_node = "n2"
    plugin = recorded_plugins.RecordedPostFilterPlugin("Far", answers_of(*made))
    found = [await plugin.post_filter(ANY, ANY, None) for _ in range(3)]
    assert [None if each is None else each.nominated_node for each in found] == ["n1", None, "n2"]
    with pytest.raises(recorded_plugins.MissingAnswerError, match="a PostFilter answer of Far"):
        await plugin.post_filter(ANY, ANY, None)


async def test_reservations_are_found_by_pod() -> None:
    refused = filter_pb2.Reservation(status=status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE))
    answer = remote_answer_pb2.RemoteAnswer(plugin="Far")
    answer.reservations.uid.extend(["a", "b"])
    answer.reservations.reservations.extend([filter_pb2.Reservation(), refused])
    plugin = recorded_plugins.RecordedReservePlugin("Far", answers_of(answer))
    placements = [filter_pb2.Placement(pod=cycle_pb2.PodIdentity(uid=uid)) for uid in ("b", "a", "c")]
    assert await plugin.reserve(ANY, placements[:2], ANY, ANY) == [refused, filter_pb2.Reservation()]
    with pytest.raises(recorded_plugins.MissingAnswerError, match="a reservation of Far"):
        await plugin.reserve(ANY, placements[2:], ANY, ANY)
    answer.reservations.uid.append("d")
    with pytest.raises(ValueError, match=r"remote\.reservations: Far has 2 for 3 pods"):
        answers_of(answer)


async def test_nothing_of_the_decision_before_is_left() -> None:
    """A decision would be made again from answers to another one."""
    post_filter = remote_answer_pb2.RemoteAnswer(plugin="Far")
    post_filter.post_filter.SetInParent()
    reserved = remote_answer_pb2.RemoteAnswer(plugin="Far")
    reserved.reservations.uid.append("a")
    reserved.reservations.reservations.add()
    skipped = remote_answer_pb2.RemoteAnswer(plugin="Far", pod_class=2)
    skipped.nodes.skipped = True
    answers = answers_of(
        scores(raw=[1]), dry_runs((4, [], [], 1)), post_filter, reserved, skipped, failure=status.error("Far", "x")
    )
    answers.take(decision_pb2.Decision(pod_class=1))
    assert (answers.failure, answers.verdicts_of("Far", 2)) == (None, None)
    for ask in (
        lambda: answers.scores_of("Far"),
        lambda: answers.dry_run_of("Far", 1, interfaces.DryRun(4, ())),
        lambda: answers.next_post_filter_of("Far"),
        lambda: answers.reservation_of("Far", "a"),
    ):
        with pytest.raises(recorded_plugins.MissingAnswerError):
            ask()


def test_verdicts_are_taken_of_these_plugins_alone_each_for_its_class() -> None:
    def nodes(plugin: str, pod_class: int = 0) -> remote_answer_pb2.RemoteAnswer:
        out = remote_answer_pb2.RemoteAnswer(plugin=plugin, pod_class=pod_class)
        out.nodes.SetInParent()
        return out

    decision = decision_pb2.Decision(pod_class=1)
    decision.remote.answers.extend([nodes("Far"), nodes("Far", 2), nodes("Other"), dry_runs((0, [], [], 0))])
    answers = recorded_plugins.RemoteAnswers()
    answers.take_verdicts(decision, ["Far"], np.zeros(3, dtype=np.bool_))
    known = [(name, number) for name in ("Far", "Other") for number in (1, 2) if answers.verdicts_of(name, number)]
    assert known == [("Far", 1), ("Far", 2)]
