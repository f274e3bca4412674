"""Fencing: calls of deposed leaders are refused.

Tests: tests/contract/test_plugin_verification.py.
"""

import uuid

import grpc

from trireme.plugin_verification import exchanges, outcomes, sample_requests
from trireme.plugin_verification.sentences import PROTOCOL, Sentence
from trireme.plugin_verification.session import EPOCH, Session
from trireme.plugin_verification.specification import specification
from trireme.v1 import cycle_pb2

_GROUP = "fencing"
_STALE = Sentence(
    PROTOCOL,
    "a service that has seen a higher one answers `FAILED_PRECONDITION` with `trireme-reason: stale-epoch` in the "
    "trailing metadata",
)


async def _call_of(session: Session, scheduler_id: str, epoch: int) -> exchanges.Exchange:
    """A call of this scheduler in this epoch. Raises: NotApplicable, NotChecked."""
    rpc, cycle = await sample_requests.any_rpc_with_cycle(session)
    cycle.fence.CopyFrom(cycle_pb2.Fence(epoch=epoch, scheduler_id=scheduler_id, lease_valid_ms=10_000))
    return await session.call(rpc, await sample_requests.with_cycle(session, rpc, cycle))


async def _stale_call(session: Session) -> exchanges.Exchange:
    """A call in an epoch that is over. Raises: NotApplicable, NotChecked."""
    # A follower compares epochs with those of the leader whose stream it follows.
    scheduler_id = session.scheduler_id if session.followed else f"verify-stale-{uuid.uuid4().hex}"
    before = await _call_of(session, scheduler_id, EPOCH)
    if before.failure is not None:
        raise outcomes.NotChecked(f"{before.rpc.name} fails: {before.failure}")
    return await _call_of(session, scheduler_id, EPOCH - 1)


@specification(
    "P030",
    _GROUP,
    _STALE,
    Sentence("Fence", "A service that has seen a higher epoch of the same scheduler answers FAILED_PRECONDITION."),
)
async def a_stale_epoch_is_refused(session: Session) -> None:
    """A call of a lower epoch than one seen is answered with FAILED_PRECONDITION."""
    each = await _stale_call(session)
    if each.failure is None or each.failure.code is not grpc.StatusCode.FAILED_PRECONDITION:
        text = f"epoch {EPOCH - 1} comes after epoch {EPOCH} of the same scheduler; expected FAILED_PRECONDITION"
        raise outcomes.Violation(text, each)


@specification("P031", _GROUP, _STALE)
async def the_refusal_has_its_reason(session: Session) -> None:
    """The refusal of a stale epoch has the reason `stale-epoch` in its trailing metadata."""
    each = await _stale_call(session)
    if each.failure is None or each.failure.code is not grpc.StatusCode.FAILED_PRECONDITION:
        raise outcomes.NotChecked("a stale epoch is not refused")
    if each.failure.reason != "stale-epoch":
        raise outcomes.Violation(f"trireme-reason is {each.failure.reason!r}; expected 'stale-epoch'", each)


@specification("P032", _GROUP, Sentence(PROTOCOL, "Epochs are compared only with those of the same scheduler"))
async def epochs_of_schedulers_are_not_compared(session: Session) -> None:
    """A lower epoch of another scheduler is not refused."""
    high = await _call_of(session, f"verify-high-{uuid.uuid4().hex}", EPOCH)
    if session.followed:
        raise outcomes.NotApplicable("a plugin that follows the cluster works for the scheduler that it follows")
    if high.failure is not None:
        raise outcomes.NotChecked(f"{high.rpc.name} fails: {high.failure}")
    each = await _call_of(session, f"verify-low-{uuid.uuid4().hex}", EPOCH // 2)
    if each.failure is not None and each.failure.code is grpc.StatusCode.FAILED_PRECONDITION:
        raise outcomes.Violation("the first call of a scheduler is refused for another scheduler's epoch", each)


@specification(
    "P033", _GROUP, Sentence("Fence.epoch", "The resourceVersion of the write that acquired the Lease; it only grows")
)
async def a_new_leader_is_accepted(session: Session) -> None:
    """A call of a higher epoch than those seen is answered, and so are further calls of it."""
    scheduler_id = f"verify-new-{uuid.uuid4().hex}"
    if session.followed:
        raise outcomes.NotApplicable("a plugin that follows the cluster gets a new leader by its stream")
    first = await _call_of(session, scheduler_id, EPOCH)
    if first.failure is not None:
        raise outcomes.NotChecked(f"{first.rpc.name} fails: {first.failure}")
    for _ in range(2):
        each = await _call_of(session, scheduler_id, EPOCH + 1)
        if each.failure is not None:
            raise outcomes.Violation(f"epoch {EPOCH + 1} comes after {EPOCH}, and is refused", each)
