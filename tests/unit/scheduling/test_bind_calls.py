"""Batches that come to Bind at the same moment share a call, and each gets its own results."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from trireme.scheduling import bind_calls, in_memory
from trireme.v1 import bind_pb2, cycle_pb2, status_pb2
from trireme_kube.componentbase import supervision


class _Binder(in_memory.Binder):
    """Binds the items of a call in the reverse order, but last of all the pod "slow", which waits for `finish`."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[bind_pb2.BindRequest] = []
        self.finish = asyncio.Event()

    async def bind(self, request: bind_pb2.BindRequest) -> AsyncIterator[bind_pb2.BindResult]:
        self.requests.append(request)
        uids = [item.pod.uid for item in request.items]
        if "broken" in uids:
            raise RuntimeError("no binder")
        for index, uid in sorted(enumerate(uids), key=lambda each: (each[1] == "slow", -each[0])):
            if uid == "slow":
                await self.finish.wait()
            yield bind_pb2.BindResult(index=index, status=status_pb2.Status(messages=[uid]))


def _request(pod_class: int, uids: Iterable[str], profile: str = "p") -> bind_pb2.BindRequest:
    request = bind_pb2.BindRequest(cycle=cycle_pb2.Cycle(profile=profile, pod_class=pod_class))
    for uid in uids:
        request.items.add(node_name="n").pod.uid = uid
    return request


async def _bound(calls: bind_calls.SharedBindCalls, request: bind_pb2.BindRequest) -> list[str]:
    """The pods of the results, in the order in which they came, after checking that each is the item at its index."""
    out = []
    async for result in calls.bind(request):
        assert request.items[result.index].pod.uid == result.status.messages[0]
        out.append(result.status.messages[0])
    return out


async def test_batches_of_one_moment_share_a_call() -> None:
    """One message for pods that are each a class of their own; each batch gets the results of its items."""
    binder, supervisor = _Binder(), supervision.Supervisor()
    calls = bind_calls.SharedBindCalls(binder, supervisor.start)
    batches = [_request(1, ["a", "b"]), _request(2, ["c"]), _request(3, ["d"])]
    assert await asyncio.gather(*(_bound(calls, batch) for batch in batches)) == [["b", "a"], ["c"], ["d"]]
    (request,) = binder.requests
    assert [item.pod.uid for item in request.items] == ["a", "b", "c", "d"]
    assert (request.cycle.profile, request.cycle.pod_class) == ("p", 0)
    assert [batch.cycle.pod_class for batch in batches] == [1, 2, 3]
    await supervisor.close()


async def test_a_batch_that_comes_alone_is_sent_as_it_is() -> None:
    """The class is named where there is one; the next batch has a call of its own."""
    binder, supervisor = _Binder(), supervision.Supervisor()
    calls = bind_calls.SharedBindCalls(binder, supervisor.start)
    for number in (1, 2):
        assert await _bound(calls, _request(number, [f"p{number}"])) == [f"p{number}"]
    assert [request.cycle.pod_class for request in binder.requests] == [1, 2]
    await supervisor.close()


async def test_profiles_share_no_call() -> None:
    """Each profile has its own plugins."""
    binder, supervisor = _Binder(), supervision.Supervisor()
    calls = bind_calls.SharedBindCalls(binder, supervisor.start)
    await asyncio.gather(_bound(calls, _request(1, ["a"], "one")), _bound(calls, _request(1, ["b"], "other")))
    assert sorted(request.cycle.profile for request in binder.requests) == ["one", "other"]
    await supervisor.close()


async def test_no_batch_waits_for_the_results_of_another() -> None:
    """A pod that is bound is reported at once, though another of its call takes long."""
    binder, supervisor = _Binder(), supervision.Supervisor()
    calls = bind_calls.SharedBindCalls(binder, supervisor.start)
    slow = asyncio.create_task(_bound(calls, _request(1, ["slow"])))
    assert await _bound(calls, _request(2, ["quick"])) == ["quick"]
    assert len(binder.requests) == 1
    assert not slow.done()
    binder.finish.set()
    assert await slow == ["slow"]
    await supervisor.close()


async def test_each_batch_learns_that_the_call_failed() -> None:
    """No batch waits for results that never come."""
    binder = _Binder()
    tasks: list[asyncio.Task[None]] = []
    calls = bind_calls.SharedBindCalls(binder, lambda work: tasks.append(asyncio.create_task(work)))
    both = asyncio.gather(
        _bound(calls, _request(1, ["broken"])), _bound(calls, _request(2, ["a"])), return_exceptions=True
    )
    assert [str(each) for each in await both] == ["no binder", "no binder"]
    with pytest.raises(RuntimeError, match="no binder"):
        await tasks[0]
