"""What the preemption executor does when an eviction fails, ends late, or is given up: the preemptor is let go."""

import asyncio

import pytest

from tests.helpers.preemption_world import World, evict, record
from tests.helpers.virtual_time import on_virtual_time
from trireme.scheduling import preemption_executor


async def test_after_a_failure_the_last_victim_is_spared_and_the_pod_tried_again() -> None:
    """Half a preemption must not evict more, and the preemptor must not wait for what will not come."""
    world = World("a", "b")
    world.failing.add("a")
    world.go.set()
    world.start("a", "b")
    await world.settle()
    assert world.asked == [["evict a"]]
    assert world.activated == [("ns/vip", "vip")]
    assert not world.under_way.still_gates("vip")
    assert world.told == ["vip: not name-a on node: no"]


async def test_repeated_failures_back_off_together_with_waiting_calls() -> None:
    """What is refused forever would be asked for dozens of times a second, by all who want the node."""
    world = World("a")
    world.patience = 3600.0
    world.failing.add("a")
    world.nominations.nominate(record("other", 100), "node")
    world.go.set()
    for preemptor in ("vip", "other"):
        world.start("a", preemptor=preemptor)
        await world.settle()
    assert world.activated == [("ns/vip", "vip"), ("ns/other", "other"), ("ns/other", "other")]
    assert world.generations == {"a": 3}
    world.activated.clear()
    for preemptor in ("vip", "other"):
        world.start("a", preemptor=preemptor)
        await world.settle()
        assert not world.under_way.still_gates(preemptor)
    assert world.activated == []
    assert world.generations == {"a": 0}, "it is marked already, and a patch would say so again"
    why = "pod ns/name-a could not be preempted: no"
    assert world.preempting.retries.delayed_retry("vip") == (why, 4600.0)
    world.failing.clear()
    world.start("a")
    assert world.preempting.retries.delayed_retry("vip") is None
    await world.settle()
    assert "vip" not in world.preempting.retries
    world.preempting.forget("other")
    assert len(world.preempting.retries) == 0
    await world.preempting.close()


async def test_a_victim_of_a_failed_attempt_does_not_wake_a_later_one() -> None:
    """The pod would be tried while its victims are being evicted, in vain."""
    world = World("a", "b", "c")
    world.failing = {"b"}
    world.go.set()
    world.start("a", "b")
    await world.settle()
    assert world.held == {}
    world.go.clear()
    world.start("c")
    await world.settle()
    world.go_away("b")
    assert world.held == {"ns/vip": "vip"}
    await world.preempting.close()


@pytest.mark.parametrize("failing", [set(), {"a"}], ids=["deleted", "refused"])
async def test_an_answer_that_comes_late_ends_no_later_preemption(failing: set[str]) -> None:
    """The watch shows that the victim is gone before bind says so, and the preemptor, tried again, preempts elsewhere.

    The answer about the first victim ended the second preemption, and the frontend with it: nothing was scheduled
    more.
    """
    world = World("a", "b")
    world.failing = failing
    failure = asyncio.create_task(world.preempting.background.failure())
    world.start("a")
    await world.settle()
    world.go_away("a")
    assert not world.under_way.still_gates("vip")
    first, world.go = world.go, asyncio.Event()
    world.start("b")
    first.set()
    await world.settle()
    assert world.under_way.still_gates("vip")
    assert world.held == {"ns/vip": "vip"}
    assert world.activated == []
    world.go.set()
    await world.settle()
    assert not world.under_way.still_gates("vip")
    assert world.held == {}
    assert not failure.done()
    failure.cancel()
    await world.preempting.close()


async def test_an_interrupted_deletion_of_the_last_victim_counts_as_failed() -> None:
    world = World("a", "b")
    world.start("a", "b")
    await world.settle()
    world.go.set()
    world.go.clear()
    await world.settle()
    assert world.asked == [["evict a"], ["evict b"]]
    await world.preempting.close()
    assert not world.held
    assert not world.under_way.still_gates("vip")


async def test_a_surviving_victim_wakes_the_pods_that_waited_for_it() -> None:
    """They were told that room is being made on their node, and nothing else would wake them."""
    world = World("a", "b", "c")
    for uid in ("waits", "elsewhere"):
        node = "node" if uid == "waits" else "other"
        world.nominations.nominate(record(uid, 100), node)
    world.failing.add("a")
    world.lagging = True
    world.go.set()
    world.start("a", "b", "c")
    await world.settle()
    assert world.evicting() == {"b"}, "a was refused, c was spared, b is as good as gone"
    assert world.activated == [("ns/vip", "vip"), ("ns/waits", "waits")]


async def test_giving_up_leaves_no_victim_behind() -> None:
    """The next leader would take pods for terminating that nobody evicts."""
    world = World("a", "b")
    world.start("a", "b")
    await world.settle()
    await world.preempting.close()
    assert world.evicting() == set()


async def test_a_victim_of_two_preemptors_that_stays_fails_both() -> None:
    """The second would wait forever for what the first could not do."""
    world = World("a")
    world.failing.add("a")
    world.start("a")
    world.start("a", preemptor="second")
    world.go.set()
    await world.settle()
    assert world.asked == [["evict a"]]
    assert sorted(world.activated) == [("ns/second", "second"), ("ns/vip", "vip")]
    assert not world.under_way.still_gates("second")


async def test_synchronous_preemption_returns_the_refusal() -> None:
    """With the gate off nobody tries the pod again at once: its condition has to say why its victims stay."""
    world = World("a", "b")
    world.nominations.nominate(record("less", 5), "node")
    world.failing.add("b")
    world.go.set()
    assert await world.preempting.evict(world.vip, "node", [evict("a"), evict("b")]) == "no"
    assert world.asked == [["evict a", "evict b"]]
    assert world.evicting() == set()
    assert world.activated == []


async def test_failed_preemptions_leave_nothing_behind() -> None:
    """A webhook protects the victim: its preemptor is tried forever, and each time left a callback at the victim."""
    world = World("a", "b")
    world.failing.add("b")
    world.go.set()
    for _ in range(5):
        world.start("a", "b")
        await world.settle()
    assert world.told.count("vip: not name-b on node: no") == 5
    assert world.deletion_callbacks.get("b", []) == []
    world.preempting.retries.close()


@on_virtual_time
async def test_a_victim_in_memory_that_stays_is_not_waited_for_forever() -> None:
    world = World("a")
    waiting = asyncio.create_task(world.waiting.begin_wait("a", "ns/name-a", {"Plugin": 600.0})())
    await asyncio.sleep(0)
    world.start("a")
    await asyncio.sleep(preemption_executor.RELEASE_SECONDS + 1)
    await waiting
    assert world.activated == [("ns/vip", "vip")]
    assert world.deletion_callbacks.get("a", []) == []


@on_virtual_time
async def test_whoever_leads_no_more_evicts_nobody_and_retries_nothing() -> None:
    world = World("a", "b")
    world.failing, world.patience = {"a"}, 5.0
    world.go.set()
    for _ in range(2):
        world.start("a")
        await asyncio.sleep(1)
    world.go.clear()
    world.start("b", preemptor="other")
    await asyncio.sleep(1)
    world.activated.clear()
    await world.preempting.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await asyncio.sleep(100)
    assert world.activated == []


async def test_the_first_failure_of_some_actions_is_what_failed() -> None:
    world = World("a", "b", "c")
    world.failing = {"b"}
    world.go.set()
    assert await world.preempting.execute([evict("a")]) == ""
    assert await world.preempting.execute([evict("a"), evict("b"), evict("c")]) == "no"
    assert world.preempting.completed_actions == 4


async def test_a_groups_victim_that_stays_is_reported_with_its_own_node() -> None:
    """The group is nominated to no one node."""
    world = World("a")
    world.failing.add("a")
    world.go.set()
    world.preempting.evict_in_background(world.vip, "", [evict("a")], {"node"})
    await world.settle()
    assert world.told == ["vip: not name-a on node: no"]
    world.preempting.retries.close()
