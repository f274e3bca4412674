"""PreFilter, PostFilter, Reserve and Unreserve.

Also change: internal/trireme/bind/action_executor.py (actions that a plugin may ask for).

Tests: tests/contract/test_plugin_verification.py.
"""

import asyncio
from collections.abc import Iterable, Iterator

from google.protobuf.message import Message

from trireme.plugin_verification import check_factories, outcomes, rpcs, sample_requests
from trireme.plugin_verification.sentences import PROTOCOL, Sentence
from trireme.plugin_verification.session import Session
from trireme.plugin_verification.specification import specification
from trireme.v1 import filter_pb2, status_pb2

_RESERVATIONS = 20
# How long a Reserve that was given up may go on, at least; else twice as long as one that is answered takes.
_LATE_SECONDS = 0.1

pre_filter_is_served = check_factories.served(
    "P110",
    "PreFilter",
    rpcs.PRE_FILTER,
    Sentence("FilterPlugin.PreFilter", "Called where the plugin lists EXTENSION_POINT_PRE_FILTER."),
)
pre_filter_status = check_factories.status_set(
    "P111",
    "PreFilter",
    rpcs.PRE_FILTER,
    "",
    check_factories.ANY,
    Sentence(
        "PreFilterResponse.status", "REQUIRED. CODE_SKIP leaves out this plugin's Filter. A refusal ends the cycle."
    ),
)


@specification(
    "P112",
    "PreFilter",
    Sentence(
        "PreFilterResponse.narrowed",
        "OPTIONAL. The plugin narrows the nodes to `node_names`, even where that is none.",
    ),
    points=(rpcs.PRE_FILTER_POINT,),
)
async def names_come_with_narrowed(session: Session) -> None:
    """`node_names` is set only where `narrowed` is set: else the names have no effect."""
    for each in await sample_requests.answered(session, rpcs.PRE_FILTER):
        assert isinstance(each.response, filter_pb2.PreFilterResponse)
        if each.response.node_names and not each.response.narrowed:
            raise outcomes.Violation("node_names is set, but narrowed is not", each)


pre_filter_may_be_repeated = check_factories.repeated(
    "P113",
    "PreFilter",
    rpcs.PRE_FILTER,
    Sentence(
        "FilterPlugin.PreFilter",
        "PreFilter answers whether the pod can run anywhere, may narrow the nodes, and gives state for Filter. "
        "Idempotent.",
    ),
)
post_filter_is_served = check_factories.served(
    "P120", "PostFilter", rpcs.POST_FILTER, Sentence(PROTOCOL, "| PostFilter, Reserve | `FilterPlugin.PostFilter`;")
)
post_filter_status = check_factories.status_set(
    "P121",
    "PostFilter",
    rpcs.POST_FILTER,
    "",
    check_factories.ANY,
    Sentence("PostFilterResponse.status", "REQUIRED. CODE_SUCCESS: the actions make room."),
)


@specification(
    "P122",
    "PostFilter",
    Sentence("PostFilterResponse.status", "CODE_SUCCESS: the actions make room."),
    points=(rpcs.POST_FILTER_POINT,),
)
async def actions_come_with_success(session: Session) -> None:
    """Actions come with CODE_SUCCESS alone."""
    for each in await sample_requests.answered(session, rpcs.POST_FILTER):
        assert isinstance(each.response, filter_pb2.PostFilterResponse)
        if each.response.actions and each.response.status.code in (status_pb2.CODE_ERROR, *check_factories.REFUSALS):
            raise outcomes.Violation("actions is set, but status.code is not CODE_SUCCESS", each)


# What an action must have, by the kind of action.
_ACTION_SENTENCES = {
    "evict": (
        Sentence("Evict.message", "REQUIRED. The condition's message."),
        Sentence("Evict.preemptor", "REQUIRED. The pod that room is made for."),
    ),
    "nominate": (Sentence("Nominate.node_name", "REQUIRED. The node."),),
    "deallocate": (
        Sentence("Deallocate.namespace", "REQUIRED. The claim's namespace."),
        Sentence("Deallocate.name", "REQUIRED. The claim's name."),
        Sentence("Deallocate.uid", "REQUIRED. The claim's UID."),
    ),
    "remove_claim_user": (
        Sentence("RemoveClaimUser.namespace", "REQUIRED. The claim's namespace."),
        Sentence("RemoveClaimUser.name", "REQUIRED. The claim's name."),
        Sentence("RemoveClaimUser.uid", "REQUIRED. The claim's UID."),
        Sentence("RemoveClaimUser.user_uid", "REQUIRED. The UID of the user."),
    ),
    "set_condition": (Sentence("SetCondition.condition", "REQUIRED. The condition, complete."),),
    "set_group_condition": (Sentence("SetGroupCondition.condition", "REQUIRED. The condition, complete."),),
    "undo_pre_bind": (Sentence("UndoPreBind.state", "REQUIRED. The state that Reserve returned"),),
}


@specification(
    "P123",
    "PostFilter",
    Sentence("Action.pod", "REQUIRED. The pod that the write is about"),
    Sentence("PodIdentity.namespace", "REQUIRED. The pod's namespace."),
    Sentence("PodIdentity.name", "REQUIRED. The pod's name."),
    Sentence("PodIdentity.uid", "REQUIRED. The pod's UID; a pod of the same name with another UID is another pod."),
    points=(rpcs.POST_FILTER_POINT,),
)
async def actions_name_their_pod(session: Session) -> None:
    """Each action names its pod by namespace, name and UID."""
    for each in await sample_requests.answered(session, rpcs.POST_FILTER):
        assert isinstance(each.response, filter_pb2.PostFilterResponse)
        for at, action in enumerate(each.response.actions):
            if missing := list(_unset(action.pod, ("namespace", "name", "uid"))):
                raise outcomes.Violation(f"actions[{at}].pod.{missing[0]} is not set", each)


@specification(
    "P124",
    "PostFilter",
    Sentence("Action.action", "REQUIRED. What is written."),
    *(sentence for sentences in _ACTION_SENTENCES.values() for sentence in sentences),
    points=(rpcs.POST_FILTER_POINT,),
)
async def actions_are_complete(session: Session) -> None:
    """Each action says what is written, completely."""
    for each in await sample_requests.answered(session, rpcs.POST_FILTER):
        assert isinstance(each.response, filter_pb2.PostFilterResponse)
        for at, action in enumerate(each.response.actions):
            kind = action.WhichOneof("action")
            if kind is None:
                raise outcomes.Violation(f"actions[{at}].action is not set", each)
            fields = [sentence.source.partition(".")[2] for sentence in _ACTION_SENTENCES.get(kind, ())]
            if missing := list(_unset(getattr(action, kind), fields)):
                raise outcomes.Violation(f"actions[{at}].{kind}.{missing[0]} is not set", each)


def _unset(message: Message, names: Iterable[str]) -> Iterator[str]:
    """The fields of these names that are not set."""
    present = {field.name for field, _ in message.ListFields()}
    return (name for name in names if name not in present)


post_filter_may_be_repeated = check_factories.repeated(
    "P125",
    "PostFilter",
    rpcs.POST_FILTER,
    Sentence("FilterPlugin.PostFilter", "It writes nothing: it returns actions, and bind executes them. Idempotent."),
)
reserve_is_served = check_factories.served(
    "P130", "Reserve", rpcs.RESERVE, Sentence(PROTOCOL, "`FilterPlugin.PostFilter`; `Reserve`, `Unreserve`")
)
one_reservation_for_each = check_factories.one_for_each(
    "P131",
    "Reserve",
    rpcs.RESERVE,
    "placements",
    "reservations",
    Sentence("ReserveResponse.reservations", "REQUIRED. One a placement."),
)
reservation_status = check_factories.status_set(
    "P132",
    "Reserve",
    rpcs.RESERVE,
    "reservations",
    check_factories.ANY,
    Sentence("Reservation.status", "REQUIRED. Anything but CODE_SUCCESS cancels the placement."),
)


@specification(
    "P133",
    "Reserve",
    Sentence("ReserveResponse.evaluated_generation", "REQUIRED from the phase; unset from a plugin."),
    points=(rpcs.RESERVE_POINT,),
)
async def no_generation_is_set(session: Session) -> None:
    """`evaluated_generation` is not set."""
    for each in await sample_requests.answered(session, rpcs.RESERVE):
        assert isinstance(each.response, filter_pb2.ReserveResponse)
        if each.response.evaluated_generation:
            raise outcomes.Violation("evaluated_generation is set", each)


@specification(
    "P134",
    "Reserve",
    Sentence(
        "Reservation.claim_statuses", "OPTIONAL. Ordinary node resources that the pod's device claims take on this node"
    ),
    points=(rpcs.RESERVE_POINT,),
)
async def no_claim_statuses_are_set(session: Session) -> None:
    """`claim_statuses` is not set: it is for the in-tree plugin of device claims."""
    for each in await sample_requests.answered(session, rpcs.RESERVE):
        assert isinstance(each.response, filter_pb2.ReserveResponse)
        if any(reservation.claim_statuses for reservation in each.response.reservations):
            raise outcomes.Violation("reservations.claim_statuses is set", each)


reserve_may_be_repeated = check_factories.repeated(
    "P135",
    "Reserve",
    rpcs.RESERVE,
    Sentence("FilterPlugin.Reserve", "the frontend caches the response and streams it to all replicas. Idempotent."),
    times=_RESERVATIONS,
)
unreserve_never_fails = check_factories.served(
    "P136", "Reserve", rpcs.UNRESERVE, Sentence("FilterPlugin.Unreserve", "Idempotent; never fails the pod.")
)


@specification(
    "P137",
    "Reserve",
    Sentence("FilterPlugin.Unreserve", "Idempotent; never fails the pod."),
    Sentence(PROTOCOL, "every RPC but `Sync` is idempotent"),
    points=(rpcs.RESERVE_POINT,),
)
async def unreserve_of_nothing_is_answered(session: Session) -> None:
    """Unreserve is answered for what is not reserved, and when it is repeated."""
    if (await sample_requests.samples(session, rpcs.UNRESERVE))[0].failure is not None:
        raise outcomes.NotChecked("Unreserve fails")
    unknown = sample_requests.placements(session, first=5_000)
    request = filter_pb2.UnreserveRequest(cycle=session.cycle(0), placements=unknown)
    for _ in range(2):
        each = await session.call(rpcs.UNRESERVE, request)
        if each.failure is not None:
            raise outcomes.Violation(f"Unreserve of a pod without a reservation fails with {each.failure}", each)


@specification(
    "P138",
    "Reserve",
    Sentence(
        "FilterPlugin.Unreserve", "Unreserve cancels a reservation, for plugins that store something of their own."
    ),
    points=(rpcs.RESERVE_POINT,),
)
async def unreserve_releases_what_was_reserved(session: Session) -> None:
    """After Unreserve another pod can be reserved as before."""
    answers = []
    # Beyond those of the sample requests, which may have left something reserved.
    for number in range(1_000, 1_000 + _RESERVATIONS):
        reserve, unreserve = _reservation(session, number)
        answers.append(await session.answer(rpcs.RESERVE, reserve))
        await session.answer(rpcs.UNRESERVE, unreserve)
        if check_factories.codes_in(answers[-1]) != check_factories.codes_in(answers[0]):
            text = f"pod {len(answers)} is answered otherwise, although those before it were unreserved"
            raise outcomes.Violation(text, answers[-1])


@specification(
    "P139",
    "Reserve",
    Sentence("FilterPlugin.Unreserve", "that one MUST NOT leave anything reserved."),
    points=(rpcs.RESERVE_POINT,),
)
async def a_late_reserve_takes_nothing(session: Session) -> None:
    """A Reserve that its caller gave up, and unreserved while it ran, leaves nothing reserved."""
    reserve, unreserve = _reservation(session, 2_000)
    first = await session.answer(rpcs.RESERVE, reserve)
    await session.answer(rpcs.UNRESERVE, unreserve)
    for number in range(1, 1 + _RESERVATIONS):
        reserve, unreserve = _reservation(session, 2_000 + number)
        # Given up at another moment of the call each time.
        await session.call(rpcs.RESERVE, reserve, timeout=max(first.seconds * number / (1 + _RESERVATIONS), 0.0005))
        await session.answer(rpcs.UNRESERVE, unreserve)
    await asyncio.sleep(max(2 * first.seconds, _LATE_SECONDS))
    reserve, unreserve = _reservation(session, 2_001 + _RESERVATIONS)
    last = await session.answer(rpcs.RESERVE, reserve)
    await session.answer(rpcs.UNRESERVE, unreserve)
    if check_factories.codes_in(last) != check_factories.codes_in(first):
        text = f"after {_RESERVATIONS} calls that were given up and unreserved the next pod is answered otherwise"
        raise outcomes.Violation(text, last)


def _reservation(session: Session, number: int) -> tuple[filter_pb2.ReserveRequest, filter_pb2.UnreserveRequest]:
    """Reserve and Unreserve of a pod on the first node."""
    placements = sample_requests.placements(session, 1, first=number)
    placements[0].node_name, placements[0].slot = session.cluster.nodes[0].name, 0
    cycle = session.cycle(0)
    return (
        filter_pb2.ReserveRequest(cycle=cycle, placements=placements),
        filter_pb2.UnreserveRequest(cycle=cycle, placements=placements),
    )
