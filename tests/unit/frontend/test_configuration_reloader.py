"""When the configuration is read again, and what a refusal leaves behind."""

import asyncio
import logging
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from trireme.config import commandline
from trireme.frontend import configuration_reloader
from trireme.remote import remote_client


class Frontend:
    """A frontend with one configuration file, whose reloads are counted."""

    def __init__(self, folder: Path, backoff_at_end_of_start: int = 10) -> None:
        self.path = folder / "kube.yaml"
        self.write(10)
        flags = [f"--config={self.path}", "--master=http://127.0.0.1:1", "--secure-port=0"]
        start = commandline.Start(flags, {"HOME": str(folder)}, StringIO(), StringIO(), lambda line: None)
        completed = start.run().completed
        assert completed is not None
        self.completed = completed
        self.error = ""
        self.reports: list[tuple[bool, str]] = []
        self.time = 0.0
        if backoff_at_end_of_start != 10:
            self.write(backoff_at_end_of_start)
        self.reloader = configuration_reloader.ConfigurationReloader(
            lambda: self.completed, self.apply, self.report, monotonic=lambda: self.time, wall=lambda: 1000 + self.time
        )

    def write(self, backoff: int, **more: Any) -> None:
        """Write the file."""
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "podMaxBackoffSeconds": backoff,
            **more,
        }
        new = self.path.with_suffix(".new")
        new.write_text(yaml.safe_dump(document))
        new.rename(self.path)

    async def apply(self, new: commandline.CompletedConfig) -> None:
        """Put it in force, or fail as a plugin does."""
        if self.error:
            raise remote_client.HandshakeError(self.error)
        self.completed = new

    def report(self, *, refused: bool, text: str) -> None:
        """Remember it."""
        self.reports.append((refused, text))

    @property
    def backoff(self) -> int:
        """The setting in force."""
        return self.completed.configuration.pod_max_backoff_seconds

    async def checks(self, count: int) -> None:
        """So many polls."""
        for _ in range(count):
            await self.reloader.check()


@pytest.fixture
def frontend(tmp_path: Path) -> Frontend:
    return Frontend(tmp_path)


async def test_a_file_is_read_once_it_has_been_the_same_for_two_polls(frontend: Frontend) -> None:
    """If this fails, a file is read while it is written, or never."""
    await frontend.checks(2)
    frontend.write(20)
    await frontend.checks(1)
    assert frontend.backoff == 10
    await frontend.checks(1)
    assert frontend.backoff == 20
    statistics = frontend.reloader.statistics()
    assert (statistics.succeeded, statistics.refused, statistics.is_refused) == (1, 0, False)
    assert frontend.reports == [(False, f"configuration {statistics.content_hash} is in force")]


async def test_a_file_that_changes_while_the_process_starts_is_read_again(tmp_path: Path) -> None:
    """If this fails, the old contents stay in force for good, and status and metrics show the hash of the new ones."""
    frontend = Frontend(tmp_path, backoff_at_end_of_start=20)
    assert frontend.backoff == 10
    assert frontend.reloader.statistics().content_hash == ""
    await frontend.checks(1)
    assert frontend.backoff == 20
    assert frontend.reloader.statistics().content_hash
    await frontend.checks(3)
    assert frontend.reloader.statistics().succeeded == 1


async def test_a_file_that_is_touched_is_not_reloaded(frontend: Frontend) -> None:
    """If this fails, each resync of a mounted ConfigMap has all phases begin anew."""
    frontend.write(10)
    await frontend.checks(3)
    assert frontend.reloader.statistics().succeeded == 0


async def test_a_refusal_leaves_what_is_in_force_and_ends_when_the_file_is_set_back(frontend: Frontend) -> None:
    """If this fails, a mistake in a file is in force, or is shown forever after it was corrected."""
    in_force = frontend.reloader.statistics().content_hash
    frontend.write(20, leaderElection={"leaderElect": False})
    await frontend.checks(4)
    statistics = frontend.reloader.statistics()
    assert frontend.backoff == 10
    assert (statistics.refused, statistics.is_refused, statistics.content_hash) == (1, True, in_force)
    assert "leaderElection.leaderElect" in statistics.last_refusal
    ((refused, text),) = frontend.reports
    assert refused
    assert "leaderElection.leaderElect" in text
    frontend.write(10)
    await frontend.checks(2)
    after = frontend.reloader.statistics()
    assert (after.is_refused, after.succeeded, after.last_refusal) == (False, 0, statistics.last_refusal)


async def test_a_plugin_that_was_missing_is_tried_again(frontend: Frontend) -> None:
    """If this fails, a plugin that starts after its entry was written takes another change of the file."""
    frontend.error = "plugin P at unix:/p cannot be reached"
    frontend.write(20)
    await frontend.checks(2)
    frontend.time += configuration_reloader.RETRY_SECONDS
    await frontend.checks(1)
    assert (frontend.backoff, frontend.reloader.statistics().refused, len(frontend.reports)) == (10, 2, 1)
    frontend.error = ""
    await frontend.checks(1)
    assert frontend.backoff == 10
    frontend.time += configuration_reloader.RETRY_SECONDS
    await frontend.checks(1)
    assert frontend.backoff == 20


async def test_what_reading_the_files_says_is_logged_once_with_its_values(
    frontend: Frontend, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, lines have a second header and no values, and a plugin that is away fills the log with them."""
    caplog.set_level(logging.INFO)
    frontend.error = "plugin P at unix:/p cannot be reached"
    frontend.write(20, extenders=[{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}])
    await frontend.checks(2)
    frontend.time += configuration_reloader.RETRY_SECONDS
    await frontend.checks(1)
    (record,) = [each for each in caplog.records if "it has extenders configured" in each.message]
    assert record.message == "Disabling signatures for profile because it has extenders configured."
    assert "default-scheduler" in str(record.__dict__)


async def test_a_request_reloads_at_once(frontend: Frontend) -> None:
    """If this fails, SIGHUP does nothing, or waits for a poll."""
    frontend.write(20)
    await frontend.reloader.check(requested=True)
    assert frontend.backoff == 20
    await frontend.checks(3)
    assert frontend.reloader.statistics().succeeded == 1


async def test_a_mistake_of_ours_is_a_refusal(frontend: Frontend, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an unforeseen error in reading a file ends a scheduler that works."""

    def fail(*_: Any) -> Any:
        raise KeyError("unforeseen")

    monkeypatch.setattr(configuration_reloader.reloading, "load_again", fail)
    await frontend.reloader.check(requested=True)
    assert "KeyError" in frontend.reloader.statistics().last_refusal


async def test_a_request_wakes_the_watch(frontend: Frontend) -> None:
    """If this fails, a signal is only seen at the next poll."""
    task = asyncio.create_task(frontend.reloader.run())
    try:
        frontend.write(20)
        frontend.reloader.request()
        async with asyncio.timeout(30):
            while frontend.backoff != 20:
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.wait({task})
