"""Preempting: victims in order, and the preemptor held back meanwhile."""

import asyncio
from types import SimpleNamespace

import pytest

from tests.helpers.held_entries import held_entries
from tests.helpers.metric_values import counts, sums
from tests.helpers.preemption_world import World, evict, record
from trireme.cache import pod_projection
from trireme.framework import status


async def test_the_last_victim_goes_last_and_the_pod_is_held_until_it_is_going() -> None:
    """The event of the last deletion must find the preemptor free, or nothing wakes it."""
    world = World("a", "b", "c")
    world.start("a", "b", "c")
    await world.settle()
    assert world.asked == [["evict a", "evict b"]]
    assert world.generations == {"a": 3, "b": 3}
    assert world.under_way.still_gates("vip")
    assert world.held == {"ns/vip": "vip"}
    world.go.set()
    await world.settle()
    assert world.asked[1:] == [["evict c"]]
    assert not world.under_way.still_gates("vip")
    assert world.held == {}
    assert world.told[0] == "name-a: Preempted by pod vip on node node"
    assert world.activated == []


async def test_pods_nominated_beside_the_preemptor_are_not_tried_in_vain() -> None:
    """All victims have gone: the event of each wakes those that it may help."""
    world = World("a", "b")
    world.nominations.nominate(record("waits", 100), "node")
    world.go.set()
    world.start("a", "b")
    await world.settle()
    assert world.activated == []


async def test_it_is_held_while_bind_deletes_the_last_victim_unless_that_is_gone() -> None:
    """Without a grace period it is seen to be terminating a moment before it is gone: it would be tried in vain."""
    world = World("a")
    world.lagging = True
    world.start("a")
    await world.settle()
    assert world.under_way.still_gates("vip")
    world.placed["a"].flags = 1
    assert world.under_way.still_gates("vip")
    gone = world.placed.pop("a")
    assert not world.under_way.still_gates("vip"), "bind's answer may come later than the informer's"
    world.placed["a"] = gone
    world.go.set()
    await world.settle()
    assert not world.under_way.still_gates("vip"), "it may take its grace period"
    await world.preempting.close()


async def test_it_is_held_until_the_deletion_is_seen_although_bind_answered_before() -> None:
    """Tried before, it would find its room taken still, and have the same victims deleted again."""
    world = World("a", "b")
    world.lagging = True
    world.go.set()
    world.start("a", "b")
    await world.settle()
    assert world.asked == [["evict a"], ["evict b"]]
    world.placed.pop("a")
    assert world.under_way.still_gates("vip")
    assert world.held == {"ns/vip": "vip"}
    world.go_away("b")
    assert world.held == {}, "the event of the deletion asks about who is not held for sure"
    assert not world.under_way.still_gates("vip")
    world.placed["b"] = SimpleNamespace(flags=0, evicting=0, generation=3)
    assert not world.under_way.still_gates("vip"), "another pod of that UID is not waited for"


async def test_a_deletion_that_came_while_it_was_held_is_made_up_for() -> None:
    """Another preemptor's victims may be its own: when they went it was held, and nothing would ever wake it."""
    world = World("a", "b")
    world.start("a", "b")
    await world.settle()
    world.placed.clear()
    assert world.under_way.still_gates("vip"), "the event of the deletion finds it held"
    world.go.set()
    await world.settle()
    assert world.activated == [("ns/vip", "vip")]
    assert not world.under_way.still_gates("vip")


async def test_a_preemptor_that_is_gone_is_forgotten() -> None:
    """What is kept for each preemptor would grow forever."""
    world = World("a")
    world.lagging = True
    world.go.set()
    world.start("a")
    await world.settle()
    assert world.under_way.still_gates("vip")
    world.preempting.forget("vip")
    assert not world.under_way.still_gates("vip")


async def test_a_victim_that_waits_on_permit_is_refused_in_memory() -> None:
    """Nothing is deleted, and no deletion will wake the preemptor: it is activated."""
    world = World("a")
    waiting = asyncio.create_task(world.waiting.begin_wait("a", "ns/name-a", {"Plugin": 60.0})())
    await world.settle()
    world.start("a")
    await world.settle()
    refused = await waiting
    assert (refused.code, refused.message) == (status.Code.ERROR, "waiting on permit for pod: preempted")
    assert world.asked == []
    assert world.activated == [], "its room is not free yet"
    assert world.under_way.still_gates("vip")
    world.go_away("a")
    await world.settle()
    assert world.told == ["name-a: Preempted by pod vip on node node (in kube-scheduler memory)."]
    assert world.activated == [("ns/vip", "vip")]


async def test_a_victim_in_memory_that_left_its_node_meanwhile_is_not_waited_for() -> None:
    """No watch shows it again: the preemptor would wait for as long as a victim may take."""
    world = World("a")
    waiting = asyncio.create_task(world.waiting.begin_wait("a", "ns/name-a", {"Plugin": 60.0})())
    await world.settle()
    world.start("a")
    world.placed.pop("a")
    await world.settle()
    await waiting
    assert world.told == ["name-a: Preempted by pod vip on node node (in kube-scheduler memory)."]
    assert (world.asked, world.deletion_callbacks) == ([], {})


async def test_victims_are_known_as_such_from_the_decision_until_they_are_gone() -> None:
    """Who is woken beside the preemptor would find its room promised away and preempt elsewhere, in vain."""
    world = World("a", "b", "c")
    world.lagging = True
    world.start("a", "b")
    assert world.evicting() == {"a", "b"}
    world.go.set()
    await world.settle()
    assert world.evicting() == {"a", "b"}, "bind deleted them, but nobody has seen them go"


async def test_a_victim_of_two_preemptors_is_evicted_once_and_both_wait_for_it() -> None:
    """The API server would be asked again, and people told twice, of what is under way."""
    world = World("a", "b")
    world.start("b")
    world.start("a", "b", preemptor="second")
    await world.settle()
    assert world.asked == [["evict b", "evict a"]]
    assert world.under_way.still_gates("second")
    world.go.set()
    await world.settle()
    assert world.asked == [["evict b", "evict a"]]
    assert sorted(text.split(" on ")[0] for text in world.told) == [
        "name-a: Preempted by pod second",
        "name-b: Preempted by pod vip",
    ]
    assert not world.under_way.still_gates("vip")
    assert not world.under_way.still_gates("second")


async def test_less_important_pods_lose_their_nomination() -> None:
    """They would find their room taken: kube-scheduler has them look elsewhere at once."""
    world = World("a")
    for uid, priority in (("less", 5), ("same", 100)):
        world.nominations.nominate(record(uid, priority), "node")
    world.go.set()
    world.start("a")
    await world.settle()
    assert world.asked == [["clear_nomination less"], ["evict a"]]


async def test_less_important_pods_lose_their_nominations_on_all_nodes_of_a_group() -> None:
    """kubernetes/kubernetes#142684: they kept room that was made for the members of a group."""
    world = World("a")
    for uid, node in (("less", "node"), ("lesser", "more"), ("elsewhere", "other")):
        world.nominations.nominate(record(uid, 5), node)
    world.go.set()
    world.preempting.evict_in_background(world.vip, "node", [evict("a")], {"node", "more"})
    await world.settle()
    assert world.asked == [["clear_nomination lesser", "clear_nomination less"], ["evict a"]]


async def test_synchronous_preemption_evicts_all_victims_at_once() -> None:
    """With the gate off the attempt ends when the victims have gone, so that the pod is woken by what comes after."""
    world = World("a", "b")
    world.nominations.nominate(record("less", 5), "node")
    world.go.set()
    assert await world.preempting.evict(world.vip, "node", [evict("a"), evict("b")]) == ""
    assert world.asked == [["evict a", "evict b"], ["clear_nomination less"]]
    assert not world.under_way.still_gates("vip")
    assert world.held == {}
    assert sorted(text.split(" on ")[0] for text in world.told) == [
        "name-a: Preempted by pod vip",
        "name-b: Preempted by pod vip",
    ]


async def test_a_preemption_that_another_one_replaced_leaves_nothing_behind() -> None:
    """The watch is faster than bind, and the preemptor preempts again before bind has answered."""
    world = World("a", "b")
    world.lagging = True
    world.start("a")
    await world.settle()
    world.start("b")
    world.go.set()
    await world.settle()
    assert world.deletion_callbacks.get("a", []) == []
    assert len(world.deletion_callbacks["b"]) == 1
    world.go_away("b")
    assert not world.under_way.still_gates("vip")


async def test_a_preemption_that_is_replaced_before_its_others_are_deleted_leaves_nothing_behind() -> None:
    """It begins to wait for its last victim after another one has taken its place."""
    world = World("a", "b", "c")
    world.lagging = True
    world.start("a", "b")
    await world.settle()
    world.start("c")
    world.go.set()
    await world.settle()
    assert world.deletion_callbacks.get("b", []) == []
    assert world.held == {"ns/vip": "vip"}
    await world.preempting.close()


async def test_a_last_victim_that_is_terminating_when_its_turn_comes_does_not_gate() -> None:
    """Its deletion is an event that must find the preemptor free, while bind's answer is still to come."""
    world = World("a", "b")
    world.start("a", "b")
    await world.settle()
    world.placed["b"].flags = pod_projection.TERMINATING
    assert world.held == {"ns/vip": "vip"}
    world.go.set()
    world.go.clear()
    await world.settle()
    assert world.asked == [["evict a"], ["evict b"]]
    assert world.held == {}
    await world.preempting.close()


async def test_a_preemption_that_another_one_replaced_frees_the_preemptor_of_that_one_never() -> None:
    """Its last victim goes while the later preemption still has to delete its own."""
    world = World("a", "b", "c")
    world.start("a", "b")
    await world.settle()
    world.start("c")
    del world.placed["b"]
    world.go.set()
    world.go.clear()
    await world.settle()
    assert world.held == {"ns/vip": "vip"}
    await world.preempting.close()


@pytest.mark.parametrize("failing", [set(), {"b"}], ids=["deleted", "refused"])
@pytest.mark.parametrize("background", [True, False])
async def test_how_preemptions_end_is_recorded(failing: set[str], background: bool) -> None:
    world = World("a", "b")
    world.failing = failing
    world.go.set()
    if background:
        world.start("a", "b")
        await world.settle()
    else:
        await world.preempting.evict(world.vip, "node", [evict("a"), evict("b")])
    result = "error" if failing else "success"
    assert sums(world.metrics.instruments.execution_seconds)[f"pod {result}"][1] < 60
    assert world.under_way.get("vip") is None
    assert counts(world.metrics.instruments.execution_seconds) == {f"pod {result}": 1}
    assert counts(world.metrics.instruments.preemptions) == ({result: 1} if background else {})
    await world.preempting.close()


async def test_evictions_that_are_over_are_forgotten() -> None:
    """Of each victim something would be kept as long as the scheduler leads."""
    world = World("a", "b")
    before = held_entries(world.preempting)
    world.failing = {"a"}
    world.go.set()
    world.start("a")
    world.start("b", preemptor="other")
    await world.settle()
    world.preempting.forget("vip")
    world.preempting.forget("other")
    after = held_entries(world.preempting)
    kept = {name: count for name, count in after.items() if count > before[name]}
    assert {name for name in kept if not name.startswith("Preemption")} <= {"Histogram._series", "Counter._counts"}
    assert not kept.keys() & {"PreemptionExecutor._evictions", "PreemptionExecutor._held_preemptors"}
