"""ForkerClient and LocalPhase: what the reports of the forker and the phases mean, and when a child starts again."""

import asyncio
import contextlib
import json
import logging
import os
import pathlib
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.helpers.virtual_time import on_virtual_time
from trireme.frontend.phase_clients import forker_client, local_phases
from trireme.rpc import forker


async def _turns() -> None:
    """Let the loop read what is in the pipes."""
    for _ in range(10):
        await asyncio.sleep(0)


class Forker:
    """The other ends of the pipes of a client to a forker that has forked nothing."""

    def __init__(self) -> None:
        requests, own_requests = os.pipe()
        own_reports, reports = os.pipe()
        self._requests = os.fdopen(requests, "rb", 0)
        self._reports = os.fdopen(reports, "wb", 0)
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], os.environ)
        self.client = forker_client.ForkerClient(forker.ForkerConnection(pid, own_requests, own_reports))

    def requests(self) -> list[Any]:
        """Those written since the last call."""
        os.set_blocking(self._requests.fileno(), False)
        data = self._requests.read() or b""
        return [json.loads(line) for line in data.splitlines()]

    def requests_have_ended(self) -> bool:
        """Whether the client has closed its pipe, at which the forker ends; there must be no unread requests."""
        os.set_blocking(self._requests.fileno(), False)
        return self._requests.read() == b""

    async def report(self, line: str | dict[str, Any]) -> None:
        text = line if isinstance(line, str) else json.dumps(line)
        self._reports.write(text.encode() + b"\n")
        await _turns()

    def end_reports(self) -> None:
        """As the forker ends, its process and its end of the requests last a moment longer."""
        self._reports.close()

    async def start(self, name: str) -> forker_client.StartingProcess:
        return await self.client.request_start(name, "m", f"unix:/run/{name}.sock", ["-v=1"])

    def end(self) -> None:
        for pipe in (self._requests, self._reports):
            with contextlib.suppress(OSError):
                pipe.close()


@contextlib.asynccontextmanager
async def forking() -> AsyncIterator[Forker]:
    made = Forker()
    try:
        yield made
    finally:
        made.end()
        await made.client.stop()


async def test_a_process_has_started_once_it_listens_at_its_own_address() -> None:
    """Another one's line, or the report alone, would have calls sent to a socket that is not there yet."""
    async with forking() as other:
        one, two = await other.start("a"), await other.start("b")
        assert other.requests() == [
            {
                "start": name,
                "module": "m",
                "arguments": ["--listen", f"unix:/run/{name}.sock", "-v=1"],
                "folder": "/run",
            }
            for name in ("a", "b")
        ]
        waiting = [asyncio.create_task(other.client.until_listening(each)) for each in (one, two)]
        await other.report({"started": "a", "pid": 11})
        await other.report({"started": "b", "pid": 12})
        await other.report("listening at unix:/run/a.sock, so to speak")
        await other.report("listening at unix:/run/a.sock\N{REPLACEMENT CHARACTER}")
        assert [each.done() for each in waiting] == [False, False]
        await other.report("  serving on unix:/run/a.sock ")
        await other.report({"msg": "something else"})
        await other.report(f"{forker_client.programs.LISTENING}unix:/run/a.sock ")
        assert [each.done() for each in waiting] == [True, False]
        await other.report({"msg": f"{forker_client.programs.LISTENING}unix:/run/b.sock"})
        assert [each.result() for each in waiting] == [11, 12]
        await other.report({"msg": f"{forker_client.programs.LISTENING}unix:/run/b.sock"})


@pytest.mark.parametrize("started", [False, True])
async def test_a_process_that_ends_at_its_start_is_an_error_with_its_exit_code(started: bool) -> None:
    async with forking() as other:
        process = await other.start("a")
        if started:
            await other.report({"started": "a", "pid": 11})
        await other.report({"ended": "a", "code": 7})
        with pytest.raises(forker_client.LocalPhaseError, match="a ended with exit code 7 at its start"):
            await other.client.until_listening(process)
        assert (other.client.runs("a"), await other.client.until_ended("a")) == (False, 7)


async def test_a_process_that_does_not_listen_in_time_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forker_client, "START_SECONDS", 0.05)
    async with forking() as other:
        process = await other.start("a")
        other.requests()
        await other.report({"started": "a", "pid": 11})
        with pytest.raises(forker_client.LocalPhaseError, match="a does not listen after 0 s"):
            await other.client.until_listening(process)
        assert other.requests() == [{"signal": int(signal.SIGKILL), "name": "a"}]


async def test_only_a_process_that_runs_gets_signals() -> None:
    """Its number may be another process's by then."""
    async with forking() as other:
        other.client.signal("a", signal.SIGTERM)
        await other.start("a")
        other.requests()
        for name in ("a", "b"):
            other.client.signal(name, signal.SIGTERM)
        assert other.requests() == [{"signal": int(signal.SIGTERM), "name": "a"}]
        assert (other.client.runs("a"), other.client.runs("b")) == (True, False)
        await other.report({"ended": "a", "code": 0})
        other.client.signal("a", signal.SIGTERM)
        assert other.requests() == []


async def test_all_processes_end_with_the_forker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for one would wait forever; the next start needs another forker."""
    async with forking() as other:
        for name in ("a", "b"):
            await other.start(name)
        await other.report({"ended": "a", "code": 0})
        ending = [asyncio.create_task(other.client.until_ended(name)) for name in ("a", "b")]
        other.end()
        assert await asyncio.gather(*ending) == [0, 3]
        other.client.signal("b", signal.SIGTERM)
        spawned = Forker()
        monkeypatch.setattr(forker, "spawn_forker", lambda modules: spawned.client._connection)
        assert not other.client.runs("b")
        await other.start("b")
        assert [each["start"] for each in spawned.requests()] == ["b"]
        assert other.client.runs("b")
        spawned.end()


@pytest.mark.parametrize("is_used", [False, True])
async def test_stopping_ends_the_forker_and_waits_for_its_processes(is_used: bool) -> None:
    other = Forker()
    if is_used:
        await other.start("a")
        assert len(other.requests()) == 1
    assert not other.requests_have_ended()
    stopping = asyncio.create_task(other.client.stop())
    async with asyncio.timeout(20.0):
        # The child has the pipe, too, for a moment after it was spawned.
        while not other.requests_have_ended():
            await asyncio.sleep(0)
    assert not stopping.done()
    other.end()
    await stopping
    assert not other.client.runs("a")


async def test_stopping_before_a_process_was_needed_spawns_no_forker(monkeypatch: pytest.MonkeyPatch) -> None:
    spawned: list[object] = []
    monkeypatch.setattr(forker, "spawn_forker", spawned.append)
    await forker_client.ForkerClient().stop()
    assert spawned == []


class Client:
    """A forker's client whose processes run as long as the test says."""

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.fails = False
        self.signals: list[signal.Signals] = []
        self.ended = asyncio.Event()
        #: Which signal ends the process.
        self.deadly = signal.SIGTERM

    async def request_start(self, name: str, *_: object) -> Any:
        self.starts.append(asyncio.get_running_loop().time())
        return name

    async def until_listening(self, process: Any) -> int:
        if self.fails:
            raise forker_client.LocalPhaseError("it cannot")
        self.ended.clear()
        return 100 + len(self.starts)

    async def until_ended(self, name: str) -> int:
        await self.ended.wait()
        return 9

    def runs(self, name: str) -> bool:
        return not self.ended.is_set()

    def signal(self, name: str, number: signal.Signals) -> None:
        self.signals.append(number)
        if number is self.deadly:
            self.ended.set()


def _phase(client: Any) -> local_phases.LocalPhase:
    return local_phases.LocalPhase(client, "filter", 1, pathlib.Path("/run/filter-1.sock"), [])


@on_virtual_time
async def test_a_child_that_ends_soon_after_each_start_is_started_ever_later() -> None:
    client, restarted = Client(), []
    phase = _phase(client)
    await phase.request_start()
    await phase.start()
    assert (len(client.starts), phase.statistics()) == (
        1,
        local_phases.LocalPhaseStatistics("filter-1", "unix:/run/filter-1.sock", 101, 1),
    )
    loop = asyncio.get_running_loop()
    keeping = asyncio.create_task(phase.keep_running(lambda: restarted.append(loop.time())))
    delays = []
    for lived in (1.0, 1.0, 1.0, 11.0, 1.0):
        await asyncio.sleep(lived)
        ended = loop.time()
        client.ended.set()
        await asyncio.sleep(0)
        assert phase.statistics().pid == 0
        while len(restarted) == len(delays):
            await asyncio.sleep(0.01)
        delays.append(round(client.starts[-1] - ended, 1))
    assert delays == [0.2, 0.4, 0.8, 0.2, 0.4]
    state = phase.statistics()
    assert (state.pid, state.starts, state.exit_code, state.ended_at > 0) == (106, 6, 9, True)
    keeping.cancel()
    await asyncio.wait({keeping})


@on_virtual_time
async def test_a_child_that_cannot_start_again_is_tried_until_it_does(caplog: pytest.LogCaptureFixture) -> None:
    client, restarted = Client(), []
    phase = _phase(client)
    await phase.start()
    client.fails = True
    client.ended.set()
    keeping = asyncio.create_task(phase.keep_running(lambda: restarted.append(True)))
    with caplog.at_level(logging.CRITICAL):
        await asyncio.sleep(60.0)
        pauses = [round(after - before) for before, after in zip(client.starts[1:], client.starts[2:], strict=False)]
        assert set(pauses[6:]) == {local_phases.MAX_RESTART_SECONDS}
        assert restarted == []
        client.fails = False
        await asyncio.sleep(local_phases.MAX_RESTART_SECONDS)
    assert (restarted, phase.statistics().pid) == ([True], 100 + len(client.starts))
    keeping.cancel()
    await asyncio.wait({keeping})


@pytest.mark.parametrize("deadly", [signal.SIGTERM, signal.SIGKILL])
@on_virtual_time
async def test_a_child_that_does_not_end_in_time_is_killed(deadly: signal.Signals) -> None:
    client = Client()
    client.deadly = deadly
    phase = _phase(client)
    await phase.start()
    started = asyncio.get_running_loop().time()
    await phase.stop()
    seconds = local_phases.STOP_SECONDS if deadly is signal.SIGKILL else 0.0
    assert asyncio.get_running_loop().time() - started == pytest.approx(seconds)
    assert client.signals == [signal.SIGTERM, *([deadly] if deadly is signal.SIGKILL else [])]
    await phase.stop()
    assert len(client.signals) == (2 if deadly is signal.SIGKILL else 1)


async def test_what_is_requested_while_the_forker_ends_is_lost() -> None:
    async with forking() as other:
        await other.start("a")
        other.requests()
        other.end_reports()
        async with asyncio.timeout(20):
            while not other.requests_have_ended():
                await asyncio.sleep(0)
        other.client.signal("a", signal.SIGTERM)
        assert await other.client.until_ended("a") == 3


async def test_a_child_has_a_process_once_it_listens() -> None:
    async with forking() as other:
        phase = local_phases.LocalPhase(other.client, "filter", 0, pathlib.Path("/run/filter-0.sock"), [])
        await phase.request_start()
        await other.report({"started": "filter-0", "pid": 11})
        assert (phase.statistics().pid, phase.statistics().starts) == (0, 1)
        starting = asyncio.create_task(phase.start())
        await other.report(f"{forker_client.programs.LISTENING}unix:/run/filter-0.sock")
        await starting
        assert (phase.statistics().pid, phase.statistics().starts) == (11, 1)
