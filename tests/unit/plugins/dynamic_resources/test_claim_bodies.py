"""The bodies of the writes of claims."""

from typing import Any

import pytest

from trireme.plugins.dynamic_resources import claim_bodies

CLAIM: dict[str, Any] = {
    "metadata": {
        "name": "c",
        "uid": "u",
        "resourceVersion": "5",
        "finalizers": [claim_bodies.DELETE_PROTECTION, "other"],
    },
    "spec": {"devices": {}},
    "status": {"allocation": {"devices": {}}, "devices": [{}], "reservedFor": [{"uid": "pod"}], "extra": 1},
}


def test_a_claim_loses_its_allocation_and_nothing_else() -> None:
    """Fields that we do not know survive, and the version makes the write conditional."""
    freed = claim_bodies.deallocated_claim(CLAIM, "pod")
    assert freed == {**CLAIM, "status": {"extra": 1}}
    assert claim_bodies.deallocated_claim(freed, "pod") is None
    assert "allocation" in CLAIM["status"]


def test_a_claim_of_another_pod_is_not_touched() -> None:
    """Somebody reserved it since the decision was made."""
    with pytest.raises(ValueError, match="somebody else"):
        claim_bodies.deallocated_claim(CLAIM, "other")


def test_the_protection_of_a_claim_is_taken_off_before_it_is_deleted() -> None:
    """Only our own finalizer goes."""
    freed = claim_bodies.unprotected_claim(CLAIM)
    assert freed is not None
    assert freed["metadata"]["finalizers"] == ["other"]
    assert claim_bodies.unprotected_claim(freed) is None
