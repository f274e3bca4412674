"""Statuses, at every extension point.

Tests: tests/contract/test_plugin_verification.py.
"""

import re
from collections.abc import Iterator, Sequence

from trireme.plugin_verification import check_factories, exchanges, outcomes, rpcs, sample_requests
from trireme.plugin_verification.sentences import Sentence
from trireme.plugin_verification.session import Session
from trireme.plugin_verification.specification import specification
from trireme.v1 import status_pb2

_GROUP = "statuses"
_LOWER_CAMEL_CASE = re.compile(r"[a-z][A-Za-z0-9]*")

Place = tuple[exchanges.Exchange, str, status_pb2.Status]


async def _statuses(session: Session) -> Iterator[Place]:
    """The statuses of all sample answers, with their places. Raises: NotApplicable: there is none."""
    out: list[Place] = []
    for rpc in (rpcs.PRE_ENQUEUE, *rpcs.WITH_CYCLE):
        if not session.declares(*rpc.points):
            continue
        try:
            calls = await sample_requests.answered(session, rpc)
        except (outcomes.NotApplicable, outcomes.NotChecked):
            continue
        for each in calls:
            assert each.response is not None
            out += [(each, path, status) for path, status in check_factories.statuses_in(each.response)]
    if not out:
        raise outcomes.NotApplicable("no answer has a status")
    return iter(out)


@specification(
    "P060",
    _GROUP,
    Sentence("Status.code", "REQUIRED. What happens next."),
    Sentence("Code.CODE_UNSPECIFIED", "an answer without a code is a defect of the service"),
)
async def codes_are_set(session: Session) -> None:
    """Each status has a code."""
    for each, path, status in await _statuses(session):
        if status.code == status_pb2.CODE_UNSPECIFIED:
            raise outcomes.Violation(f"{path}.code is not set", each)


@specification(
    "P061", _GROUP, Sentence("Code", "Code is what happens next; the names are those of the scheduling framework.")
)
async def codes_are_known(session: Session) -> None:
    """Each code is one of the contract."""
    for each, path, status in await _statuses(session):
        if status.code not in status_pb2.Code.values():
            raise outcomes.Violation(f"{path}.code is {status.code}, which the contract does not have", each)


@specification(
    "P062",
    _GROUP,
    Sentence("Status.plugin", "REQUIRED where code is not CODE_SUCCESS or CODE_SKIP. The plugin that answered."),
)
async def statuses_name_the_plugin(session: Session) -> None:
    """A status that is neither success nor skip names the plugin."""
    for each, path, status in await _statuses(session):
        nameless = status.code in (status_pb2.CODE_UNSPECIFIED, status_pb2.CODE_SUCCESS, status_pb2.CODE_SKIP)
        if not nameless and status.plugin != session.info.name:
            raise outcomes.Violation(f"{path}.plugin is {status.plugin!r}; expected {session.info.name!r}", each)


@specification(
    "P063", _GROUP, Sentence("Status.messages", "REQUIRED for a refusal. The messages in kube-scheduler's words")
)
async def refusals_have_a_message(session: Session) -> None:
    """A refusal has a message."""
    for each, path, status in await _statuses(session):
        if status.code in check_factories.REFUSALS and not any(message.strip() for message in status.messages):
            raise outcomes.Violation(f"{path}.messages is empty", each)


@specification("P064", _GROUP, Sentence("Reason.code", "REQUIRED. What refused, as a stable name in lower camel case"))
async def reasons_have_a_code(session: Session) -> None:
    """Each reason has a code in lower camel case."""
    for each, path, status in await _statuses(session):
        for at, reason in enumerate(status.reasons):
            if not _LOWER_CAMEL_CASE.fullmatch(reason.code):
                text = f"{path}.reasons[{at}].code is {reason.code!r}; expected a name in lower camel case"
                raise outcomes.Violation(text, each)


async def _check_code_is_of(session: Session, code: status_pb2.Code.ValueType, steps: Sequence[rpcs.Rpc]) -> None:
    """Raises: Violation for a status with the code in an answer of another step."""
    for each, path, status in await _statuses(session):
        if status.code == code and each.rpc not in steps:
            raise outcomes.Violation(
                f"{path}.code is {status_pb2.Code.Name(code)} in an answer of {each.rpc.name}", each
            )


@specification("P065", _GROUP, Sentence("Code.CODE_WAIT", "Permit, PreBind and PlacementFeasible only."))
async def only_some_steps_wait(session: Session) -> None:
    """CODE_WAIT comes from Permit, PreBind and PlacementFeasible alone."""
    await _check_code_is_of(session, status_pb2.CODE_WAIT, (rpcs.PERMIT, rpcs.PRE_BIND, rpcs.PLACEMENT_FEASIBLE))


@specification(
    "P066",
    _GROUP,
    Sentence(
        "Code.CODE_SKIP",
        "PreFilter, PreScore, PreBindPreFlight, PreBind and Bind only: this plugin has nothing to do for the pod",
    ),
)
async def only_some_steps_skip(session: Session) -> None:
    """CODE_SKIP comes from PreFilter, PreScore, PreBindPreFlight, PreBind and Bind alone."""
    steps = (rpcs.PRE_FILTER, rpcs.PRE_SCORE, rpcs.PRE_BIND_PRE_FLIGHT, rpcs.PRE_BIND, rpcs.BIND)
    await _check_code_is_of(session, status_pb2.CODE_SKIP, steps)


@specification(
    "P067",
    _GROUP,
    Sentence("Reason.parameters", "OPTIONAL. What the code is about, e.g. {resource: cpu, asked: 2000m}"),
)
async def parameters_have_names(session: Session) -> None:
    """Each parameter of a reason has a name."""
    for each, path, status in await _statuses(session):
        for at, reason in enumerate(status.reasons):
            if "" in reason.parameters:
                raise outcomes.Violation(f"{path}.reasons[{at}].parameters has an empty name", each)
