"""Tasks that end unexpectedly are noticed, whatever ended them; tasks that are stopped are not."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.supervision import Supervisor, TaskEnded


async def _fail() -> None:
    raise ValueError("a fault of ours")


async def _return() -> None:
    return None


async def _raise_cancelled() -> None:
    """What grpc.aio does in the caller of a call whose channel is closed."""
    raise asyncio.CancelledError


async def _await_cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def _forever() -> None:
    await asyncio.Event().wait()


ENDS = pytest.mark.parametrize(
    ("work", "how"),
    [
        (_fail, "ValueError: a fault of ours"),
        (_return, "it returned"),
        (_raise_cancelled, "something that it awaited was cancelled"),
        (_await_cancelled, "something that it awaited was cancelled"),
    ],
)


@ENDS
async def test_every_unexpected_end_of_a_member_of_a_group_is_raised(
    work: Callable[[], Coroutine[Any, Any, None]], how: str
) -> None:
    """A TaskGroup by itself takes a cancelled member, and one that returned, for done."""

    async def run() -> None:
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            group.create_task(supervision.supervise("loop", work))
            group.create_task(_forever())

    with pytest.raises(ExceptionGroup) as raised:
        await run()
    (ended,) = supervision.ended_tasks(raised.value)
    assert (ended.name, ended.how) == ("loop", how)


@ENDS
async def test_every_unexpected_end_of_a_supervised_task_is_raised(
    work: Callable[[], Coroutine[Any, Any, None]], how: str
) -> None:
    """Nobody awaits such tasks: without this a link to a replica ends, and the scheduler waits for it forever."""
    supervisor = Supervisor()
    supervisor.keep("link", work)
    with pytest.raises(TaskEnded, match="task 'link' ended: ") as raised:
        await asyncio.wait_for(supervisor.failure(), 20)
    assert raised.value.how == how
    await supervisor.close()


@pytest.mark.parametrize("work", [_fail, _raise_cancelled, _await_cancelled])
async def test_a_failure_is_raised_where_it_is_awaited(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    quiet, failing = Supervisor(), Supervisor()
    waiting = asyncio.create_task(supervision.failure_of([quiet, failing]))
    failing.start(work())
    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.wait_for(waiting, 20)
    (ended,) = supervision.ended_tasks(raised.value)
    assert ended.name == work.__name__


async def test_a_task_that_finishes_or_is_stopped_is_no_failure() -> None:
    supervisor = Supervisor()
    waiting = asyncio.create_task(supervisor.failure())
    supervisor.start(_return())
    supervisor.start(_forever())
    await supervisor.stop(supervisor.keep("link", _forever))
    await supervisor.close()
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_the_task_that_ended_first_is_named() -> None:
    """The log line names the loop that failed, not the tasks around it."""

    async def outer() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(supervision.supervise("inner", _fail))

    with pytest.raises(TaskEnded) as raised:
        await supervision.supervise("outer", outer)
    assert [ended.name for ended in supervision.ended_tasks(raised.value)] == ["inner"]


async def test_a_task_that_is_stopped_before_it_begins_leaves_nothing() -> None:
    """Python warns of coroutines that are never awaited."""
    supervisor = Supervisor()
    supervisor.keep("link", _forever)
    await supervisor.close()


async def test_cancelling_a_supervised_task_cancels_it() -> None:
    task = asyncio.create_task(supervision.supervise("loop", _forever))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
