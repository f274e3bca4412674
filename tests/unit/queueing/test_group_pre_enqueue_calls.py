"""Groups whose members a remote PreEnqueue plugin is called about: they enter when all have passed."""

from collections.abc import Sequence

import pytest

from tests.helpers.pod_group_builders import (
    T0,
    forgotten,
    grouping_queue,
    member,
    names,
    of_groups,
    place,
    pod_group,
    popped,
    popped_and_refused,
)
from trireme.framework.cluster_event import ActionType, ClusterEvent, Resource
from trireme.queueing.groups.queue_groups import GroupAttemptResult
from trireme.queueing.hints.queueing_hint_map import EventRegistration
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.remote_calls import CallPreEnqueue, Instruction
from trireme.queueing.scheduling_queue import SchedulingQueue
from trireme.queueing.states import (
    Active,
    Gated,
    PreEnqueuePending,
    WaitingForGroup,
)

NODE_ADD = ClusterEvent(Resource.NODE, ActionType.ADD)


def _asking_queue(registrations: tuple[EventRegistration, ...] = ()) -> SchedulingQueue:
    """A queue whose profile has a PreEnqueue plugin in another process."""
    return grouping_queue(registrations=registrations, pre_enqueue=lambda pod: PreEnqueueResult.CALL_REMOTE)


def _calls(instructions: Sequence[Instruction]) -> dict[str, int]:
    """The names of the pods for which plugins are called, with the ids of the calls."""
    assert all(isinstance(each, CallPreEnqueue) for each in instructions)
    return {each.pod.key.removeprefix("ns/"): each.call_id for each in instructions if isinstance(each, CallPreEnqueue)}


def test_a_group_enters_when_remote_pre_enqueue_admits_all_members() -> None:
    queue = _asking_queue()
    queue.groups.set_group(pod_group("g", min_count=2), T0)
    assert not queue.add(member("p0", "g"), T0), "the gang is not whole: there is nothing to ask yet"
    calls = _calls(queue.add(member("p1", "g"), T0))
    assert set(calls) == {"p0", "p1"}
    assert (place(queue, "p0"), queue.statistics().pre_enqueue_pending, queue.statistics().gated) == (
        PreEnqueuePending,
        2,
        0,
    )
    assert queue.pop(T0, 100) is None
    assert not queue.pre_enqueue_answered(calls["p1"], "", T0)
    assert queue.pop(T0, 100) is None
    late = _calls(queue.add(member("p2", "g"), T0))
    assert set(late) == {"p2"}, "PreEnqueue passed p1, and its call about p0 is under way"
    queue.pre_enqueue_answered(late["p2"], "", T0)
    queue.pre_enqueue_answered(calls["p0"], "", T0)
    group, pods = popped(queue)
    assert names(pods) == ["p0", "p1", "p2"]
    for pod in pods:
        queue.requeue(pod, T0, rejectors=frozenset({"Fit"}))
    assert set(_calls(queue.groups.finish_attempt(group, GroupAttemptResult.UNSCHEDULABLE, T0))) == {
        "p0",
        "p1",
        "p2",
    }, "each time it enters"


def test_a_member_that_a_remote_plugin_refuses_holds_back_its_group_until_something_happens() -> None:
    """Then plugins are called for it first, alone: a large group that is held back costs one call an event."""
    queue = _asking_queue((EventRegistration("Remote", NODE_ADD),))
    queue.groups.set_group(pod_group("g"), T0)
    calls = _calls(queue.add(member("p0", "g"), T0)) | _calls(queue.add(member("p1", "g"), T0))
    queue.pre_enqueue_answered(calls["p1"], "Remote", T0)
    found = queue.contents.get("ns/p0")
    assert found is not None
    where = queue.contents.status_of(found)
    assert (type(where.state), where.state.plugin) == (Gated, "Remote")
    queue.pre_enqueue_answered(calls["p0"], "", T0)
    assert place(queue, "p0") is Gated, "the call was void"
    assert not queue.add(member("p2", "g"), T0), "another member does not change the plugin's mind"
    again = _calls(queue.on_event(NODE_ADD, None, object(), T0))
    assert set(again) == {"p1"}
    assert not queue.on_event(NODE_ADD, None, object(), T0), "a call is open"
    once_more = _calls(queue.pre_enqueue_answered(again["p1"], "Remote", T0))
    assert set(once_more) == {"p1"}, "a node came during the call"
    rest = _calls(queue.pre_enqueue_answered(once_more["p1"], "", T0))
    assert set(rest) == {"p0", "p2"}
    for call_id in rest.values():
        queue.pre_enqueue_answered(call_id, "", T0)
    assert names(popped(queue)[1]) == ["p0", "p1", "p2"]


def test_a_failed_call_about_a_member_is_made_again_while_its_answer_counts() -> None:
    """Plugins would be called forever about a pod that nobody waits for."""
    queue = _asking_queue()
    calls = _calls(queue.add(member("alone", ""), T0))
    assert queue.repeat_pre_enqueue(calls["alone"])
    queue.groups.set_group(pod_group("g"), T0)
    calls |= _calls(queue.add(member("p0", "g"), T0)) | _calls(queue.add(member("p1", "g"), T0))
    assert queue.repeat_pre_enqueue(calls["p0"])
    queue.pre_enqueue_answered(calls["p1"], "Remote", T0)
    assert place(queue, "p0") is Gated
    queue.delete("ns/alone", "uid-alone", T0)
    assert [queue.repeat_pre_enqueue(call_id) for call_id in calls.values()] == [False] * 3
    for call_id in (calls["alone"], 1000):
        assert not queue.pre_enqueue_answered(call_id, "", T0)
    assert queue.pop(T0, 100) is None


def test_a_group_is_activated_where_it_enters_the_active_queue_after_its_calls() -> None:
    """Who activates it would wait for a group that backs off, or activate one that comes by itself."""
    queue = _asking_queue()
    queue.groups.set_group(pod_group("g"), T0)
    calls = _calls(queue.add(member("p0", "g"), T0))
    key = queue.groups.group_of_member("uid-p0").key
    assert queue.contents.is_activated(key, "uid-p0"), "a new group goes to the active queue"
    queue.pre_enqueue_answered(calls["p0"], "", T0)
    assert queue.contents.is_activated(key, "uid-p0")
    group = popped_and_refused(queue)
    assert not queue.contents.is_activated(key, "uid-p0")
    again = _calls(queue.groups.finish_attempt(group, GroupAttemptResult.UNSCHEDULABLE, T0))
    assert place(queue, "p0") is PreEnqueuePending
    assert not queue.contents.is_activated(key, "uid-p0"), "it is to back off"
    assert queue.repeat_pre_enqueue(again["p0"])
    assert not queue.contents.is_activated(key, "uid-p0")
    queue.activate([("ns/p0", "uid-p0")], T0)
    assert queue.contents.is_activated(key, "uid-p0")
    assert not queue.contents.is_activated("unknown", "unknown")


@pytest.mark.parametrize("how", ["deleted", "bound", "changed"])
def test_members_may_be_deleted_or_updated_during_pre_enqueue(how: str) -> None:
    """The group must not wait for an answer that nobody wants any more, nor enter by one about an older object."""
    queue = _asking_queue()
    queue.groups.set_group(pod_group("g"), T0)
    calls = _calls(queue.add(member("p0", "g"), T0)) | _calls(queue.add(member("p1", "g"), T0))
    queue.pre_enqueue_answered(calls["p0"], "", T0)
    if how == "deleted":
        queue.delete("ns/p1", "uid-p1", T0)
    elif how == "bound":
        queue.groups.member_placed("ns/g", "uid-p1", T0)
    else:
        changed = member("p1", "g")._replace(resource_version="2")
        again = _calls(queue.update(changed, (), None, None, T0))
        queue.pre_enqueue_answered(calls["p1"], "Remote", T0)
        assert place(queue, "p1") is PreEnqueuePending
        queue.pre_enqueue_answered(again["p1"], "", T0)
    queue.pre_enqueue_answered(calls["p1"], "Remote", T0)
    assert "p0" in names(popped(queue)[1])
    assert queue.statistics().pre_enqueue_pending == 0


def test_the_calls_of_a_deleted_pod_group_are_void() -> None:
    """Its members wait for another one, for which plugins are called again."""
    queue = _asking_queue()
    queue.groups.set_group(pod_group("g"), T0)
    calls = _calls(queue.add(member("p0", "g"), T0))
    queue.groups.remove_group("ns/g", "uid-of-g", T0)
    queue.pre_enqueue_answered(calls["p0"], "", T0)
    assert (place(queue, "p0"), queue.statistics().pre_enqueue_pending) == (WaitingForGroup, 0)
    again = _calls(queue.groups.set_group(pod_group("g", uid="another"), T0))
    queue.pre_enqueue_answered(again["p0"], "", T0)
    assert names(popped(queue)[1]) == ["p0"]


@pytest.mark.parametrize("remote", [True, False])
def test_a_group_that_waits_is_gated_again(remote: bool) -> None:
    gates: list[PreEnqueueResult | str] = [PreEnqueueResult.CALL_REMOTE if remote else PreEnqueueResult.ALLOWED]
    queue = grouping_queue(registrations=(EventRegistration("Remote", NODE_ADD),), pre_enqueue=lambda pod: gates[0])
    queue.groups.set_group(pod_group("g"), T0)
    calls = _calls(queue.add(member("p0", "g"), T0))
    assert place(queue, "p0") is (PreEnqueuePending if remote else Active)
    assert all(queue.repeat_pre_enqueue(call_id) for call_id in calls.values())
    gates[0] = "Remote"
    assert not queue.recheck_pre_enqueue(member("p0", "g").profile, NODE_ADD, T0)
    assert place(queue, "p0") is Gated
    assert not any(queue.repeat_pre_enqueue(call_id) for call_id in calls.values())
    assert queue.pop(T0, 100) is None
    gates[0] = PreEnqueueResult.ALLOWED
    queue.on_event(NODE_ADD, None, object(), T0)
    assert names(popped(queue)[1]) == ["p0"]


def test_no_event_is_kept_for_a_call_that_was_repeated() -> None:
    queue = _asking_queue((EventRegistration("Remote", NODE_ADD),))
    queue.groups.set_group(pod_group("g"), T0)
    calls = _calls(queue.add(member("p0", "g"), T0)) | _calls(queue.add(member("p1", "g"), T0))
    assert not forgotten(queue)
    assert queue.repeat_pre_enqueue(calls["p0"])
    for call_id in calls.values():
        for again in _calls(queue.pre_enqueue_answered(call_id, "", T0)).values():
            queue.pre_enqueue_answered(again, "", T0)
    assert forgotten(queue)
    assert not queue.repeat_pre_enqueue(calls["p0"])


def _refused_tree() -> SchedulingQueue:
    """A tree with the group g, of two members, which a remote plugin holds back for p0."""
    queue = grouping_queue(
        composite=True,
        registrations=(EventRegistration("Remote", NODE_ADD),),
        pre_enqueue=lambda pod: PreEnqueueResult.CALL_REMOTE,
    )
    assert queue.groups is not None
    queue.groups.set_group(of_groups("x"), T0)
    queue.groups.set_group(pod_group("g", parent="x"), T0)
    calls = _calls([*queue.add(member("p0", "g"), T0), *queue.add(member("p1", "g"), T0)])
    queue.pre_enqueue_answered(calls["p0"], "Remote", T0, "not yet")
    return queue


def test_what_joins_a_tree_that_is_held_back_for_one_member_is_held_back_with_it() -> None:
    """No plugin is called for it before that one passes."""
    queue = _refused_tree()
    queue.groups.set_group(pod_group("late"), T0)
    joined = _calls(queue.add(member("q", "late"), T0))
    assert set(joined) == {"q"}
    assert not queue.groups.set_group(pod_group("late", parent="x"), T0)
    assert [place(queue, name) for name in ("p0", "p1", "q")] == [Gated] * 3
    found = queue.contents.get("ns/q")
    assert found is not None
    assert (found.gated_by, found.gate_reason) == ("Remote", "not yet")
    assert queue.statistics().pre_enqueue_pending == 0
    assert set(_calls(queue.on_event(NODE_ADD, None, None, T0))) == {"p0"}


def test_a_member_that_leaves_does_not_open_the_gate_of_another() -> None:
    queue = _refused_tree()
    assert not queue.delete("ns/p1", "uid-p1", T0)
    assert place(queue, "p0") is Gated


def test_the_calls_of_a_pod_group_that_moves_to_another_tree_are_void() -> None:
    queue = grouping_queue(composite=True, pre_enqueue=lambda pod: PreEnqueueResult.CALL_REMOTE)
    assert queue.groups is not None
    for tree in ("left", "right"):
        queue.groups.set_group(of_groups(tree), T0)
    queue.groups.set_group(pod_group("g", parent="left"), T0)
    before = _calls(queue.add(member("p0", "g"), T0))
    after = _calls(queue.groups.set_group(pod_group("g", parent="right"), T0))
    assert not queue.pre_enqueue_answered(before["p0"], "", T0)
    assert place(queue, "p0") is PreEnqueuePending
    queue.pre_enqueue_answered(after["p0"], "", T0)
    assert place(queue, "p0") is Active
    assert forgotten(queue)


def test_events_before_a_call_was_made_again_do_not_repeat_it() -> None:
    queue = _asking_queue((EventRegistration("Remote", NODE_ADD),))
    queue.groups.set_group(pod_group("g"), T0)
    call = _calls(queue.add(member("p0", "g"), T0))["p0"]
    queue.on_event(NODE_ADD, None, None, T0)
    assert queue.repeat_pre_enqueue(call)
    assert not queue.pre_enqueue_answered(call, "Remote", T0)
    assert place(queue, "p0") is Gated


def test_a_group_enters_once_no_plugin_has_to_be_called_any_more() -> None:
    far = {"far": True}
    queue = grouping_queue(
        pre_enqueue=lambda pod: PreEnqueueResult.CALL_REMOTE if far["far"] else PreEnqueueResult.ALLOWED
    )
    queue.groups.set_group(pod_group("g"), T0)
    for number in range(3):
        queue.add(member(f"p{number}", "g"), T0)
    far["far"] = False
    queue.recheck_pre_enqueue("default-scheduler", NODE_ADD, T0)
    assert [place(queue, f"p{number}") for number in range(3)] == [Active] * 3
    assert forgotten(queue)


def test_a_tree_is_held_back_no_more_for_a_member_that_a_plugin_refused_and_that_left_it() -> None:
    queue = _refused_tree()
    assert queue.groups is not None
    queue.groups.set_group(pod_group("stays", parent="x"), T0)
    queue.add(member("q", "stays"), T0)
    assert place(queue, "q") is Gated
    calls = _calls(queue.groups.set_group(pod_group("g"), T0))
    assert set(calls) == {"p0", "p1", "q"}
    queue.pre_enqueue_answered(calls["q"], "", T0)
    assert place(queue, "q") is Active


def test_a_changed_member_that_a_plugin_refused_is_called_about_again() -> None:
    queue = _refused_tree()
    changed = member("p0", "g")._replace(resource_version="2")
    assert set(_calls(queue.update(changed, (), None, None, T0))) == {"p0"}
