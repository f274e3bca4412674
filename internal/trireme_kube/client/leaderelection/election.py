"""Leader election on a Lease as a pure state machine: which request comes next, and who leads.

`Election.start`, `done` and `stop` return a `Turn`: one instruction for the shell (`lease.LeaseElector`), which reports
its outcome with `done`, and notices for listeners. Times are arguments. The rules are client-go's, so that we and
kube-scheduler can contend for the same Lease:

- A follower measures expiry by its own clock: a Lease unchanged for its duration since we first observed it is
  free. The times written in it are informative only.
- It tries every `retry_period`, plus a random 0 to 1.2 times that.
- The leader renews every `retry_period`, without reading while its Lease is valid, and gives up after `renew_deadline`
  without success.
- A leader that stops clears the holder, so that its successor need not wait; after a conflict (our own renewal still in
  flight) it tries again.

Stricter than client-go in two ways. A leader that reads another holder's name has lost at that moment, not at the renew
deadline; and it has lost when the Lease may have run out (`valid_until`, counted from before the last renewal was
sent), even if the renew deadline, counted from the last attempt's start, is later.

Where the API server chooses the holder (`coordinated`, gate CoordinatedLeaderElection), candidates do not write
themselves into the Lease: a candidate waits until it reads its own name, renews only what it has just read, and lets
the Lease run out once another holder is preferred.

An Election is for one term and the next term has a new identity, so an identity names a term; `lease.py` explains how
bind relies on that.

Also change: internal/trireme/config/leader_election.py (the jitter).

Tests: tests/unit/client/leaderelection/test_election.py,
tests/unit/client/leaderelection/test_coordinated_election.py,
tests/unit/client/leaderelection/test_contending_candidates.py,
tests/unit/client/leaderelection/test_lease_records.py.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any

from trireme_kube.apimachinery import resource_versions, timestamps
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

JITTER_FACTOR = 1.2


@dataclasses.dataclass(frozen=True, slots=True)
class ElectionSettings:
    """Which Lease, who we are, and the three periods. Units: seconds. `coordinated`: the API server chooses."""

    identity: str
    namespace: str = "kube-system"
    name: str = "kube-scheduler"
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    coordinated: bool = False

    @property
    def collection(self) -> str:
        """The path that a new Lease is posted to."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def path(self) -> str:
        """The path of the Lease."""
        return f"{self.collection}/{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as read, or as returned by a write."""

    holder: str
    duration_seconds: int
    acquire_time: str
    renew_time: str
    transitions: int
    version: int
    raw: Mapping[str, Any]
    # Who is to hold it next, and by which rule that is chosen, where the API server chooses.
    preferred_holder: str = ""
    strategy: str = ""

    def same_terms(self, other: LeaseRecord) -> bool:
        """Whether nothing that a holder writes differs; other fields do not count as a sign of life."""
        return self._terms_of_holder() == other._terms_of_holder()

    def _terms_of_holder(self) -> tuple[object, ...]:
        holder_fields = (self.holder, self.duration_seconds, self.acquire_time, self.renew_time, self.transitions)
        return (*holder_fields, self.preferred_holder, self.strategy)


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """Instruction: get the Lease. Units: seconds for `deadline`, here and below."""

    deadline: float


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Instruction: post the Lease."""

    body: Mapping[str, Any]
    deadline: float


@dataclasses.dataclass(frozen=True, slots=True)
class Update:
    """Instruction: put the Lease; its resourceVersion makes the write conditional."""

    body: Mapping[str, Any]
    deadline: float


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """Instruction: wait."""

    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class End:
    """Instruction: stop, since the election is over."""


Instruction = Read | Create | Update | Wait | End
Outcome = LeaseRecord | ApiError | ApiUnreachable | None


@dataclasses.dataclass(frozen=True, slots=True)
class Leading:
    """We lead. Sent at the acquisition and at each renewal; only `valid_until` changes.

    `epoch` is the resourceVersion of the write that acquired the Lease, `valid_until` the monotonic time up to which
    nobody else can have acquired it, `lease` the Lease at the acquisition. `predecessor_seconds` is for how long, from
    the acquisition on, others may trust the Lease as it was before: its duration when another holder was last seen. If
    none was seen (the Lease may have been released, or deleted and created again) it is our own.
    """

    epoch: int
    valid_until: float
    lease: LeaseRecord
    renewal: bool
    predecessor_seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Lost:
    """Notice: we stopped leading for good. `requested`: `stop` was called."""

    reason: str
    requested: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Observed:
    """Notice: another leader (or none: "") was observed."""

    holder: str


Notice = Leading | Lost | Observed


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """The next instruction, and notices for listeners."""

    instruction: Instruction
    notices: tuple[Notice, ...] = ()


class Phase(enum.Enum):
    """The state of the election."""

    ACQUIRING = "acquiring"
    LEADING = "leading"
    RELEASING = "releasing"
    ENDED = "ended"


class Election:
    """One candidate's election for one term. `random` returns numbers in [0, 1), `wall` nanoseconds since 1970."""

    def __init__(self, settings: ElectionSettings, random: Callable[[], float], wall: Callable[[], int]) -> None:
        self._settings = settings
        self._random = random
        self._wall = wall
        self._instruction: Instruction = Wait(0.0)
        self._observed: LeaseRecord | None = None
        self._observed_at = 0.0
        self._reported_holder: str | None = None
        self._acquired: LeaseRecord | None = None
        self._sent_at = 0.0  # when the last write was sent
        self._valid_until = 0.0
        self._predecessor_seconds = float(int(settings.lease_duration))
        self._optimistic = False  # the Update under way was sent without reading first
        self._give_up_at = 0.0  # when the renewal or release under way counts as failed
        self.phase = Phase.ACQUIRING

    @property
    def is_optimistic(self) -> bool:
        """Whether the Update under way was sent without reading first: if it fails, the next instruction is to read."""
        return self._optimistic

    def start(self, now: float) -> Turn:
        """Return the first instruction."""
        return self._next_turn(self._read_instruction(now))

    def done(self, now: float, outcome: Outcome) -> Turn:
        """Take the outcome of the last instruction (None for a Wait) and return the next."""
        last = self._instruction
        if self.phase is Phase.RELEASING:
            return self._continue_release(now, outcome)
        if isinstance(last, Wait):
            return self._next_try(now)
        if isinstance(outcome, LeaseRecord):
            return (
                self._decide_on_lease_read(now, outcome)
                if isinstance(last, Read)
                else self._lead_after_write(now, outcome)
            )
        if self._optimistic:
            self._optimistic = False
            return self._next_turn(self._read_instruction(now))
        missing = isinstance(last, Read) and isinstance(outcome, ApiError) and outcome.not_found
        if missing and not self._settings.coordinated:
            return self._next_turn(Create(self._new_lease_body(), self._request_timeout(now)), now)
        return self._wait_for_next_try(now)

    def stop(self, now: float) -> Turn:
        """Stop, after the shell aborted the last instruction. Releases the Lease if we may hold it."""
        writing = isinstance(self._instruction, (Create, Update))
        if self.phase is Phase.LEADING:
            return self._end_after_leading(now, "asked to stop", release=True, requested=True)
        if self.phase is Phase.ACQUIRING and writing:
            return self._begin_release(now)  # the write may have succeeded
        if self.phase is Phase.RELEASING:
            return self._next_turn(self._read_instruction(now))
        self.phase = Phase.ENDED
        return self._next_turn(End())

    # One attempt: an optimistic Update (leaders only), or Read and then Create or Update.

    def _next_try(self, now: float) -> Turn:
        """Return the next try: renew by an update without reading first, else read; give up when the time is over."""
        if self.phase is Phase.LEADING:
            if not self._give_up_at:
                self._give_up_at = min(now + self._settings.renew_deadline, self._valid_until)
            if now >= self._give_up_at:
                return self._end_after_leading(now, "the lease could not be renewed in time", release=True)
            if not self._settings.coordinated:
                assert self._observed is not None  # we have written it
                self._optimistic = True
                return self._next_turn(Update(self._renewal_body(self._observed), self._request_timeout(now)), now)
        return self._next_turn(self._read_instruction(now))

    def _decide_on_lease_read(self, now: float, lease: LeaseRecord) -> Turn:
        """Renew the lease if it is ours, take it if it is free or has run out, else wait.

        Whether it has run out is decided by when we saw it change, not by its times: clocks differ. A coordinated lease
        is never taken: the API server gives it.
        """
        notices = self._note_lease_change(now, lease)
        ours = lease.holder == self._settings.identity
        if self.phase is Phase.LEADING and not ours:
            lost = self._end_after_leading(now, f"the lease is held by {lease.holder or 'nobody'}", release=False)
            return Turn(lost.instruction, (*notices, *lost.notices))
        if self._settings.coordinated:
            if not ours or not self._may_continue(now, lease):
                return self._wait_for_next_try(now, notices)
        elif lease.holder and not ours and now < self._observed_at + lease.duration_seconds:
            return self._wait_for_next_try(now, notices)
        body = self._renewal_body(lease) if ours else self._takeover_body(lease)
        return self._next_turn(Update(body, self._request_timeout(now)), now, notices)

    def _may_continue(self, now: float, lease: LeaseRecord) -> bool:
        """Whether the holder may continue: the Lease has not run out, and no other holder is preferred."""
        return now <= self._observed_at + lease.duration_seconds and not lease.preferred_holder

    def _lead_after_write(self, now: float, lease: LeaseRecord) -> Turn:
        """Take a Lease that we wrote: we lead, from when the write was sent; wait until the next renewal."""
        notices = self._note_lease_change(now, lease)
        self._valid_until = self._sent_at + int(self._settings.lease_duration)
        self._give_up_at = 0.0
        self._optimistic = False
        renewal = self.phase is Phase.LEADING
        if self._acquired is None:
            self._acquired = lease
            self.phase = Phase.LEADING
        leading = Leading(self._acquired.version, self._valid_until, self._acquired, renewal, self._predecessor_seconds)
        return self._next_turn(Wait(self._settings.retry_period), None, (*notices, leading))

    def _wait_for_next_try(self, now: float, notices: tuple[Notice, ...] = ()) -> Turn:
        """Return a wait for the next try: with jitter as a candidate, and no longer than we may lead as a leader."""
        period = self._settings.retry_period
        if self.phase is Phase.LEADING:
            return self._next_turn(Wait(max(min(period, self._give_up_at - now), 0.0)), None, notices)
        return self._next_turn(Wait(period * (1 + JITTER_FACTOR * self._random())), None, notices)

    def _end_after_leading(self, now: float, reason: str, *, release: bool, requested: bool = False) -> Turn:
        """End the election after leading; `release`: try to release the Lease first, since we may still hold it."""
        self.phase = Phase.ENDED
        turn = self._begin_release(now) if release else self._next_turn(End())
        return Turn(turn.instruction, (Lost(reason, requested),))

    # Releasing the Lease: Read, then Update with an empty holder; again after a conflict.

    def _begin_release(self, now: float) -> Turn:
        """Begin to release the Lease: read it, and give it up if it is ours."""
        self.phase = Phase.RELEASING
        self._give_up_at = now + self._settings.renew_deadline
        return self._next_turn(self._read_instruction(now))

    def _continue_release(self, now: float, outcome: Outcome) -> Turn:
        """Take the outcome of a step of the release; it ends at success, another holder, an error or the deadline."""
        if now < self._give_up_at:
            if isinstance(outcome, LeaseRecord) and outcome.holder == self._settings.identity:
                return self._next_turn(Update(self._release_body(outcome), self._request_timeout(now)), now)
            if isinstance(outcome, ApiError) and outcome.conflict:
                return self._next_turn(self._read_instruction(now))
        self.phase = Phase.ENDED
        return self._next_turn(End())

    def _note_lease_change(self, now: float, lease: LeaseRecord) -> tuple[Notice, ...]:
        """Note when the Lease last changed; return a notice if it has another holder than before."""
        if self._observed is None or not self._observed.same_terms(lease):
            self._observed_at = now
        self._observed = lease
        if lease.holder not in ("", self._settings.identity):
            self._predecessor_seconds = float(lease.duration_seconds)
        if lease.holder == self._reported_holder:
            return ()
        self._reported_holder = lease.holder
        return (Observed(lease.holder),)

    def _read_instruction(self, now: float) -> Read:
        return Read(self._request_timeout(now))

    def _request_timeout(self, now: float) -> float:
        """The timeout of one request: half the renew deadline, so that there is time for a second one."""
        timeout = self._settings.renew_deadline / 2
        if self.phase is not Phase.ACQUIRING:
            timeout = min(timeout, self._give_up_at - now)
        return max(timeout, 0.001)

    def _next_turn(
        self, instruction: Instruction, sent_at: float | None = None, notices: tuple[Notice, ...] = ()
    ) -> Turn:
        """Remember the instruction, and return it with the notices; `sent_at`: from when a write counts."""
        if sent_at is not None:
            self._sent_at = sent_at
        self._instruction = instruction
        return Turn(instruction, notices)

    # Bodies of writes. They replace all of spec; the rest stays as it was read.

    def _new_lease_body(self) -> dict[str, Any]:
        """Return the Lease to create, with us as its holder."""
        return {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"name": self._settings.name, "namespace": self._settings.namespace},
            "spec": self._lease_spec(self._settings.identity, None, 0),
        }

    def _takeover_body(self, lease: LeaseRecord) -> dict[str, Any]:
        """Return the Lease as read, with us as its holder from now on."""
        return {**lease.raw, "spec": self._lease_spec(self._settings.identity, None, lease.transitions + 1)}

    def _renewal_body(self, lease: LeaseRecord) -> dict[str, Any]:
        """Return the Lease as read, renewed now."""
        spec = self._lease_spec(self._settings.identity, lease.acquire_time, lease.transitions)
        if self._settings.coordinated and lease.strategy:
            spec["strategy"] = lease.strategy
        return {**lease.raw, "spec": spec}

    def _release_body(self, lease: LeaseRecord) -> dict[str, Any]:
        """Return the Lease as read, without a holder and for one second, so that another candidate takes it at once."""
        spec = self._lease_spec("", None, lease.transitions)
        spec["leaseDurationSeconds"] = 1
        return {**lease.raw, "spec": spec}

    def _lease_spec(self, holder: str, acquire_time: str | None, transitions: int) -> dict[str, Any]:
        """Return a Lease's spec, renewed now; `acquire_time` None: acquired now as well."""
        time = timestamps.rfc3339_micros(self._wall())
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": int(self._settings.lease_duration),
            "acquireTime": acquire_time or time,
            "renewTime": time,
            "leaseTransitions": transitions,
        }


def lease_record(raw: Mapping[str, Any]) -> LeaseRecord:
    """Read a Lease object; missing or malformed fields count as empty, so that a candidate can take it over."""
    metadata, spec = raw.get("metadata"), raw.get("spec")
    metadata = metadata if isinstance(metadata, dict) else {}
    spec = spec if isinstance(spec, dict) else {}
    version = metadata.get("resourceVersion")
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        duration_seconds=_int_or_zero(spec.get("leaseDurationSeconds")),
        acquire_time=str(spec.get("acquireTime") or ""),
        renew_time=str(spec.get("renewTime") or ""),
        transitions=_int_or_zero(spec.get("leaseTransitions")),
        version=(resource_versions.number_of(version) or 0) if isinstance(version, str) else 0,
        raw=raw,
        preferred_holder=str(spec.get("preferredHolder") or ""),
        strategy=str(spec.get("strategy") or ""),
    )


def _int_or_zero(value: Any) -> int:
    """Return the value; 0 if it is no integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
