"""What informers report again changes nothing, and of what is gone nothing is left that decides about others."""

from collections.abc import Callable

import pytest

from tests.helpers import pod_group_builders as groups
from tests.helpers.queue_builders import NODE_ADD, T0, fail, parked, place, pod, popped, queue, record
from trireme.queueing.hints.queueing_hint_map import HintAnswer
from trireme.queueing.remote_calls import CallQueueingHint
from trireme.queueing.scheduling_queue import SchedulingQueue
from trireme.queueing.states import Active, BackOff, Done, Gated, InFlight, QueueState, Unschedulable


def _active(q: SchedulingQueue) -> None:
    """It is there."""


def _in_flight(q: SchedulingQueue) -> None:
    popped(q, T0)


def _done(q: SchedulingQueue) -> None:
    q.done(popped(q, T0)[0].uid, T0)


def _refused(q: SchedulingQueue) -> None:
    fail(q, T0, "Fit")


def _backing_off(q: SchedulingQueue) -> None:
    fail(q, T0)


@pytest.mark.parametrize(
    ("lead", "state"),
    [(_active, Active), (_in_flight, InFlight), (_done, Done), (_refused, Unschedulable), (_backing_off, BackOff)],
)
def test_a_pod_that_is_added_again_is_where_it_was(
    lead: Callable[[SchedulingQueue], None], state: type[QueueState]
) -> None:
    """A list shows all pods again: each would begin anew, without back-off, behind all others."""
    q = queue()
    q.add(record("p"), T0)
    lead(q)
    before = pod(q, "p")
    kept = (before.attempts, before.timestamp, before.rejectors, before.initial_attempt_timestamp)
    q.add(record("p"), T0 + 50)
    found = pod(q, "p")
    assert found is before
    assert type(found.state) is state
    assert (found.attempts, found.timestamp, found.rejectors, found.initial_attempt_timestamp) == kept
    assert q.statistics().incoming["active", "UnscheduledPodAdd"] == 1


def test_a_pod_of_the_same_name_that_was_made_again_begins_anew() -> None:
    q = parked()
    before = pod(q, "p")
    q.nominator.nominate(before.record, "n0")
    q.add(record("p", uid="other"), T0)
    assert pod(q, "p") is not before
    assert (place(q, "p"), q.nominator.node_of("uid-p")) == (Active, "")


@pytest.mark.parametrize("waits", [False, True], ids=["in flight", "refused"])
def test_events_are_needed_while_a_pod_is_tried_or_waits(waits: bool) -> None:
    """If nobody needs them, they are not even made: a pod that comes back would never hear of what helps it."""
    q = queue()
    assert not q.needs_events()
    q.add(record("p"), T0)
    assert not q.needs_events()
    (tried,) = popped(q, T0)
    assert q.needs_events()
    if waits:
        q.requeue(tried, T0, rejectors=frozenset({"Fit"}))
        assert q.needs_events()
        q.on_event(NODE_ADD, None, object(), T0)
    else:
        q.done(tried.uid, T0)
    assert not q.needs_events()


def test_nothing_is_kept_of_plugins_that_refuse_nobody_any_more() -> None:
    """The plugins of a canary have other names each time."""
    q = queue()
    for number in range(4):
        q.add(record(f"p{number}"), T0)
        fail(q, T0, "Fit", f"Canary{number}")
        q.delete(f"ns/p{number}", f"uid-p{number}", T0)
    assert not q._unschedulable._by_plugin
    assert not q._unschedulable.group_count


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again without its gate"])
def test_a_member_that_is_gone_gates_its_group_no_more(again: bool) -> None:
    """It is checked first the next time, by what it was."""
    closed = {"p1"}
    q = groups.grouping_queue(pre_enqueue=lambda each: "Gates" if each.key.removeprefix("ns/") in closed else "")
    groups.of_three(q)
    assert groups.place(q, "p0") is Gated
    assert q.groups is not None
    group = q.groups.group_of_member("uid-p0")
    assert group is not None
    assert group.blocker is group.members["uid-p1"]
    closed.clear()
    q.delete("ns/p1", "uid-p1", T0)
    if again:
        q.add(groups.member("p1", "g"), T0)
        assert groups.place(q, "p0") in (Active, BackOff)


def test_only_of_pod_groups_it_is_said_that_they_are_gone() -> None:
    """Their conditions and claims go with them; groups of groups have none of their own."""
    notified = groups.Notified()
    q = groups.grouping_queue(notified, composite=True)
    assert q.groups is not None
    q.groups.set_group(groups.of_groups("all"), T0)
    q.groups.set_group(groups.pod_group("g", 1, parent="all"), T0)
    q.groups.remove_group("ns/all", "uid-of-all", T0, composite=True)
    assert notified.gone == []
    q.groups.remove_group("ns/g", "uid-of-g", T0)
    assert notified.gone == ["uid-of-g"]


def test_a_pod_group_that_moves_to_another_tree_takes_its_own_placed_members_along() -> None:
    """Either tree would count members that it has not, and be bound with too few."""
    q = groups.grouping_queue(composite=True)
    assert q.groups is not None
    for tree in ("left", "right"):
        q.groups.set_group(groups.of_groups(tree), T0)
    for name in ("moves", "stays"):
        q.groups.set_group(groups.pod_group(name, 2, parent="left"), T0)
        q.add(groups.member(f"{name}-waits", name), T0)
        q.groups.member_placed(f"ns/{name}", f"uid-{name}-placed", T0)
    q.groups.set_group(groups.pod_group("moves", 2, parent="right"), T0)
    trees = {name: q.groups.group_of_member(f"uid-{name}-waits") for name in ("moves", "stays")}
    found = {name: dict(tree.placed) for name, tree in trees.items() if tree is not None}
    assert found == {"moves": {"uid-moves-placed": "moves"}, "stays": {"uid-stays-placed": "stays"}}


@pytest.mark.parametrize("answers", [None, [], [HintAnswer.SKIP] * 2], ids=["none", "too few", "too many"])
def test_a_hint_without_one_answer_for_each_pod_wakes_its_pods(answers: list[HintAnswer] | None) -> None:
    """Nobody knows whether the event helps them: an attempt in vain is better than a pod that sleeps on."""
    q = parked("p", "Far")
    (call,) = q.on_event(NODE_ADD, None, object(), T0 + 5)
    assert isinstance(call, CallQueueingHint)
    q.hint_answered(call.call_id, answers, T0 + 6)
    assert place(q, "p") in (Active, BackOff)
    q.hint_answered(call.call_id, [HintAnswer.SKIP], T0 + 7)  # it is not open any more


def test_a_nominated_member_that_is_classified_again_counts_by_its_new_class() -> None:
    q = groups.grouping_queue()
    groups.of_three(q)
    assert q.groups is not None
    group = q.groups.group_of_member("uid-p0")
    assert group is not None
    q.nominator.nominate(group.members["uid-p0"].record, "n0")
    q.reclassify("ns/p0", "uid-p0", 7)
    assert [nominated.class_id for nominated in q.nominator.pods_for("n0")] == [7]
    assert group.members["uid-p0"].record.class_id == 7


def test_where_groups_are_not_known_their_members_are_pods_as_others() -> None:
    q = queue()
    q.add(groups.member("p", "g"), T0)
    assert place(q, "p") is Active
    fail(q, T0, "Fit")
    assert place(q, "p") is Unschedulable
