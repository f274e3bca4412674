"""Phases of the frontend's own that stand in for configured ones: when they do, and that this can be seen."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.helpers.virtual_time import on_virtual_time
from trireme.frontend.phase_clients import endpoints, fallback
from trireme_kube.componentbase import supervision


@dataclasses.dataclass(frozen=True)
class Replica:
    """A configured replica."""

    address: str
    last_error: str


class Phase:
    """A phase whose replicas answer as the test says."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.endpoints: Sequence[str] = ()

    def answering(self) -> list[str]:
        """The addresses that answer now."""
        return self.answers

    def statistics(self) -> list[Replica]:
        """Nobody can connect to those that do not answer."""
        reason = "UNAVAILABLE: its certificate has expired"
        return [Replica(each, "" if each in self.answers else reason) for each in self.endpoints]

    def set_endpoints(self, addresses: Sequence[str]) -> None:
        """These are asked from now on."""
        self.endpoints = addresses


class Own:
    """Local phases that start at once."""

    def __init__(self) -> None:
        self.ending = asyncio.Event()
        self.story: list[str] = []

    async def start(self) -> None:
        """Starts them."""
        self.story.append("started")

    async def stop(self) -> None:
        """Ends them."""
        self.story.append("stopped")

    def addresses(self, phase: str) -> list[str]:
        """Where they listen."""
        return [f"unix:/{phase}"]

    async def restart_ended(self, restarted: Callable[[], None]) -> None:
        """Nothing ends here, unless the test says so."""
        await self.ending.wait()


def _fallback(phase: Phase, own: Own, after: float, clock: Callable[[], float]) -> fallback.Fallback:
    made: Any = own
    return fallback.Fallback("filter", phase, lambda: made, after, clock, lambda: None)


async def test_the_metric_is_set_while_a_fallback_is_active() -> None:
    """If this fails, the metric says that all is well while a cluster's phases are gone, or goes on to warn."""
    phase, now = Phase(), [0.0]
    own = Own()
    standing_in = _fallback(phase, own, 30.0, lambda: now[0])
    standing_in.set_endpoints(["far:1"])
    seen = []
    for moment, answers in ((0, []), (29, []), (30, []), (40, []), (41, ["far:1"]), (50, [])):
        now[0], phase.answers = moment, list(answers)
        await standing_in._start_or_stop_local_phases()
        seen.append((standing_in.active, list(phase.endpoints)))
    waits, helped = (False, ["far:1"]), (True, ["far:1", "unix:/filter"])
    assert seen == [waits, waits, helped, helped, waits, waits]
    assert own.story == ["started", "stopped"]


async def test_why_nobody_answers_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    standing_in = _fallback(Phase(), Own(), 0.0, lambda: 1.0)
    standing_in.set_endpoints(["far:1"])
    await standing_in._start_or_stop_local_phases()
    expected = (
        "no filter answered for 0 s (far:1: UNAVAILABLE: its certificate has expired): one of our own stands in "
        "(https://trireme.dev/docs/troubleshooting.html#nothing-is-scheduled)"
    )
    assert expected in [record.getMessage() for record in caplog.records]


async def test_why_an_endpoint_cannot_be_found_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    name, service, own = "dns:///filter.nowhere:1", "endpointslice:///a/filter:grpc", Own()
    lookups = {
        name: endpoints.EndpointLookup(name, error=lambda: "Name or service not known"),
        service: endpoints.EndpointLookup(service, listed=True, missing="none of its pods runs"),
    }
    made: Any = own
    standing_in = fallback.Fallback("filter", Phase(), lambda: made, 0.0, lambda: 1.0, lambda: None, lookups=lookups)
    await standing_in._start_or_stop_local_phases()
    reasons = f"{name}: Name or service not known; {service}: no addresses: none of its pods runs"
    page = "https://trireme.dev/docs/troubleshooting.html#nothing-is-scheduled"
    expected = f"no filter answered for 0 s ({reasons}): one of our own stands in ({page})"
    assert expected in [record.getMessage() for record in caplog.records]


async def test_a_full_disk_ends_nothing() -> None:
    now, fails = [0.0], True
    own: Any = Own()
    tried: list[float] = []

    def make() -> Any:
        tried.append(now[0])
        if fails:
            raise OSError(28, "No space left on device")
        return own

    standing_in = fallback.Fallback("filter", Phase(), make, 5.0, lambda: now[0], lambda: None)
    for moment in (0.0, 5.0, 9.0):
        now[0] = moment
        await standing_in._start_or_stop_local_phases()
        assert not standing_in.active
    fails = False
    now[0] = 10.0
    await standing_in._start_or_stop_local_phases()
    assert standing_in.active
    assert tried == [5.0, 10.0], "after a failure the wait begins anew"


@pytest.mark.slow
async def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    """A term that ends in the middle of it would leave a process and its folder behind."""
    own, starting = Own(), asyncio.Event()

    async def start() -> None:
        starting.set()
        await asyncio.Event().wait()

    own.start = start
    running = asyncio.create_task(_fallback(Phase(), own, 0.0, lambda: 1.0).run())
    await starting.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert own.story == ["stopped"]


async def test_it_is_not_active_after_the_term() -> None:
    """If this fails, a frontend that does not lead any more is shown to stand in forever."""
    phase, own = Phase(), Own()
    standing_in = _fallback(phase, own, 0.0, lambda: 1.0)
    running = asyncio.create_task(standing_in.run())
    await asyncio.sleep(0)
    await standing_in._start_or_stop_local_phases()
    assert (standing_in.active, standing_in.addresses()) == (True, ["unix:/filter"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (standing_in.active, standing_in.addresses(), standing_in.statistics()) == (False, [], [])
    assert own.story == ["started", "stopped"]


async def test_it_ends_if_its_phases_are_not_restarted_any_more() -> None:
    """If this fails, a phase that stands in and dies is gone, and the frontend looks healthy."""
    phase, own = Phase(), Own()
    standing_in = _fallback(phase, own, 0.0, lambda: 1.0)
    running = asyncio.create_task(standing_in.run())
    await asyncio.sleep(0)
    await standing_in._start_or_stop_local_phases()
    own.ending.set()
    with pytest.raises(ExceptionGroup) as raised:
        await running
    assert [ended.name for ended in supervision.ended_tasks(raised.value)] == ["own filter"]
    assert own.story == ["started", "stopped"]


class SlowToEnd(Own):
    """Local phases whose supervision ends only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = asyncio.Event()

    async def restart_ended(self, restarted: Callable[[], None]) -> None:
        """Wait to be cancelled, and then for the test."""
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
            await self.ending.wait()


@on_virtual_time
async def test_a_fallback_that_is_ending_is_stopped_though_the_frontend_stops_meanwhile() -> None:
    """A bind in this process would write on while the Lease is released."""
    phase, own = Phase(), SlowToEnd()
    standing_in = _fallback(phase, own, 0.0, asyncio.get_running_loop().time)
    standing_in.set_endpoints(["far:1"])
    running = asyncio.create_task(standing_in.run())
    async with asyncio.timeout(60):
        while not standing_in.active:
            await asyncio.sleep(0.1)
        phase.answers = ["far:1"]
        await own.cancelled.wait()
    running.cancel()
    own.ending.set()
    await asyncio.wait({running})
    assert own.story == ["started", "stopped"]


async def test_nothing_stands_in_while_a_configured_replica_answers() -> None:
    """Even where none is waited for."""
    phase, own = Phase(), Own()
    standing_in = _fallback(phase, own, 0.0, lambda: 1.0)
    standing_in.set_endpoints(["far:1"])
    phase.answers = ["far:1"]
    for _ in range(2):
        await standing_in._start_or_stop_local_phases()
    assert (standing_in.active, list(phase.endpoints), own.story) == (False, ["far:1"], [])
