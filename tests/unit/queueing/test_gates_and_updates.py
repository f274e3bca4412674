"""SchedulingQueue: gates, and updates and deletions in each place."""

import pytest

from tests.helpers.queue_builders import (
    GATES_GONE,
    NODE_ADD,
    OWN_LABEL,
    T0,
    fail,
    gate_of,
    parked,
    place,
    pod,
    pop_names,
    popped,
    queue,
    record,
)
from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.states import Active, BackOff, Gated, QueueState, Unschedulable

# --- gates -----------------------------------------------------------------------------------------------------------


def test_a_gated_pod_enters_when_its_gates_are_gone() -> None:
    closed = {"p": "Gates"}
    q = queue(pre_enqueue=gate_of(closed))
    q.add(record("p"), T0)
    where = q.contents.status_of(pod(q, "p"))
    assert (type(where.state), where.state.plugin, where.events) == (Gated, "Gates", (GATES_GONE.label,))
    q.update(record("p"), [OWN_LABEL], "old", "new", T0 + 1)
    assert place(q, "p") is Gated
    closed.clear()
    q.update(record("p"), [GATES_GONE], "old", "new", T0 + 7)
    assert place(q, "p") is Active
    assert (pod(q, "p").timestamp, pod(q, "p").initial_attempt_timestamp) == (T0, T0 + 7)
    assert q.statistics().pending == {"active": 1, "backoff": 0, "unschedulable": 0, "gated": 0}


def test_a_pod_that_its_gate_sends_back_did_not_come_in() -> None:
    q = queue(pre_enqueue=gate_of({"p": "Gates"}))
    q.add(record("p"), T0)
    q.update(record("p"), [GATES_GONE], "old", "new", T0)
    q.activate([("ns/p", "uid-p")], T0)
    assert q.statistics().incoming == {("unschedulable", "UnscheduledPodAdd"): 1}
    q.flush_unschedulable(T0 + 301)
    assert q.statistics().incoming["unschedulable", "UnschedulableTimeout"] == 1


def test_a_gated_pod_is_woken_by_events_of_its_gate_only() -> None:
    evaluated: list[str] = []

    def pre_enqueue(pod: QueuedPodInfo) -> str | PreEnqueueResult:
        evaluated.append(pod.record.key)
        return "Gates"

    q = parked()
    q._transitions._pre_enqueue = pre_enqueue
    q.on_event(NODE_ADD, None, "node", T0 + 5)
    assert (evaluated, pod(q, "p").gated_by) == (["ns/p"], "Gates")
    assert pod(q, "p").rejectors == {"Fit", "Gates"}
    q.on_event(NODE_ADD, None, "node", T0 + 6)
    assert evaluated == ["ns/p"]


def test_pods_that_stay_gated_are_not_moved() -> None:
    q = parked()
    q._transitions._pre_enqueue = gate_of(closed := {"p": "Fit"})
    q.on_event(NODE_ADD, None, "node", T0 + 5)
    stamp, counted = pod(q, "p").stamp, dict(q._transitions.incoming)
    q.on_event(NODE_ADD, None, "node", T0 + 6)
    assert (pod(q, "p").stamp, dict(q._transitions.incoming)) == (stamp, counted)
    closed.clear()
    q.on_event(NODE_ADD, None, "node", T0 + 7)
    assert (place(q, "p"), pod(q, "p").gated_by) == (Active, "")


def test_gated_pods_are_flushed_and_stay_quiet_for_another_five_minutes() -> None:
    closed = {"p": "Gates"}
    calls: list[float] = []

    def pre_enqueue(pod: QueuedPodInfo) -> str | PreEnqueueResult:
        calls.append(now)
        return gate_of(closed)(pod)

    q = queue(pre_enqueue=pre_enqueue)
    now = T0
    q.add(record("p"), T0)
    for now in (T0 + 100, T0 + 301, T0 + 331, T0 + 602):
        q.flush_unschedulable(now)
    assert calls == [T0, T0 + 301, T0 + 602]
    assert not pod(q, "p").flushed
    closed.clear()
    q.flush_unschedulable(T0 + 1000)
    assert place(q, "p") is Active


def test_a_gate_may_close_while_the_pod_is_tried() -> None:
    q = queue(pre_enqueue=gate_of(closed := {}))
    q.add(record("p"), T0)
    pods = popped(q, T0, 1)
    closed["p"] = "DefaultPreemption"
    q.on_event(NODE_ADD, None, "node", T0)
    q.requeue(pods[0], T0, rejectors=frozenset({"Fit"}))
    assert (place(q, "p"), pod(q, "p").gated_by) == (Gated, "DefaultPreemption")
    closed.clear()
    q.activate([("ns/p", "uid-p")], T0)
    assert (place(q, "p"), pod(q, "p").gated_by) == (Active, "")


# --- updates and deletions in each place -----------------------------------------------------------------------------


def test_an_update_moves_an_active_pod_to_where_it_belongs_now() -> None:
    q = queue()
    for name in ("a", "b", "c"):
        q.add(record(name), T0)
    q.update(record("b", class_id=2), [OWN_LABEL], "old", "new", T0)
    assert [pop_names(q, T0, 8) for _ in range(2)] == [["a", "c"], ["b"]]


def test_an_update_does_not_change_the_backoff() -> None:
    q = queue()
    q.add(record("p"), T0)
    fail(q, T0)
    q.update(record("p", class_id=2, priority=3), [OWN_LABEL], "old", "new", T0 + 0.5)
    assert (place(q, "p"), pod(q, "p").backoff_expiration) == (BackOff, T0 + 1)
    q.flush_backoff(T0 + 2)
    assert q.peek_next_classes(1)[0].key == 2


@pytest.mark.parametrize(
    ("plugin", "events", "expected"),
    [
        pytest.param("Label", [OWN_LABEL], Active, id="helps"),
        pytest.param("Label", [GATES_GONE, OWN_LABEL], Active, id="one-of-several-helps"),
        pytest.param("Fit", [OWN_LABEL], Unschedulable, id="does-not-help"),
        pytest.param("Label", [], Unschedulable, id="nothing-that-matters"),
    ],
)
def test_an_update_wakes_a_refused_pod_if_it_may_help(
    plugin: str, events: list[ClusterEvent], expected: type[QueueState]
) -> None:
    q = parked("p", plugin)
    q.update(record("p"), events, "old", "new", T0 + 5)
    assert place(q, "p") is expected


def test_an_update_of_an_unknown_pod_adds_it_and_a_repeated_one_does_nothing() -> None:
    q = queue()
    q.update(record("p", resource_version="1"), [OWN_LABEL], "old", "new", T0)
    assert q.statistics().incoming == {("active", "UnscheduledPodAdd"): 1}
    fail(q, T0, "Label")
    q.update(record("p", resource_version="1"), [OWN_LABEL], "old", "new", T0 + 5)
    assert place(q, "p") is Unschedulable
    q.update(record("p", uid="new", resource_version="7"), [OWN_LABEL], "old", "new", T0 + 5)
    assert (place(q, "p"), pod(q, "p").attempts) == (Active, 0)


@pytest.mark.parametrize("name", ["active", "backoff", "error", "refused", "gated", "called"])
def test_a_deleted_pod_is_gone_from_wherever_it_was(name: str) -> None:
    q = queue(pre_enqueue=gate_of({"gated": "Gates", "called": PreEnqueueResult.CALL_REMOTE}))
    for class_id, (each, plugins) in enumerate({"refused": ["Fit"], "backoff": ["Fit"], "error": []}.items()):
        q.add(record(each, class_id), T0)
        fail(q, T0, *plugins)
    q.on_event(NODE_ADD, None, "node", T0)
    fail(q, T0, "Taint")
    for each in ("gated", "called", "active"):
        q.add(record(each, 9), T0)
    before = q.statistics()
    assert len(q.contents.waiting_pods()) == 6
    q.delete(f"ns/{name}", "another-uid", T0)
    assert len(q.contents.waiting_pods()) == 6
    q.delete(f"ns/{name}", f"uid-{name}", T0)
    q.delete(f"ns/{name}", f"uid-{name}", T0)
    assert place(q, name) is None
    assert sum(q.statistics().pending.values()) == sum(before.pending.values()) - 1
    q.flush_backoff(T0 + 60)
    q.flush_unschedulable(T0 + 900)
    while q.ready():
        assert name not in pop_names(q, T0 + 900)


def test_the_nominator_follows_the_objects() -> None:
    q = queue(pre_enqueue=gate_of({"gated": "Gates"}))
    for name in ("p", "gated", "late"):
        q.add(record(name, nominated_node="n1" if name != "late" else ""), T0)
    assert [each.key for each in q.nominator.pods_for("n1")] == ["ns/p", "ns/gated"]
    q.update(record("late", nominated_node="n2"), [], "old", "new", T0)
    q.update(record("p"), [], "old", "new", T0)
    assert [each.key for each in q.nominator.pods_for("n1")] == ["ns/gated"]
    assert [each.key for each in q.nominator.pods_for("n2")] == ["ns/late"]
    q.delete("ns/gated", "uid-gated", T0)
    q.add(record("late", uid="made-again"), T0)
    assert len(q.nominator) == 0


def test_a_nominated_pod_is_tried_alone_before_its_object_has_the_nomination() -> None:
    """Batched with others of its class, it would find the room that is reserved for it taken by itself."""
    q = queue()
    for name in ("p", "other"):
        q.add(record(name), T0)
    for tried in popped(q, T0, 10):
        promised = "n1" if tried.key == "ns/p" else None
        q.requeue(tried, T0, rejectors=frozenset({"Fit"}), nominated_node=promised)
    q.update(record("p", resource_version="2"), [], "old", "new", T0)
    q.activate([("ns/p", "uid-p"), ("ns/other", "uid-other")], T0 + 60)
    batches = [[tried.key for tried in popped(q, T0 + 60, 10)] for _ in range(2)]
    assert sorted(batches) == [["ns/other"], ["ns/p"]]
