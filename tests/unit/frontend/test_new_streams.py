"""When a link opens another stream or begins anew on the same one, and what is left of the one before."""

import asyncio
import logging

import pytest

from tests.helpers.replica_streams import DEADLINE, Setting, Stream, delta, running
from trireme.frontend.phase_clients import replica_link


async def _full_stream(setting: Setting) -> Stream:
    """A stream in step that does not take the last of three changes."""
    setting.channel.most = 3
    stream = await setting.in_step()
    for generation in (1, 2, 3):
        setting.link.publish(delta(generation), generation)
    await stream.full.wait()
    return stream


async def test_what_waited_for_a_stream_that_ended_waits_no_more() -> None:
    """The next one begins with all of the cluster; counted on, a replica would soon be too far behind for good."""
    async with running() as setting:
        stream = await _full_stream(setting)
        assert setting.link.statistics().backlog_bytes == 3 * len(delta(1))
        setting.now += 1.0
        stream.end()
        while setting.link.streaming:
            await asyncio.sleep(0)
        found = setting.link.statistics()
        assert (found.backlog_bytes, found.acknowledged, setting.link.silent_for) == (0, 0, 0.0)
        stream.proceed()


async def test_a_link_that_begins_anew_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as setting:
        await setting.in_step()
        setting.link.restart()
        while setting.opened.empty():
            await asyncio.sleep(0)
        assert setting.link.statistics().last_error == "the configuration changed"


async def test_a_change_of_the_configuration_opens_another_stream_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing failed: with a delay that doubles, each plugin that joins would stop scheduling for longer."""
    for name in ("RECONNECT_SECONDS", "MAX_RECONNECT_SECONDS"):
        monkeypatch.setattr(replica_link, name, 3600.0)
    caplog.set_level(logging.INFO)
    async with running() as setting:
        await setting.in_step()
        for config_hash in range(2, 6):
            setting.source.config_hash = config_hash
            setting.link.restart()
            assert setting.notified.get_nowait() is False
            stream = await setting.in_step()
            assert stream.written[0].hello.config_hash == config_hash
    assert "closed by the replica" not in caplog.text
    assert caplog.text.count("the configuration changed: opening another snapshot stream") == 4


async def test_a_new_configuration_is_sent_before_the_delay_after_a_failure_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replica may have refused the configuration as it was."""
    for name in ("RECONNECT_SECONDS", "MAX_RECONNECT_SECONDS"):
        monkeypatch.setattr(replica_link, name, 3600.0)
    async with running() as setting:
        stream = await setting.in_step()
        stream.end()
        assert not await setting.notified.get()
        setting.source.config_hash = 2
        setting.link.restart()
        stream = await setting.in_step()
        assert stream.written[0].hello.config_hash == 2


async def test_a_change_of_the_configuration_during_a_full_sync_ends_it() -> None:
    """The rest of it would be of no use: the next stream begins with all of the cluster."""
    async with running() as setting:
        setting.source.chunks *= 2
        setting.channel.most = 2
        stream = await setting.opened.get()
        await stream.full.wait()
        setting.source.config_hash = 2
        setting.link.restart()
        stream.proceed()
        again = await setting.in_step()
        assert again.written[0].hello.config_hash == 2
        assert len(stream.written) == 2


def _recorded_delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the link would wait before each stream; it does not."""
    delays: list[float] = []

    async def wait(self: replica_link.ReplicaLink, seconds: float) -> bool:
        delays.append(seconds)
        return False

    monkeypatch.setattr(replica_link.ReplicaLink, "_restarted_within", wait)
    return delays


async def test_a_replica_that_ends_its_stream_is_called_again_after_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does so each time would be called without pause."""
    delays = _recorded_delays(monkeypatch)
    async with running() as setting:
        for _ in range(7):
            (await setting.opened.get()).end()
        await setting.in_step()
    assert delays == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


async def test_a_stream_that_lasted_is_opened_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that is rolled once a day would be away for as long as one that crashes all the time."""
    delays = _recorded_delays(monkeypatch)
    async with running() as setting:
        for _ in range(3):
            (await setting.opened.get()).end()
        stream = await setting.in_step()
        setting.now += replica_link.MAX_RECONNECT_SECONDS + 0.1
        stream.end()
        await setting.in_step()
    assert delays == [0.2, 0.4, 0.8, 0.2]


@pytest.mark.parametrize("how", ["ended", "configuration", "configuration on the same stream"])
async def test_what_a_replica_has_is_forgotten_with_its_stream(how: str) -> None:
    """It begins anew, and could not apply a patch to earlier capacities."""
    async with running() as setting:
        stream = await setting.in_step()
        setting.link.note_capacities(("default-scheduler", 1), 7)
        identity = setting.link.identity
        if how == "ended":
            stream.end()
            while setting.link.streaming:
                await asyncio.sleep(0)
        else:
            setting.link.takes_decisions = how != "configuration"
            setting.link.restart()
        if how == "configuration":
            await setting.in_step()
        assert setting.link.capacities == {}
        assert how == "ended" or setting.link.identity != identity


async def test_a_wait_after_a_failure_ends_with_a_change_of_the_configuration_alone() -> None:
    setting = Setting()
    assert await setting.link._restarted_within(0.01) is False
    setting.link._restarting.set()
    assert await setting.link._restarted_within(DEADLINE) is True


async def test_a_replica_that_takes_decisions_gets_a_new_configuration_on_the_same_stream() -> None:
    """At once, behind what waits for it."""
    async with running() as setting:
        stream = await setting.in_step()
        setting.link.takes_decisions = True
        setting.source.config_hash = 2
        setting.link.restart()
        assert setting.notified.get_nowait() is False
        while len(stream.written) < 4:
            await asyncio.sleep(0)
        assert [each.hello.config_hash for each in stream.written if each.HasField("hello")] == [1, 2]
        stream.acknowledge(0)
        while not setting.link.in_step:
            await asyncio.sleep(0)
        assert setting.opened.empty()
        assert setting.link.statistics().full_syncs == 2


async def test_an_acknowledgement_of_the_configuration_before_does_not_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with running() as setting:
        setting.channel.most = 3
        stream = await setting.in_step()
        setting.link.publish(delta(1), 1)
        await stream.full.wait()
        setting.link.restart()
        stream.acknowledge(1)
        for _ in range(9):
            await asyncio.sleep(0)
            assert not setting.link.in_step
        stream.proceed()
        await setting.in_step()
    assert "the snapshot stream ended" not in caplog.text


async def test_nothing_that_waits_is_written_to_a_stream_that_ends() -> None:
    async with running() as setting:
        stream = await _full_stream(setting)
        setting.source.chunks = [delta(3)]
        setting.link.restart()
        stream.proceed()
        (await setting.opened.get()).acknowledge(3)
        while not setting.link.in_step:
            await asyncio.sleep(0)
        assert len(stream.written) == 3


async def test_a_replica_is_not_in_step_by_what_the_last_stream_began_with() -> None:
    async with running() as setting:
        stream = await setting.in_step()
        setting.source.chunks = [delta(3), delta(4)]
        setting.channel.most = 2
        stream.end()
        again = await setting.opened.get()
        await again.full.wait()
        again.acknowledge(3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not setting.link.in_step
        again.proceed()
        while len(again.written) < 3:
            await asyncio.sleep(0)
        again.acknowledge(4)
        while not setting.link.in_step:
            await asyncio.sleep(0)


async def test_only_changes_count_as_sent_and_full_syncs_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration may change any number of times on one stream."""
    monkeypatch.setattr(replica_link, "MAX_BACKLOG_BYTES", 30)
    async with running() as setting:
        stream = await setting.in_step()
        setting.source.chunks = [delta(1)]
        setting.link.publish(delta(1), 1)
        setting.link.takes_decisions = True
        for number in range(9):
            setting.link.restart()
            while len(stream.written) < 5 + 2 * number:
                await asyncio.sleep(0)
            while setting.link.statistics().backlog_bytes:
                await asyncio.sleep(0)
        assert setting.opened.empty()
        assert setting.link.statistics().sent_bytes == len(delta(1))


async def test_what_is_published_before_a_stream_is_in_its_full_sync() -> None:
    setting = Setting()
    setting.link.publish(delta(5), 5)
    setting.source.chunks = [delta(5)]
    task = asyncio.create_task(setting.link.run())
    stream = await setting.opened.get()
    stream.acknowledge(5)
    while not setting.link.in_step:
        await asyncio.sleep(0)
    assert (len(stream.written), setting.link.statistics().acknowledged) == (2, 5)
    stream.end()
    while setting.link.streaming:
        await asyncio.sleep(0)
    assert setting.link.statistics().acknowledged == 0
    task.cancel()
    await asyncio.wait({task})
