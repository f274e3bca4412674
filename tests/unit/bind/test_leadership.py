"""Whom bind works for: only the holder of the Lease as bind read it, and only as long as that reading is good."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.helpers import virtual_time
from tests.helpers.held_entries import held_entries
from trireme.bind.leadership import MAX_TRUST_SECONDS, Leadership, LeadershipStatistics, LeaseReader
from trireme.bind.work_in_flight import CANCEL_SECONDS, WorkInFlight, end_tasks
from trireme.rpc.fencing import EpochGuard, Leader, Refusal, RefusalReason
from trireme_kube.client.leaderelection.election import LeaseRecord
from trireme_kube.client.leaderelection.lease import EpochClaim
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

A = EpochClaim(100, "host-a_1")
B = EpochClaim(200, "host-b_1")


def lease(holder: str, version: int = 150, duration: int = 15) -> LeaseRecord:
    return LeaseRecord(holder, duration, "", "", 0, version, {})


class _Setup:
    """A Lease that can be changed, and takes a while to read."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.found: LeaseRecord | Exception | None = lease(A.holder)
        self.seconds = 0.01
        self.readings = 0
        self.guard = EpochGuard()
        self.leadership = Leadership(self.guard, LeaseReader("kube-system/trireme", self._read), clock)

    async def _read(self) -> LeaseRecord | None:
        self.readings += 1
        found = self.found
        await asyncio.sleep(self.seconds)
        if isinstance(found, Exception):
            raise found
        return found

    async def refused(self, claim: EpochClaim, seconds: float = 10.0) -> RefusalReason:
        with pytest.raises(Refusal) as caught:
            await self.leadership.admit(claim, seconds)
        if caught.value.reason is RefusalReason.NOT_HOLDER:
            assert "(kube-system/trireme, by the flags of bind)" in str(caught.value)
        return caught.value.reason


def run(main: Callable[[_Setup], Awaitable[None]]) -> None:
    async def inner(clock: Callable[[], float]) -> None:
        setup = _Setup(clock)
        await main(setup)
        await setup.leadership.close()

    virtual_time.run(inner)


@pytest.mark.parametrize("claim", [EpochClaim(100, B.holder), EpochClaim(100, A.holder, "another scheduler")])
def test_who_claims_the_epoch_of_the_holder_is_not_trusted_for_that(claim: EpochClaim) -> None:
    """The Lease is read again, and says who holds it."""

    async def main(setup: _Setup) -> None:
        await setup.leadership.admit(A, 10.0)
        setup.found = lease("host-c_1")
        await setup.refused(claim)
        if not claim.scheduler_id:
            assert setup.readings == 2
            assert (await setup.leadership.admit(A, 10.0)).active, "what was read of the holder is still trusted"

    run(main)


def test_the_holder_is_admitted_after_one_reading() -> None:
    """The Lease is read for the first call of an epoch, and not for those that follow at once."""

    async def main(setup: _Setup) -> None:
        for _ in range(5):
            assert (await setup.leadership.admit(A, 10.0)).active
        assert setup.readings == 1
        assert setup.guard.epoch == 100

    run(main)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(lease("host-b_1"), RefusalReason.NOT_HOLDER, id="another-holds-it"),
        pytest.param(lease(""), RefusalReason.NOT_HOLDER, id="released"),
        pytest.param(None, RefusalReason.NOT_HOLDER, id="no-lease"),
        pytest.param(lease(A.holder, version=99), RefusalReason.NOT_HOLDER, id="epoch-from-nowhere"),
        pytest.param(ApiUnreachable("no answer", sent=True), RefusalReason.UNVERIFIED, id="unreachable"),
        pytest.param(ApiError(403, "Forbidden", "leases is forbidden"), RefusalReason.UNVERIFIED, id="forbidden"),
    ],
)
def test_a_caller_that_does_not_hold_the_lease_is_refused(
    found: LeaseRecord | Exception, reason: RefusalReason
) -> None:
    """A claim is worth nothing by itself, after a restart least of all; and it does not become the epoch in force."""

    async def main(setup: _Setup) -> None:
        setup.found = found
        assert await setup.refused(A) is reason
        assert setup.guard.epoch == 0

    run(main)


def test_a_lower_epoch_is_refused_without_asking() -> None:
    """Once a successor was seen, its predecessor is not even worth a reading."""

    async def main(setup: _Setup) -> None:
        setup.found = lease(B.holder, version=250)
        await setup.leadership.admit(B, 10.0)
        setup.found = lease(A.holder, version=300)
        assert await setup.refused(A) is RefusalReason.STALE_EPOCH
        assert setup.readings == 1

    run(main)


def test_a_caller_whose_lease_ran_out_is_refused() -> None:
    """The caller says itself that it has no time left."""

    async def main(setup: _Setup) -> None:
        assert await setup.refused(A, 0.0) is RefusalReason.LEASE_EXPIRED
        assert (await setup.leadership.admit(A, 0.1)).active

    run(main)


def test_an_old_message_of_a_deposed_leader_is_refused() -> None:
    """A message that was held up says that its Lease is valid for 10 s more; the Lease itself says otherwise."""

    async def main(setup: _Setup) -> None:
        await setup.leadership.admit(A, 10.0)
        await asyncio.sleep(30.0)  # this process was paused, or the network was
        setup.found = lease(B.holder, version=250)
        assert await setup.refused(A, 10.0) is RefusalReason.NOT_HOLDER

    run(main)


@pytest.mark.parametrize(
    ("said", "duration", "expected"),
    [
        pytest.param(5.0, 15, 5.0, id="as-the-caller-says"),
        pytest.param(20.0, 15, 15.0, id="one-lease-duration-after-the-reading-began"),
        pytest.param(20.0, 0, 1.0, id="a-lease-without-duration"),
        pytest.param(1e6, 1_000_000, MAX_TRUST_SECONDS, id="a-lease-of-days"),
    ],
)
def test_a_tenure_ends_in_time(said: float, duration: int, expected: float) -> None:
    """Work begins neither after the caller's own validity nor later than a successor would wait for us."""

    async def main(setup: _Setup) -> None:
        setup.found = lease(A.holder, duration=duration)
        started = setup.clock()
        tenure = await setup.leadership.admit(A, said)
        assert tenure.valid_until - started == pytest.approx(expected)
        assert tenure.active
        await asyncio.sleep(expected)
        assert not tenure.active
        assert "lease ran out" in tenure.ended_because

    run(main)


def test_a_leader_that_stays_in_office_waits_for_one_reading_only() -> None:
    """The Lease is read again ahead of time, beside the calls."""

    async def main(setup: _Setup) -> None:
        await setup.leadership.admit(A, 10.0)
        setup.seconds = 1.0
        for _ in range(600):
            before = setup.clock()
            tenure = await setup.leadership.admit(A, 10.0)
            assert setup.clock() == before
            assert tenure.active
            await asyncio.sleep(0.1)
        assert 4 < setup.readings < 12

    run(main)


def test_a_failed_early_read_of_the_lease_is_tolerated_for_a_lease_duration() -> None:
    """An API server that is away for a moment stops nobody; one that is away for a Lease's duration does."""

    async def main(setup: _Setup) -> None:
        await setup.leadership.admit(A, 10.0)
        setup.found = ApiUnreachable("no answer", sent=True)
        await asyncio.sleep(10.0)
        assert (await setup.leadership.admit(A, 10.0)).active
        await asyncio.sleep(6.0)
        assert await setup.refused(A) is RefusalReason.UNVERIFIED

    run(main)


def test_an_early_read_that_finds_a_successor_ends_the_tenure() -> None:
    """The next call of the deposed leader is read for, and refused."""

    async def main(setup: _Setup) -> None:
        await setup.leadership.admit(A, 60.0)
        setup.found = lease(B.holder, version=250)
        await asyncio.sleep(10.0)
        await setup.leadership.admit(A, 60.0)
        await asyncio.sleep(1.0)
        assert await setup.refused(A) is RefusalReason.NOT_HOLDER

    run(main)


def test_an_early_read_for_a_deposed_leader_leaves_its_successor_admitted() -> None:
    """The successor would wait for another reading, which may fail."""

    async def main(setup: _Setup) -> None:
        await setup.leadership.admit(A, 60.0)
        await asyncio.sleep(10.0)
        setup.found = lease(B.holder, version=250)
        successor = asyncio.create_task(setup.leadership.admit(B, 60.0))
        await asyncio.sleep(0)
        await setup.leadership.admit(A, 60.0)
        assert (await successor).active
        await asyncio.sleep(1.0)
        readings = setup.readings
        assert (await setup.leadership.admit(B, 60.0)).active
        assert setup.readings == readings

    run(main)


def test_calls_that_come_together_read_together() -> None:
    """A burst after a restart costs one or two readings, not one each."""

    async def main(setup: _Setup) -> None:
        await asyncio.gather(*(setup.leadership.admit(A, 10.0) for _ in range(50)))
        assert setup.readings <= 2

    run(main)


def test_a_successor_wins_over_a_call_that_waits_for_its_reading() -> None:
    """Two claims at once: the one that the Lease shows is in force, the other is refused."""

    async def main(setup: _Setup) -> None:
        setup.found = lease(B.holder, version=250)
        outcomes = await asyncio.gather(
            setup.leadership.admit(B, 10.0), setup.leadership.admit(A, 10.0), return_exceptions=True
        )
        assert isinstance(outcomes[1], Refusal)
        assert setup.guard.epoch == 200

    run(main)


def test_without_election_epochs_are_only_compared() -> None:
    """With no Lease there is nothing to read; a lower epoch is refused all the same, and time plays no part."""

    async def main(clock: Callable[[], float]) -> None:
        leadership = Leadership(EpochGuard(), None, clock)
        first = await leadership.admit(EpochClaim(5, ""), 0.0)
        assert first.active
        second = await leadership.admit(EpochClaim(6, ""), 0.0)
        assert (first.active, second.active) == (False, True)
        assert "6" in first.ended_because
        with pytest.raises(Refusal):
            await leadership.admit(EpochClaim(5, ""), 0.0)

    virtual_time.run(main)


def test_draining_waits_for_lower_epochs_only() -> None:
    """A new leader waits for its predecessor's work, not for its own."""

    async def main(clock: Callable[[], float]) -> None:
        in_flight = WorkInFlight(clock)

        async def work(epoch: int, seconds: float) -> None:
            with in_flight.track(Leader("", epoch), clock() + 20.0):
                await asyncio.sleep(seconds)

        async with asyncio.TaskGroup() as group:
            group.create_task(work(1, 3.0))
            group.create_task(work(2, 9.0))
            await asyncio.sleep(0)
            started = clock()
            assert await in_flight.until_drained(Leader("", 2), 5.0) == 0.0
            assert clock() - started == pytest.approx(3.0)

    virtual_time.run(main)


def test_all_that_wait_for_the_end_of_work_are_told() -> None:
    """Each of two leaders, one after the other, waits for the first one's work."""

    async def main(clock: Callable[[], float]) -> None:
        in_flight = WorkInFlight(clock)
        started = clock()
        with in_flight.track(Leader("", 1), clock() + 20.0):
            waiting = [asyncio.create_task(in_flight.until_drained(Leader("", epoch), 15.0)) for epoch in (2, 3)]
            await asyncio.sleep(3.0)
        assert await asyncio.gather(*waiting) == [0.0, 0.0]
        assert clock() - started == pytest.approx(3.0)

    virtual_time.run(main)


def test_work_that_goes_on_is_listed_however_long_it_takes() -> None:
    """Only work that was broken off ends by the clock: what still runs may write."""

    async def main(clock: Callable[[], float]) -> None:
        in_flight = WorkInFlight(clock)
        with in_flight.track(Leader("", 1), clock() + 1.0):
            await asyncio.sleep(2.0)
            assert len(in_flight) == 1
            started = clock()
            await in_flight.until_drained(Leader("", 2), 3.0)
            assert clock() - started == pytest.approx(3.0)
        assert len(in_flight) == 0

    virtual_time.run(main)


def test_the_latest_of_several_pieces_of_work_counts() -> None:
    async def main(clock: Callable[[], float]) -> None:
        in_flight = WorkInFlight(clock)
        for seconds in (10.0, 30.0, 20.0):
            with pytest.raises(ValueError, match="broken"), in_flight.track(Leader("", 1), clock() + seconds):
                raise ValueError("broken")
        assert await in_flight.until_drained(Leader("", 2), 0.0) == pytest.approx(30.0)
        await asyncio.sleep(25.0)
        assert len(in_flight) == 1

    virtual_time.run(main)


def test_fence_returns_how_long_undrained_work_may_have_effects() -> None:
    """The new leader learns how long it has to wait where older work does not end."""

    async def main(clock: Callable[[], float]) -> None:
        in_flight = WorkInFlight(clock)
        with in_flight.track(Leader("", 1), clock() + 10.0):
            assert await in_flight.until_drained(Leader("", 2), 4.0) == pytest.approx(6.0)
            assert await in_flight.until_drained(Leader("", 2), -1.0) == pytest.approx(6.0)
        assert len(in_flight) == 0

    virtual_time.run(main)


@pytest.mark.parametrize(("settle", "left"), [(float("inf"), 10.0), (1.0, 1.0)], ids=["until-its-deadline", "settles"])
def test_work_that_is_broken_off_is_waited_for_until_it_can_have_no_effect(settle: float, left: float) -> None:
    async def main(clock: Callable[[], float]) -> None:
        in_flight = WorkInFlight(clock)
        with pytest.raises(ValueError, match="broken"), in_flight.track(Leader("", 1), clock() + 10.0, settle):
            raise ValueError("broken")
        assert await in_flight.until_drained(Leader("", 1), 20.0) == 0.0
        assert await in_flight.until_drained(Leader("", 2), 0.0) == pytest.approx(left)
        started = clock()
        assert await in_flight.until_drained(Leader("", 2), 20.0) == 0.0
        assert clock() - started == pytest.approx(left)
        assert len(in_flight) == 0

    virtual_time.run(main)


def test_a_lower_epoch_is_accepted_if_the_lease_was_replaced() -> None:
    async def main(setup: _Setup) -> None:
        await setup.leadership.admit(EpochClaim(100, "host-a_1", "old"), 10.0)
        setup.found = lease("host-b_1", version=20)
        new = EpochClaim(20, "host-b_1", "new")
        assert (await setup.leadership.admit(new, 10.0)).active
        assert setup.guard.scheduler_id == "new"

    run(main)


@pytest.mark.parametrize("scheduler_id", ["", "old", "made-up"])
@pytest.mark.parametrize("epoch", [1, 100, 120])
def test_no_claim_makes_up_for_not_holding_the_lease(scheduler_id: str, epoch: int) -> None:
    """A deposed leader cannot bind by naming another scheduler."""

    async def main(setup: _Setup) -> None:
        setup.found = lease("host-b_1", version=150)
        await setup.leadership.admit(EpochClaim(110, "host-b_1", "old"), 10.0)
        leader = setup.guard.leader
        reason = await setup.refused(EpochClaim(epoch, "host-a_1", scheduler_id))
        assert reason in (RefusalReason.NOT_HOLDER, RefusalReason.STALE_EPOCH)
        assert setup.guard.leader == leader

    run(main)


def test_older_work_of_another_scheduler_is_waited_for() -> None:
    async def main(clock: Callable[[], float]) -> None:
        leadership, in_flight = Leadership(EpochGuard(), None, clock), WorkInFlight(clock)
        old = await leadership.admit(EpochClaim(1000, "", "old"), 0.0)
        with in_flight.track(old.leader, clock() + 10.0):
            new = await leadership.admit(EpochClaim(5, "", "new"), 0.0)
            assert await in_flight.until_drained(new.leader, 4.0) == pytest.approx(6.0)
        assert not old.active

    virtual_time.run(main)


@pytest.mark.parametrize(("seconds", "readings"), [(1.99, 1), (2.0, 2)])
def test_a_reading_is_trusted_until_its_time_and_no_longer(seconds: float, readings: int) -> None:
    """From then on another may hold the Lease: the call waits for the next reading."""

    async def main(setup: _Setup) -> None:
        setup.found = lease(A.holder, duration=2)
        began = setup.clock()
        await setup.leadership.admit(A, 100.0)
        await asyncio.sleep(began + seconds - setup.clock())
        setup.seconds = 1.0
        called = setup.clock()
        await setup.leadership.admit(A, 100.0)
        waited = setup.clock() - called
        assert waited == pytest.approx(0.0 if readings == 1 else 1.0)

    run(main)


@pytest.mark.parametrize(
    ("holder", "version", "other", "reason", "readings"),
    [
        pytest.param(A, None, B, RefusalReason.NOT_HOLDER, 2, id="a-reading-of-its-own"),
        pytest.param(B, 250, A, RefusalReason.STALE_EPOCH, 1, id="its-successor-was-admitted-meanwhile"),
    ],
)
def test_what_was_read_for_the_holder_admits_no_other_that_calls_meanwhile(
    holder: EpochClaim, version: int | None, other: EpochClaim, reason: RefusalReason, readings: int
) -> None:
    async def main(setup: _Setup) -> None:
        if version is not None:
            setup.found = lease(holder.holder, version=version)
        admitted = asyncio.create_task(setup.leadership.admit(holder, 10.0))
        await asyncio.sleep(0)
        assert await setup.refused(other) is reason
        assert (await admitted).active
        assert setup.readings == readings

    run(main)


def test_nothing_is_kept_of_who_has_waited_for_older_work() -> None:
    async def main(clock: Callable[[], float]) -> None:
        in_flight = WorkInFlight(clock)
        await in_flight.until_drained(Leader("", 2), 1.0)
        with in_flight.track(Leader("", 1), clock() + 1.0):
            waits = asyncio.create_task(in_flight.until_drained(Leader("", 2), 100.0))
            await asyncio.sleep(1.0)
            waits.cancel()
            await asyncio.wait((waits,))
        assert not +held_entries(in_flight)

    virtual_time.run(main)


def test_work_that_is_cancelled_at_the_end_is_awaited_for_a_moment() -> None:
    """What it undoes when it is cancelled is done, but none holds up the end for long."""

    async def main(clock: Callable[[], float]) -> None:
        ended: list[float] = []

        async def undo_in(seconds: float) -> None:
            try:
                await asyncio.sleep(1000.0)
            finally:
                await asyncio.sleep(seconds)
                ended.append(seconds)

        tasks = {asyncio.create_task(undo_in(seconds)) for seconds in (0.5, CANCEL_SECONDS + 1.0)}
        started = clock()
        await end_tasks(tasks, 3.0)
        assert (ended, clock() - started) == ([0.5], pytest.approx(3.0 + CANCEL_SECONDS))
        await asyncio.wait(tasks)

    virtual_time.run(main)


def test_what_is_learned_of_leaders_is_counted() -> None:
    async def main(setup: _Setup) -> None:
        assert setup.leadership.statistics() == LeadershipStatistics(epoch=0, readings=0, refused=0)
        setup.found = lease(B.holder, version=250)
        await setup.leadership.admit(B, 10.0)
        await setup.refused(A)
        assert setup.leadership.statistics() == LeadershipStatistics(epoch=200, readings=1, refused=1)

    run(main)


def test_a_later_call_of_the_leader_prolongs_the_right_of_its_earlier_work() -> None:
    """Work that waits for the rate limit may begin as long as its leader calls."""

    async def main(setup: _Setup) -> None:
        first = await setup.leadership.admit(A, 2.0)
        ends = first.valid_until
        await asyncio.sleep(1.0)
        await setup.leadership.admit(A, 2.0)
        assert first.valid_until == pytest.approx(ends + 1.0, abs=0.02)
        await asyncio.sleep(1.5)
        assert first.active

    run(main)


def test_work_that_was_broken_off_is_forgotten_by_what_comes_after_it() -> None:
    """Each call that a new leader does not wait for would stay listed."""

    async def main(clock: Callable[[], float]) -> None:
        in_flight = WorkInFlight(clock)
        for _ in range(5):
            with pytest.raises(ValueError, match="broken"), in_flight.track(Leader("", 1), clock() + 1.0):
                raise ValueError("broken")
        await asyncio.sleep(2.0)
        with in_flight.track(Leader("", 1), clock() + 1.0):
            assert held_entries(in_flight)["WorkInFlight._works"] == 1

    virtual_time.run(main)
