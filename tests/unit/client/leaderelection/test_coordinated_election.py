"""Coordinated leader election, turn by turn: the API server chooses the holder."""

import dataclasses
from typing import Any

import pytest

from tests.helpers.elections import CONFLICT, NOT_FOUND, WALL, answer_to, lease_of, new_election
from trireme_kube.client.leaderelection import election
from trireme_kube.client.leaderelection.election import (
    Election,
    ElectionSettings,
    End,
    Leading,
    LeaseRecord,
    Lost,
    Notice,
    Phase,
    Read,
    Update,
    Wait,
)
from trireme_kube.client.rest.errors import ApiError

CHOSEN = ElectionSettings("me", coordinated=True)


def _chosen(version: int = 7, holder: str = "me", **spec: Any) -> LeaseRecord:
    """The Lease as the API server's controller writes it."""
    raw = dict(lease_of(holder, version, duration=5).raw)
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
    turn = machine.done(100.2, answer_to(turn, 9))
    leading = next(notice for notice in turn.notices if isinstance(notice, Leading))
    assert (leading.epoch, leading.renewal) == (9, False)
    assert isinstance(machine.done(102.2, None).instruction, Read), "it reads before each renewal"


@pytest.mark.parametrize("way", ["expired", "preferred"])
def test_a_leader_whose_term_ends_does_not_renew(way: str) -> None:
    machine = _candidate()
    turn = machine.done(100.1, _chosen(version=7))
    kept = answer_to(turn, 9)
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
    kept = answer_to(turn, 9)
    machine.done(100.2, kept)
    assert isinstance(machine.done(102.2, None).instruction, Read)
    changes = {"none": {}, "other": {"holderIdentity": "other"}, "preferred": {"preferredHolder": "other"}}[what]
    seen = election.lease_record({**kept.raw, "spec": {**kept.raw["spec"], **changes}})
    turn = machine.done(102.3, seen)
    wanted = {"none": Update, "other": End, "preferred": Wait}[what]
    assert isinstance(turn.instruction, wanted)


@pytest.mark.parametrize("strategy", ["", "OldestEmulationVersion"])
def test_a_lease_that_is_not_coordinated_has_no_strategy_of_ours(strategy: str) -> None:
    machine = new_election()
    machine.start(100.0)
    turn = machine.done(100.0, dataclasses.replace(lease_of("me", 5), strategy=strategy))
    assert isinstance(turn.instruction, Update)
    assert "strategy" not in turn.instruction.body["spec"]
