"""The queue with groups: what changes around a group (objects, events, members) does to it, and to no other group."""

import pytest

from tests.helpers.pod_group_builders import (
    PROFILE,
    T0,
    Notified,
    forgotten,
    grouping_queue,
    member,
    of_groups,
    of_three,
    place,
    pod_group,
    popped,
    popped_and_refused,
    queue_gated_by_claims,
)
from trireme.framework.cluster_event import ActionType, ClusterEvent, Resource
from trireme.framework.sort_key import SortKey
from trireme.queueing.groups.queue_groups import NOTIFY_AFTER, GroupAttemptResult
from trireme.queueing.hints.queueing_hint_map import EventRegistration
from trireme.queueing.pending_pod import GivenSortKey
from trireme.queueing.pod_info import make_pod_info
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.scheduling_queue import PodBatch, SchedulingQueue
from trireme.queueing.states import Active, BackOff, Gated, Gone, GroupInFlight, WaitingForGroup

NODE_ADD = ClusterEvent(Resource.NODE, ActionType.ADD)
NODE_DELETE = ClusterEvent(Resource.NODE, ActionType.DELETE)


def _of_one(queue: SchedulingQueue, *names: str) -> None:
    """Groups of one member each, of the group's name."""
    assert queue.groups is not None
    for name in names:
        queue.groups.set_group(pod_group(name), T0)
        queue.add(member(f"p{name}", name), T0)


def _popped_names(queue: SchedulingQueue, count: int, now: float = T0) -> list[str]:
    return [popped(queue, now)[0].name for _ in range(count)]


def test_a_member_that_is_gone_is_nominated_no_more_and_in_no_state() -> None:
    queue = grouping_queue()
    of_three(queue)
    found = queue.contents.get("ns/p0")
    assert found is not None
    queue.nominator.nominate(found.record, "n1")
    queue.delete("ns/p0", "uid-p0", T0)
    assert (type(found.state), queue.nominator.node_of("uid-p0")) == (Gone, "")
    assert queue.contents.with_uid("ns/p0", "uid-p0") is None


def test_a_member_is_found_by_its_uid() -> None:
    queue = grouping_queue()
    of_three(queue)
    found = queue.contents.with_uid("ns/p0", "uid-p0")
    assert found is queue.contents.get("ns/p0")


@pytest.mark.parametrize(("version", "expected"), [("1", Gated), ("2", Active)], ids=["known", "new"])
def test_only_another_version_of_a_member_opens_its_gate(version: str, expected: type) -> None:
    queue = grouping_queue(
        pre_enqueue=lambda pod: "SchedulingGates" if pod.record.pod.parsed.gates else PreEnqueueResult.ALLOWED
    )
    queue.groups.set_group(pod_group("g"), T0)
    queue.add(member("p0", "g", schedulingGates=[{"name": "wait"}])._replace(resource_version="1"), T0)
    queue.update(member("p0", "g")._replace(resource_version=version), (), None, None, T0)
    assert place(queue, "p0") is expected


def test_an_event_checks_only_groups_whose_plugin_registered_it() -> None:
    checked = list[str]()

    def pre_enqueue(pod: QueuedPodInfo) -> str:
        checked.append(pod.key)
        return "Claims"

    registrations = [EventRegistration("Claims", NODE_ADD), EventRegistration("Other", NODE_DELETE)]
    queue = grouping_queue(registrations=registrations, pre_enqueue=pre_enqueue)
    of_three(queue)
    checked.clear()
    queue.on_event(NODE_DELETE, None, None, T0)
    assert checked == []
    queue.on_event(NODE_ADD, None, None, T0)
    assert checked


@pytest.mark.parametrize(("priority", "first"), [(5, "second"), (0, "first"), (-5, "first")])
def test_a_group_follows_the_priority_of_its_object(priority: int, first: str) -> None:
    queue = grouping_queue()
    _of_one(queue, "first", "second")
    queue.groups.set_group(pod_group("second", priority=priority), T0)
    assert _popped_names(queue, 1) == [first]


def test_a_group_that_changes_without_its_priority_keeps_its_place() -> None:
    queue = grouping_queue(composite=True)
    queue.groups.set_group(of_groups("x"), T0)
    queue.groups.set_group(pod_group("first", parent="x"), T0)
    queue.add(member("p", "first"), T0)
    _of_one(queue, "second")
    queue.groups.set_group(pod_group("first", parent="x", uid="another"), T0)
    queue.groups.set_group(of_groups("empty", parent="x"), T0)
    assert _popped_names(queue, 2) == ["x", "second"]


def test_a_group_keeps_its_place_if_a_sort_key_changes_nothing() -> None:
    queue = grouping_queue()
    _of_one(queue, "first", "second")
    queue.sort_anew("ns/pfirst", "uid-pfirst")
    assert _popped_names(queue, 2) == ["first", "second"]


def test_a_group_that_is_held_back_takes_the_place_of_its_sort_key_when_it_enters() -> None:
    closed = {"ns/plate": "Claims"}
    queue = grouping_queue(
        registrations=[EventRegistration("Claims", NODE_ADD)],
        pre_enqueue=lambda pod: closed.get(pod.key, PreEnqueueResult.ALLOWED),
    )
    _of_one(queue, "early", "late")
    found = queue.contents.get("ns/plate")
    assert found is not None
    found.record.pod.given_sort_key = GivenSortKey(SortKey((-1,)), 1, 1)
    queue.sort_anew("ns/plate", "uid-plate")
    assert place(queue, "plate") is Gated
    closed.clear()
    queue.on_event(NODE_ADD, None, None, T0)
    assert _popped_names(queue, 2) == ["late", "early"]


def test_a_group_that_moves_within_the_queue_is_handed_out_once() -> None:
    queue = grouping_queue()
    _of_one(queue, "g")
    found = queue.contents.get("ns/pg")
    assert found is not None
    found.record.pod.given_sort_key = GivenSortKey(SortKey((7,)), 1, 1)
    queue.sort_anew("ns/pg", "uid-pg")
    assert _popped_names(queue, 1) == ["g"]
    assert queue.pop(T0, 100) is None
    assert not queue.ready()


@pytest.mark.parametrize("tree", [False, True], ids=["object", "parent"])
def test_what_a_group_lacks_is_reported_after_a_while_and_once(tree: bool) -> None:
    notified = Notified()
    queue = grouping_queue(notified, composite=True)
    if tree:
        queue.groups.set_group(pod_group("g", parent="above"), T0)
    queue.add(member("p0", "g"), T0)
    queue.flush_unschedulable(T0 + NOTIFY_AFTER - 0.1)
    assert notified.lacking == []
    for _ in range(2):
        queue.flush_unschedulable(T0 + NOTIFY_AFTER)
        assert notified.lacking == ["ns/g"]
    expected = "for CompositePodGroup ns/above to appear" if tree else "for PodGroup ns/g to appear"
    assert notified.missing == [expected]


def test_a_group_that_is_part_of_itself_is_reported_so() -> None:
    notified = Notified()
    queue = grouping_queue(notified, composite=True)
    queue.groups.set_group(of_groups("x", parent="x"), T0)
    queue.groups.set_group(pod_group("g", parent="x"), T0)
    queue.add(member("p0", "g"), T0)
    queue.flush_unschedulable(T0 + NOTIFY_AFTER)
    assert notified.missing == ["in vain: CompositePodGroup ns/x is part of itself"]


def test_a_group_that_lacks_members_is_reported_without_an_object() -> None:
    notified = Notified()
    queue = grouping_queue(notified)
    of_three(queue, 1)
    queue.flush_unschedulable(T0 + NOTIFY_AFTER)
    assert (notified.lacking, notified.missing) == (["ns/g"], [""])


def test_a_group_whose_object_came_back_during_the_attempt_is_not_reported() -> None:
    notified = Notified()
    queue = grouping_queue(notified)
    of_three(queue)
    popped(queue)
    for name in ("late", "later"):
        queue.add(member(name, "g"), T0)
    queue.groups.remove_group("ns/g", "uid-of-g", T0)
    assert [place(queue, name) for name in ("late", "later")] == [WaitingForGroup] * 2
    queue.groups.set_group(pod_group("g", min_count=3), T0)
    assert [place(queue, name) for name in ("late", "later")] == [GroupInFlight] * 2
    queue.flush_unschedulable(T0 + NOTIFY_AFTER)
    assert notified.lacking == []


def test_unknown_members_change_nothing() -> None:
    queue = grouping_queue()
    of_three(queue)
    assert queue.groups.member_removed("unknown", T0) == ()
    queue.activate([("ns/unknown", "unknown")], T0)
    assert queue.statistics().active == 3


def test_a_group_and_pods_are_activated_together() -> None:
    queue = grouping_queue()
    of_three(queue)
    group = popped_and_refused(queue)
    queue.groups.finish_attempt(group, GroupAttemptResult.UNSCHEDULABLE, T0)
    queue.add(make_pod_info("ns/single", "uid-single", 7, PROFILE, 0, pod=member("single", "").pod), T0)
    batch = queue.pop(T0, 1)
    assert isinstance(batch, PodBatch)  # the only group backs off
    queue.requeue(batch.pods[0], T0)
    queue.activate([("ns/p0", "uid-p0"), ("ns/single", "uid-single")], T0)
    assert [place(queue, name) for name in ("p0", "single")] == [Active, Active]


def test_members_are_counted_as_pods_when_they_come_in_and_are_popped() -> None:
    queue = grouping_queue()
    of_three(queue)
    assert queue.statistics().incoming == {("active", "UnscheduledPodAdd"): 3}
    group = popped_and_refused(queue)
    queue.groups.finish_attempt(group, GroupAttemptResult.UNSCHEDULABLE, T0)
    found = queue.statistics()
    assert found.incoming["backoff", "ScheduleAttemptFailure"] == 3
    assert (found.scheduling_cycle, found.batches) == (3, 1)


def test_what_was_scheduled_in_part_begins_its_back_off_anew() -> None:
    """Failures before count no more; the remaining members are tried before what was added since."""
    queue = grouping_queue()
    of_three(queue)
    found = []
    results = [GroupAttemptResult.UNSCHEDULABLE, GroupAttemptResult.ERROR, GroupAttemptResult.SCHEDULED]
    for number, how in enumerate((*results, *results[:2])):
        queue.flush_backoff(T0 + 100 * number)
        group, pods = popped(queue, T0 + 100 * number)
        for pod in pods:
            queue.requeue(pod, T0 + 100 * number, rejectors=frozenset({"Fit"}))
        queue.groups.finish_attempt(group, how, T0 + 100 * number)
        found.append((group.unschedulable_count, group.consecutive_errors, group.timestamp - T0))
    assert found == [(1, 0, 0), (1, 1, 100), (0, 0, 100), (1, 0, 300), (1, 1, 400)]


def test_a_group_of_new_members_is_as_old_as_these_and_has_not_failed() -> None:
    queue = grouping_queue()
    of_three(queue)
    for _ in range(4):
        queue.activate([("ns/p0", "uid-p0")], T0)
        group = popped_and_refused(queue)
        queue.groups.finish_attempt(group, GroupAttemptResult.UNSCHEDULABLE, T0)
    for number in range(3):
        queue.delete(f"ns/p{number}", f"uid-p{number}", T0)
    for number in range(3):
        queue.add(member(f"q{number}", "g"), T0 + 50)
    assert (group.timestamp, group.unschedulable_count) == (T0 + 50, 0)
    assert place(queue, "q0") is Active
    group = popped_and_refused(queue)
    queue.groups.finish_attempt(group, GroupAttemptResult.UNSCHEDULABLE, T0 + 50)
    found = queue.contents.get("ns/q0")
    assert found is not None
    assert found.state == BackOff(T0 + 51)


def test_a_placed_member_is_counted_once_and_what_is_left_of_its_group_is_forgotten() -> None:
    queue = grouping_queue()
    _of_one(queue, "g")
    group, (pod,) = popped(queue)
    queue.done(pod.uid, T0)
    queue.groups.finish_attempt(group, GroupAttemptResult.SCHEDULED, T0)
    for _ in range(2):
        queue.groups.member_placed("ns/g", pod.uid, T0)
        assert group.known == {"g": 1}
    queue.groups.member_removed(pod.uid, T0)
    assert group.known == {}
    queue.groups.remove_group("ns/g", "uid-of-g", T0)
    assert len(queue.groups.registry) == 0


@pytest.mark.parametrize("how", ["moves", "loses its parent"])
def test_a_tree_is_held_back_no_more_for_a_member_that_left_it(how: str) -> None:
    queue = grouping_queue(
        composite=True,
        pre_enqueue=lambda pod: "SchedulingGates" if pod.record.pod.parsed.gates else PreEnqueueResult.ALLOWED,
    )
    for tree in ("left", "right"):
        queue.groups.set_group(of_groups(tree), T0)
    for name, gates in (("free", []), ("gated", [{"name": "wait"}])):
        queue.groups.set_group(pod_group(name, parent="left"), T0)
        queue.add(member(f"p-{name}", name, schedulingGates=gates), T0)
    assert [place(queue, name) for name in ("p-free", "p-gated")] == [Gated, Gated]
    queue.groups.set_group(pod_group("gated", parent="right" if how == "moves" else ""), T0)
    assert [place(queue, name) for name in ("p-free", "p-gated")] == [Active, Gated]
    queue.update(member("p-gated", "gated")._replace(resource_version="2"), (), None, None, T0)
    assert place(queue, "p-gated") is Active
    assert forgotten(queue)


def test_a_group_that_is_being_tried_is_not_queued_by_an_event() -> None:
    """It would be tried twice at once."""
    closed = {"closed": False}
    queue = queue_gated_by_claims(closed)
    of_three(queue)
    popped(queue)
    queue.on_event(NODE_ADD, None, None, T0)
    queue.add(member("late", "g"), T0)
    queue.on_event(NODE_ADD, None, None, T0)
    assert queue.pop(T0, 100) is None


def test_a_late_member_of_an_active_group_does_not_move_it() -> None:
    queue = grouping_queue()
    _of_one(queue, "first", "second")
    queue.add(member("late", "first"), T0)
    assert _popped_names(queue, 2) == ["first", "second"]


def test_a_pod_group_without_members_that_joins_a_tree_does_not_move_it() -> None:
    queue = grouping_queue(composite=True)
    queue.groups.set_group(of_groups("x"), T0)
    queue.groups.set_group(pod_group("first", parent="x"), T0)
    queue.add(member("p", "first"), T0)
    _of_one(queue, "second")
    queue.groups.set_group(pod_group("empty", parent="x"), T0)
    assert _popped_names(queue, 2) == ["x", "second"]


def test_nothing_is_kept_of_groups_that_nobody_knows_any_more() -> None:
    queue = grouping_queue()
    queue.groups.member_placed("ns/ghost", "uid-placed", T0)
    queue.groups.member_removed("uid-placed", T0)
    assert len(queue.groups.registry) == 0
    _of_one(queue, "g")
    group, (pod,) = popped(queue)
    queue.groups.remove_group("ns/g", "uid-of-g", T0)
    queue.delete(pod.key, pod.uid, T0)
    queue.groups.finish_attempt(group, GroupAttemptResult.ERROR, T0)
    assert len(queue.groups.registry) == 0


def test_the_attempt_at_members_begins_when_their_group_is_popped() -> None:
    queue = grouping_queue()
    of_three(queue)
    _, pods = popped(queue, T0 + 5)
    assert [pod.popped_at for pod in pods] == [T0 + 5] * 3


def test_a_group_that_lacks_nothing_is_not_reported() -> None:
    notified = Notified()
    queue = grouping_queue(notified)
    of_three(queue)
    queue.flush_unschedulable(T0 + 2 * NOTIFY_AFTER)
    assert notified.lacking == []


def test_a_group_that_begins_again_does_not_wait_for_what_its_former_members_did() -> None:
    closed = {"ns/new": "Claims"}
    queue = grouping_queue(
        registrations=[EventRegistration("Claims", NODE_ADD)],
        pre_enqueue=lambda pod: closed.get(pod.key, PreEnqueueResult.ALLOWED),
    )
    _of_one(queue, "g")
    for _ in range(4):
        queue.activate([("ns/pg", "uid-pg")], T0)
        group = popped_and_refused(queue)
        queue.groups.finish_attempt(group, GroupAttemptResult.UNSCHEDULABLE, T0)
    queue.delete("ns/pg", "uid-pg", T0)
    queue.add(member("new", "g"), T0)
    closed.clear()
    queue.on_event(NODE_ADD, None, None, T0)
    assert place(queue, "new") is Active


def test_a_tree_enters_when_it_is_made_whole_by_a_group_whose_members_wait_already() -> None:
    queue = grouping_queue(composite=True)
    queue.groups.set_group(of_groups("x", 2), T0)
    for name, parent in (("first", "x"), ("second", "")):
        queue.groups.set_group(pod_group(name, 1, parent=parent), T0)
        queue.add(member(f"p-{name}", name), T0)
    assert place(queue, "p-first") is Gated
    queue.groups.set_group(pod_group("second", 1, parent="x"), T0)
    assert [place(queue, f"p-{name}") for name in ("first", "second")] == [Active, Active]


def test_members_join_a_tree_with_others_that_have_none() -> None:
    """Whichever of the PodGroups comes first."""
    queue = grouping_queue(composite=True)
    for name in ("x", "between"):
        queue.groups.set_group(of_groups(name), T0)
    queue.groups.set_group(pod_group("first", parent="x"), T0)
    queue.add(member("p", "first"), T0)
    for number in range(6):
        queue.groups.set_group(pod_group(f"empty{number}", parent="between"), T0)
    queue.groups.set_group(pod_group("joins", parent="between"), T0)
    queue.add(member("q", "joins"), T0)
    queue.groups.set_group(of_groups("between", parent="x"), T0)
    assert [place(queue, name) for name in "pq"] == [Active, Active]
    assert queue.statistics().groups_by_queue["active"] == 1


def test_where_no_plugin_looks_at_gangs_any_number_of_members_is_tried() -> None:
    queue = grouping_queue(gang_profiles=frozenset())
    of_three(queue, 1)
    assert len(popped(queue)[1]) == 1


def test_a_member_that_is_reported_again_is_where_it_was() -> None:
    """A list shows all pods again: it would begin anew, and its group be taken apart."""
    queue = grouping_queue()
    of_three(queue)
    found = queue.contents.get("ns/p0")
    queue.add(member("p0", "g"), T0 + 50)
    assert queue.contents.get("ns/p0") is found
    popped(queue)
    queue.add(member("p0", "g"), T0 + 50)
    assert queue.contents.get("ns/p0") is found
    assert queue.statistics().in_flight == 3


def test_a_group_whose_members_are_being_bound_is_not_activated() -> None:
    queue = grouping_queue()
    _of_one(queue, "g")
    group, (pod,) = popped(queue)
    queue.done(pod.uid, T0)
    queue.groups.finish_attempt(group, GroupAttemptResult.SCHEDULED, T0)
    queue.activate([(pod.key, pod.uid)], T0)
    assert queue.pop(T0, 100) is None
