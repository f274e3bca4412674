"""The queue with groups: members are queued as one, wherever they come from and whatever happens to their PodGroup."""

import pytest

from tests.helpers.pod_group_builders import (
    PROFILE,
    T0,
    Notified,
    forgotten,
    grouping_queue,
    member,
    names,
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
from trireme.queueing.groups.queued_group import PodGroupBatch
from trireme.queueing.hints.queueing_hint_map import EventRegistration
from trireme.queueing.pending_pod import GivenSortKey
from trireme.queueing.pod_info import make_pod_info
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.states import (
    Active,
    BackOff,
    Done,
    Gated,
    Gone,
    GroupInFlight,
    WaitingForGroup,
)
from trireme.queueing.transition_log import ImpossibleTransition

NODE_ADD = ClusterEvent(Resource.NODE, ActionType.ADD)


def test_a_gang_is_handed_out_whole_once_its_minimum_is_there() -> None:
    queue = grouping_queue()
    of_three(queue, 2)
    assert queue.pop(T0, 100) is None
    assert place(queue, "p0") is Gated
    queue.add(member("p2", "g"), T0 + 2)
    assert [place(queue, f"p{n}") for n in range(3)] == [Active] * 3
    _, pods = popped(queue)
    assert names(pods) == ["p0", "p1", "p2"]
    assert [pod.attempts for pod in pods] == [1, 1, 1]
    assert queue.pop(T0, 100) is None


def test_members_come_by_priority_then_attempts_then_age_then_name() -> None:
    """The order in which members are tried decides which of them fit."""
    queue = grouping_queue()
    queue.groups.set_group(pod_group("g"), T0)
    for name, priority, now in (("b", 0, T0), ("a", 0, T0), ("late", 0, T0 + 1), ("vip", 5, T0 + 2)):
        queue.add(member(name, "g", priority=priority), now)
    group, pods = popped(queue)
    assert names(pods) == ["vip", "a", "b", "late"]
    queue.requeue(next(pod for pod in pods if pod.key == "ns/late"), T0 + 9, rejectors=frozenset({"Fit"}))
    for pod in pods:
        queue.done(pod.uid, T0)
    queue.groups.finish_attempt(group, GroupAttemptResult.SCHEDULED, T0 + 9)
    queue.add(member("new", "g"), T0)
    assert names(popped(queue, T0 + 9)[1]) == ["late", "new"]


def test_members_without_their_pod_group_are_held_and_come_with_it() -> None:
    """A pod may be made before its group; it must neither be scheduled alone nor be forgotten."""
    queue = grouping_queue()
    queue.add(member("p0", "g"), T0)
    assert (place(queue, "p0"), queue.statistics().waiting_for_group) == (WaitingForGroup, 1)
    assert queue.pop(T0, 100) is None
    queue.groups.set_group(pod_group("g"), T0)
    assert names(popped(queue)[1]) == ["p0"]


def test_the_group_has_the_priority_of_its_pod_group() -> None:
    """Groups and single pods share one order."""
    queue = grouping_queue()
    queue.groups.set_group(pod_group("g", priority=10), T0)
    single = make_pod_info("ns/single", "uid-single", 7, PROFILE, 5, pod=member("single", "").pod)
    queue.add(single, T0)
    queue.add(member("p", "g", priority=10), T0 + 1)
    first, second = queue.pop(T0, 100), queue.pop(T0, 100)
    assert first is not None
    assert second is not None
    assert (type(first), names(second.pods)) == (PodGroupBatch, ["single"])


def test_a_group_is_where_the_first_of_its_members_would_be() -> None:
    """If this fails, a group is compared by priority with pods that a QueueSort plugin orders, or stays put."""
    queue = grouping_queue()
    for name, level in (("g", 2), ("h", 1)):
        queue.groups.set_group(pod_group(name), T0)
        for number in range(2):
            pod = member(f"{name}{number}", name)
            pod.pod.given_sort_key = GivenSortKey(SortKey((level + number,)), 1, 1)
            queue.add(pod.sorted_anew(), T0)
    last = queue.contents.get("ns/g1")
    assert last is not None
    last.record.pod.given_sort_key = GivenSortKey(SortKey((0,)), 1, 2)
    queue.sort_anew("ns/g1", last.uid)
    assert [popped(queue)[0].name, popped(queue)[0].name] == ["g", "h"]


def test_one_gated_member_holds_back_all_until_its_gate_is_gone() -> None:
    """All go or none: a gated member counts."""
    queue = grouping_queue(
        pre_enqueue=lambda pod: "SchedulingGates" if pod.record.pod.parsed.gates else PreEnqueueResult.ALLOWED
    )
    queue.groups.set_group(pod_group("g", min_count=2), T0)
    queue.add(member("p0", "g"), T0)
    queue.add(member("p1", "g", schedulingGates=[{"name": "wait"}]), T0)
    found = queue.contents.get("ns/p0")
    assert found is not None
    where = queue.contents.status_of(found)
    assert (type(where.state), where.state.plugin, where.group) == (Gated, "SchedulingGates", "ns/g")
    queue.update(member("p1", "g"), (), None, None, T0)
    assert len(popped(queue)[1]) == 2


def test_a_gated_member_that_comes_late_takes_the_group_out_of_the_active_queue() -> None:
    """What is active must be what may be tried."""
    queue = grouping_queue(
        pre_enqueue=lambda pod: "SchedulingGates" if pod.record.pod.parsed.gates else PreEnqueueResult.ALLOWED
    )
    of_three(queue)
    queue.add(member("p3", "g", schedulingGates=[{"name": "wait"}]), T0)
    assert queue.pop(T0, 100) is None
    queue.delete("ns/p3", "uid-p3", T0)
    assert len(popped(queue)[1]) == 3


def test_an_event_registered_by_pre_enqueue_reactivates_the_group() -> None:
    """A plugin's PreEnqueue may wait for any object; without this its groups would sleep until the flush."""
    closed = {"closed": True}
    queue = queue_gated_by_claims(closed)
    of_three(queue)
    assert place(queue, "p0") is Gated
    closed["closed"] = False
    queue.on_event(ClusterEvent(Resource.NODE, ActionType.DELETE), None, None, T0)
    assert place(queue, "p0") is Gated
    queue.on_event(NODE_ADD, None, None, T0)
    assert place(queue, "p0") is Active


@pytest.mark.parametrize("how", ["event", "other-plugins", "flush"])
def test_all_groups_that_are_held_back_are_checked_again(how: str) -> None:
    """The second one would sleep until somebody thinks of it."""
    closed = {"closed": True}
    queue = queue_gated_by_claims(closed)
    for name in "ghi":
        queue.groups.set_group(pod_group(name), T0)
        queue.add(member(f"p{name}", name), T0)
    assert [place(queue, f"p{name}") for name in "ghi"] == [Gated] * 3
    assert queue.needs_events()
    closed["closed"] = False
    if how == "event":
        queue.on_event(NODE_ADD, None, None, T0)
    elif how == "other-plugins":
        queue.retry_all(NODE_ADD, T0)
    else:
        queue.flush_unschedulable(T0 + 330)
    assert [place(queue, f"p{name}") for name in "ghi"] == [Active] * 3
    assert not queue.needs_events()
    closed["closed"] = True
    queue.recheck_pre_enqueue(PROFILE, NODE_ADD, T0)
    assert [place(queue, f"p{name}") for name in "ghi"] == [Gated] * 3


@pytest.mark.parametrize("done", [False, True], ids=["in-flight", "done"])
def test_a_member_is_tried_as_it_was_and_comes_back_as_it_is(done: bool) -> None:
    """An attempt that sees another pod in its middle decides by two of them."""
    queue = grouping_queue()
    queue.groups.set_group(pod_group("g"), T0)
    queue.add(member("p0", "g"), T0)
    group, (pod,) = popped(queue)
    record_of_attempt = pod.record
    if done:
        queue.done(pod.uid, T0)
    queue.update(member("p0", "g")._replace(resource_version="2"), (), None, None, T0)
    queue.reclassify(pod.key, pod.uid, 77)
    pod.latest.pod.given_sort_key = GivenSortKey(SortKey((9,)), 77, 1)
    queue.sort_anew(pod.key, pod.uid)
    assert pod.record is record_of_attempt
    queue.requeue(pod, T0, rejectors=frozenset({"Fit"}))
    assert (pod.record.resource_version, pod.record.class_id, pod.record.level) == ("2", 77, (9,))
    queue.groups.finish_attempt(group, GroupAttemptResult.UNSCHEDULABLE, T0)


def test_a_group_is_not_let_go_by_the_flush_before_five_minutes() -> None:
    """A group whose last victim is still terminating would be tried in vain; kube-scheduler waits for the event."""
    closed, checked = {"closed": True}, list[str]()

    def pre_enqueue(pod: QueuedPodInfo) -> str | PreEnqueueResult:
        checked.append(pod.uid)
        return "Claims" if closed["closed"] else PreEnqueueResult.ALLOWED

    queue = grouping_queue(pre_enqueue=pre_enqueue)
    of_three(queue)
    checked.clear()
    queue.flush_unschedulable(T0 + 300)
    assert checked == []
    queue.flush_unschedulable(T0 + 330)
    assert checked
    closed["closed"] = False
    queue.flush_unschedulable(T0 + 360)
    assert place(queue, "p0") is Gated
    queue.flush_unschedulable(T0 + 660)
    assert place(queue, "p0") is Active


@pytest.mark.parametrize(
    "how", [GroupAttemptResult.UNSCHEDULABLE, GroupAttemptResult.WAITING, GroupAttemptResult.ERROR]
)
def test_members_of_a_group_that_backs_off_count_by_how_it_failed(how: GroupAttemptResult) -> None:
    queue = grouping_queue()
    of_three(queue)
    group = popped_and_refused(queue)
    queue.groups.finish_attempt(group, how, T0)
    statistics, by_error = queue.statistics(), how is GroupAttemptResult.ERROR
    assert (statistics.backoff, statistics.error_backoff) == ((0, 3) if by_error else (3, 0))
    assert statistics.pending["backoff"] == statistics.members_by_queue["backoff"] == 3


@pytest.mark.parametrize(
    "how", [GroupAttemptResult.UNSCHEDULABLE, GroupAttemptResult.WAITING, GroupAttemptResult.ERROR]
)
def test_a_group_that_failed_backs_off_as_a_whole_and_comes_again_by_itself(how: GroupAttemptResult) -> None:
    """Hints are not evaluated for groups: time alone brings them back, and not before."""
    queue = grouping_queue()
    of_three(queue)
    group = popped_and_refused(queue)
    assert [place(queue, f"p{n}") for n in range(3)] == [GroupInFlight] * 3
    queue.groups.finish_attempt(group, how, T0)
    assert [place(queue, f"p{n}") for n in range(3)] == [BackOff] * 3
    assert queue.pop(T0, 100) is None
    queue.flush_backoff(T0 + 2)
    assert len(popped(queue, T0 + 2)[1]) == 3


@pytest.mark.parametrize(("failures", "members", "seconds"), [(1, 3, 1), (3, 3, 4), (5, 1, 10), (5, 4, 16), (6, 4, 20)])
def test_a_big_group_may_back_off_for_longer(failures: int, members: int, seconds: int) -> None:
    """The maximum grows with the root of the number of members."""
    queue = grouping_queue()
    queue.groups.set_group(pod_group("g"), T0)
    for number in range(members):
        queue.add(member(f"p{number}", "g"), T0)
    for _ in range(failures):
        queue.activate([("ns/p0", "uid-p0")], T0)
        group = popped_and_refused(queue)
        queue.groups.finish_attempt(group, GroupAttemptResult.UNSCHEDULABLE, T0)
    found = queue.contents.get("ns/p0")
    assert found is not None
    where = queue.contents.status_of(found)
    assert where.state == BackOff(T0 + seconds)


def test_the_rest_of_a_placed_group_is_retried_at_once() -> None:
    """Those beyond the minimum that did not fit must not wait for an event that will not come."""
    queue = grouping_queue()
    of_three(queue)
    group, pods = popped(queue)
    queue.requeue(pods[0], T0, rejectors=frozenset({"Fit"}))
    for pod in pods[1:]:
        queue.done(pod.uid, T0)
    queue.groups.finish_attempt(group, GroupAttemptResult.SCHEDULED, T0)
    assert (place(queue, "p0"), place(queue, "p1")) == (Active, Done)


def test_a_member_created_during_the_attempt_joins_after_it() -> None:
    """A late member must neither be lost nor be tried beside its group."""
    queue = grouping_queue()
    of_three(queue)
    group, pods = popped(queue)
    queue.add(member("late", "g"), T0)
    assert (place(queue, "late"), queue.statistics().group_in_flight) == (GroupInFlight, 1)
    assert queue.pop(T0, 100) is None
    for pod in pods:
        queue.done(pod.uid, T0)
    queue.groups.finish_attempt(group, GroupAttemptResult.SCHEDULED, T0)
    assert names(popped(queue)[1]) == ["late"]


def test_a_pod_group_that_is_deleted_leaves_its_members_waiting_for_another() -> None:
    """Wherever they are: queued, or being tried."""
    notified = Notified()
    queue = grouping_queue(notified)
    of_three(queue)
    queue.groups.remove_group("ns/g", "uid-of-g", T0)
    assert [place(queue, f"p{n}") for n in range(3)] == [WaitingForGroup] * 3
    assert (queue.pop(T0, 100), notified.gone) == (None, ["uid-of-g"])
    queue.groups.set_group(pod_group("g", min_count=3), T0)
    group, pods = popped(queue)
    queue.groups.remove_group("ns/g", "uid-of-g", T0)
    for pod in pods:
        queue.requeue(pod, T0)
    queue.groups.finish_attempt(group, GroupAttemptResult.ERROR, T0)
    assert [place(queue, f"p{n}") for n in range(3)] == [WaitingForGroup] * 3
    queue.flush_unschedulable(T0 + NOTIFY_AFTER)
    queue.flush_unschedulable(T0 + 2 * NOTIFY_AFTER)
    assert notified.lacking == ["ns/g"]
    queue.groups.set_group(pod_group("g", min_count=3, uid="another"), T0)
    assert len(popped(queue)[1]) == 3


def test_a_pod_group_recreated_during_the_attempt_keeps_its_pods() -> None:
    """Deleted and made anew while it was being tried: what failed is tried under the new one."""
    queue = grouping_queue()
    of_three(queue)
    group, pods = popped(queue)
    queue.groups.remove_group("ns/g", "uid-of-g", T0)
    queue.groups.set_group(pod_group("g", min_count=3, uid="another"), T0)
    assert queue.pop(T0, 100) is None
    for pod in pods:
        queue.requeue(pod, T0)
    queue.groups.finish_attempt(group, GroupAttemptResult.ERROR, T0)
    assert [place(queue, f"p{n}") for n in range(3)] == [BackOff] * 3


def test_a_gang_below_its_minimum_waits_and_is_reported_once() -> None:
    """Its pods cannot go, and only the owner can help: it has to be reported."""
    notified = Notified()
    queue = grouping_queue(notified)
    of_three(queue)
    queue.delete("ns/p1", "uid-p1", T0)
    assert [place(queue, name) for name in ("p0", "p1", "p2")] == [Gated, Gone, Gated]
    queue.flush_unschedulable(T0 + NOTIFY_AFTER - 1)
    assert not notified.lacking
    queue.flush_unschedulable(T0 + NOTIFY_AFTER)
    queue.flush_unschedulable(T0 + 2 * NOTIFY_AFTER)
    assert notified.lacking == ["ns/g"]
    queue.add(member("p1", "g", uid="again"), T0)
    assert len(popped(queue)[1]) == 3


def test_changing_the_minimum_releases_or_holds_a_waiting_gang() -> None:
    """`minCount` may be changed while its pods wait."""
    queue = grouping_queue()
    of_three(queue, 2)
    queue.groups.set_group(pod_group("g", min_count=2), T0)
    assert place(queue, "p0") is Active
    queue.groups.set_group(pod_group("g", min_count=4), T0)
    assert place(queue, "p0") is Gated


def test_members_that_have_a_node_count_for_the_minimum() -> None:
    """A gang with running members must not wait for pods that will never come; nor run on when they are gone."""
    queue = grouping_queue()
    of_three(queue, 2)
    queue.groups.member_placed("ns/g", "uid-elsewhere", T0)
    assert place(queue, "p0") is Active
    queue.groups.member_removed("uid-elsewhere", T0)
    assert place(queue, "p0") is Gated
    queue.groups.member_placed("ns/g", "uid-p0", T0)
    assert place(queue, "p0") is Gone
    assert place(queue, "p1") is Gated


def test_a_member_whose_binding_failed_is_requeued_with_its_group() -> None:
    """It comes back when the attempt is long over."""
    queue = grouping_queue()
    of_three(queue)
    group, pods = popped(queue)
    for pod in pods:
        queue.done(pod.uid, T0)
    queue.groups.finish_attempt(group, GroupAttemptResult.SCHEDULED, T0)
    queue.requeue(pods[0], T0, nominated_node="")
    assert names(popped(queue)[1]) == ["p0"]


def test_a_member_deleted_during_its_attempt_does_not_come_back() -> None:
    """Nor does the queue keep anything of a group without members."""
    queue = grouping_queue()
    queue.groups.set_group(pod_group("g"), T0)
    queue.add(member("p0", "g"), T0)
    group, pods = popped(queue)
    queue.delete("ns/p0", "uid-p0", T0)
    queue.requeue(pods[0], T0)
    queue.groups.finish_attempt(group, GroupAttemptResult.ERROR, T0)
    assert (place(queue, "p0"), queue.pop(T0, 100)) == (Gone, None)
    queue.groups.remove_group("ns/g", "uid-of-g", T0)
    assert len(queue.groups.registry) == 0


def test_a_group_waits_while_victims_of_it_are_being_deleted_and_is_activated_after() -> None:
    under_way = {"podgroup/ns/g"}
    queue = grouping_queue(preempting=lambda key: key in under_way)
    of_three(queue)
    assert place(queue, "p0") is Gated
    under_way.clear()
    queue.activate([("podgroup/ns/g", "podgroup/ns/g")], T0)
    assert queue.contents.is_activated("podgroup/ns/g", "podgroup/ns/g")
    assert queue.contents.is_activated("ns/p0", "uid-p0")
    assert len(popped(queue)[1]) == 3


def test_requeueing_a_waiting_member_is_impossible() -> None:
    """A defect of the caller must not be hidden: the pod would be in two places."""
    queue = grouping_queue()
    of_three(queue)
    waiting = queue.contents.get("ns/p0")
    assert waiting is not None
    with pytest.raises(ImpossibleTransition, match="cannot be requeued"):
        queue.requeue(waiting, T0)


def test_statistics_count_pods_and_groups_separately() -> None:
    """pending_pods counts pods, queued_entities counts a group once."""
    queue = grouping_queue()
    of_three(queue)
    queue.groups.set_group(pod_group("h", min_count=9), T0)
    queue.add(member("x", "h"), T0)
    statistics = queue.statistics()
    assert (statistics.active, statistics.gated, statistics.pending["active"]) == (3, 1, 3)
    assert statistics.groups_by_queue == {"active": 1, "backoff": 0, "gated": 1}
    assert sorted(pod.key for pod in queue.contents.waiting_pods()) == ["ns/p0", "ns/p1", "ns/p2", "ns/x"]
    popped(queue)
    assert (queue.statistics().in_flight, len(queue.contents.in_flight_pods())) == (3, 3)


def test_a_group_that_was_refused_waits_by_its_refusals_alone() -> None:
    """Errors of long ago would make it wait longer."""
    queue = grouping_queue()
    queue.groups.set_group(pod_group("g"), T0)
    queue.add(member("p0", "g"), T0)
    found = []
    results = (GroupAttemptResult.ERROR, GroupAttemptResult.ERROR, GroupAttemptResult.UNSCHEDULABLE)
    for number, how in enumerate(results):
        now = T0 + 100 * number
        queue.flush_backoff(now)
        group, pods = popped(queue, now)
        for pod in pods:
            queue.requeue(pod, now)
        queue.groups.finish_attempt(group, how, now)
        found.append((group.consecutive_errors, group.unschedulable_count))
    assert found == [(1, 0), (2, 0), (0, 1)]


@pytest.mark.parametrize("how", GroupAttemptResult)
def test_no_event_is_kept_for_an_attempt_that_has_ended(how: GroupAttemptResult) -> None:
    """Events of a busy cluster would fill the memory within a day."""
    queue = grouping_queue(registrations=(EventRegistration("Fit", NODE_ADD),))
    of_three(queue)
    group = popped_and_refused(queue)
    assert not forgotten(queue)
    queue.groups.finish_attempt(group, how, T0)
    assert forgotten(queue)


@pytest.mark.parametrize(
    ("how", "age"), [(GroupAttemptResult.UNSCHEDULABLE, 9.0), (GroupAttemptResult.ERROR, 9.0)], ids=str
)
def test_a_group_that_failed_queues_behind_those_that_waited(how: GroupAttemptResult, age: float) -> None:
    queue = grouping_queue()
    of_three(queue)
    group = popped_and_refused(queue)
    queue.groups.finish_attempt(group, how, T0 + age)
    assert group.timestamp == T0 + age


def test_a_group_that_is_being_tried_is_not_reported_as_incomplete() -> None:
    notified = Notified()
    queue = grouping_queue(notified)
    of_three(queue)
    popped(queue)
    queue.flush_unschedulable(T0 + 2 * NOTIFY_AFTER)
    assert notified.lacking == []


def test_pre_enqueue_of_another_profile_changes_nothing_for_a_group() -> None:
    queue = grouping_queue()
    of_three(queue)
    queue.recheck_pre_enqueue("another", NODE_ADD, T0)
    assert queue.statistics().active == 3
    popped(queue)
    queue.recheck_pre_enqueue(PROFILE, NODE_ADD, T0)
    assert queue.pop(T0, 100) is None, "a group that is being tried does not enter again"


def test_an_attempt_that_has_not_begun_cannot_end() -> None:
    queue = grouping_queue()
    of_three(queue)
    group, pods = popped(queue)
    for pod in pods:
        queue.requeue(pod, T0, rejectors=frozenset({"Fit"}))
    queue.groups.finish_attempt(group, GroupAttemptResult.UNSCHEDULABLE, T0)
    with pytest.raises(ValueError, match="group ns/g is not being tried"):
        queue.groups.finish_attempt(group, GroupAttemptResult.UNSCHEDULABLE, T0)
    assert place(queue, "p0") is BackOff


def test_the_member_that_held_the_group_back_is_checked_first() -> None:
    """Each event would otherwise check all members of each group that is held back."""
    checked, gated = list[str](), {"uid-p1", "uid-p2"}

    def pre_enqueue(pod: QueuedPodInfo) -> str | PreEnqueueResult:
        checked.append(pod.uid)
        return "Claims" if pod.uid in gated else PreEnqueueResult.ALLOWED

    queue = grouping_queue(registrations=[EventRegistration("Claims", NODE_ADD)], pre_enqueue=pre_enqueue)
    of_three(queue)
    for still_gated, expected in (
        ({"uid-p1", "uid-p2"}, ["uid-p1"]),
        ({"uid-p2"}, ["uid-p1", "uid-p0", "uid-p1", "uid-p2"]),
    ):
        gated &= still_gated
        checked.clear()
        queue.on_event(NODE_ADD, None, None, T0)
        assert checked == expected
    checked.clear()
    queue.on_event(NODE_ADD, None, None, T0)
    assert checked == ["uid-p2"]


def test_the_first_attempt_at_a_member_begins_when_its_group_may_be_tried() -> None:
    """The time for which a group is held back is not that of an attempt."""
    queue = grouping_queue()
    of_three(queue, 2)
    first = queue.contents.get("ns/p0")
    assert first is not None
    assert (type(first.state), first.initial_attempt_timestamp) == (Gated, 0.0)
    queue.add(member("p2", "g"), T0 + 7)
    assert (type(first.state), first.initial_attempt_timestamp) == (Active, T0 + 7)
    group = popped_and_refused(queue)
    queue.groups.finish_attempt(group, GroupAttemptResult.UNSCHEDULABLE, T0 + 8)
    queue.flush_backoff(T0 + 30)
    assert (type(first.state), first.initial_attempt_timestamp) == (Active, T0 + 7)
