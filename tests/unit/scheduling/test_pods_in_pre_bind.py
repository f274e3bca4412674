"""Pods in PreBind: they are cancelled, and their results are known only once they have ended."""

import asyncio

from tests.helpers.preemption_world import World
from trireme.framework import status
from trireme.scheduling import pods_in_pre_bind


async def test_a_victim_in_pre_bind_is_cancelled_without_a_deletion() -> None:
    """What is being prepared for it is given up; once PreBind is through, it is deleted as any other."""
    world = World("a", "b")
    given_up = asyncio.Event()

    async def prepare() -> status.Status:
        try:
            await asyncio.sleep(3600)
        finally:
            given_up.set()
        return status.SUCCESS

    async def prepared() -> status.Status:
        return status.SUCCESS

    preparing = asyncio.create_task(world.pre_binding.run("a", prepare()))
    assert (await world.pre_binding.run("b", prepared())) == status.SUCCESS
    world.go.set()
    world.start("b", "a")
    await world.settle()
    assert given_up.is_set()
    reasons = (status.Reason("preempted"),)
    assert (await preparing) == status.error("", "preempted by DefaultPreemption", reasons=reasons)
    world.go_away("a")
    await world.settle()
    assert world.asked == [["evict b"]]
    assert world.told == [
        "name-b: Preempted by pod vip on node node",
        "name-a: Preempted by pod vip on node node (in kube-scheduler memory).",
    ]
    assert world.activated == [("ns/vip", "vip")]


async def test_the_next_pre_bind_of_a_pod_names_no_plugin_of_the_one_before() -> None:
    pods = pods_in_pre_bind.PodsInPreBind()

    async def wait() -> status.Status:
        await asyncio.sleep(3600)
        return status.SUCCESS

    for plugin, message in (("Volumes", 'running PreBind plugin "Volumes": no'), ("", "no")):
        running = asyncio.create_task(pods.run("a", wait()))
        await asyncio.sleep(0)
        if plugin:
            pods.set_plugin("a", plugin)
        assert pods.fail("a", "no", status.Reason("preempted"))
        assert (await running).message == message
        assert not pods.fail("a", "no", status.Reason("preempted")), "it is in PreBind no more"


async def test_a_cancelled_pre_bind_has_ended_when_its_result_is_known() -> None:
    """What it wrote is undone next: a call that goes on would prepare the pod again after that."""
    pods = pods_in_pre_bind.PodsInPreBind()
    ended = False

    async def prepare() -> status.Status:
        nonlocal ended
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.001)
            ended = True
        return status.SUCCESS

    running = asyncio.create_task(pods.run("a", prepare()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    pods.cancel("a", status.error("", "no"))
    assert await running == status.error("", "no")
    assert ended


async def test_the_first_reason_to_cancel_a_pre_bind_counts() -> None:
    pods = pods_in_pre_bind.PodsInPreBind()
    running = asyncio.create_task(pods.run("a", asyncio.sleep(3600, status.SUCCESS)))
    await asyncio.sleep(0)
    assert pods.cancel("a", status.error("", "first"))
    assert pods.cancel("a", status.error("", "second"))
    assert (await running).message == "first"
