"""The metrics about hints that fail, and about pods that no event woke."""

from typing import Any

import pytest

from tests.helpers.queue_builders import NODE_ADD, record
from trireme.frontend import scheduler_metrics
from trireme.queueing.hints.queueing_hint_map import EventRegistration, HintAnswer
from trireme.queueing.queued_pod import QueuedPodInfo


def _hint_returning(answers: Any) -> Any:
    def hint(event: Any, old: Any, new: Any, pods: Any) -> Any:
        if isinstance(answers, Exception):
            raise answers
        return answers

    return hint


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([HintAnswer.QUEUE, HintAnswer.SKIP], {"Queue": 1, "QueueSkip": 1}, id="one-for-each"),
        pytest.param([HintAnswer.QUEUE], {"Error": 2}, id="too-few"),
        pytest.param([HintAnswer.QUEUE] * 3, {"Error": 2}, id="too-many"),
        pytest.param(None, {"Error": 2}, id="none"),
        pytest.param(ValueError("broken"), {"Error": 2}, id="raises"),
    ],
)
def test_a_hint_without_one_answer_for_each_pod_counts_as_an_error_for_all(
    answers: Any, expected: dict[str, int]
) -> None:
    metrics = scheduler_metrics.SchedulerMetrics()
    (timed,) = metrics.with_timing_of_hints([EventRegistration("P", NODE_ADD, _hint_returning(answers))])
    assert timed.hint is not None
    pods = [QueuedPodInfo(record(name), 0) for name in ("a", "b")]
    if isinstance(answers, Exception):
        with pytest.raises(ValueError, match="broken"):
            timed.hint(NODE_ADD, None, None, pods)
    else:
        assert timed.hint(NODE_ADD, None, None, pods) == answers
    metric = metrics.instruments.hint_seconds.family()
    counts = {one.labels["hint"]: one.value for one in metric.samples if one.name.endswith("_count")}
    assert counts == expected


@pytest.mark.parametrize("flushed", [False, True])
def test_a_pod_that_only_the_flush_helped_is_a_missed_wake_up_of_each_plugin(flushed: bool) -> None:
    """If this fails, without insight nobody learns which plugin's pods wait for the flush."""
    metrics = scheduler_metrics.SchedulerMetrics()
    pod = QueuedPodInfo(record("a"), 0)
    pod.rejectors, pod.flushed = frozenset({"Fit", "Taint"}), flushed
    metrics.on_pod_bound(pod, 1.0)
    counter = metrics.instruments.missed_wake_ups
    assert counter.totals("plugin") == ({"Fit": 1, "Taint": 1} if flushed else {})
    assert counter.totals("found_by") == ({"flush": 2} if flushed else {})
