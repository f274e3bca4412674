"""What bind does while its client's rate limit lets nothing through: it begins little, and says that it is there."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, cast

import pytest

from tests.helpers import virtual_time
from tests.helpers.held_entries import held_entries
from tests.helpers.virtual_time import on_virtual_time
from trireme.bind import (
    action_executor,
    binding_retries,
    call_results,
    heartbeats,
    pre_binder,
    profile_plugins,
    write_turns,
)
from trireme.bind.call_results import BusyError
from trireme.bind.work_in_flight import WorkInFlight
from trireme.plugin_kit.bind_phase_plugin import always_has_work
from trireme.rpc.fencing import EpochGuard, Tenure
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, status_pb2
from trireme_kube.client.rest.ratelimit import TokenBucket

TIMEOUT_SECONDS = 10.0


class Client:
    """A client with a rate limit. Units: seconds."""

    def __init__(self, qps: float, clock: Callable[[], float]) -> None:
        self.bucket = TokenBucket(qps, 1)
        self.clock = clock
        self.sent = 0
        self.longest_wait = 0.0
        self.limit = write_turns.RateLimit(qps, lambda: self.bucket.delay(clock()))

    async def send(self) -> None:
        wait = self.bucket.take(self.clock())
        self.longest_wait = max(self.longest_wait, wait)
        await asyncio.sleep(wait + 0.005)
        self.sent += 1


@pytest.mark.parametrize("qps", [0.5, 5, 50, 1000, -1])
def test_no_request_waits_for_long_and_the_limit_is_used_up(qps: float) -> None:
    """A request that waits beyond its deadline is sent again, and all others wait longer for it."""

    async def main(clock: Callable[[], float]) -> None:
        client = Client(qps, clock)
        pools = [write_turns.WriteTurns(client.limit) for _ in range(3)]

        async def work(turns: write_turns.WriteTurns) -> None:
            async with turns:
                for _ in range(3):
                    await client.send()

        count = 40 if qps == 0.5 else 300
        started = clock()
        await asyncio.gather(*(work(pools[number % 3]) for number in range(count)))
        assert client.sent == 3 * count
        assert client.longest_wait < TIMEOUT_SECONDS
        if 0 < qps < 1000:
            assert clock() - started == pytest.approx(3 * count / qps, rel=0.05)

    virtual_time.run(main)


@pytest.mark.parametrize(("qps", "most"), [(0.5, 1), (1.0, 1), (1.5, 2), (1000.0, 64), (0.0, 64), (-1.0, 64)])
@on_virtual_time
async def test_little_is_under_way_at_once(qps: float, most: int) -> None:
    """What has begun holds its deadline only if few others are before it."""
    turns = write_turns.WriteTurns(write_turns.RateLimit(qps, lambda: 0.0))
    running = [0]

    async def work() -> int:
        async with turns:
            running[0] += 1
            await asyncio.sleep(1.0)
            now = running[0]
            running[0] -= 1
            return now

    assert max(await asyncio.gather(*(work() for _ in range(200)))) == most


@on_virtual_time
async def test_cancelled_turns_are_not_lost() -> None:
    delay = [10.0]
    turns = write_turns.WriteTurns(write_turns.RateLimit(1.0, lambda: delay[0]))

    async def work() -> None:
        async with turns:
            pass

    waiting = [asyncio.create_task(work()) for _ in range(3)]
    await asyncio.sleep(1.0)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    delay[0] = 0.0
    await work()


@on_virtual_time
async def test_a_stream_sends_a_heartbeat_every_second() -> None:
    async def batches() -> AsyncGenerator[Sequence[int], None]:
        await asyncio.sleep(2.5)
        yield [1]
        yield [2]
        await asyncio.sleep(1.5)

    found = [list(batch) async for batch in heartbeats.with_heartbeats(batches())]
    assert found == [[], [], [1], [2], []]


@on_virtual_time
async def test_a_stream_without_a_reader_is_closed() -> None:
    closed = []

    async def batches() -> AsyncGenerator[Sequence[int], None]:
        try:
            await asyncio.sleep(100.0)
            yield [1]
        finally:
            closed.append(True)

    stream = heartbeats.with_heartbeats(batches())
    assert await anext(stream) == ()
    now = asyncio.get_running_loop().time
    started = now()
    await stream.aclose()
    assert closed
    assert now() == started, "nobody waits for the next batch"


@on_virtual_time
async def test_a_failed_stream_raises_its_error() -> None:
    async def batches() -> AsyncGenerator[Sequence[int], None]:
        yield [1]
        raise ValueError("broken")

    stream = heartbeats.with_heartbeats(batches())
    assert list(await anext(stream)) == [1]
    with pytest.raises(ValueError, match="broken"):
        await anext(stream)


class World:
    """A PreBind plugin that writes, for seconds by pod, and the jobs that call it."""

    def __init__(self, *, writes: bool = True, delay: Callable[[], float] = lambda: 0.0) -> None:
        self.clock = asyncio.get_running_loop().time
        self.guard = EpochGuard()
        self.guard.admit(7)
        self.tenure = Tenure(self.guard, self.clock, self.guard.leader, self.clock() + 60.0)
        self.seconds: dict[str, float] = {}
        self.running: list[str] = []
        #: Why PreBind of a pod failed last.
        self.reasons: dict[str, list[str]] = {}
        self.log: list[str] = []
        self.turns = write_turns.WriteTurns(write_turns.RateLimit(0.0, delay))
        self.in_flight = WorkInFlight(self.clock)
        self.jobs = pre_binder.PreBinder(self.turns, self.in_flight, self.clock)
        pre_flight, calls = (("Writes", always_has_work),), (("Writes", self._pre_bind),)
        writing = frozenset({"Writes"} if writes else ())
        self.chain = profile_plugins.ProfilePlugins((), pre_flight, calls, (), (), writing)

    async def _pre_bind(self, request: bind_pb2.PreBindRequest) -> Sequence[bind_pb2.PreBindResult]:
        (item,) = request.items
        assert item.pod.uid not in self.running, "one job a pod"
        self.running.append(item.pod.uid)
        self.log.append(f"begin {item.pod.uid}")
        try:
            await asyncio.sleep(self.seconds.get(item.pod.uid, 0.1))
            self.log.append(f"end {item.pod.uid}")
        finally:
            self.running.remove(item.pod.uid)
        return [bind_pb2.PreBindResult(status=status_pb2.Status(code=status_pb2.CODE_SUCCESS))]

    def call(self, *uids: str) -> AsyncGenerator[list[tuple[int, bind_pb2.PreBindResult]], None]:
        return self.jobs.run(self._classes(uids), TIMEOUT_SECONDS)

    def call_pre_flight(self, *uids: str) -> AsyncGenerator[list[tuple[int, status_pb2.Status]], None]:
        return self.jobs.run_pre_flight(self._classes(uids), TIMEOUT_SECONDS)

    def _classes(self, uids: Sequence[str]) -> list[pre_binder.PodsOfClass]:
        state = bind_phase_pb2.PluginStates(plugin_states={"Writes": b"x"}).SerializeToString()
        return [
            pre_binder.PodsOfClass(
                self.chain,
                cycle_pb2.Cycle(),
                [bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(name=uid, uid=uid), state=state)],
                self.tenure,
            )
            for uid in uids
        ]

    async def results(self, *uids: str) -> dict[str, str]:
        found: dict[str, str] = {}
        async for batch in self.call(*uids):
            found |= {uids[index]: " ".join(result.status.messages) for index, result in batch}
            self.reasons |= {uids[index]: [each.code for each in result.status.reasons] for index, result in batch}
        return found


@on_virtual_time
async def test_each_result_is_sent_when_it_is_known() -> None:
    """A result does not wait for the slowest pod of its call."""
    world = World()
    world.seconds = {"slow": 5.0}
    stream = world.call("slow", "fast")
    assert [index for index, _ in await anext(stream)] == [1]
    assert [index for index, _ in await anext(stream)] == [0]
    assert len(world.in_flight) == 0


@pytest.mark.parametrize(("writes", "seconds"), [(True, 5.0), (False, 0.1)])
@on_virtual_time
async def test_only_a_plugin_that_writes_waits_for_a_turn(writes: bool, seconds: float) -> None:
    """PreBind of a plugin that waits for something else would use up the turns, or writes exceed the limit."""
    started = asyncio.get_running_loop().time()
    world = World(writes=writes, delay=lambda: started + 5.5 - world.clock())
    assert await world.results("a") == {"a": ""}
    assert world.clock() - started == pytest.approx(seconds, abs=0.2)


@on_virtual_time
async def test_no_more_pods_are_taken_into_pre_bind_than_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_results, "WAITING_LIMIT", 2)
    world = World()
    first = asyncio.create_task(world.results("a", "b"))
    await asyncio.sleep(0)
    with pytest.raises(BusyError, match="2 pods are in PreBind already"):
        await world.results("c")
    await first
    assert await world.results("c", "d", "e") == {"c": "", "d": "", "e": ""}, "an idle one takes a call of any size"


@on_virtual_time
async def test_no_more_actions_are_taken_than_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_results, "WAITING_LIMIT", 2)
    world = World()
    unused = cast(Any, None)
    executor = action_executor.ActionExecutor(
        unused, world.in_flight, world.turns, cancel_pre_bind=unused, clock=world.clock, wall=lambda: 0
    )
    world.tenure = Tenure(world.guard, world.clock, world.guard.leader, world.clock())  # over: nothing is written

    async def apply(*uids: str) -> int:
        actions = [bind_pb2.Action(pod=cycle_pb2.PodIdentity(uid=uid)) for uid in uids]
        return sum([len(batch) async for batch in executor.apply(actions, world.tenure)])

    first = asyncio.create_task(apply("a", "b"))
    await asyncio.sleep(0)
    with pytest.raises(BusyError, match="actions for 2 pods wait already"):
        await apply("c")
    assert await first == 2
    assert await apply("c", "d", "e") == 3, "an idle one takes a call of any size"


@on_virtual_time
async def test_cancelled_work_ends_before_its_release() -> None:
    world = World()
    world.seconds = {"a": 5.0}
    call = asyncio.create_task(world.results("a", "b"))
    await asyncio.sleep(1.0)
    await world.jobs.cancel("a")
    assert world.running == []
    assert (await call) == {"a": "PreBind was interrupted", "b": ""}
    call = asyncio.create_task(world.results("c"))
    await asyncio.sleep(0)
    await world.jobs.cancel("c")
    assert "begin c" not in world.log
    assert (await call) == {"c": "PreBind was interrupted"}
    assert (await world.results("a")) == {"a": ""}


@on_virtual_time
async def test_a_new_leader_waits_until_pre_bind_can_write_nothing_more() -> None:
    """While it runs until its deadline, after its interruption no longer than a last request takes."""
    world = World()
    world.seconds = {"a": 5.0}
    call = asyncio.create_task(world.results("a"))
    await asyncio.sleep(1.0)
    world.guard.admit(8)
    settle = binding_retries.SETTLE_SECONDS
    patience = await world.in_flight.until_drained(world.guard.leader, 0.0)
    assert patience == pytest.approx(TIMEOUT_SECONDS + settle - 1.0)
    await world.jobs.cancel("a")
    assert await world.in_flight.until_drained(world.guard.leader, 0.0) == pytest.approx(settle)
    await call


@on_virtual_time
async def test_a_second_call_for_a_pod_waits_for_the_first() -> None:
    world = World()
    first, second = asyncio.create_task(world.results("a")), asyncio.create_task(world.results("a"))
    assert [await first, await second] == [{"a": ""}, {"a": ""}]
    assert world.log == ["begin a", "end a"] * 2


@on_virtual_time
async def test_a_release_ends_the_job_under_way_and_all_that_wait_behind_it() -> None:
    world = World()
    world.seconds = {"a": 5.0}
    calls = []
    for _ in range(3):
        calls.append(asyncio.create_task(world.results("a")))
        await asyncio.sleep(0.1)
    release = asyncio.create_task(world.jobs.cancel("a"))
    await asyncio.sleep(0)
    calls.append(asyncio.create_task(world.results("a")))  # comes while the jobs are being ended
    await release
    assert world.running == []
    assert [await call for call in calls] == [{"a": "PreBind was interrupted"}] * 4
    assert await world.results("a") == {"a": ""}
    assert world.log == ["begin a", "begin a", "end a"]


@on_virtual_time
async def test_a_cancelled_waiting_call_lets_no_other_overlap_the_first() -> None:
    world = World()
    world.seconds = {"a": 5.0}
    first = asyncio.create_task(world.results("a"))
    await asyncio.sleep(0.1)
    second = asyncio.create_task(world.results("a"))
    await asyncio.sleep(0.1)
    second.cancel()
    await asyncio.wait((second,))
    third = asyncio.create_task(world.results("a"))
    assert [await first, await third] == [{"a": ""}] * 2
    assert world.log == ["begin a", "end a"] * 2
    # The third, then the first: each order in which those that wait may go.
    first, second, third = (asyncio.create_task(world.results("a")) for _ in range(3))
    await asyncio.sleep(0.1)
    first.cancel()
    await asyncio.sleep(0.1)
    assert world.running == ["a"]
    third.cancel()
    assert await second == {"a": ""}
    assert world.log[4:] == ["begin a", "begin a", "end a"]


@on_virtual_time
async def test_a_call_that_is_gone_ends_its_jobs() -> None:
    world = World()
    world.seconds = {"a": 5.0}
    stream = world.call("b", "a")
    await anext(stream)
    await stream.aclose()
    await asyncio.sleep(0.1)
    assert world.log == ["begin b", "begin a", "end b"]


@on_virtual_time
async def test_nothing_begins_for_a_leader_that_is_gone_nor_goes_on_for_ever() -> None:
    """A deposed leader's PreBind neither begins nor continues beside its successor's."""
    world = World()
    world.seconds = {"a": 100.0}
    started = world.clock()
    assert (await world.results("a")) == {"a": 'running PreBind plugin "Writes": context deadline exceeded'}
    assert world.clock() - started == pytest.approx(TIMEOUT_SECONDS, abs=0.1)
    world.guard.admit(8)
    (text,) = (await world.results("b")).values()
    assert text.startswith('running PreBind plugin "Writes": not begun: a leader of epoch 8')
    assert "begin b" not in world.log
    assert world.reasons == {"a": ["deadlineExceeded"], "b": ["notBegun"]}
    ((_, flight),) = [result async for batch in world.call_pre_flight("b") for result in batch]
    assert flight.messages[0].startswith('running PreBindPreFlight "Writes": not begun: a leader of epoch 8')


def test_work_that_waits_may_begin_as_long_as_its_leader_calls() -> None:
    now = 0.0
    guard = EpochGuard()
    guard.admit(7)
    tenure = Tenure(guard, lambda: now, guard.leader, 10.0)
    tenure.extend(15.0)
    tenure.extend(12.0)
    now = 14.0
    assert tenure.active
    now = 15.0
    assert not tenure.active
    tenure.extend(20.0)
    guard.admit(8)
    assert not tenure.active


@pytest.mark.parametrize("how", ["ended", "abandoned", "cancelled", "too late"])
@on_virtual_time
async def test_nothing_is_kept_of_jobs_that_are_over(how: str) -> None:
    """However they end: each leaves its turn to the next, and no leader waits for them."""
    world = World()
    world.seconds = {"a": 2 * TIMEOUT_SECONDS if how == "too late" else 1.0}
    if how in ("ended", "too late"):
        assert set(await world.results("a", "b")) == {"a", "b"}
    else:
        stream = world.call("a", "b", "a")
        await anext(stream)
        if how == "cancelled":
            await world.jobs.cancel("a")
        await stream.aclose()
    await asyncio.sleep(0.01)
    assert not held_entries(world.jobs)["PreBinder._jobs"]
    assert world.running == []
    await asyncio.sleep(60)
    assert len(world.in_flight) == 0
    for number in range(2 * write_turns.CONCURRENCY):
        await world.results(f"p{number}")


@on_virtual_time
async def test_a_turn_that_fails_is_given_back() -> None:
    turns = write_turns.WriteTurns(write_turns.RateLimit(2.0, lambda: 0.0))
    for _ in range(5):
        with pytest.raises(ValueError, match="broken"):
            async with turns:
                raise ValueError("broken")
    async with asyncio.timeout(1), turns, turns:
        pass


@on_virtual_time
async def test_work_that_comes_once_the_limit_lets_something_through_overtakes_none_that_waits() -> None:
    delay = [10.0]
    limit = write_turns.RateLimit(1.0, lambda: delay[0])
    began: list[str] = []

    async def work(name: str) -> None:
        await limit.wait()
        began.append(name)

    first = asyncio.create_task(work("first"))
    await asyncio.sleep(1.0)
    delay[0] = 0.0
    await asyncio.gather(work("second"), first)
    assert began == ["first", "second"]


@pytest.mark.parametrize(("seconds", "waits"), [(0.8, 0.8), (0.0, 0.0), (write_turns.LEAST_SECONDS / 2, 0.0)])
@on_virtual_time
async def test_work_waits_for_as_long_as_a_request_would_wait_too_long(seconds: float, waits: float) -> None:
    """Also for less than a second, but for no rounding error."""
    now = asyncio.get_running_loop().time
    started = now()
    end = started + write_turns.MAX_DELAY_SECONDS + seconds
    await write_turns.RateLimit(1.0, lambda: end - now()).wait()
    assert now() - started == pytest.approx(waits)
