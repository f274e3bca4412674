"""Permit, PreBind, Bind and PostBind.

Tests: tests/contract/test_plugin_verification.py.
"""

from collections.abc import Sequence

from trireme.plugin_verification import check_factories, outcomes, rpcs, sample_requests
from trireme.plugin_verification.sentences import PROTOCOL, Sentence
from trireme.plugin_verification.session import Session
from trireme.plugin_verification.specification import Specification, specification
from trireme.v1 import bind_pb2, snapshot_pb2, status_pb2

_KINDS = {field.name for field in snapshot_pb2.ClusterObject.DESCRIPTOR.oneofs_by_name["object"].fields} | {"pod"}
_SERVED = Sentence(
    PROTOCOL,
    "`BindPlugin.Permit`; `PreBind`, optionally `PreBindPreFlight`; `Bind`; `PostBind`",
)

permit_is_served = check_factories.served("P140", "Permit", rpcs.PERMIT, _SERVED)
one_permit_result_for_each = check_factories.one_for_each(
    "P141", "Permit", rpcs.PERMIT, "items", "results", Sentence("PermitResponse.results", "REQUIRED. One an item.")
)
permit_status = check_factories.status_set(
    "P142",
    "Permit",
    rpcs.PERMIT,
    "results",
    check_factories.ANY,
    Sentence("PermitResult.status", "REQUIRED. CODE_SUCCESS, CODE_WAIT, a refusal or an error."),
)


def _waits_have_a_timeout(number: str, rpc: rpcs.Rpc, sentence: Sentence) -> Specification:
    """A wait of Permit or PreBind has a timeout."""

    async def check(session: Session) -> None:
        for each in await sample_requests.answered(session, rpc):
            assert isinstance(each.response, bind_pb2.PermitResponse | bind_pb2.PreBindResponse)
            results: Sequence[bind_pb2.PermitResult | bind_pb2.PreBindResult] = each.response.results
            for at, result in enumerate(results):
                if result.status.code == status_pb2.CODE_WAIT and result.timeout.ToNanoseconds() <= 0:
                    raise outcomes.Violation(f"results[{at}].timeout is not above 0", each)

    title = f"A wait of {rpc.name} has a timeout above 0"
    return Specification(number, rpc.name, title, (sentence,), frozenset(rpc.points), check)


permit_waits_have_a_timeout = _waits_have_a_timeout(
    "P143", rpcs.PERMIT, Sentence("PermitResult.timeout", "REQUIRED with CODE_WAIT. For how long at most")
)
permit_may_be_repeated = check_factories.repeated(
    "P144",
    "Permit",
    rpcs.PERMIT,
    Sentence("BindPlugin.Permit", "or makes them wait. Idempotent; the frontend holds those that wait."),
)
pre_bind_is_served = check_factories.served("P150", "PreBind", rpcs.PRE_BIND, _SERVED)
one_pre_bind_result_for_each = check_factories.one_for_each(
    "P151", "PreBind", rpcs.PRE_BIND, "items", "results", Sentence("PreBindResponse.results", "REQUIRED. One an item.")
)
pre_bind_status = check_factories.status_set(
    "P152",
    "PreBind",
    rpcs.PRE_BIND,
    "results",
    check_factories.ANY,
    Sentence("PreBindResult.status", "REQUIRED. CODE_SUCCESS: done. CODE_SKIP: there was nothing to do."),
)


@specification(
    "P153",
    "PreBind",
    Sentence("PreBindResult.wait_for", "REQUIRED with CODE_WAIT. The objects waited for"),
    points=(rpcs.PRE_BIND_POINT,),
)
async def pre_bind_waits_for_objects(session: Session) -> None:
    """A wait of PreBind names at least one object."""
    for each in await sample_requests.answered(session, rpcs.PRE_BIND):
        assert isinstance(each.response, bind_pb2.PreBindResponse)
        for at, result in enumerate(each.response.results):
            if result.status.code == status_pb2.CODE_WAIT and not result.wait_for:
                raise outcomes.Violation(f"results[{at}].wait_for is empty", each)


@specification(
    "P154",
    "PreBind",
    Sentence("ObjectKey.kind", "REQUIRED. The name of its field in ClusterObject.object"),
    Sentence("ObjectKey.name", "REQUIRED. Its name."),
    Sentence(
        "PreBindResult.wait_for",
        "a kind that the scheduler does not know, or a key without a name, makes the answer wrong",
    ),
    points=(rpcs.PRE_BIND_POINT,),
)
async def objects_waited_for_are_named(session: Session) -> None:
    """Each object that PreBind waits for has a kind that the scheduler knows, and a name."""
    for each in await sample_requests.answered(session, rpcs.PRE_BIND):
        assert isinstance(each.response, bind_pb2.PreBindResponse)
        for at, result in enumerate(each.response.results):
            for place, key in enumerate(result.wait_for):
                if key.kind not in _KINDS:
                    text = f"results[{at}].wait_for[{place}].kind is {key.kind!r}, which the contract does not have"
                    raise outcomes.Violation(text, each)
                if not key.name:
                    raise outcomes.Violation(f"results[{at}].wait_for[{place}].name is not set", each)


pre_bind_waits_have_a_timeout = _waits_have_a_timeout(
    "P155", rpcs.PRE_BIND, Sentence("PreBindResult.timeout", "REQUIRED with CODE_WAIT. For how long at most.")
)
pre_bind_may_be_repeated = check_factories.repeated(
    "P156",
    "PreBind",
    rpcs.PRE_BIND,
    Sentence("BindPlugin.PreBind", "it is called again when one of them has changed. Idempotent."),
)


@specification(
    "P157",
    "PreBind",
    Sentence("PreBindPreFlightResponse.statuses", "REQUIRED. One an item."),
    Sentence(
        "BindPlugin.PreBindPreFlight",
        "PreBindPreFlight returns whether PreBind has work to do for pods; it writes nothing. Idempotent. Where a "
        "plugin answers UNIMPLEMENTED, PreBind has work for every pod.",
    ),
    points=(rpcs.PRE_BIND_POINT,),
)
async def pre_flight_answers_for_each(session: Session) -> None:
    """PreBindPreFlight answers a status for each item, the same again, or is not served."""
    for each in await sample_requests.samples(session, rpcs.PRE_BIND_PRE_FLIGHT):
        if each.failure is not None and each.failure.code.name == "UNIMPLEMENTED":
            return
        check_factories.require_answer(each)
        assert isinstance(each.response, bind_pb2.PreBindPreFlightResponse)
        assert isinstance(each.request, bind_pb2.PreBindPreFlightRequest)
        if (count := len(each.response.statuses)) != (expected := len(each.request.items)):
            raise outcomes.Violation(f"statuses has {count} entries; expected {expected}, one for each item", each)
        again = await session.call(rpcs.PRE_BIND_PRE_FLIGHT, each.request)
        if check_factories.codes_in(again) != check_factories.codes_in(each):
            raise outcomes.Violation(f"the repeated call is answered otherwise than {each.answer_text()}", again)


bind_is_served = check_factories.served("P160", "Bind", rpcs.BIND, _SERVED)


@specification(
    "P161",
    "Bind",
    Sentence("BindResponse", "the stream ends with OK after the last"),
    points=(rpcs.BIND_POINT,),
)
async def bind_answers_for_each(session: Session) -> None:
    """Bind's stream has a result for each item."""
    for each in await sample_requests.answered(session, rpcs.BIND):
        assert isinstance(each.response, bind_pb2.BindResponse)
        assert isinstance(each.request, bind_pb2.BindRequest)
        if missing := set(range(len(each.request.items))) - {result.index for result in each.response.results}:
            raise outcomes.Violation(f"there is no result for item {min(missing)}", each)


@specification(
    "P162",
    "Bind",
    Sentence("BindResult.index", "REQUIRED. Index in the request's items."),
    points=(rpcs.BIND_POINT,),
)
async def bind_results_are_of_the_request(session: Session) -> None:
    """Each result of Bind is about an item of the request, and no two are about the same one."""
    for each in await sample_requests.answered(session, rpcs.BIND):
        assert isinstance(each.response, bind_pb2.BindResponse)
        assert isinstance(each.request, bind_pb2.BindRequest)
        seen: set[int] = set()
        for result in each.response.results:
            if result.index >= len(each.request.items):
                text = f"results.index is {result.index}, but the request has {len(each.request.items)} items"
                raise outcomes.Violation(text, each)
            if result.index in seen:
                raise outcomes.Violation(f"results has index {result.index} twice", each)
            seen.add(result.index)


bind_status = check_factories.status_set(
    "P163",
    "Bind",
    rpcs.BIND,
    "results",
    check_factories.ANY,
    Sentence("BindResult.status", "REQUIRED. CODE_SUCCESS: the API server has the binding."),
)
bind_may_be_repeated = check_factories.repeated(
    "P164",
    "Bind",
    rpcs.BIND,
    Sentence("BindPlugin.Bind", "Idempotent: a pod that is bound to the node already is a success."),
)
post_bind_is_served = check_factories.served("P170", "PostBind", rpcs.POST_BIND, _SERVED)
post_bind_may_be_repeated = check_factories.repeated(
    "P171",
    "PostBind",
    rpcs.POST_BIND,
    Sentence(
        "BindPlugin.PostBind",
        "PostBind is a notification that pods were bound. Idempotent; its failure changes nothing.",
    ),
)
