"""Tables of nodes for `trireme explain`: those that refuse a pod by reason, the feasible ones by score, and all.

Tests: tests/unit/cli/test_shortages_table.py, tests/unit/cli/test_decision_display.py.
"""

import re
from collections.abc import Iterable
from typing import TypeAlias

from rich import console, padding

from trireme.cli import display
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


def with_indent(what: console.RenderableType) -> padding.Padding:
    """The part, indented."""
    return padding.Padding(what, (0, 0, 0, 2))


def refusals_table(refusals: Iterable[Refusal], wide: bool) -> console.RenderableType:
    """A table of the refusals, a row for all nodes with the same one. `wide`: with ten examples, else three."""
    entries = []
    for refusal in refusals:
        examples = refusal.nodes[:_EXAMPLES] if wide else refusal.nodes[:_FEW_EXAMPLES]
        more = " …" if _node_count(refusal) > len(examples) and examples else ""
        entries.append(
            [
                str(_node_count(refusal)),
                refused_by(refusal.status.plugin),
                refusal_text(refusal.status),
                f"{', '.join(examples)}{more}",
            ]
        )
    return display.table_of_rows(
        ("NODES", "REFUSED BY", "REASON", "EXAMPLES"), entries, right=("NODES",), wrapped=("REASON", "EXAMPLES")
    )


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
        names = [f"{_user_name(user)} {user.used.string}" for user in users]
        more = shortage.more_users + len(shortage.users) - len(users)
        names += [f"{more} {'more' if names else 'pods'}"] if more else []
        free = f"{shortage.free.string} of {shortage.allocatable.string}"
        entries.append([shortage.resource, shortage.requested.string, free, shortage.node_name, ", ".join(names)])
    headers = ("SHORT OF", "ASKED", "MOST FREE", "ON NODE", "USED BY")
    return display.table_of_rows(headers, entries, right=("ASKED", "MOST FREE"), wrapped=("USED BY",))


def _user_name(user: shortage_pb2.ResourceUser) -> str:
    return "a nominated pod" if user.nominated else f"{user.pod.namespace}/{user.pod.name}"


def refused_by(plugin: str) -> str:
    """Who refuses; without a plugin PreFilter does, as its plugins left no node in common."""
    return plugin or "PreFilter"


def refusal_text(refusal: status_pb2.Status) -> str:
    """The messages of a status, and its reasons behind them."""
    message = ", ".join(refusal.messages) or wire_status.from_message(refusal).code.label
    details = "; ".join(filter(None, (_reason_details(refusal.plugin, each) for each in refusal.reasons)))
    return f"{message} ({details})" if details else message


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
