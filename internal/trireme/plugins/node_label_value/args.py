"""The arguments of NodeLabelValue, which kube-scheduler does not have."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs
from trireme_kube.apimachinery import declaration
from trireme_kube.apimachinery.declaration import OneOf, Written
from trireme_kube.apimachinery.field_errors import Problem, qualified_name_problems, required

LOWEST = "Lowest"
HIGHEST = "Highest"


def _label_key_problems(path: str, key: str) -> list[Problem]:
    """Return what is wrong with the label's key."""
    return qualified_name_problems(path, key) if key else [required(path, "can not be empty")]


@dataclass(frozen=True, slots=True)
class Args:
    """NodeLabelValueArgs: a label, and which of its values are preferred."""

    GO_TYPE: ClassVar = "v1.NodeLabelValueArgs"

    label_key: Annotated[str, "The label whose value is an integer.", Written(omitempty=False), _label_key_problems] = (
        ""
    )
    order: Annotated[str, "The values that are preferred: Lowest or Highest.", OneOf((LOWEST, HIGHEST))] = LOWEST


def read(args: JsonArgs) -> Args:
    """Read the arguments from their JSON, which is checked and has its defaults."""
    found: Args = declaration.read(Args, args)
    return found


def _problems_of_args(path: str, args: JsonArgs, _gates: feature_gates.Gates) -> list[Problem]:
    """Return what is wrong with the fields."""
    return declaration.problems_of(read(args), path)


ARGS = PluginArgs(Args, _problems_of_args, "want args to be of type NodeLabelValueArgs, got <nil>")
