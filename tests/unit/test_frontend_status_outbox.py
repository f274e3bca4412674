"""StatusOutbox: the newest for each pod, once; and of a pod that is about to be bound nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest
from virtual_time import on_virtual_time

from trireme.framework import status
from trireme.frontend import status_outbox
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2
from trireme.wire import status as wire_status


class Written:
    """What bind was asked to write: name, message, nomination."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str, str | None]] = []

    async def apply(self, actions: Sequence[bind_pb2.Action]) -> list[bind_pb2.BindResult]:
        """Take them all."""
        for action in actions:
            said = action.set_condition
            nomination = said.nominated_node_name if said.HasField("nominated_node_name") else None
            self.all.append((action.pod.name, said.condition.message, nomination))
        done = wire_status.to_message(status.SUCCESS)
        return [bind_pb2.BindResult(index=index, status=done) for index in range(len(actions))]


@contextlib.asynccontextmanager
async def _outbox() -> AsyncIterator[tuple[status_outbox.StatusOutbox, Written]]:
    written = Written()
    outbox = status_outbox.StatusOutbox(written.apply)
    task = asyncio.create_task(outbox.run())
    try:
        yield outbox, written
    finally:
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
async def test_the_newest_of_a_pod_is_written_and_what_it_was_promised() -> None:
    """If this fails, a pod's status says what was true earlier, or nobody learns of its nomination."""
    async with _outbox() as (outbox, written):
        outbox.send(_condition("a", "old", "node"))
        outbox.send(_condition("b", "old", "node"))
        outbox.send(_condition("a", "new"))
        outbox.send(_condition("b", "new", ""))
        await asyncio.sleep(0.1)
    assert written.all == [("a", "new", "node"), ("b", "new", "")]


@on_virtual_time
async def test_of_a_pod_that_is_bound_as_soon_as_there_is_room_nothing_is_written() -> None:
    """If this fails, each preemptor costs the API server a write that its binding makes void, or that is refused."""
    async with _outbox() as (outbox, written):
        outbox.send_unless_bound(_condition("a", "no room", "node"))
        outbox.evicted("u-a")
        outbox.drop("u-a")
        await asyncio.sleep(2 * status_outbox.EVICTING_SECONDS)
        assert len(outbox) == 0
    assert written.all == []


@pytest.mark.parametrize("evicted", [pytest.param(True, id="after-the-eviction"), pytest.param(False, id="during-it")])
@on_virtual_time
async def test_of_a_pod_that_is_not_bound_in_time_it_is_written(evicted: bool) -> None:
    """If this fails, nobody learns which node a pod waits for whose victims take their grace period."""
    async with _outbox() as (outbox, written):
        outbox.send_unless_bound(_condition("a", "no room", "node"))
        if evicted:
            outbox.evicted("u-a")
        patience = status_outbox.EVICTED_SECONDS if evicted else status_outbox.EVICTING_SECONDS
        await asyncio.sleep(0.9 * patience)
        assert written.all == []
        assert len(outbox) == 1
        await asyncio.sleep(0.2 * patience)
    assert written.all == [("a", "no room", "node")]


@on_virtual_time
async def test_a_pod_that_fails_again_has_no_more_time() -> None:
    """If this fails, the condition of a pod whose room went to another one is written late or twice."""
    async with _outbox() as (outbox, written):
        outbox.send_unless_bound(_condition("a", "no room", "node"))
        outbox.send(_condition("a", "still none"))
        await asyncio.sleep(2 * status_outbox.EVICTING_SECONDS)
    assert written.all == [("a", "still none", "node")]
