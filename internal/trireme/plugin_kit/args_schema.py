"""What the arguments of several plugins have in common: types, defaults and rules.

Source: k8s.io/kube-scheduler/config/v1, pkg/scheduler/apis/config/v1 and /validation of Kubernetes 1.37.

Tests: tests/conformance/test_config_golden.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from trireme.framework.plugin_args import JsonArgs, Value
from trireme_kube.apimachinery.declaration import Written
from trireme_kube.apimachinery.field_errors import (
    Problem,
    child,
    index,
    invalid,
    required,
)
from trireme_kube.apimachinery.schema import INT64, Kind, Scalar

MAX_SHAPE_SCORE = 10


def named(name: str, *, optional: bool = False) -> Scalar:
    """The type of a string whose Go type has a name of its own, which error messages show."""
    return Scalar(Kind.STRING, optional=optional, go_name=name)


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """A resource that is scored."""

    name: Annotated[str, "The resource's name.", Written(omitempty=False)]
    weight: Annotated[int, "Its weight; unset: 1.", Written(type=INT64)] = 0


@dataclass(frozen=True, slots=True)
class UtilizationShapePoint:
    """A point of a scoring function."""

    utilization: Annotated[int, "The utilization, in percent.", Written(omitempty=False)]
    score: Annotated[int, "Its score, 0 to 10.", Written(omitempty=False)]


def default_resources() -> list[Value]:
    """The resources that are scored where none are named."""
    return [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def set_default_weights(resources: list[Value]) -> None:
    """A resource without a weight has weight 1."""
    for resource in resources:
        resource["weight"] = resource.get("weight") or 1


def shape_problems(path: str, points: Sequence[JsonArgs]) -> list[Problem]:
    """Return what is wrong with the points of a scoring function; of points out of order only the first."""
    if not points:
        return [required(path, "at least one point must be specified")]
    problems: list[Problem] = []
    for position in range(1, len(points)):
        utilization = points[position]["utilization"]
        if points[position - 1]["utilization"] >= utilization:
            where = child(index(path, position), "utilization")
            problems.append(invalid(where, utilization, "values must be sorted in increasing order"))
            break
    for position, point in enumerate(points):
        for name, most in (("utilization", 100), ("score", MAX_SHAPE_SCORE)):
            if not 0 <= point[name] <= most:
                where = child(index(path, position), name)
                problems.append(invalid(where, point[name], f"not in valid range [0, {most}]"))
    return problems


def scored_resources(args: JsonArgs) -> tuple[tuple[str, int], ...]:
    """The resources that are scored, with their weights: cpu and memory where the arguments name none."""
    stated = args.get("resources")
    if not stated:
        return (("cpu", 1), ("memory", 1))
    return tuple((entry["name"], entry.get("weight", 1)) for entry in stated)
