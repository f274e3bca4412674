"""The arguments of NodeLabel.

Source: pkg/scheduler/apis/config (types_pluginargs.go, validation) of Kubernetes 1.22, the last to have the plugin.

Also change: internal/trireme/config_convert/profile_conversion.py,
internal/trireme/recording/redaction.py (arguments of NodeLabel).
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs
from trireme_kube.apimachinery import declaration
from trireme_kube.apimachinery.declaration import Written
from trireme_kube.apimachinery.field_errors import Problem, child, index, invalid


@dataclass(frozen=True, slots=True)
class Args:
    """NodeLabelArgs: keys of labels."""

    GO_TYPE: ClassVar = "v1.NodeLabelArgs"

    present: Annotated[tuple[str, ...], "Labels that nodes must have.", Written("presentLabels")] = ()
    absent: Annotated[tuple[str, ...], "Labels that nodes must not have.", Written("absentLabels")] = ()
    preferred_present: Annotated[
        tuple[str, ...], "Labels that nodes should have.", Written("presentLabelsPreference")
    ] = ()
    preferred_absent: Annotated[
        tuple[str, ...], "Labels that nodes should not have.", Written("absentLabelsPreference")
    ] = ()


def read(args: JsonArgs) -> Args:
    """Read the arguments from their JSON, which is checked and has its defaults."""
    found: Args = declaration.read(Args, {name: value for name, value in args.items() if value is not None})
    return found


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


ARGS = PluginArgs(Args, _problems_of_args, "want args to be of type NodeLabelArgs, got <nil>")
