"""The message of the condition PodScheduled as JSON, for programs that watch pods: `conditionMessage: JSON`.

Tests: tests/unit/scheduling/test_condition_message.py.
"""

import json
from typing import Any

from trireme.scheduling.failure import Failure
from trireme_kube.client.events import event_text


def as_json(failure: Failure, most: int = event_text.MAX_MESSAGE_BYTES) -> str:
    """The text and the reasons with their codes, those of most nodes first, in so many bytes: the last are left out."""
    text = failure.message
    while len(_encoded(text, [])) > most:
        text = text[: len(text) // 2]
    reasons: list[dict[str, Any]] = []
    for status, nodes in sorted(failure.statuses, key=lambda entry: -entry[1]):
        for reason in status.reasons:
            entry = {
                "plugin": status.plugin,
                "code": reason.code,
                "parameters": dict(reason.parameters),
                "nodes": nodes,
            }
            if len(_encoded(text, [*reasons, entry])) > most:
                return _encoded(text, reasons).decode()
            reasons.append(entry)
    return _encoded(text, reasons).decode()


def _encoded(text: str, reasons: list[dict[str, Any]]) -> bytes:
    # Texts of plugins may have what is no UTF-8.
    return json.dumps({"message": text, "reasons": reasons}, separators=(",", ":")).encode()
