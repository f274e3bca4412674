"""The arguments of InterPodAffinity.

Source: pkg/scheduler/apis/config (v1/defaults.go, validation) of Kubernetes 1.37.
"""

from dataclasses import dataclass

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs, Value
from trireme_kube.apimachinery.field_errors import Problem, child, invalid
from trireme_kube.apimachinery.schema import BOOL, OPTIONAL_INT32, TYPE_META, Field, struct

_SCHEMA = struct(
    "v1",
    "InterPodAffinityArgs",
    *TYPE_META,
    Field("hardPodAffinityWeight", OPTIONAL_INT32),
    Field("ignorePreferredTermsOfExistingPods", BOOL, omitempty=False),
)


def _set_defaults(value: Value, _gates: feature_gates.Gates) -> None:
    """Set kube-scheduler's defaults: hard pod affinity weighs 1."""
    value.setdefault("hardPodAffinityWeight", 1)


def _problems_of_args(path: str, args: JsonArgs, _gates: feature_gates.Gates) -> list[Problem]:
    """Return what is wrong with the weight of hard pod affinity."""
    weight = args["hardPodAffinityWeight"]
    if not 0 <= weight <= 100:
        return [invalid(child(path, "hardPodAffinityWeight"), weight, "not in valid range [0, 100]")]
    return []


@dataclass(frozen=True, slots=True)
class Args:
    """InterPodAffinityArgs."""

    hard_weight: int = 1
    ignore_preferred_of_existing: bool = False


def read(args: JsonArgs) -> Args:
    """Read the arguments from their JSON, which is checked and has its defaults."""
    ignores = bool(args.get("ignorePreferredTermsOfExistingPods"))
    return Args(hard_weight=args.get("hardPodAffinityWeight", 1), ignore_preferred_of_existing=ignores)


ARGS = PluginArgs(_SCHEMA, _problems_of_args, "want args to be of type InterPodAffinityArgs, got <nil>", _set_defaults)
