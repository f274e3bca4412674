"""The messages of the conditions of pods and groups: texts, or JSON for programs (`conditionMessage: JSON`).

Tests: tests/unit/scheduling/test_condition_message.py.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from trireme.scheduling.failure import Failure, is_node_refusal
from trireme_kube.apimachinery import event_text


def of(failure: Failure, json_conditions: bool) -> str:
    """The message of the condition of what failed so: its text, or JSON with it."""
    if json_conditions:
        return as_json(failure)
    return event_text.cut_to_bytes(failure.message, event_text.MAX_MESSAGE_BYTES)


def as_json(failure: Failure, most: int = event_text.MAX_MESSAGE_BYTES) -> str:
    """The text and the reasons with their codes, those of most nodes first, in so many bytes.

    The text has half of them at most. Where the rest is too little for all reasons, refusals of nodes are left out, and
    of these the last.
    """
    text = failure.message
    while len(_document(text, [])) > most // 2:
        text = text[: len(text) // 2]
    room = most - len(_document(text, []))
    reasons: list[tuple[int, str]] = []
    for at, (status, nodes) in sorted(enumerate(failure.statuses), key=lambda entry: is_node_refusal(entry[1])):
        for reason in status.reasons:
            encoded = _encoded(
                {
                    "plugin": status.plugin,
                    "code": reason.code,
                    "parameters": dict(reason.parameters),
                    "nodes": nodes,
                }
            )
            room -= len(encoded) + bool(reasons)
            if room < 0:
                return _document(text, _in_order(reasons))
            reasons.append((at, encoded))
    return _document(text, _in_order(reasons))


def _in_order(reasons: Iterable[tuple[int, str]]) -> list[str]:
    """The encoded reasons in the order of their statuses."""
    return [encoded for _, encoded in sorted(reasons, key=lambda entry: entry[0])]


def _document(text: str, reasons: Sequence[str]) -> str:
    return f'{{"message":{_encoded(text)},"reasons":[{",".join(reasons)}]}}'


def _encoded(value: Any) -> str:
    # ASCII alone, so that its length is that in bytes, and texts of plugins may have what is no UTF-8.
    return json.dumps(value, separators=(",", ":"))
