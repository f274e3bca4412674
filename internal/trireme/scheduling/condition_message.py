"""The messages of the conditions of pods and groups: texts, or JSON for programs (`conditionMessage: JSON`).

Tests: tests/unit/scheduling/test_condition_message.py.
"""

import json
from collections.abc import Sequence
from typing import Any

from trireme.scheduling.failure import Failure
from trireme_kube.client.events import event_text


def of(failure: Failure, json_conditions: bool) -> str:
    """The message of the condition of what failed so: its text, or JSON with it."""
    if json_conditions:
        return as_json(failure)
    return event_text.cut_to_bytes(failure.message, event_text.MAX_MESSAGE_BYTES)


def as_json(failure: Failure, most: int = event_text.MAX_MESSAGE_BYTES) -> str:
    """The text and the reasons with their codes, those of most nodes first, in so many bytes: the last are left out."""
    text = failure.message
    while len(_document(text, [])) > most:
        text = text[: len(text) // 2]
    reasons: list[str] = []
    size = len(_document(text, reasons))
    for status, nodes in failure.statuses:
        for reason in status.reasons:
            entry = {
                "plugin": status.plugin,
                "code": reason.code,
                "parameters": dict(reason.parameters),
                "nodes": nodes,
            }
            encoded = _encoded(entry)
            size += len(encoded) + bool(reasons)
            if size > most:
                return _document(text, reasons)
            reasons.append(encoded)
    return _document(text, reasons)


def _document(text: str, reasons: Sequence[str]) -> str:
    return f'{{"message":{_encoded(text)},"reasons":[{",".join(reasons)}]}}'


def _encoded(value: Any) -> str:
    # ASCII alone, so that its length is that in bytes, and texts of plugins may have what is no UTF-8.
    return json.dumps(value, separators=(",", ":"))
