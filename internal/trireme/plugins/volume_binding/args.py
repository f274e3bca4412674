"""The arguments of VolumeBinding.

Source: pkg/scheduler/apis/config (v1/defaults.go, validation) of Kubernetes 1.37.

Tests: tests/conformance/test_config_golden.py.
"""

from dataclasses import dataclass
from typing import Annotated

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs, Value
from trireme.plugin_kit import args_schema
from trireme_kube.apimachinery.declaration import Written
from trireme_kube.apimachinery.field_errors import Problem, child, invalid
from trireme_kube.apimachinery.schema import OPTIONAL_INT64


@dataclass(frozen=True, slots=True)
class VolumeBindingArgs:
    """How long volumes may take, and how nodes are scored by their capacity."""

    bind_timeout_seconds: Annotated[int, "How long the binding of volumes may take.", Written(type=OPTIONAL_INT64)] = (
        600
    )
    shape: Annotated[tuple[args_schema.UtilizationShapePoint, ...], "The points of the scoring function."] = ()


def _set_defaults(value: Value, gates: feature_gates.Gates) -> None:
    """Set kube-scheduler's default shape, with the gate StorageCapacityScoring."""
    if not value.get("shape") and gates.enabled("StorageCapacityScoring"):
        value["shape"] = [{"utilization": 0, "score": args_schema.MAX_SHAPE_SCORE}, {"utilization": 100, "score": 0}]


def _problems_of_args(path: str, args: JsonArgs, gates: feature_gates.Gates) -> list[Problem]:
    """Return what is wrong with the time-out and the shape; a shape needs the gate StorageCapacityScoring."""
    problems: list[Problem] = []
    timeout = args["bindTimeoutSeconds"]
    if timeout < 0:
        rule = "invalid BindTimeoutSeconds, should not be a negative value"
        problems.append(invalid(child(path, "bindTimeoutSeconds"), timeout, rule))
    shape, where = args.get("shape"), child(path, "shape")
    if gates.enabled("StorageCapacityScoring"):
        problems.extend(args_schema.shape_problems(where, shape or ()))
    elif shape is not None:
        shown = [{"Utilization": point["utilization"], "Score": point["score"]} for point in shape]
        rule = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        problems.append(invalid(where, shown, rule))
    return problems


_FULL = 100


@dataclass(frozen=True, slots=True)
class Args:
    """VolumeBindingArgs, as far as score goes by them.

    `shape` is points of the scoring function: utilization and score, both 0 to 100, by utilization; None: it does not
    score. `resizing`: the gate InPlacePodVerticalScalingSchedulerPreemption is on.
    """

    shape: tuple[tuple[int, int], ...] | None = None
    resizing: bool = False


def args_of(args: JsonArgs, scoring: bool, resizing: bool = False) -> Args:
    """The plugin's arguments from those of the configuration.

    `scoring`: the gate StorageCapacityScoring; `resizing`: the gate InPlacePodVerticalScalingSchedulerPreemption.
    """
    if not scoring:
        return Args(resizing=resizing)
    shape = args.get("shape") or ({"utilization": 0, "score": 10}, {"utilization": _FULL, "score": 0})
    return Args(tuple((point.get("utilization", 0), point.get("score", 0) * 10) for point in shape), resizing)


ARGS = PluginArgs(
    VolumeBindingArgs, _problems_of_args, "want args to be of type VolumeBindingArgs, got <nil>", _set_defaults
)
