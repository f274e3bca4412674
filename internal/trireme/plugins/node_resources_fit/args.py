"""The arguments of NodeResourcesFit.

Source: pkg/scheduler/apis/config (v1/defaults.go, validation) of Kubernetes 1.37.

Also change: examples/score-phase-go/configuration.go (strategies of scores).

Tests: tests/unit/plugins/test_node_resources_fit.py, tests/conformance/test_config_golden.py,
tests/unit/config_convert/test_policies.py, tests/unit/cli/test_replay_command.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs, Value
from trireme.plugin_kit import args_schema
from trireme_kube.apimachinery.declaration import Written
from trireme_kube.apimachinery.field_errors import (
    NamedString,
    Problem,
    child,
    forbidden,
    index,
    invalid,
    not_supported,
    qualified_name_problems,
    required,
)

_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


@dataclass(frozen=True, slots=True)
class RequestedToCapacityRatioParam:
    """The scoring function of RequestedToCapacityRatio."""

    shape: Annotated[tuple[args_schema.UtilizationShapePoint, ...], "Its points."] = ()


@dataclass(frozen=True, slots=True)
class ScoringStrategy:
    """How nodes are scored."""

    type: Annotated[
        str,
        "LeastAllocated, MostAllocated or RequestedToCapacityRatio.",
        Written(type=args_schema.named("v1.ScoringStrategyType")),
    ] = ""
    resources: Annotated[tuple[args_schema.ResourceSpec, ...], "The resources that are scored."] = ()
    requested_to_capacity_ratio: Annotated[
        RequestedToCapacityRatioParam | None, "The scoring function of RequestedToCapacityRatio."
    ] = None


@dataclass(frozen=True, slots=True)
class NodeResourcesFitArgs:
    """Which resources count, and how nodes are scored by them."""

    ignored_resources: Annotated[tuple[str, ...], "Extended resources that are not checked."] = ()
    ignored_resource_groups: Annotated[tuple[str, ...], "Groups of extended resources that are not checked."] = ()
    scoring_strategy: Annotated[ScoringStrategy | None, "How nodes are scored; unset: LeastAllocated."] = None


def _set_defaults(value: Value, _gates: feature_gates.Gates) -> None:
    """Set kube-scheduler's defaults: LeastAllocated by cpu and memory, weight 1."""
    strategy = value.setdefault("scoringStrategy", {"type": "LeastAllocated"})
    if not strategy.get("resources"):
        strategy["resources"] = args_schema.default_resources()
    args_schema.set_default_weights(strategy["resources"])


def _problems_of_args(path: str, args: JsonArgs, _gates: feature_gates.Gates) -> list[Problem]:
    """Return what is wrong with ignored resources and groups, and with the scoring strategy."""
    problems: list[Problem] = []
    for position, name in enumerate(args.get("ignoredResources") or ()):
        problems.extend(qualified_name_problems(index(child(path, "ignoredResources"), position), name))
    for position, group in enumerate(args.get("ignoredResourceGroups") or ()):
        where = index(child(path, "ignoredResourceGroups"), position)
        if "/" in group:
            problems.append(invalid(where, group, "resource group name can't contain '/'"))
        problems.extend(qualified_name_problems(where, group))
    where, strategy = child(path, "scoringStrategy"), args.get("scoringStrategy")
    if strategy is None:
        return [*problems, required(where, "ScoringStrategy field is required")]
    return problems + _scoring_strategy_problems(where, strategy)


def _scoring_strategy_problems(path: str, strategy: JsonArgs) -> list[Problem]:
    """What is wrong with a scoring strategy."""
    problems: list[Problem] = []
    kind = strategy.get("type", "")
    if kind not in _STRATEGIES:
        problems.append(not_supported(child(path, "type"), NamedString(kind), _STRATEGIES))
    for position, resource in enumerate(strategy.get("resources") or ()):
        weight = resource["weight"]
        if not 0 < weight <= 100:
            where = child(index(child(path, "resources"), position), "weight")
            rule = f"resource weight of {resource['name']} not in valid range (0, 100]"
            problems.append(invalid(where, weight, rule))
    ratio, ratio_path = strategy.get("requestedToCapacityRatio"), child(path, "requestedToCapacityRatio")
    if kind == "RequestedToCapacityRatio":
        if ratio is None:
            problems.append(required(ratio_path, f"must be specified when type is {kind}"))
        else:
            problems.extend(args_schema.shape_problems(child(ratio_path, "shape"), ratio.get("shape") or ()))
    elif ratio is not None:
        problems.append(forbidden(ratio_path, "must be nil when type is not RequestedToCapacityRatio"))
    return problems


LEAST_ALLOCATED = "LeastAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


@dataclass(frozen=True, slots=True)
class Args:
    """NodeResourcesFitArgs, and two feature gates.

    These are InPlacePodVerticalScalingSchedulerPreemption (`resizing`) and DRAExtendedResource (`device_backed`).
    `shape` is the points (utilization, score 0 to 10) of RequestedToCapacityRatio.
    """

    strategy: str = LEAST_ALLOCATED
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    shape: tuple[tuple[int, int], ...] = ()
    ignored_resources: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()
    resizing: bool = False
    device_backed: bool = True


def read(args: JsonArgs, features: Mapping[str, bool]) -> Args:
    """Read the arguments from their JSON, which is checked and has its defaults."""
    strategy = args.get("scoringStrategy") or {}
    ratio = strategy.get("requestedToCapacityRatio") or {}
    return Args(
        strategy=strategy.get("type", LEAST_ALLOCATED),
        resources=args_schema.scored_resources(strategy),
        shape=tuple((point.get("utilization", 0), point.get("score", 0)) for point in ratio.get("shape") or ()),
        ignored_resources=frozenset(args.get("ignoredResources") or ()),
        ignored_groups=frozenset(args.get("ignoredResourceGroups") or ()),
        resizing=features.get("InPlacePodVerticalScalingSchedulerPreemption", False),
        device_backed=features.get("DRAExtendedResource", True),
    )


ARGS = PluginArgs(
    NodeResourcesFitArgs,
    _problems_of_args,
    "want args to be of type NodeResourcesFitArgs, got <nil>",
    _set_defaults,
    validated_early=False,
)
