"""What phases answer to GetPluginStatistics is shown to people, and ends nothing."""

import asyncio
import contextlib
import dataclasses
import types
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import grpc
import pytest
from grpc import aio

from trireme.frontend import monitored_plugin, plugin_calls
from trireme.frontend.phase_clients import phase_links, replica_link
from trireme.rpc import channels, dialing
from trireme.v1 import plugin_pb2
from trireme_kube.componentbase import supervision


class _Phase:
    """A phase that answers these bytes."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.requests = 0
        self.channel: channels.DrainingChannel | None = None

    def channels(self) -> list[tuple[str, Any]]:
        return [] if self.channel is None else [("phase", self.channel)]

    async def _statistics(self, request: bytes, _: Any) -> bytes:
        self.requests += 1
        return self.answer

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = aio.server()
        handlers = {"GetPluginStatistics": grpc.unary_unary_rpc_method_handler(self._statistics)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("trireme.v1.PluginService", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self.channel = dialing.Dialer().channel(f"127.0.0.1:{port}", (), 0)
        try:
            await asyncio.wait_for(self.channel.channel_ready(), 20)
            yield
        finally:
            await self.channel.close()
            await server.stop(0)


class _Monitor:
    def statuses(self) -> list[monitored_plugin.PluginStatus]:
        return [monitored_plugin.PluginStatus("P", "a", "1", "Ignore", True, True, "", False, "", 0, False)]


def _calls(
    phase: _Phase, streams: Mapping[str, replica_link.LinkStatistics] | None = None
) -> plugin_calls.PluginStatisticsPoller:
    none = types.SimpleNamespace(channels=list)
    queue = types.SimpleNamespace(statistics=dict)
    links: Any = phase_links.PhaseLinks(cast(Any, phase), cast(Any, none), cast(Any, none))
    return plugin_calls.PluginStatisticsPoller(cast(Any, _Monitor()), links, cast(Any, queue), lambda: streams or {})


def test_whether_a_plugin_follows_the_cluster_is_shown() -> None:
    """If this fails, a plugin that acknowledges nothing of its snapshot stream is `ok`."""
    stream = replica_link.LinkStatistics("a", False, 0, 0, 0, 1, "it will be synchronised anew", 0)
    calls = _calls(_Phase(b""), {"P": stream})
    (plugin,) = calls.plugins()
    assert (plugin.follows.in_step, plugin.follows.generation) == (False, 0)
    text = "plugin P not following: does not follow the cluster: it will be synchronised anew: a, version 1, "
    assert plugin_calls.one_line(plugin).startswith(text)
    (plugin,) = _calls(_Phase(b""), {"P": dataclasses.replace(stream, in_step=True, acknowledged=7)}).plugins()
    assert plugin_calls.one_line(plugin).startswith("plugin P ok: a, version 1, ")
    assert plugin_calls.one_line(plugin).endswith(", follows at generation 7")
    (plugin,) = _calls(_Phase(b"")).plugins()
    assert not plugin.HasField("follows")


@pytest.mark.parametrize(
    ("breakers", "shown"),
    [(None, "closed"), ([""], "closed"), (["melted"], "closed"), (["", "open", "closed"], "open")],
    ids=["no message", "unset", "unknown", "of several"],
)
async def test_statistics_of_another_version_are_reported_as_far_as_they_are_known(
    monkeypatch: pytest.MonkeyPatch, breakers: list[str] | None, shown: str
) -> None:
    """If this fails, an answer of another version of a phase ends the frontend, or `trireme status`."""
    monkeypatch.setattr(plugin_calls, "POLL_SECONDS", 0.01)
    entries = [plugin_pb2.PluginStatistics(plugin="P", breaker=each, answered=2) for each in breakers or ()]
    answer = plugin_pb2.GetPluginStatisticsResponse(plugins=entries).SerializeToString()
    phase = _Phase(b"\xff\xff\xff" if breakers is None else answer)
    async with phase.serving():
        calls = _calls(phase)
        supervisor = supervision.Supervisor()
        polling = supervisor.keep("calls", calls.run)
        try:
            async with asyncio.timeout(20):
                while phase.requests < 3:
                    await asyncio.sleep(0.005)
            assert not polling.done()
            (plugin,) = calls.plugins()
            assert (plugin.breaker, plugin.calls) == (shown, 2 * len(entries))
            health = "ok" if shown == "closed" else "failing"
            assert plugin_calls.one_line(plugin).startswith(f"plugin P {health}: a, version 1")
        finally:
            await supervisor.close()


async def test_a_plugin_whose_calls_fail_is_not_shown_as_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, `trireme status` says ok beside failed calls, and not which RPC fails, nor how."""
    monkeypatch.setattr(plugin_calls, "POLL_SECONDS", 0.01)
    entry = plugin_pb2.PluginStatistics(plugin="P", breaker="closed", answered=9, failed=3, last_error="Score: broken")

    def answer() -> bytes:
        return plugin_pb2.GetPluginStatisticsResponse(plugins=[entry]).SerializeToString()

    phase = _Phase(answer())
    async with phase.serving():
        calls = _calls(phase)
        supervisor = supervision.Supervisor()
        supervisor.keep("calls", calls.run)

        async def shown(expected: str) -> None:
            requests = phase.requests
            async with asyncio.timeout(20):
                while phase.requests < requests + 3:
                    await asyncio.sleep(0.005)
            assert plugin_calls.one_line(calls.plugins()[0]).startswith(f"plugin P {expected}: a, version 1, breaker ")

        try:
            await shown("ok")  # they failed some time before this frontend came
            entry.failed = 4
            phase.answer = answer()
            await shown("failing: Score: broken")
            monkeypatch.setattr(plugin_calls, "FAILING_SECONDS", 0.0)
            await shown("ok")
            entry.breaker, entry.last_error = "open", "Score is not called: broken"
            phase.answer = answer()
            await shown("failing: Score is not called: broken")
        finally:
            await supervisor.close()


def _failed(last_error: str, failed: int, age_ms: int | None) -> plugin_pb2.PluginStatistics:
    return plugin_pb2.PluginStatistics(
        plugin="P", breaker="closed", failed=failed, last_error=last_error, last_error_age_ms=age_ms
    )


def test_the_last_failure_of_all_processes_explains_why_a_plugin_is_failing() -> None:
    """If this fails, somebody whose Permit fails now reads of an error of Score that was over minutes ago."""
    failures = plugin_calls._LastFailures()
    failures.observe("score", [_failed("Score: no configuration", 1, 240_000)])
    failures.observe("bind", [_failed("Permit: late", 2, 1_000)])
    failures.observe("filter", [_failed("Filter: broken", 1, 5_000)])
    last = failures.last("P")
    assert last is not None
    assert (last.text, last.is_recent) == ("Permit: late", True)
    (plugin,) = [
        plugin_calls._plugin_message(_Monitor().statuses()[0], [_failed("Score: old", 1, 240_000)], last, None)
    ]
    assert (plugin.health, plugin.problem, plugin.last_error) == ("failing", "Permit: late", "Permit: late")


def test_one_process_may_report_the_calls_of_two_phases_to_a_plugin() -> None:
    """Filter and score of the frontend's process report together: what one has not failed at is no end of the other."""
    failures = plugin_calls._LastFailures()
    of_filter, of_score = _failed("Filter: broken", 1, 5_000), _failed("", 0, None)
    found = []
    for age_ms in (5_000, 10_000, 15_000):
        of_filter.last_error_age_ms = age_ms
        of_filter.answered += 1
        failures.observe("both", [of_filter, of_score])
        last = failures.last("P")
        assert last is not None
        found.append((last.text, last.is_recent))
    assert found == [("Filter: broken", True), ("Filter: broken", False), ("Filter: broken", False)]


def test_what_a_process_does_not_call_any_more_has_not_failed() -> None:
    """If this fails, a plugin that a reload took from score keeps the failure of score, and nothing ends it."""
    failures = plugin_calls._LastFailures()
    of_filter, of_score = _failed("", 0, None), _failed("Score: broken", 1, 0)
    failures.observe("both", [of_filter, of_score])
    failures.observe("other", [_failed("", 0, None)])
    for reported, expected in (([], "Score: broken"), ([of_filter], None)):
        failures.observe("both", reported)
        last = failures.last("P")
        assert (last and last.text) == expected


def test_failures_of_processes_that_do_not_say_when_are_told_by_their_counters() -> None:
    """If this fails, an older phase's failure of long ago explains what another one's calls fail with now."""
    failures = plugin_calls._LastFailures()
    for failed in (1, 2):
        failures.observe("score", [_failed("Score: old", 1, None)])
        failures.observe("bind", [_failed("Permit: late", failed, None)])
    last = failures.last("P")
    assert last is not None
    assert (last.text, last.is_recent) == ("Permit: late", True)


def test_a_plugin_that_answers_again_is_ok_with_its_last_error() -> None:
    """If this fails, somebody who has mended a plugin reads for a minute that it still fails."""

    def shown(answered: int, failed: int) -> tuple[str, str]:
        entry = _failed("Score: refused", failed, 1_000 * (failed + answered))
        entry.answered = answered
        failures.observe("score", [entry])
        message = plugin_calls._plugin_message(_Monitor().statuses()[0], [entry], failures.last("P"), None)
        return message.health, message.problem

    failures = plugin_calls._LastFailures()
    assert shown(7, 1) == ("failing", "Score: refused")
    assert shown(7, 1) == ("failing", "Score: refused")
    assert shown(8, 1) == ("ok", "answers again; the last error, 8 s ago: Score: refused")
    assert shown(8, 1)[0] == "ok"
    assert shown(9, 2) == ("failing", "Score: refused")
    assert shown(10, 2)[0] == "ok"
    failures.observe("bind", [_failed("Permit: late", 1, 30_000)])
    assert shown(11, 2) == ("failing", "Permit: late")


def test_what_failed_before_a_reload_is_over() -> None:
    """If this fails, a plugin is `failing` beside no failed call, and no line says why."""
    failures = plugin_calls._LastFailures()
    failures.observe("score", [_failed("Score: broken", 3, 1_000)])
    failures.observe("score", [_failed("", 0, None)])
    assert failures.last("P") is None
    failures.observe("bind", [_failed("Permit: late", 1, 1_000)])
    failures.observe("score", [_failed("", 0, None)])
    last = failures.last("P")
    assert last is not None
    assert last.text == "Permit: late"


async def test_a_reload_ends_the_frontends_own_failures_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a plugin whose configuration was mended is `failing` without a reason until the next poll."""
    own = {"P": _failed("PreEnqueue: broken", 1, 1_000)}
    calls = _calls(_Phase(b""))
    monkeypatch.setattr(calls, "_own_statistics", lambda: list(own.values()))
    assert plugin_calls.one_line(calls.plugins()[0]).startswith("plugin P failing: PreEnqueue: broken: a")
    own["P"] = _failed("", 0, None)
    assert plugin_calls.one_line(calls.plugins()[0]).startswith("plugin P ok: a")


def test_what_is_not_called_in_any_process_is_shown() -> None:
    """If this fails, an author who mended Score does not see that pods wait for PreEnqueue, of another process."""

    def entry(breaker: str, last_error: str) -> plugin_pb2.PluginStatistics:
        return plugin_pb2.PluginStatistics(plugin="P", breaker=breaker, last_error=last_error)

    found = [
        entry("closed", "Filter: late"),
        entry("open", "Score is not called: broken"),
        entry("half-open", "Score is not called: broken too"),
        entry("open", "PreEnqueue is not called: broken"),
    ]
    text = "Score is not called: broken; PreEnqueue is not called: broken"
    assert plugin_calls._not_called(found) == text
    assert plugin_calls._not_called(found[:1]) == ""
