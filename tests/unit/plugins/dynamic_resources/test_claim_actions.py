"""Actions on claims: devices are taken from a claim, and users out of it, once and only where that is still right."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from trireme.plugin_kit import bind_phase_plugin
from trireme.plugins.dynamic_resources import claim_actions, claim_bodies
from trireme.v1 import bind_pb2, cycle_pb2
from trireme_kube.apimachinery import api_writes

Json = dict[str, Any]

PATH = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/claim"
POD = cycle_pb2.PodIdentity(namespace="ns", name="pod", uid="pod-uid")
ALLOCATED: Json = {
    "metadata": {"name": "claim", "uid": "u", "finalizers": [claim_bodies.DELETE_PROTECTION]},
    "status": {"allocation": {"devices": {}}, "reservedFor": [{"uid": "pod-uid"}]},
}


class Writer:
    """One claim. `lost`: so many writes have no answer, though they happen."""

    def __init__(self, claim: Json | None, lost: int = 0) -> None:
        self.claim = copy.deepcopy(claim)
        self.requests: list[str] = []
        self._lost = lost

    def _written(self, request: str) -> api_writes.Outcome:
        self.requests.append(request)
        if self._lost:
            self._lost -= 1
            return api_writes.Uncertain("no answer")
        return api_writes.Written(self.claim or {})

    async def get(self, path: str, deadline: float) -> api_writes.Outcome:
        assert path == PATH
        return api_writes.Gone("not found") if self.claim is None else api_writes.Written(copy.deepcopy(self.claim))

    async def put(self, path: str, obj: Mapping[str, Any], deadline: float) -> api_writes.Outcome:
        self.claim = copy.deepcopy(dict(obj))
        return self._written(f"PUT {path.removeprefix(PATH)}")

    async def patch(self, path: str, patch: Mapping[str, Any], deadline: float) -> api_writes.Outcome:
        return self._written(f"PATCH {path.removeprefix(PATH)}")

    async def delete(self, path: str, uid: str, deadline: float) -> api_writes.Outcome:
        assert uid == "u"
        self.claim = None
        return self._written("DELETE")


def _context(writer: Writer, rounds: int = 9) -> bind_phase_plugin.ActionContext:
    left = iter(range(rounds))

    def begin_round() -> None:
        if next(left, None) is None:
            raise bind_phase_plugin.TenureOver("the leader's lease ran out")

    fake: Any = writer
    return bind_phase_plugin.ActionContext(fake, begin_round)


def _deallocation(**fields: Any) -> bind_pb2.Action:
    return bind_pb2.Action(
        pod=POD, deallocate=bind_pb2.Deallocate(**{"namespace": "ns", "name": "claim", "uid": "u", **fields})
    )


@pytest.mark.parametrize(
    ("claim", "fields", "requests"),
    [
        (ALLOCATED, {}, ["PUT /status"]),
        ({**ALLOCATED, "status": {}}, {}, []),
        (ALLOCATED, {"uid": "older"}, []),
        (None, {}, []),
        (ALLOCATED, {"delete": True}, ["PUT ", "DELETE"]),
        (ALLOCATED, {"user_uid": "pod-uid"}, ["PUT /status"]),
    ],
    ids=["allocated", "free-already", "another-claim", "gone", "to-be-deleted", "of-a-group"],
)
async def test_devices_are_taken_away_and_what_is_done_already_is_a_success(
    claim: Json | None, fields: Json, requests: list[str]
) -> None:
    """An action may be repeated, and the claim may be gone: both leave the devices free."""
    writer = Writer(claim)
    outcome = await claim_actions.deallocate(_deallocation(**fields), _context(writer))
    assert isinstance(outcome, api_writes.Written)
    assert writer.requests == requests


async def test_devices_that_somebody_else_uses_stay() -> None:
    """Its pod runs; and another try would find the same."""
    writer = Writer({**ALLOCATED, "status": {**ALLOCATED["status"], "reservedFor": [{"uid": "other"}]}})
    outcome = await claim_actions.deallocate(_deallocation(), _context(writer))
    assert isinstance(outcome, api_writes.Refused)
    assert outcome.message == "resourceclaim ns/claim: it is reserved for somebody else"
    assert writer.requests == []


async def test_a_lost_answer_is_settled_by_reading_again() -> None:
    """The write happened: the second round finds the claim free."""
    writer = Writer(ALLOCATED, lost=1)
    assert isinstance(await claim_actions.deallocate(_deallocation(), _context(writer)), api_writes.Written)
    assert writer.requests == ["PUT /status"]


async def test_no_round_begins_for_a_leader_that_is_out_of_office() -> None:
    """Its successor may have given the devices to another pod."""
    writer = Writer(ALLOCATED, lost=9)
    with pytest.raises(bind_phase_plugin.TenureOver):
        await claim_actions.deallocate(_deallocation(), _context(writer, rounds=0))
    assert writer.requests == []


@pytest.mark.parametrize(("lost", "requests"), [(0, 1), (2, 3)], ids=["at-once", "after-lost-answers"])
async def test_a_user_leaves_a_claim(lost: int, requests: int) -> None:
    """The patch says the same however often it is sent."""
    writer = Writer(ALLOCATED, lost=lost)
    leaves = bind_pb2.RemoveClaimUser(namespace="ns", name="claim", uid="u", user_uid="group-uid")
    outcome = await claim_actions.remove_user(bind_pb2.Action(pod=POD, remove_claim_user=leaves), _context(writer))
    assert isinstance(outcome, api_writes.Written)
    assert writer.requests == ["PATCH /status"] * requests
