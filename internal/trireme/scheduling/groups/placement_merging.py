"""The placements of a group that several plugins at PlacementGenerate restrict: what theirs have in common.

Source: pkg/scheduler/framework/runtime/placement_merging.go.

Tests: tests/unit/scheduling/test_placement_merging.py.
"""

from collections.abc import Sequence

from trireme.plugin_api.placements import NodesOfDomain
from trireme_kube.apimachinery import golang

_SEPARATOR = "/"


def find_wrong_name(placements: Sequence[NodesOfDomain]) -> str:
    """Why the names of one plugin's placements cannot be joined with others'; empty: they can."""
    seen: set[str] = set()
    for name, _ in placements:
        if _SEPARATOR in name:
            return f"placement name {golang.quote(name)} must not contain {golang.quote(_SEPARATOR)}"
        if name in seen:
            return f"plugin returned duplicate placement name {golang.quote(name)}"
        seen.add(name)
    return ""


def intersect(first: Sequence[NodesOfDomain], second: Sequence[NodesOfDomain]) -> list[NodesOfDomain]:
    """The nodes in common of each placement of the first with each of the second, without pairs that have none.

    The order is that of the first, of its nodes too.
    """
    others = [(name, frozenset(slots)) for name, slots in second]
    return [
        NodesOfDomain(f"{name}{_SEPARATOR}{other}", common)
        for name, slots in first
        for other, inside in others
        if (common := tuple(dict.fromkeys(slot for slot in slots if slot in inside)))
    ]
