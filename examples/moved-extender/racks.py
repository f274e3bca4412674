"""The rule that both the HTTP extender and the plugin apply: which racks take pods, and which are preferred."""

from collections.abc import Mapping

RACK = "example.com/rack"
FREE_KILOWATTS = "example.com/free-kilowatts"
CLOSED = frozenset(("r3", "r7"))
MOST_KILOWATTS = 10


def refusal(labels: Mapping[str, str]) -> str:
    """Why a node with these labels takes no pod; empty: it may."""
    if labels.get(RACK) in CLOSED:
        return "node(s) were in a closed rack"
    return ""


def free_kilowatts(labels: Mapping[str, str]) -> int:
    """The free power of the node's rack, 0 to 10."""
    text = labels.get(FREE_KILOWATTS, "")
    return min(int(text), MOST_KILOWATTS) if text.isdigit() else 0
