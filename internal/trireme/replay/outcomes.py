"""What was decided, as lines of text: two decisions are the same if and only if their lines are.

Statuses are compared by what the scheduler reports of them: plugin, code and messages, and how many nodes have each.

Tests: tests/unit/replay/test_decision_replay.py.
"""

from collections.abc import Iterable, Sequence

from google.protobuf import text_format

from trireme.framework import status
from trireme.scheduling import fit_error
from trireme.v1 import decision_pb2
from trireme.wire import status as wire_status
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer
from trireme.wire.post_filter_result import PostFilterResult

Outcome = tuple[str, ...]

# The slot of no node.
_NO_SLOT = -1


def recorded_filter(decision: decision_pb2.FilterDecision) -> Outcome:
    """The outcome of a recorded call of Filter."""
    pre_filter = wire_status.from_message(decision.pre_filter) if decision.HasField("pre_filter") else None
    refusals = [(wire_status.from_message(each.status), each.nodes) for each in decision.refusals]
    return _filter_outcome(pre_filter, refusals, PostFilterResult.from_messages(decision.post_filter_results))


def replayed_filter(answer: FilterAnswer) -> Outcome:
    """The outcome of Filter's answer."""
    refusals: Sequence[tuple[status.Status, int]] = ()
    if answer.refusal is None and answer.is_refused_everywhere(_NO_SLOT):
        refusals = fit_error.nodes_by_status(answer.columns.statuses, answer.columns.index)
    return _filter_outcome(answer.refusal, refusals, PostFilterResult.from_messages(answer.post_filter_results))


def placement(slots: Iterable[int], failure: status.Status | None, names: Sequence[str]) -> Outcome:
    """The outcome of Place. `names` are the nodes' by slot."""
    if failure is not None:
        return (status_text(failure),)
    return tuple(names[slot] if slot < len(names) else f"slot {slot}" for slot in slots)


def recorded_placement(decision: decision_pb2.PlaceDecision, names: Sequence[str]) -> Outcome:
    """The outcome of a recorded call of Place."""
    failure = wire_status.from_message(decision.failure) if decision.HasField("failure") else None
    return placement(decision.slots, failure, names)


def replayed_placement(answer: PlaceAnswer, names: Sequence[str]) -> Outcome:
    """The outcome of Place's answer."""
    return placement(answer.slots, answer.failure, names)


def admitted(count: int) -> Outcome:
    """The outcome of FilterNominated."""
    return (f"{count} nominated pods may have their nodes",)


def post_filter(results: Iterable[PostFilterResult]) -> Outcome:
    """The outcome of PostFilter: what to do for each pod."""
    return tuple(_post_filter_text(result) for result in results)


def _filter_outcome(
    pre_filter: status.Status | None,
    refusals: Iterable[tuple[status.Status, int]],
    results: Iterable[PostFilterResult],
) -> Outcome:
    """The lines of Filter's answer, refusals in a fixed order: each replica numbers statuses for itself."""
    if pre_filter is not None:
        return (f"every node: {status_text(pre_filter)}", *post_filter(results))
    lines = sorted(f"{nodes} nodes: {status_text(refusing)}" for refusing, nodes in refusals)
    return (*(lines or ["some nodes pass"]), *post_filter(results))


def status_text(refusing: status.Status) -> str:
    """The status as one line."""
    return f"{refusing.plugin}: {refusing.message} ({refusing.code.name})"


def _post_filter_text(result: PostFilterResult) -> str:
    """The result as one line."""
    node = {None: "leaves the nomination", "": "clears the nomination"}.get(
        result.nominated_node, f"nominates {result.nominated_node}"
    )
    actions = "; ".join(text_format.MessageToString(action, as_one_line=True) for action in result.actions)
    return f"PostFilter {result.code.name} {result.message} {node} [{actions}]"
