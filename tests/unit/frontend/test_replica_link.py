"""When a replica can be called, by what it acknowledges and answers, and why it cannot."""

import asyncio
import logging

import grpc
import pytest
from grpc import aio

from tests.helpers.replica_streams import Setting, delta, running
from trireme.frontend.phase_clients import replica_link


async def test_a_stream_that_is_refused_before_a_write_ends_with_the_refusal() -> None:
    async with running() as setting:
        setting.channel.refusal = OSError("PERMISSION_DENIED: not for you")
        await setting.opened.get()
        while setting.link.statistics().last_error != "PERMISSION_DENIED: not for you":
            await asyncio.sleep(0)


async def test_a_replica_that_is_not_in_step_has_a_reason() -> None:
    """If this fails, /readyz says that no replica of filter is available, and not why."""
    async with running() as setting:
        link = setting.link
        assert link.statistics().last_error == "no snapshot stream was opened to it yet"
        stream = await setting.opened.get()
        setting.now += 50.0
        assert link.statistics().last_error == "for 50 s it has not acknowledged its full sync"
        stream.acknowledge(0)
        while not await setting.notified.get():
            pass
        assert link.statistics().last_error == ""
        link.publish(delta(1), 1)
        setting.now += replica_link.SILENCE_SECONDS
        assert link.statistics().last_error == ""
        setting.now += 1.0
        assert link.statistics().last_error == "for 4 s it has not acknowledged what it was sent"
        stream.end()
        while link.streaming:
            await asyncio.sleep(0)
        assert link.statistics().last_error == "it closed the snapshot stream"


def test_a_new_link_has_done_nothing() -> None:
    setting = Setting()
    problem = "no snapshot stream was opened to it yet"
    assert setting.link.statistics() == replica_link.LinkStatistics("replica", False, 0, 0, 0, 0, problem, 0)
    assert (setting.link.silent_for, setting.link.streaming, setting.link.synced) == (0.0, False, False)
    assert setting.link.identity == ("replica", 0)


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (OSError("reset"), "reset"),
        (TimeoutError(), "TimeoutError"),
        (None, "it closed the snapshot stream"),
        (9, "it acknowledged generation 9, but was sent 0 at most; it will be synchronised anew"),
    ],
    ids=["failed", "failed without a word", "closed", "acknowledged what it was not sent"],
)
async def test_why_a_stream_ended_is_known_and_logged_once_until_the_next_one_is_in_step(
    end: Exception | int | None, text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each attempt would be a line, or nobody could say why a replica is not called."""
    for name in ("RECONNECT_SECONDS", "MAX_RECONNECT_SECONDS"):
        monkeypatch.setattr(replica_link, name, 0.0)
    caplog.set_level(logging.INFO)
    async with running() as setting:

        async def end_stream() -> None:
            stream = await setting.opened.get()
            if isinstance(end, int):
                setting.source.chunks = [delta(0)]
                stream._has = lambda generation: len(stream.written) > 1  # type: ignore[method-assign]
                stream.acknowledge(end)
            else:
                stream.refusal = end
                stream.end()
            while setting.link.statistics().last_error != text:
                await asyncio.sleep(0)
            while setting.opened.empty():
                await asyncio.sleep(0)

        for lines in (1, 2):
            for _ in range(2):
                await end_stream()
            texts = [record.getMessage() for record in caplog.records]
            ended = [each for each in texts if "in step" not in each and "the configuration" not in each]
            assert len(ended) == lines
            assert ended[-1].startswith("replica: ")
            await setting.in_step()
            assert setting.link.statistics().last_error == ""
            setting.link.restart()


async def test_an_acknowledgement_that_ends_a_silence_is_notified() -> None:
    async with running() as setting:
        stream = await setting.in_step()
        setting.link.publish(delta(1), 1)
        setting.now += replica_link.SILENCE_SECONDS + 0.5
        assert not setting.link.in_step
        stream.acknowledge(1)
        assert await setting.notified.get()


async def test_an_acknowledgement_of_a_part_ends_a_silence() -> None:
    """What else is on its way is given its time anew."""
    async with running() as setting:
        stream = await setting.in_step()
        for generation in (1, 2):
            setting.link.publish(delta(generation), generation)
        setting.now += replica_link.SILENCE_SECONDS + 0.5
        stream.acknowledge(1)
        assert await setting.notified.get()


async def test_an_answer_that_ends_a_silence_is_notified() -> None:
    """A call made before the silence may be answered before anything is acknowledged."""
    async with running() as setting:
        await setting.in_step()
        setting.link.publish(delta(1), 1)
        setting.now += replica_link.SILENCE_SECONDS + 0.5
        setting.link.on_answer()
        assert setting.notified.get_nowait()


async def test_an_answer_is_not_notified_before_the_full_sync_is_acknowledged() -> None:
    """A replica that is called again after a rollout may answer calls that were made before."""
    async with running() as setting:
        await setting.opened.get()
        while not setting.link.streaming:
            await asyncio.sleep(0)
        setting.link.on_answer()
        assert setting.notified.empty()


async def test_an_acknowledgement_in_time_is_not_notified(caplog: pytest.LogCaptureFixture) -> None:
    """There is one for each batch of deltas: the scheduler would look for work each time."""
    caplog.set_level(logging.INFO)
    async with running() as setting:
        stream = await setting.in_step()
        for generation in (1, 2):
            setting.link.publish(delta(generation), generation)
            stream.acknowledge(generation)
            setting.now += 0.1
            while setting.link.statistics().acknowledged < generation:
                await asyncio.sleep(0)
        assert setting.notified.empty()
    assert caplog.text.count("in step at generation") == 1


async def test_a_link_remembers_the_capacities_of_the_classes_used_last() -> None:
    """While pods of ever other classes came and went, it grew without end."""
    setting = Setting()
    for number in range(3 * replica_link.MAX_CAPACITIES):
        setting.link.note_capacities(("default-scheduler", number), 7)
        setting.link.note_capacities(("default-scheduler", 0), number)
    assert len(setting.link.capacities) == replica_link.MAX_CAPACITIES
    assert setting.link.capacities["default-scheduler", 0] == number
    assert setting.link.capacities["default-scheduler", number] == 7


async def test_a_replica_is_in_step_once_it_has_the_full_sync_though_more_was_sent_with_it() -> None:
    """What was published since the full sync was made is sent behind it, and may be large."""
    async with running() as setting:
        setting.source.chunks = [delta(3), delta(4), delta(6)]
        stream = await setting.opened.get()
        stream.acknowledge(2)
        await asyncio.sleep(0.01)
        assert not setting.link.in_step
        stream.acknowledge(3)
        while not await setting.notified.get():
            pass
        assert setting.link.in_step
        assert setting.link.statistics().acknowledged == 3


async def test_a_link_that_is_removed_ends_its_calls_and_then_its_channel() -> None:
    setting = Setting()
    await setting.link.drain()
    await setting.link.close()
    assert setting.connection.ended == ["drained", "closed"]


async def test_why_an_earlier_stream_ended_is_not_why_a_replica_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RECONNECT_SECONDS", "MAX_RECONNECT_SECONDS"):
        monkeypatch.setattr(replica_link, name, 0.0)
    async with running() as setting:
        stream = await setting.in_step()
        stream.end()
        await setting.in_step()
        setting.link.publish(delta(1), 1)
        setting.now += replica_link.SILENCE_SECONDS + 1.0
        assert "it has not acknowledged what it was sent" in setting.link.statistics().last_error


@pytest.mark.parametrize(
    ("code", "level"),
    [
        (grpc.StatusCode.UNAVAILABLE, logging.INFO),
        (grpc.StatusCode.INVALID_ARGUMENT, logging.WARNING),
        (grpc.StatusCode.FAILED_PRECONDITION, logging.WARNING),
    ],
)
async def test_what_a_replica_refuses_is_a_warning(
    code: grpc.StatusCode, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody has to change something; others come and go with each rollout."""
    caplog.set_level(logging.INFO)
    async with running() as setting:
        setting.channel.refusal = aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), "no")
        while not setting.link.statistics().last_error.endswith(": no"):
            await asyncio.sleep(0)
    assert [record.levelno for record in caplog.records if "stream ended" in record.getMessage()] == [level]


async def test_a_replica_that_has_acknowledged_everything_may_be_silent() -> None:
    """Also where it did so before the last write had returned, or answers calls meanwhile."""
    async with running() as setting:
        setting.channel.most = 2
        stream = await setting.opened.get()
        await stream.full.wait()
        stream.acknowledge(0)
        while not setting.link.in_step:
            await asyncio.sleep(0)
        stream.proceed()
        for _ in range(9):
            await asyncio.sleep(0)
        setting.link.on_answer()
        setting.now += 100.0
        assert (setting.link.in_step, setting.link.silent_for) == (True, 0.0)


async def test_a_replica_that_takes_long_to_read_all_of_the_cluster_has_time_for_what_changed_meanwhile() -> None:
    async with running() as setting:
        stream = await setting.opened.get()
        while not setting.link.streaming:
            await asyncio.sleep(0)
        setting.link.publish(delta(1), 1)
        setting.now += replica_link.SILENCE_SECONDS + 1.0
        stream.acknowledge(0)
        while not await setting.notified.get():
            pass
        assert (setting.link.in_step, setting.link.silent_for) == (True, 0.0)
        setting.now += replica_link.SILENCE_SECONDS + 1.0
        assert not setting.link.in_step


def test_a_link_without_a_stream_has_nothing_to_begin_anew() -> None:
    setting = Setting()
    setting.link.restart()
    assert setting.notified.empty()
