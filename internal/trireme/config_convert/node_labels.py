"""Converts the plugin NodeLabel to NodeAffinity.

NodeLabel let pods on nodes with some labels, whatever their values, and without others, and preferred such nodes. An
affinity that is added to that of every pod does the same; as preference it shares NodeAffinity's score with what the
pods prefer themselves.

Tests: tests/unit/config_convert/test_policies.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trireme.config_convert.plugin_lists import Plugins
from trireme.registry import legacy

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(slots=True)
class NodeLabels:
    """Required, forbidden and preferred labels of nodes."""

    present: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    better_present: list[str] = field(default_factory=list)
    better_absent: list[str] = field(default_factory=list)

    @property
    def preferences(self) -> int:
        """How many preferences there are."""
        return len(self.better_present) + len(self.better_absent)


def require_labels(plugins: Plugins, labels: NodeLabels) -> None:
    """Require these labels, present or absent, of nodes."""
    expressions = _label_expressions(labels.present, labels.absent)
    if not expressions:
        return
    selector = _required_added_affinity(plugins).setdefault(_REQUIRED, {})
    # Terms are alternatives: add the labels to each.
    terms: list[dict[str, Any]] = selector.get("nodeSelectorTerms") or [{}]
    selector["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), *expressions]} for term in terms
    ]


def prefer_labels(plugins: Plugins, labels: NodeLabels) -> None:
    """Prefer nodes with these labels present or absent."""
    expressions = _label_expressions(labels.better_present, labels.better_absent)
    if expressions:
        affinity = _required_added_affinity(plugins)
        affinity[_PREFERRED] = [
            *(affinity.get(_PREFERRED) or ()),
            *({"weight": 1, "preference": {"matchExpressions": [expression]}} for expression in expressions),
        ]


def _required_added_affinity(plugins: Plugins) -> dict[str, Any]:
    """The affinity that NodeAffinity adds to each pod, to be changed; made if it is missing."""
    args = plugins.args_of(legacy.ADDED_AFFINITY)
    args["addedAffinity"] = args.get("addedAffinity") or {}
    affinity: dict[str, Any] = args["addedAffinity"]
    return affinity


def _label_expressions(present: Sequence[str], absent: Sequence[str]) -> list[dict[str, str]]:
    """Node selector expressions for labels that have to be present, and absent."""
    return [
        *({"key": label, "operator": "Exists"} for label in present),
        *({"key": label, "operator": "DoesNotExist"} for label in absent),
    ]
