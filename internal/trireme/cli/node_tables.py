"""Tables of nodes for `trireme explain`: those that refuse a pod by reason, the feasible ones by score, and all."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich import console, padding

from trireme.cli import display
from trireme.registry import reason_texts

Report = Mapping[str, Any]

# How many feasible nodes are shown.
_SHOWN_NODES = 5
# How many shortages are shown, and pods that use a resource.
_SHOWN_SHORTAGES, _SHOWN_USERS = 6, 3


def feasible_text(found: Mapping[str, Any]) -> str:
    """How many nodes take the pod, of how many; at most, where answers of remote plugins are missing."""
    count = f"{found['feasibleNodes']} of {found['nodes']} nodes"
    return f"at most {count}" if found.get("feasibleNodesAtMost") else count


def feasible_nodes_table(found: Report, wide: bool) -> console.RenderableType:
    """The first nodes with what adds to their totals."""
    weights = {plugin["plugin"]: plugin["weight"] for plugin in found["scorePlugins"]}
    nodes = found["feasible"] if wide else found["feasible"][:_SHOWN_NODES]
    entries = [
        [
            node["node"],
            str(node["total"]),
            ", ".join(
                [
                    *(
                        f"{plugin} {_score_text(score, weights[plugin])}"
                        for plugin, score in node["scores"].items()
                        if score
                    ),
                    *([f"extenders {node['extenderScore']}"] if "extenderScore" in node else []),
                ]
            ),
        ]
        for node in nodes
    ]
    if found["feasibleNodes"] > len(nodes) and (not wide or len(found["feasible"]) > len(nodes)):
        entries.append(["…", "", f"{found['feasibleNodes'] - len(nodes)} more (-o wide names them)"])
    return display.table_of_rows(("NODE", "TOTAL", "SCORES"), entries, right=("TOTAL",))


def _score_text(score: int, weight: int) -> str:
    """A plugin's score, with its weight unless that is 1."""
    return f"{score}×{weight}" if weight > 1 else str(score)


def with_indent(what: console.RenderableType) -> padding.Padding:
    """The part, indented."""
    return padding.Padding(what, (0, 0, 0, 2))


def refusals_table(refusals: Sequence[Report], wide: bool) -> console.RenderableType:
    """A table of the refusals, a row for all nodes with the same one. `wide`: with all its examples, else three."""
    entries = []
    for refusal in refusals:
        examples = refusal["examples"] if wide else refusal["examples"][:3]
        more = " …" if refusal["nodes"] > len(examples) and examples else ""
        entries.append(
            [
                str(refusal["nodes"]),
                refusal["plugin"] or "PreFilter",
                refusal_text(refusal),
                f"{', '.join(examples)}{more}",
            ]
        )
    return display.table_of_rows(
        ("NODES", "REFUSED BY", "REASON", "EXAMPLES"), entries, right=("NODES",), wrapped=("REASON", "EXAMPLES")
    )


def shortages_table(refusals: Sequence[Report], wide: bool) -> console.RenderableType | None:
    """A table of what is short: how much is free on the node that has most of it, and who uses the rest.

    None: nothing is short. `wide`: with all users that are known, else three, and all refusals, else the first.
    """
    found = [each for refusal in refusals for each in refusal.get("shortages", ())]
    if not found:
        return None
    entries = []
    for shortage in found if wide else found[:_SHOWN_SHORTAGES]:
        users = shortage["users"] if wide else shortage["users"][:_SHOWN_USERS]
        names = [f"{user['pod'] or 'a nominated pod'} {user['used']}" for user in users]
        more = shortage["moreUsers"] + len(shortage["users"]) - len(users)
        names += [f"{more} {'more' if names else 'pods'}"] if more else []
        amounts = [shortage["requested"], f"{shortage['free']} of {shortage['allocatable']}"]
        entries.append([shortage["resource"], *amounts, shortage["node"], ", ".join(names)])
    headers = ("SHORT OF", "ASKED", "MOST FREE", "ON NODE", "USED BY")
    return display.table_of_rows(headers, entries, right=("ASKED", "MOST FREE"), wrapped=("USED BY",))


def refusal_text(refusal: Report) -> str:
    """The messages of a status, and its reasons behind them."""
    message = ", ".join(refusal["messages"]) or refusal["code"]
    details = "; ".join(filter(None, (_reason_details(refusal["plugin"], each) for each in refusal["reasons"])))
    return f"{message} ({details})" if details else message


def _reason_details(plugin: str, reason: Report) -> str:
    """A reason in the plugin's words, e.g. `100 cpu requested`; without such words, its code and parameters."""
    parameters = {name: value for name, value in reason.items() if name != "code"}
    text = reason_texts.reason_text(plugin, reason["code"], parameters)
    if text or not parameters:
        return text
    return f"{reason['code']}: {', '.join(f'{name} {value}' for name, value in parameters.items())}"


def all_nodes_table(found: Report) -> console.RenderableType:
    """Each node with its total, or the first plugin that refuses it and why; by name."""
    entries: dict[str, list[str]] = {}
    for node in found["feasible"]:
        entries[node["node"]] = [node["node"], str(node.get("total", "")), "feasible", ""]
    for refusal in found["refusals"]:
        text = refusal_text(refusal)
        for name in refusal["names"]:
            entries[name] = [name, "", refusal["plugin"] or "PreFilter", text]
    rows = [entries[name] for name in sorted(entries, key=_by_number)]
    return display.table_of_rows(("NODE", "TOTAL", "ANSWER", "REASON"), rows, right=("TOTAL",))


def _by_number(name: str) -> tuple[str | int, ...]:
    """Sorts n2 before n10."""
    return tuple((int(part) if part.isdigit() else part) for part in re.split(r"(\d+)", name))
