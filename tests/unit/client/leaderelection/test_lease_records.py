"""What a Lease says: about its holder, and whether it agrees with an epoch that a caller claims."""

import dataclasses
from typing import Any

import pytest

from tests.helpers.elections import lease_of, new_election
from trireme_kube.client.leaderelection import election, lease
from trireme_kube.client.leaderelection.election import LeaseRecord, Update


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"metadata": None, "spec": None},
        {"metadata": {"resourceVersion": "x"}, "spec": {"leaseDurationSeconds": "15", "leaseTransitions": True}},
        {"metadata": {"resourceVersion": "²"}, "spec": {}},
        {"metadata": {"resourceVersion": 7}, "spec": {"holderIdentity": None, "acquireTime": None}},
    ],
)
def test_a_lease_that_cannot_be_understood_is_free(raw: dict[str, Any]) -> None:
    """Nobody would ever lead otherwise."""
    record = election.lease_record(raw)
    assert (record.holder, record.duration_seconds, record.acquire_time, record.renew_time) == ("", 0, "", "")
    assert (record.transitions, record.version, record.preferred_holder, record.strategy) == (0, 0, "", "")
    machine = new_election()
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
    before = lease_of("other", 5)
    value: Any = getattr(before, field)
    changed = dataclasses.replace(before, **{field: value + 1 if isinstance(value, int) else f"{value}x"})
    assert not before.same_terms(changed)
    assert before.same_terms(dataclasses.replace(before, version=9, raw={}))


@pytest.mark.parametrize(
    ("claim", "record", "verdict"),
    [
        pytest.param(lease.EpochClaim(7, "me"), lease_of("me", 7), lease.ClaimVerdict.IN_FORCE, id="just-acquired"),
        pytest.param(lease.EpochClaim(7, "me"), lease_of("me", 90), lease.ClaimVerdict.IN_FORCE, id="renewed-since"),
        pytest.param(lease.EpochClaim(1, "me"), lease_of("me", 1), lease.ClaimVerdict.IN_FORCE, id="first-write"),
        pytest.param(lease.EpochClaim(7, "me"), lease_of("other", 90), lease.ClaimVerdict.DEPOSED, id="deposed"),
        pytest.param(lease.EpochClaim(7, "me"), lease_of("", 90), lease.ClaimVerdict.VACANT, id="given-back"),
        pytest.param(lease.EpochClaim(7, ""), lease_of("", 90), lease.ClaimVerdict.VACANT, id="nobody-claims"),
        pytest.param(lease.EpochClaim(7, "me"), None, lease.ClaimVerdict.VACANT, id="deleted"),
        pytest.param(lease.EpochClaim(91, "me"), lease_of("me", 90), lease.ClaimVerdict.IMPOSSIBLE, id="of-the-future"),
        pytest.param(lease.EpochClaim(0, "me"), lease_of("me", 90), lease.ClaimVerdict.IMPOSSIBLE, id="no-epoch"),
    ],
)
def test_bind_believes_an_epoch_only_if_the_lease_agrees(
    claim: lease.EpochClaim, record: LeaseRecord | None, verdict: lease.ClaimVerdict
) -> None:
    """If this fails, bind works for a leader that was deposed."""
    assert lease.check_claim(claim, record) is verdict
