"""Leader election, turn by turn, and candidates that contend over a bad network."""

import dataclasses
import heapq
import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trireme_kube.apimachinery import timestamps
from trireme_kube.client.leaderelection import election, lease
from trireme_kube.client.leaderelection.election import (
    Create,
    Election,
    ElectionSettings,
    End,
    Leading,
    LeaseRecord,
    Lost,
    Notice,
    Observed,
    Phase,
    Read,
    Turn,
    Update,
    Wait,
)
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

ME = ElectionSettings("me")
NOT_FOUND = ApiError(404, "NotFound", "no such lease")
CONFLICT = ApiError(409, "Conflict", "changed")
AWAY = ApiUnreachable("no answer", sent=True)
WALL = 1_767_322_800_123_456_789
NOW_TEXT = timestamps.rfc3339_micros(WALL)


def _election() -> Election:
    return Election(ME, random=lambda: 0.5, wall=lambda: WALL)


def _lease(holder: str, version: int, transitions: int = 0, duration: int = 15, renewed: str = "r") -> LeaseRecord:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration,
        "acquireTime": "a",
        "renewTime": renewed,
        "leaseTransitions": transitions,
    }
    metadata = {"name": "kube-scheduler", "labels": {"kept": "yes"}, "resourceVersion": str(version)}
    return election.lease_record({"metadata": metadata, "spec": spec})


def _written(turn: Turn, version: int) -> LeaseRecord:
    """What the server answers to the write that `turn` asks for."""
    assert isinstance(turn.instruction, (Create, Update))
    body = turn.instruction.body
    return election.lease_record({**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}})


def _leader(now: float = 100.0, version: int = 7) -> Election:
    """An election that has just acquired the Lease, by a write sent at `now`."""
    machine = _election()
    machine.start(now)
    turn = machine.done(now, NOT_FOUND)
    machine.done(now + 0.1, _written(turn, version))
    assert machine.phase is Phase.LEADING
    return machine


def test_a_lease_that_does_not_exist_is_created() -> None:
    """If this fails, nobody ever leads on a new cluster, or the Lease is not as kube-scheduler writes it."""
    machine = _election()
    assert machine.start(100.0) == Turn(Read(5.0))
    turn = machine.done(100.0, NOT_FOUND)
    assert turn.instruction == Create(
        {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
            "spec": {
                "holderIdentity": "me",
                "leaseDurationSeconds": 15,
                "acquireTime": NOW_TEXT,
                "renewTime": NOW_TEXT,
                "leaseTransitions": 0,
            },
        },
        5.0,
    )
    written = _written(turn, 7)
    turn = machine.done(101.0, written)
    assert turn == Turn(
        Wait(2.0), (Observed("me"), Leading(7, 115.0, written, renewal=False, predecessor_seconds=15.0))
    )


def test_a_lease_that_is_held_is_waited_for_with_jitter() -> None:
    """If this fails, two schedulers lead at once, or all followers ask at the same moment."""
    machine = _election()
    machine.start(100.0)
    assert machine.done(100.0, _lease("other", 5)) == Turn(Wait(2.0 * 1.6), (Observed("other"),))
    assert machine.done(103.2, None) == Turn(Read(5.0))
    assert machine.done(114.9, _lease("other", 6)) == Turn(Wait(2.0 * 1.6))


def test_a_lease_that_did_not_change_for_its_duration_is_taken_over() -> None:
    """If this fails, nobody follows a leader that died, or a new leader follows one that lives."""
    machine = _election()
    machine.start(100.0)
    machine.done(100.0, _lease("other", 5, transitions=3))
    machine.done(103.2, None)
    machine.done(110.0, _lease("other", 6, transitions=3, renewed="r2"))  # a sign of life: the time starts again
    machine.done(113.2, None)
    assert isinstance(machine.done(124.9, _lease("other", 6, transitions=3, renewed="r2")).instruction, Wait)
    machine.done(125.0, None)
    turn = machine.done(125.0, _lease("other", 6, transitions=3, renewed="r2"))
    assert isinstance(turn.instruction, Update)
    body = turn.instruction.body
    assert body["metadata"] == {"name": "kube-scheduler", "labels": {"kept": "yes"}, "resourceVersion": "6"}
    assert body["spec"]["holderIdentity"] == "me"
    assert body["spec"]["leaseTransitions"] == 4
    assert body["spec"]["acquireTime"] == NOW_TEXT


@pytest.mark.parametrize("holder", ["", None])
def test_a_released_lease_is_acquired_at_once(holder: str | None) -> None:
    """If this fails, a rolling update of the scheduler leaves the cluster without one for the lease duration."""
    machine = _election()
    machine.start(100.0)
    raw: dict[str, Any] = {
        "metadata": {"resourceVersion": "5"},
        "spec": {"holderIdentity": holder, "leaseTransitions": 2},
    }
    turn = machine.done(100.0, election.lease_record(raw))
    assert isinstance(turn.instruction, Update)
    assert turn.instruction.body["spec"]["leaseTransitions"] == 3


PREDECESSORS = [
    pytest.param([NOT_FOUND], 15.0, id="no-lease"),
    pytest.param([_lease("", 5, duration=1)], 15.0, id="released-before-it-was-seen"),
    pytest.param([_lease("other", 5, duration=40), _lease("", 6, duration=1)], 40.0, id="released"),
    pytest.param([_lease("other", 5, duration=40), NOT_FOUND], 40.0, id="deleted"),
    pytest.param([_lease("other", 5, duration=40), _lease("third", 6, duration=20), NOT_FOUND], 20.0, id="two-leaders"),
]


@pytest.mark.parametrize(("found", "seconds"), PREDECESSORS)
def test_a_new_leader_knows_how_long_its_predecessor_may_be_believed(found: list[Any], seconds: float) -> None:
    machine = _election()
    turn = machine.start(100.0)
    for outcome in found:
        turn = machine.done(101.0, outcome)
        if isinstance(turn.instruction, Wait):
            machine.done(103.0, None)
    (leading,) = (each for each in machine.done(104.0, _written(turn, 9)).notices if isinstance(each, Leading))
    assert leading.predecessor_seconds == seconds


def test_losing_the_race_for_a_free_lease_means_waiting() -> None:
    """If this fails, a candidate whose write was refused believes that it leads."""
    machine = _election()
    machine.start(100.0)
    machine.done(100.0, _lease("", 5))
    assert machine.done(100.1, CONFLICT) == Turn(Wait(2.0 * 1.6))
    assert machine.phase is Phase.ACQUIRING


def test_the_leader_renews_without_reading_and_keeps_its_epoch() -> None:
    """If this fails, renewing costs two requests, or the epoch changes within a term."""
    machine = _leader(100.0, version=7)
    turn = machine.done(102.0, None)
    assert isinstance(turn.instruction, Update)
    assert turn.instruction.body["metadata"]["resourceVersion"] == "7"
    assert turn.instruction.body["spec"]["acquireTime"] == NOW_TEXT
    turn = machine.done(103.5, _written(turn, 9))
    (notice,) = turn.notices
    assert isinstance(notice, Leading)
    assert (notice.epoch, notice.valid_until, notice.renewal) == (7, 117.0, True)


def test_a_renewal_that_fails_is_read_back_and_tried_again() -> None:
    """If this fails, a leader whose own write was carried out unnoticed loses the Lease to the conflict with itself."""
    machine = _leader(100.0)
    machine.done(102.0, None)
    assert machine.done(103.0, AWAY) == Turn(Read(5.0))
    turn = machine.done(103.0, dataclasses.replace(_lease("me", 8), renew_time="mine"))
    assert isinstance(turn.instruction, Update)
    assert isinstance(machine.done(103.1, _written(turn, 9)).notices[0], Leading)


def test_a_leader_that_cannot_renew_gives_up_in_time_and_gives_back() -> None:
    """If this fails, a leader that is cut off goes on while another one takes over."""
    machine, now, turn = _leader(100.0), 102.0, Turn(Wait(2.0))
    while not any(isinstance(notice, Lost) for notice in turn.notices):
        turn = machine.done(now, None if isinstance(turn.instruction, Wait) else AWAY)
        now += turn.instruction.seconds if isinstance(turn.instruction, Wait) else 0.5
        assert now < 120
    assert turn == Turn(Read(5.0), (Lost("the lease could not be renewed in time"),))
    assert now == pytest.approx(112.5)
    turn = machine.done(now, _lease("me", 8))
    assert isinstance(turn.instruction, Update)
    assert turn.instruction.body["spec"]["holderIdentity"] == ""


def test_leadership_never_outlives_its_validity() -> None:
    """If this fails, a slow renewal lets the term run on after another candidate may have begun one."""
    machine = _leader(100.0)
    machine.done(114.0, None)  # the thread was held up for 14 seconds
    turn = machine.done(114.5, AWAY)
    turn = machine.done(114.8, AWAY)
    assert isinstance(turn.instruction, Wait)
    assert turn.instruction.seconds == pytest.approx(0.2)
    assert machine.done(115.0, None).notices == (Lost("the lease could not be renewed in time"),)


@pytest.mark.parametrize("holder", ["other", ""])
def test_a_leader_that_reads_another_name_has_lost_at_once(holder: str) -> None:
    """If this fails, a deposed leader goes on until its renew deadline."""
    machine = _leader(100.0)
    machine.done(102.0, None)
    machine.done(102.1, CONFLICT)
    turn = machine.done(102.2, _lease(holder, 9))
    assert isinstance(turn.instruction, End)
    assert turn.notices == (Observed(holder), Lost(f"the lease is held by {holder or 'nobody'}"))


def test_stopping_gives_the_lease_back_through_conflicts() -> None:
    """If this fails, the next leader has to wait for the lease to run out."""
    machine = _leader(100.0)
    assert machine.stop(101.0) == Turn(Read(5.0), (Lost("asked to stop", requested=True),))
    assert isinstance(machine.done(101.1, _lease("me", 8, transitions=4)).instruction, Update)
    assert isinstance(machine.done(101.2, CONFLICT).instruction, Read)
    turn = machine.done(101.3, _lease("me", 9, transitions=4))
    assert isinstance(turn.instruction, Update)
    assert turn.instruction.body["spec"] == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": NOW_TEXT,
        "renewTime": NOW_TEXT,
        "leaseTransitions": 4,
    }
    assert machine.done(101.4, _lease("", 10)) == Turn(End())


def test_stopping_does_not_release_the_lease_of_another() -> None:
    """If this fails, a scheduler that ends frees the Lease of the one that leads."""
    machine = _leader(100.0)
    machine.stop(101.0)
    assert machine.done(101.1, _lease("other", 8)) == Turn(End())


def test_stopping_while_following_ends_at_once_unless_a_write_is_under_way() -> None:
    """If this fails, a follower's end takes seconds, or a Lease acquired in the last moment stays taken."""
    machine = _election()
    machine.start(100.0)
    assert machine.stop(100.1) == Turn(End())
    machine = _election()
    machine.start(100.0)
    machine.done(100.0, NOT_FOUND)
    assert machine.stop(100.1) == Turn(Read(5.0))
    assert isinstance(machine.done(100.2, _lease("me", 5)).instruction, Update)


@pytest.mark.parametrize(
    ("claim", "record", "verdict"),
    [
        pytest.param(lease.EpochClaim(7, "me"), _lease("me", 7), lease.ClaimVerdict.IN_FORCE, id="just-acquired"),
        pytest.param(lease.EpochClaim(7, "me"), _lease("me", 90), lease.ClaimVerdict.IN_FORCE, id="renewed-since"),
        pytest.param(lease.EpochClaim(7, "me"), _lease("other", 90), lease.ClaimVerdict.DEPOSED, id="deposed"),
        pytest.param(lease.EpochClaim(7, "me"), _lease("", 90), lease.ClaimVerdict.VACANT, id="given-back"),
        pytest.param(lease.EpochClaim(7, ""), _lease("", 90), lease.ClaimVerdict.VACANT, id="nobody-claims"),
        pytest.param(lease.EpochClaim(7, "me"), None, lease.ClaimVerdict.VACANT, id="deleted"),
        pytest.param(lease.EpochClaim(91, "me"), _lease("me", 90), lease.ClaimVerdict.IMPOSSIBLE, id="from-the-future"),
        pytest.param(lease.EpochClaim(0, "me"), _lease("me", 90), lease.ClaimVerdict.IMPOSSIBLE, id="no-epoch"),
    ],
)
def test_bind_believes_an_epoch_only_if_the_lease_agrees(
    claim: lease.EpochClaim, record: LeaseRecord | None, verdict: lease.ClaimVerdict
) -> None:
    """If this fails, bind works for a leader that was deposed."""
    assert lease.check_claim(claim, record) is verdict


class _World:
    """A Lease behind a network that delays, loses and reorders; candidates that live and die."""

    def __init__(self, rng: random.Random, candidates: int) -> None:
        self.rng = rng
        self.now = 0.0
        self.version = 100
        self.stored: dict[str, Any] | None = None
        self.order = itertools.count()
        self.agenda: list[tuple[float, int, str, int, Any]] = []
        self.machines = [
            Election(ElectionSettings(f"c{number}", retry_period=0.3), rng.random, lambda: int(self.now * 1e9))
            for number in range(candidates)
        ]
        self.step = [0] * candidates  # outcomes of earlier instructions are stale
        self.valid_until = [0.0] * candidates
        self.epochs: list[int] = []
        for number, machine in enumerate(self.machines):
            self.carry_out(number, machine.start(self.now))

    def at(self, delay: float, what: str, number: int, value: Any) -> None:
        heapq.heappush(self.agenda, (self.now + delay, next(self.order), what, number, value))

    def carry_out(self, number: int, turn: Turn) -> None:
        for notice in turn.notices:
            self.take(number, notice)
        self.step[number] += 1
        instruction, step = turn.instruction, self.step[number]
        if isinstance(instruction, End):
            return
        if isinstance(instruction, Wait):
            late = self.rng.choice(
                [0.0, 0.0, 0.0, self.rng.uniform(0, 5), self.rng.uniform(12, 20)]
            )  # a process may be stopped for a while
            self.at(instruction.seconds + late, "outcome", number, (step, None))
            return
        self.at(self.rng.choice([0.01, 0.01, 0.01, self.rng.uniform(0, 8)]), "serve", number, (step, instruction))
        self.at(instruction.deadline, "outcome", number, (step, AWAY))

    def take(self, number: int, notice: Notice) -> None:
        if isinstance(notice, Leading):
            self.valid_until[number] = notice.valid_until
            if not notice.renewal:
                self.epochs.append(notice.epoch)
        elif isinstance(notice, Lost):
            self.valid_until[number] = 0.0
        leaders = [other for other, until in enumerate(self.valid_until) if until > self.now]
        assert len(leaders) <= 1, f"at {self.now} {leaders} all lead"

    def serve(self, instruction: Any) -> Any:
        if isinstance(instruction, Read):
            return election.lease_record(self.stored) if self.stored else NOT_FOUND
        if isinstance(instruction, Create):
            if self.stored:
                return ApiError(409, "AlreadyExists", "exists")
        elif (
            not self.stored
            or self.stored["metadata"]["resourceVersion"] != instruction.body["metadata"]["resourceVersion"]
        ):
            return CONFLICT
        self.version += self.rng.randint(1, 5)
        metadata = {**instruction.body["metadata"], "resourceVersion": str(self.version)}
        self.stored = {**instruction.body, "metadata": metadata}
        return election.lease_record(self.stored)

    def run(self, until: float) -> None:
        while self.agenda and self.now < until:
            self.now, _, what, number, (step, value) = heapq.heappop(self.agenda)
            if what == "serve":
                if self.rng.random() < 0.1:
                    continue  # the request is lost
                answer = self.serve(value)
                if self.rng.random() > 0.1:  # else the answer is lost
                    self.at(self.rng.choice([0.01, 0.01, self.rng.uniform(0, 4)]), "outcome", number, (step, answer))
            elif step == self.step[number]:
                machine = self.machines[number]
                leading = machine.phase is Phase.LEADING
                turn = machine.stop(self.now) if leading and self.rng.random() < 0.03 else machine.done(self.now, value)
                self.carry_out(number, turn)


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(2, 5))
def test_at_most_one_leads_and_epochs_only_grow(seed: int, candidates: int) -> None:
    """If this fails, some order of delays, losses and stops lets two schedulers lead at once."""
    world = _World(random.Random(seed), candidates)
    world.run(until=600.0)
    assert world.epochs == sorted(set(world.epochs))
    assert world.epochs, "somebody must have led"


# Where the API server chooses the holder.

CHOSEN = ElectionSettings("me", coordinated=True)


def _chosen(version: int = 7, holder: str = "me", **spec: Any) -> LeaseRecord:
    """The Lease as the API server's controller writes it."""
    raw = dict(_lease(holder, version, duration=5).raw)
    return election.lease_record({**raw, "spec": {**raw["spec"], "strategy": "OldestEmulationVersion", **spec}})


def _candidate() -> Election:
    machine = Election(CHOSEN, random=lambda: 0.5, wall=lambda: WALL)
    assert isinstance(machine.start(100.0).instruction, Read)
    return machine


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(NOT_FOUND, id="no-lease"),
        pytest.param(_chosen(holder="other"), id="held-by-another"),
        pytest.param(_chosen(holder=""), id="held-by-nobody"),
        pytest.param(_chosen(preferredHolder="other"), id="another-is-preferred"),
    ],
)
def test_a_candidate_never_takes_the_lease_itself(seen: LeaseRecord | ApiError) -> None:
    turn = _candidate().done(100.1, seen)
    assert isinstance(turn.instruction, Wait)
    assert not any(isinstance(notice, Leading) for notice in turn.notices)


def test_the_chosen_candidate_leads_once_it_has_renewed_and_keeps_the_strategy() -> None:
    machine = _candidate()
    turn = machine.done(100.1, _chosen(version=7))
    assert isinstance(turn.instruction, Update)
    assert turn.instruction.body["spec"]["strategy"] == "OldestEmulationVersion"
    assert turn.instruction.body["spec"]["leaseTransitions"] == 0
    turn = machine.done(100.2, _written(turn, 9))
    leading = next(notice for notice in turn.notices if isinstance(notice, Leading))
    assert (leading.epoch, leading.renewal) == (9, False)
    assert isinstance(machine.done(102.2, None).instruction, Read), "it reads before each renewal"


@pytest.mark.parametrize("way", ["expired", "preferred"])
def test_a_leader_whose_term_ends_does_not_renew(way: str) -> None:
    machine = _candidate()
    turn = machine.done(100.1, _chosen(version=7))
    kept = _written(turn, 9)
    machine.done(100.2, kept)
    now, seen = 102.2, kept
    lost: list[Notice] = []
    if way == "preferred":
        spec = {**kept.raw["spec"], "preferredHolder": "other"}
        seen = election.lease_record({**kept.raw, "spec": spec})
    else:
        now = 200.0
    turn = machine.done(now, None)
    for _ in range(20):
        assert not isinstance(turn.instruction, Update) or machine.phase is Phase.RELEASING
        lost += [notice for notice in turn.notices if isinstance(notice, Lost)]
        if isinstance(turn.instruction, End):
            break
        now += turn.instruction.seconds if isinstance(turn.instruction, Wait) else 0.1
        turn = machine.done(
            now,
            seen if isinstance(turn.instruction, Read) else CONFLICT if isinstance(turn.instruction, Update) else None,
        )
    assert lost


@pytest.mark.parametrize("error", [ApiError(500, "InternalError", "odd"), ApiError(403, "Forbidden", "no"), AWAY])
def test_a_lease_that_cannot_be_read_is_not_created(error: ApiError | ApiUnreachable) -> None:
    """It may exist, and be held by a leader that lives."""
    machine = _election()
    machine.start(100.0)
    assert machine.done(100.1, error) == Turn(Wait(2.0 * 1.6))
    assert machine.done(103.3, None) == Turn(Read(5.0))


def test_a_write_that_was_read_before_and_fails_is_tried_again_after_a_while() -> None:
    """Only a renewal that was not read before is read back at once."""
    machine = _leader(100.0)
    assert not machine.is_optimistic
    machine.done(102.0, None)
    assert machine.is_optimistic
    machine.done(102.1, CONFLICT)
    assert not machine.is_optimistic
    turn = machine.done(102.2, _lease("me", 8))
    assert isinstance(turn.instruction, Update)
    assert not machine.is_optimistic
    assert machine.done(102.3, CONFLICT) == Turn(Wait(2.0))
    turn = machine.done(104.3, None)
    assert isinstance(turn.instruction, Update)
    assert machine.is_optimistic
    machine.done(104.4, _written(turn, 12))
    assert not machine.is_optimistic
    machine = _election()
    machine.start(100.0)
    machine.done(100.0, NOT_FOUND)
    assert machine.done(100.1, CONFLICT) == Turn(Wait(2.0 * 1.6))


def test_a_candidate_takes_up_its_own_lease_at_once() -> None:
    """A scheduler that was restarted under its name need not wait for itself."""
    machine = _election()
    machine.start(100.0)
    turn = machine.done(100.0, _lease("me", 5, transitions=3))
    assert isinstance(turn.instruction, Update)
    spec = turn.instruction.body["spec"]
    assert (spec["leaseTransitions"], spec["acquireTime"], spec["renewTime"]) == (3, "a", NOW_TEXT)


def test_stopping_again_goes_on_releasing_until_the_same_time() -> None:
    machine = _leader(100.0)
    machine.stop(101.0)
    assert isinstance(machine.done(101.1, _lease("me", 8)).instruction, Update)
    assert machine.stop(105.0) == Turn(Read(5.0))
    assert isinstance(machine.done(105.1, _lease("me", 8)).instruction, Update)
    assert machine.stop(108.0) == Turn(Read(3.0)), "what is left of the time to release it"
    assert machine.done(111.0, _lease("me", 8)) == Turn(End())
    assert machine.phase is Phase.ENDED


@pytest.mark.parametrize("failure", [ApiError(500, "InternalError", "odd"), AWAY, NOT_FOUND])
def test_a_release_that_fails_otherwise_than_by_a_conflict_is_over(failure: ApiError | ApiUnreachable) -> None:
    """The Lease runs out by itself, and a process that ends does not hang."""
    machine = _leader(100.0)
    machine.stop(101.0)
    assert machine.done(101.1, failure) == Turn(End())
    machine = _leader(100.0)
    machine.stop(101.0)
    machine.done(101.1, _lease("me", 8))
    assert machine.done(101.2, failure) == Turn(End())
    assert machine.phase is Phase.ENDED


def test_an_election_that_ends_is_over() -> None:
    machine = _election()
    machine.start(100.0)
    assert machine.phase is Phase.ACQUIRING
    assert machine.stop(100.1) == Turn(End())
    assert machine.phase is Phase.ENDED
    lost = _leader(100.0)
    lost.done(102.0, None)
    lost.done(102.1, CONFLICT)
    lost.done(102.2, _lease("other", 9))
    assert lost.phase is Phase.ENDED
    assert lost.stop(102.3) == Turn(End())


def test_the_time_to_renew_begins_anew_with_each_renewal() -> None:
    """A leader whose renewals all succeed would give up after a while."""
    machine = _leader(100.0)
    now, turn = 102.0, machine.done(102.0, None)
    for version in range(8, 40):
        turn = machine.done(now + 0.1, _written(turn, version))
        assert turn.instruction == Wait(2.0)
        now += 2.1
        turn = machine.done(now, None)
        assert isinstance(turn.instruction, Update)
        assert turn.instruction.deadline == pytest.approx(5.0)


@pytest.mark.parametrize(("now", "continues"), [(105.1, True), (105.2, False)])
def test_the_chosen_candidate_continues_until_its_lease_has_run_out(now: float, continues: bool) -> None:
    """It has not changed since it was seen first, at 100.1."""
    machine = _candidate()
    machine.done(100.1, _chosen(holder="other"))
    machine.done(102.0, None)
    machine = _candidate()
    seen = _chosen(version=7)
    machine.done(100.1, seen)
    machine.done(100.2, CONFLICT)
    machine.done(103.0, None)
    assert isinstance(machine.done(now, seen).instruction, Update) is continues


@pytest.mark.parametrize("what", ["none", "other", "preferred"])
def test_a_leader_of_a_coordinated_lease_reads_before_each_renewal(what: str) -> None:
    machine = _candidate()
    turn = machine.done(100.1, _chosen(version=7))
    kept = _written(turn, 9)
    machine.done(100.2, kept)
    assert isinstance(machine.done(102.2, None).instruction, Read)
    changes = {"none": {}, "other": {"holderIdentity": "other"}, "preferred": {"preferredHolder": "other"}}[what]
    seen = election.lease_record({**kept.raw, "spec": {**kept.raw["spec"], **changes}})
    turn = machine.done(102.3, seen)
    wanted = {"none": Update, "other": End, "preferred": Wait}[what]
    assert isinstance(turn.instruction, wanted)


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"metadata": None, "spec": None},
        {"metadata": {"resourceVersion": "x"}, "spec": {"leaseDurationSeconds": "15", "leaseTransitions": True}},
        {"metadata": {"resourceVersion": 7}, "spec": {"holderIdentity": None, "acquireTime": None}},
    ],
)
def test_a_lease_that_cannot_be_understood_is_free(raw: dict[str, Any]) -> None:
    """Nobody would ever lead otherwise."""
    record = election.lease_record(raw)
    assert (record.holder, record.duration_seconds, record.acquire_time, record.renew_time) == ("", 0, "", "")
    assert (record.transitions, record.version, record.preferred_holder, record.strategy) == (0, 0, "", "")
    machine = _election()
    machine.start(100.0)
    assert isinstance(machine.done(100.1, record).instruction, Update)


def test_a_lease_is_read_with_all_its_fields() -> None:
    record = election.lease_record(
        {
            "metadata": {"resourceVersion": "7"},
            "spec": {
                "holderIdentity": "a",
                "leaseDurationSeconds": 9,
                "acquireTime": "t0",
                "renewTime": "t1",
                "leaseTransitions": 2,
                "preferredHolder": "b",
                "strategy": "Oldest",
            },
        }
    )
    assert (record.holder, record.duration_seconds, record.acquire_time, record.renew_time) == ("a", 9, "t0", "t1")
    assert (record.transitions, record.version, record.preferred_holder, record.strategy) == (2, 7, "b", "Oldest")


@pytest.mark.parametrize(
    "field",
    ["holder", "duration_seconds", "acquire_time", "renew_time", "transitions", "preferred_holder", "strategy"],
)
def test_each_field_that_a_holder_writes_is_a_sign_of_life(field: str) -> None:
    before = _lease("other", 5)
    value: Any = getattr(before, field)
    changed = dataclasses.replace(before, **{field: value + 1 if isinstance(value, int) else f"{value}x"})
    assert not before.same_terms(changed)
    assert before.same_terms(dataclasses.replace(before, version=9, raw={}))


@pytest.mark.parametrize("strategy", ["", "OldestEmulationVersion"])
def test_a_lease_that_is_not_coordinated_has_no_strategy_of_ours(strategy: str) -> None:
    machine = _election()
    machine.start(100.0)
    turn = machine.done(100.0, dataclasses.replace(_lease("me", 5), strategy=strategy))
    assert isinstance(turn.instruction, Update)
    assert "strategy" not in turn.instruction.body["spec"]
