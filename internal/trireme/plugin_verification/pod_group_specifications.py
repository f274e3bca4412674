"""PlacementFeasible.

Tests: tests/contract/test_plugin_verification.py.
"""

from trireme.plugin_verification import check_factories, outcomes, rpcs, sample_requests
from trireme.plugin_verification.sentences import PROTOCOL, Sentence
from trireme.plugin_verification.session import Session
from trireme.plugin_verification.specification import specification
from trireme.v1 import pod_groups_pb2, status_pb2

_GROUP = "PlacementFeasible"
_POINTS = (rpcs.PLACEMENT_FEASIBLE_POINT,)
_STATUSES = "PlacementFeasibleResponse.statuses"
_GOES_ON = (status_pb2.CODE_SUCCESS, status_pb2.CODE_WAIT)

placement_feasible_is_served = check_factories.served(
    "P230",
    _GROUP,
    rpcs.PLACEMENT_FEASIBLE,
    Sentence(PROTOCOL, "| PlacementFeasible | `PodGroupPlugin.PlacementFeasible` |"),
)
placement_feasible_status = check_factories.status_set(
    "P231",
    _GROUP,
    rpcs.PLACEMENT_FEASIBLE,
    "statuses",
    (*_GOES_ON, status_pb2.CODE_UNSCHEDULABLE, status_pb2.CODE_ERROR),
    Sentence(_STATUSES, "CODE_UNSCHEDULABLE: it will not fit in this placement, and the trial ends."),
)
placement_feasible_may_be_repeated = check_factories.repeated(
    "P232",
    _GROUP,
    rpcs.PLACEMENT_FEASIBLE,
    Sentence(
        "PodGroupPlugin.PlacementFeasible",
        "PlacementFeasible decides whether a group may still fit in the placement that it is being tried in. "
        "Idempotent.",
    ),
)


@specification(
    "P233", _GROUP, Sentence(_STATUSES, "REQUIRED. One a step, up to the first that ends the trial."), points=_POINTS
)
async def one_status_a_step(session: Session) -> None:
    """PlacementFeasible answers one status a step, up to the first that ends the trial."""
    for each in await sample_requests.answered(session, rpcs.PLACEMENT_FEASIBLE):
        assert isinstance(each.request, pod_groups_pb2.PlacementFeasibleRequest)
        assert isinstance(each.response, pod_groups_pb2.PlacementFeasibleResponse)
        codes = [status.code for status in each.response.statuses]
        ends = next((at + 1 for at, code in enumerate(codes) if code not in _GOES_ON), len(each.request.steps))
        if len(codes) != ends:
            raise outcomes.Violation(f"statuses has {len(codes)} entries; expected {ends}", each)


@specification(
    "P234",
    _GROUP,
    Sentence(_STATUSES, "CODE_WAIT, with a message: it fits if more of it does; if nothing more is tried"),
    points=_POINTS,
)
async def a_group_that_waits_is_told_why(session: Session) -> None:
    """PlacementFeasible answers CODE_WAIT with a message."""
    for each in await sample_requests.answered(session, rpcs.PLACEMENT_FEASIBLE):
        assert isinstance(each.response, pod_groups_pb2.PlacementFeasibleResponse)
        for at, status in enumerate(each.response.statuses):
            if status.code == status_pb2.CODE_WAIT and not "".join(status.messages).strip():
                raise outcomes.Violation(f"statuses[{at}].messages is empty; expected what is missing", each)


@specification(
    "P235",
    _GROUP,
    Sentence(_STATUSES, "CODE_SUCCESS: the group fits as it is; it stays so for the steps that follow."),
    points=_POINTS,
)
async def a_group_that_fits_goes_on_fitting(session: Session) -> None:
    """PlacementFeasible answers nothing but CODE_SUCCESS after CODE_SUCCESS."""
    for each in await sample_requests.answered(session, rpcs.PLACEMENT_FEASIBLE):
        assert isinstance(each.response, pod_groups_pb2.PlacementFeasibleResponse)
        codes = [status.code for status in each.response.statuses]
        later = codes[codes.index(status_pb2.CODE_SUCCESS) :] if status_pb2.CODE_SUCCESS in codes else []
        if any(code != status_pb2.CODE_SUCCESS for code in later):
            raise outcomes.Violation("a status after CODE_SUCCESS is another one", each)
