"""Which registrations an event matches, and what hints decide."""

from typing import Any

import pytest

from tests.helpers.queue_builders import NODE_ADD, NODE_TAINT, POD_DELETE, helps, one_by_one, record
from trireme.framework.cluster_event import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    Resource,
    event,
    parse,
)
from trireme.queueing.hints.hint_evaluation import Decision, HintEvaluator, RemoteHint
from trireme.queueing.hints.queueing_hint_map import EventRegistration, HintAnswer, QueueingHintMap
from trireme.queueing.queued_pod import QueuedPodInfo

EVERYTHING = ClusterEvent(Resource.WILDCARD, ActionType.ALL)


@pytest.mark.parametrize(
    ("registered", "incoming", "expected"),
    [
        pytest.param(NODE_ADD, NODE_ADD, True, id="same"),
        pytest.param(NODE_ADD, NODE_TAINT, False, id="other-action"),
        pytest.param(NODE_ADD, POD_DELETE, False, id="other-resource"),
        pytest.param(event(Resource.NODE, ActionType.UPDATE), NODE_TAINT, True, id="incoming-more-specific"),
        pytest.param(NODE_TAINT, event(Resource.NODE, ActionType.UPDATE), False, id="incoming-more-general"),
        pytest.param(event(Resource.POD, ActionType.DELETE), POD_DELETE, True, id="pod-stands-for-assigned-pod"),
        pytest.param(event(Resource.POD, ActionType.DELETE), NODE_ADD, False, id="pod-is-not-node"),
        pytest.param(EVERYTHING, NODE_ADD, True, id="registered-for-all"),
        pytest.param(event(Resource.WILDCARD, ActionType.ADD), NODE_ADD, True, id="any-resource-this-action"),
        pytest.param(event(Resource.WILDCARD, ActionType.ADD), NODE_TAINT, False, id="any-resource-other-action"),
        pytest.param(NODE_ADD, FORCE_ACTIVATE, False, id="wildcard-matches-no-registration"),
        pytest.param(EVERYTHING, UNSCHEDULABLE_TIMEOUT, True, id="but-a-wildcard-one"),
    ],
)
def test_matching(registered: ClusterEvent, incoming: ClusterEvent, expected: bool) -> None:
    """Registered events match by resource and action, wildcards included."""
    assert registered.matches(incoming) is expected


@pytest.mark.parametrize(
    ("cluster_event", "expected"),
    [
        pytest.param(NODE_TAINT, "NodeUpdateNodeTaint", id="node"),
        pytest.param(event(Resource.UNSCHEDULED_POD, ActionType.ADD), "UnscheduledPodAdd", id="arrival"),
        pytest.param(event(Resource.CSI_NODE, ActionType.UPDATE), "storage.k8s.io/CSINodeUpdate", id="group"),
        pytest.param(
            event(Resource.TARGET_POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
            "TargetPodUpdatePodSchedulingGatesEliminated",
            id="long",
        ),
        pytest.param(UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout", id="custom"),
    ],
)
def test_labels(cluster_event: ClusterEvent, expected: str) -> None:
    """Labels in metrics and logs are kube-scheduler's."""
    assert cluster_event.label == expected


@pytest.mark.parametrize(
    ("actions", "complaint"),
    [pytest.param(["Adds"], "Adds", id="unknown"), pytest.param([], "Required", id="none")],
)
def test_a_registration_that_cannot_be_is_refused(actions: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse("Node", actions)


def pod(rejectors: str, pending: str = "", name: str = "p") -> QueuedPodInfo:
    """A pod refused by these plugins, names separated by blanks."""
    queued = QueuedPodInfo(record(name), 0)
    queued.pending_plugins = frozenset(pending.split())
    queued.rejectors = frozenset(rejectors.split()) | queued.pending_plugins
    return queued


def evaluate(registrations: list[EventRegistration], *pods: QueuedPodInfo) -> tuple[list[Decision], list[RemoteHint]]:
    """What a new node means for the pods."""
    return HintEvaluator(QueueingHintMap({"p": registrations})).evaluate("p", NODE_ADD, None, "node", pods)


def explode(*args: Any) -> Any:
    """A hint that fails."""
    raise RuntimeError("hint")


A_YES, A_NO = EventRegistration("A", NODE_ADD, helps(True)), EventRegistration("A", NODE_ADD, helps(False))
B_YES, B_NO = EventRegistration("B", NODE_ADD, helps(True)), EventRegistration("B", NODE_ADD, helps(False))
B_FAR = EventRegistration("B", NODE_ADD, remote=True)


@pytest.mark.parametrize(
    ("registrations", "waiting", "expected"),
    [
        pytest.param([A_YES], pod("A"), Decision.AFTER_BACKOFF, id="helps"),
        pytest.param([A_NO], pod("A"), Decision.SKIP, id="does-not-help"),
        pytest.param([A_YES], pod("B"), Decision.SKIP, id="another-plugin-refused"),
        pytest.param([A_NO, B_YES], pod("A B"), Decision.AFTER_BACKOFF, id="one-yes-is-enough"),
        pytest.param([A_YES], pod("", "A"), Decision.IMMEDIATELY, id="pending"),
        pytest.param([A_YES, B_YES], pod("A", "B"), Decision.IMMEDIATELY, id="pending-wins"),
        pytest.param([A_YES, B_NO], pod("A", "B"), Decision.AFTER_BACKOFF, id="pending-says-no"),
        pytest.param([EventRegistration("A", NODE_ADD)], pod("A"), Decision.AFTER_BACKOFF, id="without-a-hint"),
        pytest.param([EventRegistration("A", NODE_ADD, explode)], pod("A"), Decision.AFTER_BACKOFF, id="hint-fails"),
        pytest.param(
            [EventRegistration("A", NODE_ADD, one_by_one(explode))],
            pod("A"),
            Decision.AFTER_BACKOFF,
            id="one-hint-fails",
        ),
        pytest.param(
            [EventRegistration("A", NODE_ADD, lambda *_: [])], pod("A"), Decision.AFTER_BACKOFF, id="too-few-answers"
        ),
        pytest.param([EventRegistration("A", POD_DELETE)], pod("A"), Decision.SKIP, id="registered-for-another-event"),
    ],
)
def test_decisions(registrations: list[EventRegistration], waiting: QueuedPodInfo, expected: Decision) -> None:
    """Each hint's answer leads to the queue that kube-scheduler uses."""
    decisions, remote = evaluate(registrations, waiting)
    assert (decisions, remote) == ([expected], [])


def test_each_hint_is_called_once_for_all_its_pods() -> None:
    calls: list[list[str]] = []

    def hint(event: ClusterEvent, old: Any, new: Any, pods: Any) -> list[HintAnswer]:
        calls.append([pod.record.key for pod in pods])
        return [HintAnswer.QUEUE if pod.record.key == "ns/y" else HintAnswer.SKIP for pod in pods]

    waiting = [pod("A", name="x"), pod("B", name="z"), pod("A B", name="y")]
    decisions, _ = evaluate([EventRegistration("A", NODE_ADD, hint)], *waiting)
    assert calls == [["ns/x", "ns/y"]]
    assert decisions == [Decision.SKIP, Decision.SKIP, Decision.AFTER_BACKOFF]


def test_the_hint_of_a_pending_plugin_is_called_once() -> None:
    evaluated: list[tuple[str, Any]] = []
    evaluate([EventRegistration("A", NODE_ADD, helps(False, evaluated))], pod("B", "A"))
    assert len(evaluated) == 1


def test_remote_hints_are_called_only_for_pods_that_no_local_hint_wakes() -> None:
    waiting = [pod("A B", name="x"), pod("B", name="y"), pod("A", name="z")]
    decisions, remote = evaluate([B_FAR, A_YES], *waiting)
    assert decisions == [Decision.AFTER_BACKOFF, Decision.SKIP, Decision.AFTER_BACKOFF]
    assert remote == [RemoteHint(B_FAR, (1,))]


def test_registrations_for_pod_match_all_three_kinds() -> None:
    table = HintEvaluator(QueueingHintMap({"p": [EventRegistration("A", event(Resource.POD, ActionType.ADD))]}))
    for resource in (Resource.ASSIGNED_POD, Resource.UNSCHEDULED_POD, Resource.TARGET_POD):
        assert "p" in table.registrations.matching_by_profile(event(resource, ActionType.ADD))
    assert not table.registrations.matching_by_profile(NODE_ADD)


def test_answers_are_counted_as_the_metric_names_them() -> None:
    table = HintEvaluator(
        QueueingHintMap(
            {"p": [A_YES, EventRegistration("B", NODE_ADD, explode), EventRegistration("C", NODE_ADD, helps(False))]}
        )
    )
    table.evaluate("p", NODE_ADD, None, "node", [pod("A"), pod("B"), pod("C")])
    assert table.results == {
        ("A", "NodeAdd", "Queue"): 1,
        ("B", "NodeAdd", "Error"): 1,
        ("C", "NodeAdd", "QueueSkip"): 1,
    }


def test_the_events_that_a_refused_pod_waits_for_are_listed() -> None:
    table = HintEvaluator(
        QueueingHintMap(
            {"p": [EventRegistration("A", event(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)), B_YES]}
        )
    )
    assert table.registrations.event_labels("p", ["A"]) == ["NodeAdd", "NodeUpdateNodeTaint"]
    assert table.registrations.event_labels("p", ["C"]) == []


def test_an_event_finds_the_registrations_of_each_profile() -> None:
    hints = QueueingHintMap({"p": [A_YES], "without": [EventRegistration("A", POD_DELETE)], "q": [B_NO, B_FAR]})
    assert hints.matching_by_profile(NODE_ADD) == {"p": (A_YES,), "q": (B_NO, B_FAR)}
    assert [hints.has_registered(plugin, NODE_ADD) for plugin in "ABC"] == [True, True, False]
    hints.replace({"q": [A_NO]})
    assert hints.matching_by_profile(NODE_ADD) == {"q": (A_NO,)}


def test_an_event_that_always_helps_counts_as_a_hint_that_says_so() -> None:
    evaluator = HintEvaluator(QueueingHintMap({"p": [EventRegistration("A", NODE_ADD)]}))
    evaluator.evaluate("p", NODE_ADD, None, "node", [pod("A"), pod("A", name="q")])
    assert evaluator.results == {("A", "NodeAdd", "Queue"): 2}
