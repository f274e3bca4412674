"""Whom bind works for: the holder of the Lease, as bind itself read it, for as long as that reading is good.

A caller claims an epoch, and for how long its Lease is valid. Bind trusts neither for long. It reads the Lease before
it works for a new epoch or after a restart, and again while it works, because a message may be old when it is read: a
paused process or a broken network keeps it for as long as it likes, with the validity that was true when it was sent.

The invariant that keeps a deposed leader from binding: work for an epoch begins only within one Lease duration after
the *start* of a reading that showed its holder. At the start of such a reading no successor had the Lease, and a
successor that cannot reach a replica (Fence is not answered) waits one Lease duration after it acquired the Lease. So
no clock but each process's own monotonic one takes part. What a claim is checked against:
see `trireme_kube.client.leaderelection.lease`.

All work of one epoch shares a tenure, which each call of that epoch extends: work that waits, for instance for the
client's rate limit, may begin as long as the leader keeps calling. That is no more than the leader could do by sending
the same work again.

Without leader election there is no Lease and one frontend; then epochs are only compared, those of one scheduler.

Also change: docs/fault-tolerance.md.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from trireme.rpc.fencing import EpochGuard, Refusal, RefusalReason, Tenure
from trireme_kube.client.leaderelection.election import LeaseRecord
from trireme_kube.client.leaderelection.lease import MAX_TRUST_SECONDS, ClaimVerdict, EpochClaim, check_claim
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable, with_advice

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseReader:
    """Reads the Lease as it is now; None: there is none.

    Raises: ApiError, or ApiUnreachable after a deadline of its own.
    """

    name: str  # namespace and name of the Lease, for people
    read: Callable[[], Awaitable[LeaseRecord | None]]


@dataclass(frozen=True, slots=True)
class _TrustedClaim:
    """The leader that the last reading of the Lease showed, and from when until when it is trusted without another."""

    claim: EpochClaim
    since: float
    until: float


_NOBODY = _TrustedClaim(EpochClaim(0, ""), 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class LeadershipStatistics:
    """What was learned about leaders since the start."""

    epoch: int  # the epoch in force
    readings: int  # how often the Lease was read
    refused: int  # calls refused because they were of a lower epoch


class Leadership:
    """Admits callers: checks against the Lease that a caller leads, and until when it may begin work."""

    def __init__(self, guard: EpochGuard, reader: LeaseReader | None, clock: Callable[[], float]) -> None:
        """`reader` is None where leader election is off."""
        self._guard = guard
        self._reader = reader
        self._clock = clock
        self._trust = _NOBODY
        self._reading = asyncio.Lock()
        self._refresh: asyncio.Task[None] | None = None
        self._readings = 0
        self._tenure: Tenure | None = None

    def statistics(self) -> LeadershipStatistics:
        """A snapshot of the counters."""
        return LeadershipStatistics(self._guard.epoch, self._readings, self._guard.refused)

    async def admit(self, claim: EpochClaim, lease_valid_seconds: float) -> Tenure:
        """Return until when work may begin for this caller, reading the Lease where need be.

        What was read is trusted for a while; in the second half of that time it is read again in the background.
        Without a Lease (no leader election) the tenure does not end.

        Raises:
            Refusal: a newer leader was seen, the Lease is another's, or the caller's is not valid any more.
        """
        received = self._clock()
        self._guard.check(claim.epoch, claim.scheduler_id)
        reader = self._reader
        if reader is None:
            self._guard.admit(claim.epoch, claim.scheduler_id)
            return self._extended_tenure(float("inf"))
        if lease_valid_seconds <= 0:
            raise Refusal(RefusalReason.LEASE_EXPIRED, "the caller's lease is not valid any more")
        trust = self._trust
        if trust.claim != claim or received >= trust.until:
            trust = await self._read_lease_for_caller(reader, claim, received)
        elif received - trust.since > (trust.until - trust.since) / 2 and self._refresh is None:
            self._refresh = asyncio.get_running_loop().create_task(self._read_lease_ahead(reader, claim))
        self._guard.admit(claim.epoch, claim.scheduler_id)
        return self._extended_tenure(min(received + lease_valid_seconds, trust.until))

    async def close(self) -> None:
        """Ends what runs in the background."""
        if self._refresh is not None:
            self._refresh.cancel()

    def _extended_tenure(self, valid_until: float) -> Tenure:
        """The tenure of the epoch in force, valid at least until then."""
        if self._tenure is None or self._tenure.leader != self._guard.leader:
            self._tenure = Tenure(self._guard, self._clock, self._guard.leader, valid_until)
        self._tenure.extend(valid_until)
        return self._tenure

    async def _read_lease_for_caller(self, reader: LeaseReader, claim: EpochClaim, asked_at: float) -> _TrustedClaim:
        """Read the Lease on behalf of a caller; callers that come meanwhile share the next reading."""
        async with self._reading:
            # A reading that began after this call is as good as its own.
            if self._trust.claim == claim and self._trust.since >= asked_at:
                return self._trust
            self._guard.check(claim.epoch, claim.scheduler_id)
            verdict, trust = await self._read_lease(reader, claim)
            if verdict is ClaimVerdict.IN_FORCE:
                self._trust = trust
                return trust
        why = f"{verdict.value} ({reader.name}, by the flags of bind)"
        log.warning(
            "refused %s with epoch %d: %s; if it leads, check that the flags of bind name its Lease",
            claim.holder,
            claim.epoch,
            why,
        )
        raise Refusal(RefusalReason.NOT_HOLDER, f"{claim.holder!r} with epoch {claim.epoch} does not lead: {why}")

    async def _read_lease_ahead(self, reader: LeaseReader, claim: EpochClaim) -> None:
        """Reads the Lease ahead of time, so that a leader that stays in office never waits for it."""
        try:
            async with self._reading:
                verdict, trust = await self._read_lease(reader, claim)
                if self._trust.claim != claim:
                    return  # another caller was admitted meanwhile
                # A leader that lost office is found out at its next call, which reads again.
                self._trust = trust if verdict is ClaimVerdict.IN_FORCE else _NOBODY
        except Refusal as refusal:
            log.warning("%s; the next call reads it again", refusal)  # the trust there is lasts for a while
        finally:
            self._refresh = None

    async def _read_lease(self, reader: LeaseReader, claim: EpochClaim) -> tuple[ClaimVerdict, _TrustedClaim]:
        """Read the Lease and check the claim against it; says too how long the reading is trusted. Raises: Refusal."""
        started = self._clock()
        self._readings += 1
        try:
            lease = await reader.read()
        except (ApiError, ApiUnreachable) as error:
            raise Refusal(RefusalReason.UNVERIFIED, f"the Lease cannot be read: {with_advice(error)}") from error
        duration = min(max(lease.duration_seconds, 1), MAX_TRUST_SECONDS) if lease is not None else 0.0
        return check_claim(claim, lease), _TrustedClaim(claim, started, started + duration)
