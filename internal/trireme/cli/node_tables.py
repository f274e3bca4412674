"""Tables of nodes for `trireme explain`: those that refuse a pod by reason, the feasible ones by score, and all.

Also change: console/src/views/refusals.tsx (how a shortage and refusals are shown).
Also change: console/src/views/scores.tsx (scores as a table).
Also change: protos/trireme/v1/shortage.proto (the messages).

Tests: tests/unit/cli/test_node_tables.py, tests/unit/cli/test_shortages_table.py,
tests/unit/cli/test_decision_display.py, tests/unit/cli/test_explain_command.py.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from rich import console

from trireme.cli import display
from trireme.framework import amount_words
from trireme.registry import reason_texts
from trireme.v1 import decision_explanation_pb2, insight_pb2, shortage_pb2, status_pb2
from trireme.wire import status as wire_status

# What the explanations of a pending pod and of a decision have in common.
Evaluation: TypeAlias = insight_pb2.ExplainResponse | decision_explanation_pb2.ExplainDecisionResponse
Refusal: TypeAlias = insight_pb2.NodeRefusal | decision_explanation_pb2.DecisionRefusal
ScorePlugin: TypeAlias = insight_pb2.WeightedScorePlugin | decision_explanation_pb2.DecisionScorePlugin
Node: TypeAlias = insight_pb2.FeasibleNode | decision_explanation_pb2.DecisionNode

# How many feasible nodes are shown.
_SHOWN_NODES = 5
# How many shortages are shown, and pods that use a resource.
_SHOWN_SHORTAGES, _SHOWN_USERS = 6, 3
# The parameter of a reason by which like ones differ, as the taints of one key do.
_VALUE = "value"
# How many nodes a refusal names.
_EXAMPLES, _FEW_EXAMPLES = 10, 3


def feasible_text(found: Evaluation) -> str:
    """How many nodes take the pod, of how many; at most, where answers of remote plugins are missing."""
    count = f"{found.feasible_count} of {found.node_count} nodes"
    return f"at most {count}" if found.feasible_at_most else count


def feasible_nodes_table(found: Evaluation, wide: bool) -> console.RenderableType:
    """The first nodes with what adds to their totals."""
    nodes = found.feasible_nodes if wide else found.feasible_nodes[:_SHOWN_NODES]
    entries = [[node.name, str(node.total), ", ".join(_score_texts(found, node))] for node in nodes]
    more = found.feasible_count - len(nodes)
    if more > 0 and (not wide or len(found.feasible_nodes) > len(nodes)):
        entries.append(["…", "", f"{more} more (-o wide names them)"])
    return display.table_of_rows(("NODE", "TOTAL", "SCORES"), entries, right=("TOTAL",))


def _score_texts(found: Evaluation, node: Node) -> list[str]:
    """What each plugin, and the extenders, add to a node's total."""
    plugins: Iterable[ScorePlugin] = found.score_plugins
    texts = [
        f"{plugin.name} {_score_text(score, plugin.weight)}"
        for plugin, score in zip(plugins, node.scores, strict=False)
        if score and not plugin.skipped
    ]
    extra = node.extender_score if isinstance(node, decision_explanation_pb2.DecisionNode) else 0
    return [*texts, f"extenders {extra}"] if extra else texts


def _score_text(score: int, weight: int) -> str:
    """A plugin's score, with its weight unless that is 1."""
    return f"{score}×{weight}" if weight > 1 else str(score)


def refusals_table(refusals: Iterable[Refusal], wide: bool) -> console.RenderableType:
    """A table of the refusals, a row for all nodes with the same one.

    Those that differ in a value alone, as taints with one key do, are one row. `wide`: each has its row, with ten
    examples in place of three.
    """
    entries = []
    for alike in [[each] for each in refusals] if wide else _alike(refusals):
        names = [name for refusal in alike for name in refusal.nodes]
        examples = names[:_EXAMPLES] if wide else names[:_FEW_EXAMPLES]
        nodes = sum(map(_node_count, alike))
        more = " …" if nodes > len(examples) and examples else ""
        text = refusal_text(alike[0].status, [reason for each in alike for reason in each.status.reasons])
        entries.append([str(nodes), refused_by(alike[0].status.plugin), text, f"{', '.join(examples)}{more}"])
    return display.table_of_rows(
        ("NODES", "REFUSED BY", "REASON", "EXAMPLES"), entries, right=("NODES",), wrapped=("REASON", "EXAMPLES")
    )


def _alike(refusals: Iterable[Refusal]) -> list[list[Refusal]]:
    """The refusals that differ in the parameter `value` alone, those of the most nodes first."""
    found: dict[Any, list[Refusal]] = {}
    for each in refusals:
        key = (each.status.plugin, *each.status.messages, *map(_without_value, each.status.reasons))
        found.setdefault(key, []).append(each)
    return sorted(found.values(), key=lambda alike: -sum(map(_node_count, alike)))


def _node_count(refusal: Refusal) -> int:
    """How many of the nodes that the explanation is about have this refusal; an evaluation names them all."""
    return len(refusal.nodes) if isinstance(refusal, insight_pb2.NodeRefusal) else refusal.node_count


def shortages_table(refusals: Iterable[insight_pb2.NodeRefusal], wide: bool) -> console.RenderableType | None:
    """A table of what is short: how much is free on the node that has most of it, and who uses the rest.

    None: nothing is short. `wide`: with all users that are known, else three, and all refusals, else the first.
    """
    found = [each for refusal in refusals for each in refusal.shortages]
    if not found:
        return None
    entries = []
    for shortage in found if wide else found[:_SHOWN_SHORTAGES]:
        users = shortage.users if wide else shortage.users[:_SHOWN_USERS]
        resource = shortage.resource
        names = [f"{_user_name(user)} {amount_words.number(resource, user.used.string)}" for user in users]
        more = shortage.more_users + len(shortage.users) - len(users)
        names += [f"{more} {'more' if names else 'pods'}"] if more else []
        of = amount_words.amount(resource, shortage.allocatable.string)
        free = f"{amount_words.number(resource, shortage.free.string)} of {of}"
        requested = amount_words.amount(resource, shortage.requested.string)
        entries.append([resource, requested, free, shortage.node_name, ", ".join(names)])
    headers = ("SHORT OF", "REQUESTED", "MOST FREE", "ON NODE", "USED BY")
    return display.table_of_rows(headers, entries, right=("REQUESTED", "MOST FREE"), wrapped=("USED BY",))


def _user_name(user: shortage_pb2.ResourceUser) -> str:
    return "a nominated pod" if user.nominated else f"{user.pod.namespace}/{user.pod.name}"


def refused_by(plugin: str) -> str:
    """Who refuses; without a plugin PreFilter does, as its plugins left no node in common."""
    return plugin or "PreFilter"


def refusal_text(refusal: status_pb2.Status, reasons: Sequence[status_pb2.Reason] = ()) -> str:
    """The messages of a status, and behind them its reasons, or these of several statuses with the same messages."""
    message = ", ".join(refusal.messages) or wire_status.from_message(refusal).code.label
    details = reasons_text(refusal.plugin, reasons or refusal.reasons)
    return f"{message} ({details})" if details else message


def reasons_text(plugin: str, reasons: Iterable[status_pb2.Reason]) -> str:
    """Reasons in words; of those that differ in a value alone how many there are, and some of the values."""
    groups: dict[Any, list[status_pb2.Reason]] = {}
    for each in reasons:
        groups.setdefault(_without_value(each), []).append(each)
    return "; ".join(filter(None, (_text_of_alike(plugin, alike) for alike in groups.values())))


def _without_value(reason: status_pb2.Reason) -> Any:
    """What is the same in reasons that are alike."""
    return reason.code, *sorted(pair for pair in reason.parameters.items() if pair[0] != _VALUE)


def _text_of_alike(plugin: str, alike: Sequence[status_pb2.Reason]) -> str:
    """The text of a reason, or what several have in common and the values in which they differ."""
    values = list(dict.fromkeys(each.parameters.get(_VALUE, "") for each in alike))
    if len(values) == 1:
        return _reason_details(plugin, alike[0])
    common = status_pb2.Reason()
    common.CopyFrom(alike[0])
    common.parameters[_VALUE] = "*"
    shown = ", ".join(value or "(none)" for value in values[:_FEW_EXAMPLES])
    more = " …" if len(values) > _FEW_EXAMPLES else ""
    return f"{_reason_details(plugin, common)}, {len(values)} values: {shown}{more}"


def _reason_details(plugin: str, reason: status_pb2.Reason) -> str:
    """A reason in the plugin's words, e.g. `100 cpu requested`; without such words, its code and parameters."""
    parameters = dict(sorted(reason.parameters.items()))
    text = reason_texts.reason_text(plugin, reason.code, parameters)
    if text or not parameters:
        return text
    return f"{reason.code}: {', '.join(f'{name} {value}' for name, value in parameters.items())}"


def all_nodes_table(found: Evaluation) -> console.RenderableType:
    """Each node with its total, or the first plugin that refuses it and why; by name."""
    entries: dict[str, list[str]] = {}
    for node in found.feasible_nodes:
        entries[node.name] = [node.name, str(node.total) if node.scores else "", "feasible", ""]
    for refusal in found.refusals:
        text = refusal_text(refusal.status)
        for name in refusal.nodes:
            entries[name] = [name, "", refused_by(refusal.status.plugin), text]
    rows = [entries[name] for name in sorted(entries, key=_by_number)]
    return display.table_of_rows(("NODE", "TOTAL", "ANSWER", "REASON"), rows, right=("TOTAL",))


def _by_number(name: str) -> tuple[str | int, ...]:
    """Sorts n2 before n10."""
    return tuple((int(part) if part.isdigit() else part) for part in re.split(r"(\d+)", name))
