"""Holds the Lease from a separate thread, and verifies claims about its holder.

The frontend's `LeaseElector` runs `election.Election` in a thread with its own event loop and connection, so that a
main loop that is busy with a large list for many seconds cannot lose the Lease. It notifies the main loop by callback,
and any thread may read `leading`. The GIL delays the thread by milliseconds only.

How bind verifies an epoch. An epoch is the resourceVersion of the write that acquired the Lease. No object contains
that number: an object cannot contain the version that storing it will assign, each renewal changes the Lease's version,
and recording it would take a write that kube-scheduler does not make. So a caller claims two things, its epoch and its
holderIdentity, and bind reads the Lease (one GET, which the scheduler's role allows):

1. An identity serves one term only: it contains a random UUID and belongs to one `Election`, which ends with its term.
   So `holderIdentity == claim` means that the claimed term was in force at the moment of the read. A GET without
   resourceVersion is a quorum read, so a term that ended before it cannot pass.
2. The Lease's version must be at least the epoch, since every renewal follows the acquisition. A lower version means
   that the claim is about another cluster, or one restored from a backup.
3. A later term has a greater epoch, since its acquisition is a later write to the same store. So once bind has verified
   an epoch, it refuses every lower one without reading the Lease, and reads it only for a greater one (and after a
   restart, when it has verified none).

The times in the Lease are the holder's wall clock and prove nothing. The remaining validity travels with each call; the
holder measures it on its monotonic clock from before it sent its last renewal.

Tests: tests/unit/client/leaderelection/test_lease_records.py,
tests/unit/client/leaderelection/test_lease_elector.py, tests/contract/test_kube_lease.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import logging
import random
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.leaderelection import election, lease_candidate
from trireme_kube.client.leaderelection.election import ElectionSettings, Leading, LeaseRecord, Lost, Notice
from trireme_kube.client.rest import client, errors
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable
from trireme_kube.componentbase import clocks, supervision
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)

MAX_TRUST_SECONDS = 60.0
"""The most that one read of the Lease is trusted for, so that a wrong duration does not fence for an hour."""


def make_identity() -> str:
    """Make a holderIdentity for one term, in kube-scheduler's form: `<hostname>_<uuid>`."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """Our candidacy, and the connection that publishes it."""

    candidacy: lease_candidate.Candidacy
    connection: client.ClientSettings


class LeaseElector:
    """Contends for the Lease until it loses it or is stopped. Good for one term."""

    def __init__(
        self,
        settings: ElectionSettings,
        connection: client.ClientSettings,
        on_notice: Callable[[Notice], None],
        *,
        candidacy: Candidate | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], int] = clocks.wall_ns,
        rng: Callable[[], float] = random.random,
    ) -> None:
        """An elector that `start` starts; `on_notice` is called in the event loop that called `start`, in order.

        `candidacy`: the candidate to publish if the API server chooses the leader (coordinated leader election). A Lost
        comes once we led, or if the election itself failed; it comes before the Lease is released.
        """
        self.settings = settings
        self._connection = connection
        self._on_notice = on_notice
        self._candidacy = candidacy
        self._wall = wall
        self._candidate: lease_candidate.LeaseCandidate | None = None
        self._clock = clock
        self._machine = election.Election(settings, rng, wall)
        self._owner: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._stop_requested = threading.Event()
        self._ended: asyncio.Future[None] | None = None
        self.leading: Leading | None = None
        #: Why the last request for the Lease failed; empty: it did not. Any thread may read it.
        self.last_error = ""

    def start(self) -> None:
        """Start contending, in a new thread."""
        self._owner = asyncio.get_running_loop()
        self._ended = self._owner.create_future()
        self._thread = threading.Thread(target=self._run_thread, name="lease", daemon=True)
        self._thread.start()

    @property
    def remaining_seconds(self) -> float:
        """How long nobody else can have acquired the Lease; 0 if we do not lead. Thread-safe. Units: seconds."""
        leading = self.leading
        return max(leading.valid_until - self._clock(), 0.0) if leading is not None else 0.0

    @property
    def candidate_synced(self) -> bool:
        """Whether the informer of our LeaseCandidate has synced; True if none is needed."""
        return self._candidacy is None or (self._candidate is not None and self._candidate.synced)

    async def stop(self) -> None:
        """Stop leading and release the Lease; return once that is done or has failed.

        It takes at most the renew deadline.
        """
        self._stop_requested.set()
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            with contextlib.suppress(RuntimeError):  # the thread ended meanwhile
                loop.call_soon_threadsafe(stopping.set)
        await self.ended()

    async def ended(self) -> None:
        """Return when the election is over."""
        if self._ended is not None:
            await asyncio.shield(self._ended)

    def _run_thread(self) -> None:
        """Run the election in an event loop of this thread, and report how it ended."""
        error: BaseException | None = None
        try:
            with asyncio.Runner() as runner:
                runner.run(self._execute_until_over())
        except BaseException as raised:
            error = raised
        self._report_end(error)

    def _report_end(self, error: BaseException | None) -> None:
        """Report the end of the election, with the error that ended it."""
        reason = ""
        if isinstance(error, ConfigurationError):
            reason = str(error)
        elif error is not None:  # a defect must end leadership, not just this thread
            log.error(
                "the election ended with an exception, and leadership with it; report this defect", exc_info=error
            )
            reason = f"the election failed: {error!r}"
        if reason:
            self._publish_notice(Lost(reason))
        owner, ended = self._owner, self._ended
        if owner is not None and ended is not None:
            with contextlib.suppress(RuntimeError):  # the main loop was closed before us
                owner.call_soon_threadsafe(ended.set_result, None)

    async def _execute_until_over(self) -> None:
        """Execute the election's instructions one after another, until it ends. A stop aborts the one under way."""
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._stop_requested.is_set():  # `stop` was called before the event existed
            self._stopping.set()
        async with self._candidate_registered(), await client.connect(self._connection) as api:
            turn = self._machine.start(self._clock())
            stopped = False
            while True:
                for notice in turn.notices:
                    self._publish_notice(notice)
                if isinstance(turn.instruction, election.End):
                    return
                operation = self._execute_instruction(api, turn.instruction)
                if stopped:
                    turn = self._machine.done(self._clock(), await operation)
                    continue
                stopped, outcome = await self._run_unless_stopped(operation)
                now = self._clock()
                turn = self._machine.stop(now) if stopped else self._machine.done(now, outcome)

    @contextlib.asynccontextmanager
    async def _candidate_registered(self) -> AsyncIterator[None]:
        """Keep our LeaseCandidate while the block runs, if one is needed."""
        if self._candidacy is None:
            yield
            return
        async with await client.connect(self._candidacy.connection) as api:
            self._candidate = lease_candidate.LeaseCandidate(api, self._candidacy.candidacy, self._wall)
            async with asyncio.TaskGroup() as group:
                standing = group.create_task(supervision.supervise("lease candidate", self._candidate.run))
                try:
                    yield
                finally:
                    standing.cancel()

    async def _run_unless_stopped(
        self, operation: Coroutine[Any, Any, election.Outcome]
    ) -> tuple[bool, election.Outcome]:
        """Run `operation` to its outcome, or abort it when `stop` is called."""
        assert self._stopping is not None
        task = asyncio.ensure_future(operation)
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            task.cancel()
        await asyncio.wait((task,))
        if self._stopping.is_set():
            return True, None
        return False, task.result()

    async def _execute_instruction(self, api: client.ApiClient, instruction: election.Instruction) -> election.Outcome:
        """Do what the election asks, and return the Lease or the error: both are for it to judge."""
        match instruction:
            case election.Wait(seconds):
                await asyncio.sleep(seconds)
                return None
            case election.Read(deadline):
                request = api.get(self.settings.path, client.timeout_parameter(deadline), deadline=deadline)
            case election.Create(body, deadline):
                request = api.post(
                    self.settings.collection, body, client.timeout_parameter(deadline), deadline=deadline
                )
            case election.Update(body, deadline):
                request = api.put(self.settings.path, body, client.timeout_parameter(deadline), deadline=deadline)
            case _:
                raise AssertionError(f"not an instruction to carry out: {instruction}")
        try:
            record = election.lease_record((await request).json())
        except (ApiError, ApiUnreachable) as error:
            self._record_failure(instruction, error)
            return error
        self.last_error = ""
        return record

    def _record_failure(
        self, instruction: election.Read | election.Create | election.Update, error: ApiError | ApiUnreachable
    ) -> None:
        """Log that a request failed, and remember why. That the Lease does not exist yet is an answer.

        Source: client-go, tools/leaderelection/leaderelection.go.
        """
        if isinstance(instruction, election.Read) and isinstance(error, ApiError) and error.not_found:
            self.last_error = ""
            return
        self.last_error = errors.with_advice(error)
        values = {"lock": f"{self.settings.namespace}/{self.settings.name}", "err": str(error)}
        if isinstance(instruction, election.Read):
            klog.error(log, "Error retrieving lease lock", **values)
        elif isinstance(instruction, election.Create):
            klog.error(log, "Error initially creating lease lock", **values)
        elif self._machine.is_optimistic:
            klog.info(log, 2, "Failed to update lease optimistically, falling back to slow path", **values)
        else:
            klog.error(log, "Failed to update lease", **values)

    def _publish_notice(self, notice: Notice) -> None:
        """Update `leading`, and pass the notice on to the owner's event loop."""
        if isinstance(notice, Leading):
            self.leading = notice
        elif isinstance(notice, Lost):
            self.leading = None
        owner = self._owner
        if owner is not None:
            with contextlib.suppress(RuntimeError):  # the main loop was closed before us
                owner.call_soon_threadsafe(self._on_notice, notice)


@dataclasses.dataclass(frozen=True, slots=True)
class EpochClaim:
    """A caller's claim to lead."""

    epoch: int
    holder: str
    # The scheduler that the epoch belongs to. Not compared with the Lease: the holder's name already identifies the
    # term, and a leader continues if somebody deletes its Lease and it creates another one.
    scheduler_id: str = ""


class ClaimVerdict(enum.Enum):
    """Whether a claim is true, and if not, why; the values are for messages."""

    IN_FORCE = "it holds the Lease"
    DEPOSED = "another one holds the Lease"
    VACANT = "nobody holds the Lease"
    IMPOSSIBLE = "the Lease was never written as the epoch says"


def check_claim(claim: EpochClaim, lease: LeaseRecord | None) -> ClaimVerdict:
    """Compare a claim with the Lease as just read (None: none exists); the module docstring says why this suffices."""
    if lease is None or not lease.holder:
        return ClaimVerdict.VACANT
    if lease.holder != claim.holder:
        return ClaimVerdict.DEPOSED
    return ClaimVerdict.IN_FORCE if lease.version >= claim.epoch > 0 else ClaimVerdict.IMPOSSIBLE


async def read_lease(api: client.ApiClient, namespace: str, name: str, deadline: float) -> LeaseRecord | None:
    """Read the Lease by a quorum read; None if it does not exist.

    Raises:
      ApiError, ApiUnreachable: the read failed.
    """
    settings = ElectionSettings(identity="", namespace=namespace, name=name)
    try:
        response = await api.read(settings.path, deadline=deadline)
    except ApiError as error:
        if error.not_found:
            return None
        raise
    return election.lease_record(response.json())
