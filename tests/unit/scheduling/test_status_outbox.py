"""StatusOutbox: the newest for each pod, once, and before the pod is bound."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from tests.helpers.virtual_time import on_virtual_time
from trireme.framework import status
from trireme.scheduling import status_outbox
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2
from trireme.wire import status as wire_status


class Written:
    """What bind was asked to write: name, message, nomination."""

    def __init__(self, seconds: float) -> None:
        self.all: list[tuple[str, str, str | None]] = []
        self.seconds = seconds

    async def apply(
        self, actions: Sequence[bind_pb2.Action], on_result: Callable[[int, bind_pb2.BindResult], None]
    ) -> None:
        """Take them all."""
        await asyncio.sleep(self.seconds)
        for action in actions:
            said = action.set_condition
            nomination = said.nominated_node_name if said.HasField("nominated_node_name") else None
            self.all.append((action.pod.name, said.condition.message, nomination))
        done = wire_status.to_message(status.SUCCESS)
        for index in range(len(actions)):
            on_result(index, bind_pb2.BindResult(index=index, status=done))


@contextlib.asynccontextmanager
async def _outbox(
    seconds: float = 0.0, running: bool = True
) -> AsyncIterator[tuple[status_outbox.StatusOutbox, Written]]:
    """`seconds` that a call takes."""
    written = Written(seconds)
    outbox = status_outbox.StatusOutbox(written.apply)
    task = asyncio.create_task(outbox.run()) if running else None
    try:
        yield outbox, written
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


def _condition(name: str, message: str, nomination: str | None = None) -> bind_pb2.Action:
    condition = core_pb2.PodCondition(type="PodScheduled", status="False", message=message)
    action = bind_pb2.Action(
        pod=cycle_pb2.PodIdentity(namespace="ns", name=name, uid=f"u-{name}"),
        set_condition=bind_pb2.SetCondition(condition=condition),
    )
    if nomination is not None:
        action.set_condition.nominated_node_name = nomination
    return action


@on_virtual_time
async def test_the_newest_condition_and_nomination_of_a_pod_are_written() -> None:
    """If this fails, a pod's status says what was true earlier, or nobody learns of its nomination."""
    async with _outbox() as (outbox, written):
        outbox.send(_condition("a", "old", "node"))
        outbox.send(_condition("b", "old", "node"))
        outbox.send(_condition("a", "new"))
        outbox.send(_condition("b", "new", ""))
        await asyncio.sleep(0.1)
    assert written.all == [("a", "new", "node"), ("b", "new", "")]


@on_virtual_time
async def test_a_condition_is_written_at_once() -> None:
    """If this fails, nobody learns which node a preemptor waits for before it is bound, as kube-scheduler tells it."""
    async with _outbox() as (outbox, written):
        outbox.send(_condition("a", "no room", "node"))
        assert outbox.has_unwritten("u-a")
        await outbox.wait_until_written("u-a")
        assert not outbox.has_unwritten("u-a")
        assert written.all == [("a", "no room", "node")]


@on_virtual_time
async def test_flushing_a_pod_waits_for_its_last_write() -> None:
    """If this fails, a pod is bound and then said to be unschedulable."""
    async with _outbox(seconds=1.0) as (outbox, written):
        outbox.send(_condition("a", "first"))
        outbox.send(_condition("b", "other"))
        await asyncio.sleep(0.5)
        outbox.send(_condition("a", "second"))
        outbox.send(_condition("a", "third"))
        await outbox.wait_until_written("u-b")
        assert [name for name, *_ in written.all] == ["a", "b"]
        assert outbox.has_unwritten("u-a")
        await outbox.wait_until_written("u-a")
        assert written.all[2:] == [("a", "third", None)]


@on_virtual_time
async def test_flushing_a_deleted_pod_returns() -> None:
    """If this fails, the binding of a pod that was deleted meanwhile stays under way forever."""
    async with _outbox(running=False) as (outbox, _):
        outbox.send(_condition("a", "first"))
        waiting = asyncio.create_task(outbox.wait_until_written("u-a"))
        await asyncio.sleep(1.0)
        outbox.drop("u-a")
        await waiting


@on_virtual_time
async def test_writes_under_way_are_bounded_and_all_are_written() -> None:
    """If this fails, a newer condition cannot take the place of one that waits, or one is forgotten."""
    async with _outbox(seconds=1.0) as (outbox, written):
        names = [f"p{number}" for number in range(3 * status_outbox.MAX_UNDER_WAY)]
        for name in names:
            outbox.send(_condition(name, "x"))
        await asyncio.sleep(0.5)
        assert len(outbox) == 2 * status_outbox.MAX_UNDER_WAY
        for name in names:
            await outbox.wait_until_written(f"u-{name}")
    assert sorted(name for name, *_ in written.all) == sorted(names)


class _AtRate:
    """Bind at a rate limit."""

    def __init__(self, per_second: int) -> None:
        self._turn = asyncio.Lock()
        self._seconds = 1 / per_second

    async def apply(
        self, actions: Sequence[bind_pb2.Action], on_result: Callable[[int, bind_pb2.BindResult], None]
    ) -> None:
        """Each when it is its turn."""
        for index in range(len(actions)):
            async with self._turn:
                await asyncio.sleep(self._seconds)
            on_result(index, bind_pb2.BindResult(index=index))


@contextlib.asynccontextmanager
async def _at_rate(per_second: int) -> AsyncIterator[status_outbox.StatusOutbox]:
    outbox = status_outbox.StatusOutbox(_AtRate(per_second).apply)
    task = asyncio.create_task(outbox.run())
    try:
        yield outbox
    finally:
        task.cancel()
        await asyncio.wait([task])


@on_virtual_time
async def test_a_pod_with_a_node_does_not_wait_for_the_conditions_of_others() -> None:
    """It has to be bound: behind 5000 conditions that took more than a minute and a half."""
    async with _at_rate(50) as outbox:
        for number in range(5000):
            outbox.send(_condition(f"p{number}", "x"))
        outbox.send(_condition("placed", "x"))
        await asyncio.sleep(1.0)
        started = asyncio.get_running_loop().time()
        await outbox.wait_until_written("u-placed")
        # What is under way already comes before it.
        assert asyncio.get_running_loop().time() - started <= status_outbox.MAX_UNDER_WAY / 50


@on_virtual_time
async def test_conditions_of_important_pods_are_written_first() -> None:
    """The nomination of an urgent preemptor is news for others, its condition for the user who waits for it."""
    async with _outbox(seconds=1.0) as (outbox, written):
        for number in range(1000):
            outbox.send(_condition(f"low-{number}", "x"), 0)
        for number in range(10):
            outbox.send(_condition(f"high-{number}", "x"), 5)
        await asyncio.sleep(10.0)
    low = [f"low-{number}" for number in range(1000)]
    assert [name for name, *_ in written.all] == [f"high-{number}" for number in range(10)] + low


@on_virtual_time
async def test_a_newer_condition_keeps_the_turn_of_the_one_before() -> None:
    """A pod that fails again and again would be behind all others each time."""
    async with _outbox(running=False) as (outbox, _):
        for name in "ab":
            outbox.send(_condition(name, "old"))
        outbox.send(_condition("a", "new"))
        assert [action.set_condition.condition.message for action in outbox._take_next_batch()] == ["new", "old"]


@on_virtual_time
async def test_what_is_dropped_or_replaced_leaves_nothing_behind() -> None:
    """While no bind can be called, pods come and go for hours."""
    async with _outbox(running=False) as (outbox, _):
        for number in range(5000):
            outbox.send(_condition(f"p{number}", "x"))
            outbox.drop(f"u-p{number}")
        assert len(outbox) == 0
        assert len(outbox._order) < 3 * status_outbox.BATCH
        assert not outbox._written


@on_virtual_time
async def test_the_order_holds_after_many_conditions_were_dropped() -> None:
    """What is out of date is left out of the order then; a pod that waits is neither lost nor overtaken."""
    async with _outbox(running=False) as (outbox, written):
        for priority in range(6):
            outbox.send(_condition(f"p{priority}", "x"), priority)
        for _ in range(3 * status_outbox.BATCH):
            outbox.send(_condition("gone", "x"))
            outbox.drop("u-gone")
        outbox.send(_condition("last", "x"), -1)
        task = asyncio.create_task(outbox.run())
        await outbox.wait_until_written("u-last")
        task.cancel()
    assert [name for name, *_ in written.all] == ["last", "p5", "p4", "p3", "p2", "p1", "p0"]


@on_virtual_time
async def test_a_failed_write_is_told_unless_a_newer_one_waits() -> None:
    """The pod would be tried again for a condition that was written, or for one that is out of date."""
    outcome = {"good": status.SUCCESS, "bad": status.error("", "no"), "again": status.error("", "no")}

    async def apply(actions: Sequence[bind_pb2.Action], on_result: Callable[[int, bind_pb2.BindResult], None]) -> None:
        await asyncio.sleep(1.0)
        for index, action in enumerate(actions):
            answer = outcome[action.pod.name]
            on_result(index, bind_pb2.BindResult(index=index, status=wire_status.to_message(answer)))

    outbox, failed = status_outbox.StatusOutbox(apply), list[str]()
    outbox.on_failed = failed.append
    task = asyncio.create_task(outbox.run())
    for name in outcome:
        outbox.send(_condition(name, "x"))
    await asyncio.sleep(0.5)
    outbox.send(_condition("again", "y"))
    await asyncio.sleep(1.0)
    outcome["again"] = status.SUCCESS
    await outbox.wait_until_written("u-again")
    task.cancel()
    assert failed == ["u-bad"]


@on_virtual_time
async def test_of_each_pod_one_write_is_under_way_though_its_turn_was_moved_forward() -> None:
    """The newer write could overtake it, and the older condition stay."""
    async with _outbox(running=False) as (outbox, _):
        outbox.send(_condition("a", "old"))
        waits = asyncio.create_task(outbox.wait_until_written("u-a"))
        await asyncio.sleep(0)
        assert len(outbox._take_next_batch()) == 1
        outbox.send(_condition("a", "new"))
        assert outbox._take_next_batch() == []
        waits.cancel()
