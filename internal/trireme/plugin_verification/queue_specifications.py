"""PreEnqueue, QueueSort and QueueingHint.

Tests: tests/contract/test_plugin_verification.py.
"""

from trireme.framework import sort_key
from trireme.plugin_verification import check_factories, outcomes, rpcs, sample_requests
from trireme.plugin_verification.sentences import PROTOCOL, Sentence
from trireme.plugin_verification.session import Session
from trireme.plugin_verification.specification import specification
from trireme.v1 import queue_pb2, status_pb2

_HINTS = "queueing hints"

pre_enqueue_is_served = check_factories.served(
    "P180", "PreEnqueue", rpcs.PRE_ENQUEUE, Sentence(PROTOCOL, "| PreEnqueue | `QueueService.PreEnqueue` |")
)
one_status_for_each_pod = check_factories.one_for_each(
    "P181",
    "PreEnqueue",
    rpcs.PRE_ENQUEUE,
    "pods",
    "statuses",
    Sentence("PreEnqueueResponse.statuses", "REQUIRED. One status a pod; CODE_SUCCESS lets it in."),
)
pre_enqueue_status = check_factories.status_set(
    "P182",
    "PreEnqueue",
    rpcs.PRE_ENQUEUE,
    "statuses",
    check_factories.ANY,
    Sentence("PreEnqueueResponse.statuses", "One status a pod; CODE_SUCCESS lets it in."),
)
pre_enqueue_may_be_repeated = check_factories.repeated(
    "P183",
    "PreEnqueue",
    rpcs.PRE_ENQUEUE,
    Sentence("QueueService.PreEnqueue", "PreEnqueue lets each pod enter the queue, or refuses it. Idempotent."),
)

queue_sort_is_served = check_factories.served(
    "P220", "QueueSort", rpcs.QUEUE_SORT, Sentence(PROTOCOL, "| QueueSort | `QueueService.QueueSort` |")
)
one_key_for_each_pod = check_factories.one_for_each(
    "P221",
    "QueueSort",
    rpcs.QUEUE_SORT,
    "pods",
    "keys",
    Sentence("QueueSortResponse.keys", "REQUIRED. One key a pod."),
)


@specification(
    "P222",
    "QueueSort",
    Sentence("SortKey.level", "REQUIRED. Compared first."),
    Sentence("SortKey.level", "At most 16 numbers."),
    Sentence("SortKey.rest", "At most 16 numbers."),
    points=(rpcs.QUEUE_SORT_POINT,),
)
async def keys_have_a_level(session: Session) -> None:
    """Each key has a level of 1 to 16 numbers, and at most 16 beside it; that of a pod with an error is not read."""
    for each in await sample_requests.answered(session, rpcs.QUEUE_SORT):
        assert isinstance(each.response, queue_pb2.QueueSortResponse)
        for at, key in enumerate(each.response.keys):
            if at < len(each.response.statuses) and each.response.statuses[at].code == status_pb2.CODE_ERROR:
                continue
            if not 1 <= len(key.level) <= sort_key.MAX_NUMBERS:
                text = f"keys[{at}].level has {len(key.level)} numbers; expected 1 to {sort_key.MAX_NUMBERS}"
                raise outcomes.Violation(text, each)
            if len(key.rest) > sort_key.MAX_NUMBERS:
                text = f"keys[{at}].rest has {len(key.rest)} numbers; expected at most {sort_key.MAX_NUMBERS}"
                raise outcomes.Violation(text, each)


@specification(
    "P223",
    "QueueSort",
    Sentence("QueueService.QueueSort", "QueueSort gives each pod its position in the queue. Idempotent."),
    Sentence("QueueSortResponse.keys", "A pod that does not change has the same key"),
    points=(rpcs.QUEUE_SORT_POINT,),
)
async def a_pod_keeps_its_key(session: Session) -> None:
    """QueueSort answers a repeated call with the same keys."""
    await _require_equal_answers(session, rpcs.QUEUE_SORT)


@specification(
    "P224",
    "QueueSort",
    Sentence("QueueSortResponse.statuses", "OPTIONAL. One status a pod: CODE_SUCCESS, or CODE_ERROR for a pod"),
    points=(rpcs.QUEUE_SORT_POINT,),
)
async def statuses_of_keys(session: Session) -> None:
    """QueueSort answers no statuses or one for each pod: success, or an error with a message."""
    for each in await sample_requests.answered(session, rpcs.QUEUE_SORT):
        assert isinstance(each.request, queue_pb2.QueueSortRequest)
        assert isinstance(each.response, queue_pb2.QueueSortResponse)
        statuses, pods = each.response.statuses, len(each.request.pods)
        if len(statuses) not in (0, pods):
            raise outcomes.Violation(f"statuses has {len(statuses)} entries; expected none, or {pods}", each)
        for at, one in enumerate(statuses):
            if one.code not in (status_pb2.CODE_SUCCESS, status_pb2.CODE_ERROR):
                name = status_pb2.Code.Name(one.code) if one.code in status_pb2.Code.values() else str(one.code)
                text = f"statuses[{at}].code is {name}; expected CODE_SUCCESS or CODE_ERROR"
                raise outcomes.Violation(text, each)
            if one.code == status_pb2.CODE_ERROR and not "".join(one.messages):
                raise outcomes.Violation(f"statuses[{at}].messages is empty; expected why there is no key", each)


async def _require_equal_answers(session: Session, rpc: rpcs.Rpc) -> None:
    """Raises: Violation: a repeated call is answered in another way."""
    for each in await sample_requests.answered(session, rpc):
        again = await session.call(rpc, each.request)
        if again.response != each.response:
            text = f"the repeated call is answered in another way; the first answer: {each.answer_text()}"
            raise outcomes.Violation(text, again)


def _require_hints(session: Session) -> None:
    """Raises: NotApplicable: no registered event has a hint."""
    if not any(event.hint for event in session.info.events_to_register):
        raise outcomes.NotApplicable("no registered event has a hint")


@specification(
    "P184", _HINTS, Sentence(PROTOCOL, "| any, with an event whose `hint` is set | `QueueService.QueueingHint` |")
)
async def queueing_hint_is_served(session: Session) -> None:
    """QueueingHint is served: no gRPC error for an event that is registered with a hint."""
    _require_hints(session)
    for each in await sample_requests.samples(session, rpcs.QUEUEING_HINT):
        check_factories.require_answer(each)


@specification("P185", _HINTS, Sentence("QueueingHintResponse.hints", "REQUIRED. One hint a pod."))
async def each_pod_has_a_hint(session: Session) -> None:
    """QueueingHint answers one hint for each pod."""
    _require_hints(session)
    for each in await sample_requests.answered(session, rpcs.QUEUEING_HINT):
        assert isinstance(each.response, queue_pb2.QueueingHintResponse)
        assert isinstance(each.request, queue_pb2.QueueingHintRequest)
        if (count := len(each.response.hints)) != (expected := len(each.request.pods)):
            raise outcomes.Violation(f"hints has {count} entries; expected {expected}, one for each pod", each)


@specification("P186", _HINTS, Sentence("Hint", "Hint is whether an event is worth another try."))
async def hints_are_known(session: Session) -> None:
    """Each hint is one of the contract."""
    _require_hints(session)
    for each in await sample_requests.answered(session, rpcs.QUEUEING_HINT):
        assert isinstance(each.response, queue_pb2.QueueingHintResponse)
        for at, hint in enumerate(each.response.hints):
            if hint not in queue_pb2.Hint.values():
                raise outcomes.Violation(f"hints[{at}] is {hint}, which the contract does not have", each)


@specification(
    "P187",
    _HINTS,
    Sentence(
        "QueueService.QueueingHint",
        "QueueingHint selects the pods, of those that the plugin refused, that an event may help. Idempotent.",
    ),
)
async def queueing_hint_may_be_repeated(session: Session) -> None:
    """QueueingHint answers a repeated call as it answered the first one."""
    _require_hints(session)
    await _require_equal_answers(session, rpcs.QUEUEING_HINT)
