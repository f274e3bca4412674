"""Leader election, turn by turn."""

import dataclasses
from typing import Any

import pytest

from tests.helpers.elections import AWAY, CONFLICT, NOT_FOUND, NOW_TEXT, answer_to, leader, lease_of, new_election
from trireme_kube.client.leaderelection import election
from trireme_kube.client.leaderelection.election import (
    Create,
    End,
    Leading,
    Lost,
    Observed,
    Phase,
    Read,
    Turn,
    Update,
    Wait,
)
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable


def test_a_lease_that_does_not_exist_is_created() -> None:
    """If this fails, nobody ever leads on a new cluster, or the Lease is not as kube-scheduler writes it."""
    machine = new_election()
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
    written = answer_to(turn, 7)
    turn = machine.done(101.0, written)
    assert turn == Turn(
        Wait(2.0), (Observed("me"), Leading(7, 115.0, written, renewal=False, predecessor_seconds=15.0))
    )


def test_a_lease_that_is_held_is_waited_for_with_jitter() -> None:
    """If this fails, two schedulers lead at once, or all followers ask at the same moment."""
    machine = new_election()
    machine.start(100.0)
    assert machine.done(100.0, lease_of("other", 5)) == Turn(Wait(2.0 * 1.6), (Observed("other"),))
    assert machine.done(103.2, None) == Turn(Read(5.0))
    assert machine.done(114.9, lease_of("other", 6)) == Turn(Wait(2.0 * 1.6))


def test_a_lease_that_did_not_change_for_its_duration_is_taken_over() -> None:
    """If this fails, nobody follows a leader that died, or a new leader follows one that lives."""
    machine = new_election()
    machine.start(100.0)
    machine.done(100.0, lease_of("other", 5, transitions=3))
    machine.done(103.2, None)
    machine.done(110.0, lease_of("other", 6, transitions=3, renewed="r2"))  # a sign of life: the time starts again
    machine.done(113.2, None)
    assert isinstance(machine.done(124.9, lease_of("other", 6, transitions=3, renewed="r2")).instruction, Wait)
    machine.done(125.0, None)
    turn = machine.done(125.0, lease_of("other", 6, transitions=3, renewed="r2"))
    assert isinstance(turn.instruction, Update)
    body = turn.instruction.body
    assert body["metadata"] == {"name": "kube-scheduler", "labels": {"kept": "yes"}, "resourceVersion": "6"}
    assert body["spec"]["holderIdentity"] == "me"
    assert body["spec"]["leaseTransitions"] == 4
    assert body["spec"]["acquireTime"] == NOW_TEXT


@pytest.mark.parametrize("holder", ["", None])
def test_a_released_lease_is_acquired_at_once(holder: str | None) -> None:
    """If this fails, a rolling update of the scheduler leaves the cluster without one for the lease duration."""
    machine = new_election()
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
    pytest.param([lease_of("", 5, duration=1)], 15.0, id="released-before-it-was-seen"),
    pytest.param([lease_of("other", 5, duration=40), lease_of("", 6, duration=1)], 40.0, id="released"),
    pytest.param([lease_of("other", 5, duration=40), NOT_FOUND], 40.0, id="deleted"),
    pytest.param(
        [lease_of("other", 5, duration=40), lease_of("third", 6, duration=20), NOT_FOUND], 20.0, id="two-leaders"
    ),
]


@pytest.mark.parametrize(("found", "seconds"), PREDECESSORS)
def test_a_new_leader_knows_how_long_its_predecessor_may_be_believed(found: list[Any], seconds: float) -> None:
    machine = new_election()
    turn = machine.start(100.0)
    for outcome in found:
        turn = machine.done(101.0, outcome)
        if isinstance(turn.instruction, Wait):
            machine.done(103.0, None)
    (leading,) = (each for each in machine.done(104.0, answer_to(turn, 9)).notices if isinstance(each, Leading))
    assert leading.predecessor_seconds == seconds


@pytest.mark.parametrize(("now", "duration", "taken"), [(114.9, 15, False), (115.0, 15, True), (120.0, 40, False)])
def test_a_lease_runs_out_after_its_holders_duration_whatever_else_is_written_to_it(
    now: float, duration: int, taken: bool
) -> None:
    """Labels are no sign of life, and the holder may keep to another duration than ours."""
    machine = new_election()
    machine.start(100.0)
    machine.done(100.0, lease_of("other", 5, duration=duration))
    machine.done(110.0, None)
    machine.done(110.0, lease_of("other", 6, duration=duration))  # somebody labelled it
    machine.done(now, None)
    assert isinstance(machine.done(now, lease_of("other", 6, duration=duration)).instruction, Update) is taken


def test_losing_the_race_for_a_free_lease_means_waiting() -> None:
    """If this fails, a candidate whose write was refused believes that it leads."""
    machine = new_election()
    machine.start(100.0)
    machine.done(100.0, lease_of("", 5))
    assert machine.done(100.1, CONFLICT) == Turn(Wait(2.0 * 1.6))
    assert machine.phase is Phase.ACQUIRING


def test_the_leader_renews_without_reading_and_keeps_its_epoch() -> None:
    """If this fails, renewing costs two requests, or the epoch changes within a term."""
    machine = leader(100.0, version=7)
    turn = machine.done(102.0, None)
    assert isinstance(turn.instruction, Update)
    assert turn.instruction.body["metadata"]["resourceVersion"] == "7"
    assert turn.instruction.body["spec"]["acquireTime"] == NOW_TEXT
    turn = machine.done(103.5, answer_to(turn, 9))
    (notice,) = turn.notices
    assert isinstance(notice, Leading)
    assert (notice.epoch, notice.valid_until, notice.renewal) == (7, 117.0, True)


def test_a_renewal_that_fails_is_read_back_and_tried_again() -> None:
    """If this fails, a leader whose own write was carried out unnoticed loses the Lease to the conflict with itself."""
    machine = leader(100.0)
    machine.done(102.0, None)
    assert machine.done(103.0, AWAY) == Turn(Read(5.0))
    turn = machine.done(103.0, dataclasses.replace(lease_of("me", 8), renew_time="mine"))
    assert isinstance(turn.instruction, Update)
    assert isinstance(machine.done(103.1, answer_to(turn, 9)).notices[0], Leading)


def test_a_leader_that_cannot_renew_gives_up_in_time_and_gives_back() -> None:
    """If this fails, a leader that is cut off goes on while another one takes over."""
    machine, now, turn = leader(100.0), 102.0, Turn(Wait(2.0))
    while not any(isinstance(notice, Lost) for notice in turn.notices):
        turn = machine.done(now, None if isinstance(turn.instruction, Wait) else AWAY)
        now += turn.instruction.seconds if isinstance(turn.instruction, Wait) else 0.5
        assert now < 120
    assert turn == Turn(Read(5.0), (Lost("the lease could not be renewed in time"),))
    assert now == pytest.approx(112.5)
    turn = machine.done(now, lease_of("me", 8))
    assert isinstance(turn.instruction, Update)
    assert turn.instruction.body["spec"]["holderIdentity"] == ""


def test_leadership_never_outlives_its_validity() -> None:
    """If this fails, a slow renewal lets the term run on after another candidate may have begun one."""
    machine = leader(100.0)
    machine.done(114.0, None)  # the thread was held up for 14 seconds
    turn = machine.done(114.5, AWAY)
    turn = machine.done(114.8, AWAY)
    assert isinstance(turn.instruction, Wait)
    assert turn.instruction.seconds == pytest.approx(0.2)
    assert machine.done(115.0, None).notices == (Lost("the lease could not be renewed in time"),)


@pytest.mark.parametrize("holder", ["other", ""])
def test_a_leader_that_reads_another_name_has_lost_at_once(holder: str) -> None:
    """If this fails, a deposed leader goes on until its renew deadline."""
    machine = leader(100.0)
    machine.done(102.0, None)
    machine.done(102.1, CONFLICT)
    turn = machine.done(102.2, lease_of(holder, 9))
    assert isinstance(turn.instruction, End)
    assert turn.notices == (Observed(holder), Lost(f"the lease is held by {holder or 'nobody'}"))


def test_stopping_gives_the_lease_back_through_conflicts() -> None:
    """If this fails, the next leader has to wait for the lease to run out."""
    machine = leader(100.0)
    assert machine.stop(101.0) == Turn(Read(5.0), (Lost("asked to stop", requested=True),))
    assert isinstance(machine.done(101.1, lease_of("me", 8, transitions=4)).instruction, Update)
    assert isinstance(machine.done(101.2, CONFLICT).instruction, Read)
    turn = machine.done(101.3, lease_of("me", 9, transitions=4))
    assert isinstance(turn.instruction, Update)
    assert turn.instruction.body["spec"] == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": NOW_TEXT,
        "renewTime": NOW_TEXT,
        "leaseTransitions": 4,
    }
    assert machine.done(101.4, lease_of("", 10)) == Turn(End())


def test_stopping_does_not_release_the_lease_of_another() -> None:
    """If this fails, a scheduler that ends frees the Lease of the one that leads."""
    machine = leader(100.0)
    machine.stop(101.0)
    assert machine.done(101.1, lease_of("other", 8)) == Turn(End())


def test_stopping_while_following_ends_at_once_unless_a_write_is_under_way() -> None:
    """If this fails, a follower's end takes seconds, or a Lease acquired in the last moment stays taken."""
    machine = new_election()
    machine.start(100.0)
    assert machine.stop(100.1) == Turn(End())
    machine = new_election()
    machine.start(100.0)
    machine.done(100.0, NOT_FOUND)
    assert machine.stop(100.1) == Turn(Read(5.0))
    assert isinstance(machine.done(100.2, lease_of("me", 5)).instruction, Update)


@pytest.mark.parametrize("error", [ApiError(500, "InternalError", "odd"), ApiError(403, "Forbidden", "no"), AWAY])
def test_a_lease_that_cannot_be_read_is_not_created(error: ApiError | ApiUnreachable) -> None:
    """It may exist, and be held by a leader that lives."""
    machine = new_election()
    machine.start(100.0)
    assert machine.done(100.1, error) == Turn(Wait(2.0 * 1.6))
    assert machine.done(103.3, None) == Turn(Read(5.0))


def test_a_write_that_was_read_before_and_fails_is_tried_again_after_a_while() -> None:
    """Only a renewal that was not read before is read back at once."""
    machine = leader(100.0)
    assert not machine.is_optimistic
    machine.done(102.0, None)
    assert machine.is_optimistic
    machine.done(102.1, CONFLICT)
    assert not machine.is_optimistic
    turn = machine.done(102.2, lease_of("me", 8))
    assert isinstance(turn.instruction, Update)
    assert not machine.is_optimistic
    assert machine.done(102.3, CONFLICT) == Turn(Wait(2.0))
    turn = machine.done(104.3, None)
    assert isinstance(turn.instruction, Update)
    assert machine.is_optimistic
    machine.done(104.4, answer_to(turn, 12))
    assert not machine.is_optimistic
    machine = new_election()
    machine.start(100.0)
    machine.done(100.0, NOT_FOUND)
    assert machine.done(100.1, CONFLICT) == Turn(Wait(2.0 * 1.6))


def test_a_lease_that_is_deleted_before_it_is_taken_over_is_read_again_after_a_while() -> None:
    """Only a read says that there is none: another candidate may have created it since."""
    machine = new_election()
    machine.start(100.0)
    machine.done(100.0, lease_of("", 5))
    assert machine.done(100.1, NOT_FOUND) == Turn(Wait(2.0 * 1.6))


def test_a_candidate_takes_up_its_own_lease_at_once() -> None:
    """A scheduler that was restarted under its name need not wait for itself."""
    machine = new_election()
    machine.start(100.0)
    turn = machine.done(100.0, lease_of("me", 5, transitions=3))
    assert isinstance(turn.instruction, Update)
    spec = turn.instruction.body["spec"]
    assert (spec["leaseTransitions"], spec["acquireTime"], spec["renewTime"]) == (3, "a", NOW_TEXT)


def test_stopping_again_goes_on_releasing_until_the_same_time() -> None:
    machine = leader(100.0)
    machine.stop(101.0)
    assert isinstance(machine.done(101.1, lease_of("me", 8)).instruction, Update)
    assert machine.stop(105.0) == Turn(Read(5.0))
    assert isinstance(machine.done(105.1, lease_of("me", 8)).instruction, Update)
    assert machine.stop(108.0) == Turn(Read(3.0)), "what is left of the time to release it"
    assert machine.done(111.0, lease_of("me", 8)) == Turn(End())
    assert machine.phase is Phase.ENDED


@pytest.mark.parametrize("failure", [ApiError(500, "InternalError", "odd"), AWAY, NOT_FOUND])
def test_a_release_that_fails_otherwise_than_by_a_conflict_is_over(failure: ApiError | ApiUnreachable) -> None:
    """The Lease runs out by itself, and a process that ends does not hang."""
    machine = leader(100.0)
    machine.stop(101.0)
    assert machine.done(101.1, failure) == Turn(End())
    machine = leader(100.0)
    machine.stop(101.0)
    machine.done(101.1, lease_of("me", 8))
    assert machine.done(101.2, failure) == Turn(End())
    assert machine.phase is Phase.ENDED


def test_an_election_that_ends_is_over() -> None:
    machine = new_election()
    machine.start(100.0)
    assert machine.phase is Phase.ACQUIRING
    assert machine.stop(100.1) == Turn(End())
    assert machine.phase is Phase.ENDED
    lost = leader(100.0)
    lost.done(102.0, None)
    lost.done(102.1, CONFLICT)
    lost.done(102.2, lease_of("other", 9))
    assert lost.phase is Phase.ENDED
    assert lost.stop(102.3) == Turn(End())


def test_the_time_to_renew_begins_anew_with_each_renewal() -> None:
    """A leader whose renewals all succeed would give up after a while."""
    machine = leader(100.0)
    now, turn = 102.0, machine.done(102.0, None)
    for version in range(8, 40):
        turn = machine.done(now + 0.1, answer_to(turn, version))
        assert turn.instruction == Wait(2.0)
        now += 2.1
        turn = machine.done(now, None)
        assert isinstance(turn.instruction, Update)
        assert turn.instruction.deadline == pytest.approx(5.0)
