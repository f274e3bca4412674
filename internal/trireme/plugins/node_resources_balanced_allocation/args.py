"""The arguments of NodeResourcesBalancedAllocation.

Source: pkg/scheduler/apis/config (v1/defaults.go, validation) of Kubernetes 1.37.
"""

from dataclasses import dataclass
from typing import Annotated

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs, Value
from trireme.plugin_kit import args_schema
from trireme_kube.apimachinery.field_errors import Problem, child, duplicate, index, invalid


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocationArgs:
    """Which resources are balanced."""

    resources: Annotated[tuple[args_schema.ResourceSpec, ...], "The resources; their weight is 1."] = ()


def _set_defaults(value: Value, _gates: feature_gates.Gates) -> None:
    """Set kube-scheduler's default resources (cpu and memory) and weights."""
    if not value.get("resources"):
        value["resources"] = args_schema.default_resources()
    args_schema.set_default_weights(value["resources"])


def _problems_of_args(path: str, args: JsonArgs, _gates: feature_gates.Gates) -> list[Problem]:
    """Return the problems of the resources: listed twice, or a weight other than 1."""
    problems: list[Problem] = []
    seen: set[str] = set()
    for position, resource in enumerate(args.get("resources") or ()):
        where = index(child(path, "resources"), position)
        if resource["name"] in seen:
            problems.append(duplicate(child(where, "name"), resource["name"]))
        seen.add(resource["name"])
        if resource["weight"] != 1:
            problems.append(invalid(child(where, "weight"), resource["weight"], "must be 1"))
    return problems


@dataclass(frozen=True, slots=True)
class Args:
    """NodeResourcesBalancedAllocationArgs: resources with weight 1."""

    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))


ARGS = PluginArgs(
    NodeResourcesBalancedAllocationArgs,
    _problems_of_args,
    "want args to be of type NodeResourcesBalancedAllocationArgs, got <nil>",
    _set_defaults,
)
