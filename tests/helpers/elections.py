"""Elections turn by turn: a candidate, Leases as they are read, and what the API server answers."""

from trireme_kube.apimachinery import timestamps
from trireme_kube.client.leaderelection import election
from trireme_kube.client.leaderelection.election import (
    Create,
    Election,
    ElectionSettings,
    LeaseRecord,
    Phase,
    Turn,
    Update,
)
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

ME = ElectionSettings("me")
NOT_FOUND = ApiError(404, "NotFound", "no such lease")
CONFLICT = ApiError(409, "Conflict", "changed")
AWAY = ApiUnreachable("no answer", sent=True)
WALL = 1_767_322_800_123_456_789
NOW_TEXT = timestamps.rfc3339_micros(WALL)


def new_election() -> Election:
    """An election of `ME` that has not started."""
    return Election(ME, random=lambda: 0.5, wall=lambda: WALL)


def lease_of(holder: str, version: int, transitions: int = 0, duration: int = 15, renewed: str = "r") -> LeaseRecord:
    """A Lease as it is read from the API server."""
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration,
        "acquireTime": "a",
        "renewTime": renewed,
        "leaseTransitions": transitions,
    }
    metadata = {"name": "kube-scheduler", "labels": {"kept": "yes"}, "resourceVersion": str(version)}
    return election.lease_record({"metadata": metadata, "spec": spec})


def answer_to(turn: Turn, version: int) -> LeaseRecord:
    """What the server answers to the write that `turn` asks for."""
    assert isinstance(turn.instruction, (Create, Update))
    body = turn.instruction.body
    return election.lease_record({**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}})


def leader(now: float = 100.0, version: int = 7) -> Election:
    """An election that has just acquired the Lease, by a write sent at `now`."""
    machine = new_election()
    machine.start(now)
    turn = machine.done(now, NOT_FOUND)
    machine.done(now + 0.1, answer_to(turn, version))
    assert machine.phase is Phase.LEADING
    return machine
