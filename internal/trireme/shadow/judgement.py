"""Judges one binding of another scheduler against Trireme's evaluation of the same pod on the same state.

Pure: the evaluation is an argument, and the result says which of the outcomes holds and why.

Tests: tests/unit/shadow/test_decision_comparison.py.
"""

import enum
from dataclasses import dataclass

import numpy as np

from trireme.framework import status
from trireme.insight import explanation


class Outcome(enum.Enum):
    """How a binding compares with what Trireme would have decided; the value is its name in reports."""

    #: Trireme chooses the same node; or the pod was nominated for its node, which takes it.
    SAME = "same"
    #: The node has the same total score as Trireme's choice.
    TIED = "tied"
    #: Trireme chooses another node, which scores higher, or refuses the node.
    DIFFERENT = "different"
    #: As DIFFERENT, but the choice is the best on a state that the other scheduler may have seen (`order_search`).
    ORDER = "order"
    #: The state of the moment is unknown: the watch was interrupted, or a burst was too fast to judge each pod.
    UNKNOWN = "unknown"
    #: The pod cannot be evaluated: its fields are invalid, or a plugin failed.
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class PluginComparison:
    """One plugin's weighted scores of the two nodes."""

    plugin: str
    weight: int
    chosen: int
    preferred: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome for one binding. `chosen` is the other scheduler's node, `preferred` Trireme's; "": no node.

    Totals are 0 where there is no score. `detail` is a sentence for people.
    """

    outcome: Outcome
    chosen: str
    preferred: str = ""
    chosen_total: int = 0
    preferred_total: int = 0
    plugins: tuple[PluginComparison, ...] = ()
    feasible: int = 0
    detail: str = ""


def judge(found: explanation.Explanation, names: list[str], chosen: str, *, nominated: bool) -> Judgement:
    """Compare the node that a pod was bound to with the evaluation of the pod.

    `names` are the nodes' by slot; `nominated`: the pod was nominated for this node, so it is not compared with others.
    """
    slot = next((each for each in found.feasible.tolist() if names[each] == chosen), None)
    feasible = int(found.feasible.size)
    if slot is None:
        preferred, total = _best(found, names)
        text = f"Trireme refuses {chosen}: {_refusal(found, names, chosen)}"
        return Judgement(Outcome.DIFFERENT, chosen, preferred, preferred_total=total, feasible=feasible, detail=text)
    if nominated:
        return Judgement(Outcome.SAME, chosen, chosen, feasible=feasible, detail="it was nominated for this node")
    if isinstance(found.scores, status.Status):
        return Judgement(Outcome.ERROR, chosen, feasible=feasible, detail=f"scoring failed: {found.scores.message}")
    assert found.scores is not None  # there is a feasible node, and scores were requested
    return _compare_scores(found.scores, names, slot, feasible)


def _compare_scores(scores: explanation.NodeScores, names: list[str], slot: int, feasible: int) -> Judgement:
    """Compare a feasible node with the best one."""
    at = int(np.flatnonzero(scores.slots == slot)[0])
    chosen, preferred = names[slot], names[int(scores.slots[0])]
    totals = int(scores.totals[at]), int(scores.totals[0])
    if at == 0:
        return Judgement(Outcome.SAME, chosen, preferred, *totals, feasible=feasible)
    if totals[0] == totals[1]:
        return Judgement(Outcome.TIED, chosen, preferred, *totals, feasible=feasible)
    plugins = tuple(
        PluginComparison(
            each.plugin, each.weight, int(each.scores[at]) * each.weight, int(each.scores[0]) * each.weight
        )
        for each in scores.plugins
        if each.scores is not None
    )
    better = int(np.count_nonzero(scores.totals > totals[0]))
    text = f"{preferred} scores {totals[1]}, {chosen} {totals[0]}; {better} of {feasible} feasible nodes score higher"
    return Judgement(Outcome.DIFFERENT, chosen, preferred, *totals, plugins=plugins, feasible=feasible, detail=text)


def better_slots(found: explanation.Explanation, slot: int) -> set[int]:
    """The feasible slots that score higher than this one; all feasible ones if this one is not feasible."""
    if not isinstance(found.scores, explanation.NodeScores):
        return set()
    at = np.flatnonzero(found.scores.slots == slot)
    if not at.size:
        return set(found.scores.slots.tolist())
    return set(found.scores.slots[found.scores.totals > found.scores.totals[at[0]]].tolist())


def _best(found: explanation.Explanation, names: list[str]) -> tuple[str, int]:
    """Trireme's choice and its total; ("", 0) if no node is feasible."""
    if isinstance(found.scores, explanation.NodeScores):
        return names[int(found.scores.slots[0])], int(found.scores.totals[0])
    return "", 0


def _refusal(found: explanation.Explanation, names: list[str], node: str) -> str:
    """Why the node is refused: the plugin and its message."""
    if found.pre_filter is not None:
        return _status_text(found.pre_filter)
    for refusal in found.refusals:
        if any(names[slot] == node for slot in refusal.slots.tolist()):
            return _status_text(refusal.status)
    return "the watch has shown no such node" if node not in names else "it has no room for another such pod"


def _status_text(refusal: status.Status) -> str:
    return f"{refusal.message} ({refusal.plugin})" if refusal.plugin else refusal.message
