"""Reloads the configuration when its files change, or on SIGHUP.

A file is read once it has been the same for two polls in a row, so that one being written is rarely read in part. A
configuration that is refused leaves the one before in force; it is tried again when a file changes, on SIGHUP, and
every few seconds if only a plugin was missing, which may start later than its entry was written.

Also change: docs/operating-plugins.md.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from trireme.config import commandline, reloading
from trireme.remote import remote_client
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.componentbase import watched_files
from trireme_kube.componentbase.logs import klog, start_log

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
# After a refusal by a plugin, or for lack of one.
RETRY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ReloadStatistics:
    """The configuration in force, and how reloads ended."""

    content_hash: str = ""  # of the files in force; empty: there are none, or they changed while the process started
    loaded_at: float = 0.0  # when these were put in force, Unix seconds of the wall clock
    succeeded: int = 0
    refused: int = 0
    is_refused: bool = False  # whether the files, as they are now, were refused
    last_refusal: str = ""  # its reason; empty: there was none
    last_refusal_at: float = 0.0  # Unix seconds of the wall clock


class Report(Protocol):
    """Reports the end of a reload, as an event, to people who do not read the log.

    Implementers: trireme.frontend.running.report.
    """

    def __call__(self, *, refused: bool, text: str) -> None:
        """Report it: `text` says which configuration is in force, and why another one is not."""
        ...


class ConfigurationReloader:
    """Watches the files of the configuration, and has what changed put in force."""

    def __init__(
        self,
        current: Callable[[], commandline.CompletedConfig],
        apply: Callable[[commandline.CompletedConfig], Awaitable[None]],
        report: Report,
        *,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """`current` returns the configuration in force, and `apply` replaces it, or raises HandshakeError.

        `monotonic` returns seconds for delays, `wall` Unix seconds.
        """
        self._files = watched_files.WatchedFiles(current().options.configuration_files)
        self._current = current
        self._apply = apply
        self._report = report
        self._monotonic = monotonic
        self._wall = wall
        self._requested = asyncio.Event()
        content = self._files.hash_content()
        self._identity = self._files.identity()
        # If they changed while the process started, what is in force is not what they contain: they are read again.
        self._changed = self._identity != current().files
        self._in_force = "" if self._changed else content
        # The contents that were refused; empty: those that were read last are in force.
        self._refused_hash = ""
        self._retry_at: float | None = None
        self._loaded_at = wall()
        self._succeeded = self._refused = 0
        self._last_refusal = ""
        self._last_refusal_at = 0.0

    def request(self) -> None:
        """Reload now, whether or not a file changed."""
        self._requested.set()

    def statistics(self) -> ReloadStatistics:
        """The state, for status and metrics."""
        return ReloadStatistics(
            self._in_force if self._files.paths else "",
            self._loaded_at,
            self._succeeded,
            self._refused,
            bool(self._refused_hash),
            self._last_refusal,
            self._last_refusal_at,
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            requested = await self._wait()
            await self.check(requested=requested)

    async def check(self, *, requested: bool = False) -> None:
        """Reload if this was requested, if the files changed and were the same at the last check, or to retry."""
        identity = await asyncio.to_thread(self._files.identity)
        changed, self._identity = identity != self._identity, identity
        if requested:
            self._changed = False
            await self._reload()
        elif changed:
            self._changed = True
        elif self._changed:
            self._changed = False
            await self._reload_if_different()
        elif self._retry_at is not None and self._monotonic() >= self._retry_at:
            await self._reload()

    async def _wait(self) -> bool:
        """Wait until the next poll, or a request; returns whether there was one."""
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._requested.wait()
        except TimeoutError:
            return False
        self._requested.clear()
        return True

    async def _reload_if_different(self) -> None:
        """Reload if the contents are others than those that were read last."""
        content = await asyncio.to_thread(self._files.hash_content)
        if content == self._in_force:
            # Set back to what is in force: nothing is refused any more.
            self._refused_hash, self._retry_at = "", None
        elif content != self._refused_hash:
            await self._reload()

    async def _reload(self) -> None:
        """Read the files, check them, and put them in force, or keep what is in force."""
        content = await asyncio.to_thread(self._files.hash_content)
        try:
            new = await asyncio.to_thread(self._load, content)
            if content != await asyncio.to_thread(self._files.hash_content):
                self._changed = True  # written meanwhile: read again
                return
            await self._apply(new)
        except ConfigurationError as error:
            self._record_refusal(content, str(error), retry=False)
        except remote_client.HandshakeError as error:
            self._record_refusal(content, str(error), retry=True)
        else:
            self._record_success(content)

    def _load(self, content: str) -> commandline.CompletedConfig:
        """Read the configuration again, whose hash is this.

        Raises: ConfigurationError, also for an error that the checks did not find.
        """
        try:
            # What a retry would say again was said when these contents were read first.
            again = content == self._refused_hash
            return reloading.load_again(self._current(), _ignore_line if again else _log_line)
        except ConfigurationError:
            raise
        except Exception as error:  # a mistake of ours in reading a file must not end a scheduler that works
            log.exception("the configuration cannot be read; the one before stays in force, report this defect")
            raise ConfigurationError(f"it cannot be read: {type(error).__name__}: {error}") from error

    def _record_success(self, content: str) -> None:
        """The contents are in force."""
        self._in_force, self._refused_hash, self._retry_at = content, "", None
        self._loaded_at = self._wall()
        self._succeeded += 1
        klog.info(log, 0, "Configuration reloaded", hash=content)
        self._report(refused=False, text=f"configuration {content} is in force")

    def _record_refusal(self, content: str, text: str, *, retry: bool) -> None:
        """The contents are refused; what is in force stays. The same refusal again is neither logged nor reported."""
        text = " ".join(text.split())
        again = content == self._refused_hash and text == self._last_refusal
        self._refused_hash, self._last_refusal, self._last_refusal_at = content, text, self._wall()
        self._retry_at = self._monotonic() + RETRY_SECONDS if retry else None
        self._refused += 1
        if again:
            return
        klog.error(log, "Configuration refused; the one before stays", hash=content, inForce=self._in_force, err=text)
        self._report(refused=True, text=f"configuration {content} is refused, {self._in_force} stays in force: {text}")


def _log_line(line: str) -> None:
    """Log a line of the start, such as `I "message" key="value"`, as this process logs its own."""
    severity, _, text = line.partition(" ")
    message, values = start_log.parse_line(text)
    if severity == "E":
        klog.error(log, message, **values)
    else:
        klog.info(log, 0, message, **values)


def _ignore_line(line: str) -> None:
    """Drop a line that was logged before."""
