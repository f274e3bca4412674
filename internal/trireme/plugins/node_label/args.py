"""The arguments of NodeLabel.

Source: pkg/scheduler/apis/config (types_pluginargs.go, validation) of Kubernetes 1.22, the last to have the plugin.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs
from trireme_kube.apimachinery.field_errors import Problem, child, index, invalid
from trireme_kube.apimachinery.schema import STRING, TYPE_META, Field, Many, struct

_SCHEMA = struct(
    "v1",
    "NodeLabelArgs",
    *TYPE_META,
    Field("presentLabels", Many(STRING)),
    Field("absentLabels", Many(STRING)),
    Field("presentLabelsPreference", Many(STRING)),
    Field("absentLabelsPreference", Many(STRING)),
)


@dataclass(frozen=True, slots=True)
class Args:
    """NodeLabelArgs: keys of labels that nodes must have, must not have, should have and should not have."""

    present: Sequence[str] = ()
    absent: Sequence[str] = ()
    preferred_present: Sequence[str] = ()
    preferred_absent: Sequence[str] = ()


def read(args: JsonArgs) -> Args:
    """Read the arguments from their JSON, which is checked and has its defaults."""
    return Args(
        tuple(args.get("presentLabels") or ()),
        tuple(args.get("absentLabels") or ()),
        tuple(args.get("presentLabelsPreference") or ()),
        tuple(args.get("absentLabelsPreference") or ()),
    )


def _problems_of_args(path: str, args: JsonArgs, _gates: feature_gates.Gates) -> list[Problem]:
    """Return what is wrong with the arguments: a label that is both demanded and forbidden, or preferred and not."""
    return [
        *_problems_of_labels_in_both(path, args, "presentLabels", "absentLabels"),
        *_problems_of_labels_in_both(path, args, "presentLabelsPreference", "absentLabelsPreference"),
    ]


def _problems_of_labels_in_both(path: str, args: JsonArgs, present: str, absent: str) -> list[Problem]:
    """Return a problem for each label that is in both lists, at its place in the list `present`."""
    places = {label: place for place, label in enumerate(args.get(present) or ())}
    return [
        invalid(index(child(path, present), places[label]), label, f"conflict with {index(child(path, absent), place)}")
        for place, label in enumerate(args.get(absent) or ())
        if label in places
    ]


ARGS = PluginArgs(_SCHEMA, _problems_of_args, "want args to be of type NodeLabelArgs, got <nil>")
