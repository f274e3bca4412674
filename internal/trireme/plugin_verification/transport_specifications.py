"""Deadlines, cancellation, concurrent calls, and requests that are odd, large or malformed.

Tests: tests/contract/test_plugin_verification.py.
"""

import asyncio

import grpc

from trireme.plugin_verification import check_factories, node_answer_specifications, outcomes, rpcs, sample_requests
from trireme.plugin_verification.sentences import PROTOCOL, Sentence
from trireme.plugin_verification.session import Session
from trireme.plugin_verification.specification import specification
from trireme.v1 import cycle_pb2

_CANCELLED_CALLS = 12
# Some are given up before the plugin gets them, some while it works on them.
_CANCEL_AFTER_SECONDS = (0.001, 0.01, 0.1)
_CONCURRENT_CALLS = 8
_LARGE_BYTES = 6 << 20
# Field 1000, which the contract lacks, as a text of three bytes.
_UNKNOWN_FIELD = b"\xc2\x3e\x03new"


@specification("P190", "deadlines", Sentence(PROTOCOL, "Every call has one. A caller that gave up may repeat the call"))
async def calls_are_answered_in_time(session: Session) -> None:
    """Each call is answered before its deadline."""
    for rpc in rpcs.ALL:
        if rpc in rpcs.WITH_CYCLE and session.declares(*rpc.points):
            try:
                await sample_requests.samples(session, rpc)
            except (outcomes.NotApplicable, outcomes.NotChecked):
                continue
    for each in session.late.values():
        text = f"{each.rpc.name} is not answered within {session.settings.deadline_seconds:g} s"
        raise outcomes.Violation(text, each)


@specification(
    "P191",
    "cancellation",
    Sentence(PROTOCOL, "A caller that gave up may repeat the call: every RPC but `Sync` is idempotent."),
)
async def cancelled_calls_do_no_harm(session: Session) -> None:
    """After calls that their caller gave up the plugin answers as before."""
    rpc, cycle = await sample_requests.any_rpc_with_cycle(session)
    request = await sample_requests.with_cycle(session, rpc, cycle)
    timeouts = _CANCEL_AFTER_SECONDS * (_CANCELLED_CALLS // len(_CANCEL_AFTER_SECONDS))
    await asyncio.gather(*(session.call(rpc, request, timeout=timeout) for timeout in timeouts))
    each = await session.call(rpc, request)
    if each.failure is not None:
        raise outcomes.Violation(f"after {_CANCELLED_CALLS} calls that were given up the next one fails", each)


@specification(
    "P192", "concurrency", Sentence("PluginInfo.max_concurrent_calls", "OPTIONAL. How many concurrent calls it takes")
)
async def concurrent_calls_are_answered(session: Session) -> None:
    """As many calls at once as the plugin takes are answered, each as by itself."""
    limit = session.info.max_concurrent_calls or _CONCURRENT_CALLS
    count = min(limit, _CONCURRENT_CALLS)
    rpc = next((rpc for rpc in (rpcs.FILTER, rpcs.SCORE) if session.declares(*rpc.points)), None)
    if rpc is None or count < 2:
        raise outcomes.NotApplicable("the plugin takes one call at a time, or neither filters nor scores")
    cycle = await sample_requests.cycle_for(session, rpc)
    nodes = [[at % len(session.all_nodes)] for at in range(count)]
    requests = [node_answer_specifications.node_request(rpc, cycle, session.selection(each)) for each in nodes]
    singly = [await session.answer(rpc, request) for request in requests]
    again = [await session.answer(rpc, request) for request in requests]
    expected = [node_answer_specifications.read(each) for each in singly]
    if expected != [node_answer_specifications.read(each) for each in again]:
        raise outcomes.NotChecked(f"{rpc.name} does not answer a repeated call in the same way")
    for each, answer in zip(await session.call_many(rpc, requests), expected, strict=True):
        if each.failure is not None:
            raise outcomes.Violation(f"one of {count} concurrent calls fails with {each.failure}", each)
        if node_answer_specifications.read(each) != answer:
            raise outcomes.Violation(f"one of {count} concurrent calls is answered otherwise than by itself", each)


@specification("P193", "malformed input", Sentence(PROTOCOL, "A receiver ignores fields that it does not know."))
async def unknown_fields_are_ignored(session: Session) -> None:
    """A request with a field that the plugin does not know is answered as without it."""
    rpc, cycle = await sample_requests.any_rpc_with_cycle(session)
    request = await sample_requests.with_cycle(session, rpc, cycle)
    plain = await session.answer(rpc, request)
    each = await session.call(rpc, request, payload=request.SerializeToString() + _UNKNOWN_FIELD)
    if each.failure is not None:
        raise outcomes.Violation(f"a request with an unknown field (number 1000) fails with {each.failure}", each)
    if check_factories.codes_in(each) != check_factories.codes_in(plain):
        raise outcomes.Violation("a request with an unknown field (number 1000) is answered in another way", each)


@specification("P194", "malformed input", Sentence(PROTOCOL, "A message to or from a plugin is at most 16 MiB"))
async def large_requests_are_taken(session: Session) -> None:
    """A request of 6 MiB is answered: gRPC's own limit of 4 MiB is raised."""
    rpc, cycle = await sample_requests.any_rpc_with_cycle(session)
    request = await sample_requests.with_cycle(session, rpc, cycle)
    await session.answer(rpc, request)
    cycle.pod.metadata.annotations["example.com/large"] = "x" * _LARGE_BYTES
    each = await session.call(rpc, await sample_requests.with_cycle(session, rpc, cycle))
    if each.failure is not None and each.failure.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        raise outcomes.Violation(f"a request of {each.request.ByteSize()} bytes fails with {each.failure}", each)


@specification("P195", "malformed input", Sentence(PROTOCOL, "A gRPC error means that the call could not be answered."))
async def malformed_requests_do_no_harm(session: Session) -> None:
    """A request that is no message fails with a gRPC error, and the next one is answered."""
    rpc, cycle = await sample_requests.any_rpc_with_cycle(session)
    request = await sample_requests.with_cycle(session, rpc, cycle)
    await session.answer(rpc, request)
    each = await session.call(rpc, request, payload=b"\x0a\xff\xff\xff\xff\x0fno message")
    if each.failure is None:
        raise outcomes.Violation("bytes that are no message are answered without a gRPC error", each)
    after = await session.call(rpc, request)
    if after.failure is not None:
        raise outcomes.Violation(f"after bytes that are no message a call fails with {after.failure}", after)


@specification("P196", "malformed input", Sentence("Fence.scheduler_id", "Empty identifies a scheduler, too."))
async def calls_without_a_scheduler_are_answered(session: Session) -> None:
    """A call whose scheduler has no identity is answered."""
    if session.followed is not None:
        raise outcomes.NotApplicable("a plugin that follows the cluster works for the scheduler that it follows")
    rpc, cycle = await sample_requests.any_rpc_with_cycle(session)
    await session.answer(rpc, await sample_requests.with_cycle(session, rpc, cycle))
    # An earlier verification may have left any epoch: this is the highest one.
    cycle.fence.CopyFrom(cycle_pb2.Fence(epoch=2**64 - 1, lease_valid_ms=10_000))
    each = await session.call(rpc, await sample_requests.with_cycle(session, rpc, cycle))
    if each.failure is not None:
        raise outcomes.Violation(f"a call with an empty fence.scheduler_id fails with {each.failure}", each)
