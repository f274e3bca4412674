"""The arguments of InterPodAffinity.

Source: pkg/scheduler/apis/config (v1/defaults.go, validation) of Kubernetes 1.37.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs
from trireme_kube.apimachinery import declaration
from trireme_kube.apimachinery.declaration import Written
from trireme_kube.apimachinery.field_errors import Problem, child, invalid
from trireme_kube.apimachinery.schema import OPTIONAL_INT32


@dataclass(frozen=True, slots=True)
class Args:
    """InterPodAffinityArgs."""

    GO_TYPE: ClassVar = "v1.InterPodAffinityArgs"

    hard_weight: Annotated[
        int, "The weight of hard pod affinity.", Written("hardPodAffinityWeight", OPTIONAL_INT32)
    ] = 1
    ignore_preferred_of_existing: Annotated[
        bool,
        "Whether preferred terms of existing pods are ignored, unless the pod has terms itself.",
        Written("ignorePreferredTermsOfExistingPods", omitempty=False),
    ] = False


def _problems_of_args(path: str, args: JsonArgs, _gates: feature_gates.Gates) -> list[Problem]:
    """Return what is wrong with the weight of hard pod affinity."""
    weight = args["hardPodAffinityWeight"]
    if not 0 <= weight <= 100:
        return [invalid(child(path, "hardPodAffinityWeight"), weight, "not in valid range [0, 100]")]
    return []


def read(args: JsonArgs) -> Args:
    """Read the arguments from their JSON, which is checked and has its defaults."""
    found: Args = declaration.read(Args, args)
    return found


ARGS = PluginArgs(Args, _problems_of_args, "want args to be of type InterPodAffinityArgs, got <nil>")
