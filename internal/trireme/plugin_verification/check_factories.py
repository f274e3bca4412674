"""Checks that several RPCs have in common: it is served, it answers for each item, it may be repeated.

Tests: tests/contract/test_plugin_verification.py.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import grpc
from google.protobuf.message import Message

from trireme.plugin_verification import exchanges, outcomes, rpcs, sample_requests
from trireme.plugin_verification.sentences import Sentence
from trireme.plugin_verification.session import Session
from trireme.plugin_verification.specification import Specification
from trireme.v1 import status_pb2

REFUSALS = (
    status_pb2.CODE_UNSCHEDULABLE,
    status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE,
    status_pb2.CODE_PENDING,
)
ANY = (status_pb2.CODE_SUCCESS, status_pb2.CODE_ERROR, *REFUSALS)
"""The codes of a step that may refuse a pod or a node."""


def served(number: str, group: str, rpc: rpcs.Rpc, *sentences: Sentence) -> Specification:
    """The RPC is served, and its sample calls are answered without a gRPC error."""

    async def check(session: Session) -> None:
        for each in await sample_requests.samples(session, rpc):
            require_answer(each)

    return Specification(
        number,
        group,
        f"{rpc.name} is served: no gRPC error for a valid request",
        sentences,
        frozenset(rpc.points),
        check,
    )


def require_answer(each: exchanges.Exchange) -> None:
    """Raises: Violation if the call failed; NotChecked if it took too long, which P190 is about."""
    if each.failure is None:
        return
    if each.failure.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        raise outcomes.NotChecked(f"{each.rpc.name} is not answered in time")
    if each.failure.code is grpc.StatusCode.UNIMPLEMENTED:
        raise outcomes.Violation(f"{each.rpc.name} is declared, but not served", each)
    raise outcomes.Violation(f"{each.rpc.name} fails with {each.failure}", each)


def one_for_each(
    number: str, group: str, rpc: rpcs.Rpc, request_field: str, response_field: str, *sentences: Sentence
) -> Specification:
    """The response has as many entries as the request."""

    async def check(session: Session) -> None:
        for each in await sample_requests.answered(session, rpc):
            expected, count = len(getattr(each.request, request_field)), len(getattr(each.response, response_field))
            if count != expected:
                text = f"{response_field} has {count} entries; expected {expected}, one for each of {request_field}"
                raise outcomes.Violation(text, each)

    title = f"{rpc.name} answers one of {response_field} for each of {request_field}"
    return Specification(number, group, title, sentences, frozenset(rpc.points), check)


def status_set(
    number: str, group: str, rpc: rpcs.Rpc, path: str, allowed: Sequence[int], *sentences: Sentence
) -> Specification:
    """The status at `path` is set, and its code is one of `allowed` or, where the contract knows it not, any."""

    async def check(session: Session) -> None:
        for each in await sample_requests.answered(session, rpc):
            assert each.response is not None
            for at, owner in entries_at(each.response, path):
                if isinstance(owner, status_pb2.Status):
                    status, place = owner, at
                else:
                    if not owner.HasField("status"):
                        raise outcomes.Violation(f"{at}status is not set", each)
                    status, place = owner.status, f"{at}status"
                check_code(each, place, status, allowed)

    return Specification(
        number, group, f"{rpc.name} answers a status that belongs there", sentences, frozenset(rpc.points), check
    )


def check_code(each: exchanges.Exchange, place: str, status: status_pb2.Status, allowed: Sequence[int]) -> None:
    """Raises: Violation for a known code that is not allowed here; P065 and P066 are about WAIT and SKIP."""
    elsewhere = (status_pb2.CODE_UNSPECIFIED, status_pb2.CODE_WAIT, status_pb2.CODE_SKIP)
    if status.code in allowed or status.code in elsewhere or status.code not in status_pb2.Code.values():
        return
    names = ", ".join(status_pb2.Code.Name(code) for code in allowed)  # type: ignore[arg-type]
    raise outcomes.Violation(f"{place}.code is {status_pb2.Code.Name(status.code)}; expected one of {names}", each)


def entries_at(response: Message, field: str) -> Iterator[tuple[str, Any]]:
    """The response itself with an empty field, else the entries of the field, each with its path for messages."""
    if not field:
        yield "", response
        return
    for at, entry in enumerate(getattr(response, field)):
        is_status = isinstance(entry, status_pb2.Status)
        yield f"{field}[{at}]{'' if is_status else '.'}", entry


def repeated(number: str, group: str, rpc: rpcs.Rpc, *sentences: Sentence, times: int = 2) -> Specification:
    """The RPC answers a repeated call as it answered the first one."""

    async def check(session: Session) -> None:
        before = await sample_requests.samples(session, rpc)
        for each in before:
            if each.failure is not None:
                raise outcomes.NotChecked(f"{rpc.name} fails: {each.failure}")
        for each in before:
            for _ in range(times - 1):
                again = await session.call(rpc, each.request)
                if again.failure is not None or codes_in(again) != codes_in(each):
                    text = f"the repeated call is answered in another way; the first answer: {each.answer_text()}"
                    raise outcomes.Violation(text, again)

    title = f"{rpc.name} may be repeated: the answer stays the same"
    return Specification(number, group, title, sentences, frozenset(rpc.points), check)


def codes_in(each: exchanges.Exchange) -> list[tuple[str, int]]:
    """The codes of all statuses in the response, with their places."""
    return [] if each.response is None else [(path, status.code) for path, status in statuses_in(each.response)]


def statuses_in(message: Message, path: str = "") -> Iterator[tuple[str, status_pb2.Status]]:
    """The statuses in a message that are set, with their paths."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        values = value if field.is_repeated else [value]
        for at, entry in enumerate(values):
            place = f"{path}{field.name}{f'[{at}]' if field.is_repeated else ''}"
            if isinstance(entry, status_pb2.Status):
                yield place, entry
            else:
                yield from statuses_in(entry, f"{place}.")
