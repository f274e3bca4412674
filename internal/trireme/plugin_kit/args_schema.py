"""What the arguments of several plugins have in common: types, defaults and rules.

Source: k8s.io/kube-scheduler/config/v1, pkg/scheduler/apis/config/v1 and /validation of Kubernetes 1.37, and the parts
of k8s.io/api/core/v1 that plugin arguments contain.
"""

from collections.abc import Sequence

from trireme.framework.plugin_args import JsonArgs, Value
from trireme_kube.apimachinery.field_errors import (
    Problem,
    child,
    index,
    invalid,
    required,
)
from trireme_kube.apimachinery.schema import (
    INT32,
    INT64,
    OPTIONAL_INT32,
    STRING,
    Field,
    Kind,
    Many,
    Scalar,
    StringMap,
    struct,
)

MAX_SHAPE_SCORE = 10

TYPE_META = (
    Field("kind", STRING, embedded_in="TypeMeta"),
    Field("apiVersion", STRING, embedded_in="TypeMeta"),
)


def named(name: str, *, optional: bool = False) -> Scalar:
    """A string of a type that has a name of its own."""
    return Scalar(Kind.STRING, optional=optional, go_name=name)


NODE_SELECTOR_REQUIREMENT = struct(
    "v1",
    "NodeSelectorRequirement",
    Field("key", STRING, omitempty=False),
    Field("operator", named("v1.NodeSelectorOperator"), omitempty=False),
    Field("values", Many(STRING)),
)
NODE_SELECTOR_TERM = struct(
    "v1",
    "NodeSelectorTerm",
    Field("matchExpressions", Many(NODE_SELECTOR_REQUIREMENT)),
    Field("matchFields", Many(NODE_SELECTOR_REQUIREMENT)),
)
NODE_AFFINITY = struct(
    "v1",
    "NodeAffinity",
    Field(
        "requiredDuringSchedulingIgnoredDuringExecution",
        struct(
            "v1",
            "NodeSelector",
            Field("nodeSelectorTerms", Many(NODE_SELECTOR_TERM), omitempty=False),
            optional=True,
        ),
    ),
    Field(
        "preferredDuringSchedulingIgnoredDuringExecution",
        Many(
            struct(
                "v1",
                "PreferredSchedulingTerm",
                Field("weight", INT32, omitempty=False),
                Field("preference", NODE_SELECTOR_TERM, omitempty=False),
            )
        ),
    ),
    optional=True,
)
LABEL_SELECTOR = struct(
    "v1",
    "LabelSelector",
    Field("matchLabels", StringMap()),
    Field(
        "matchExpressions",
        Many(
            struct(
                "v1",
                "LabelSelectorRequirement",
                Field("key", STRING, omitempty=False),
                Field("operator", named("v1.LabelSelectorOperator"), omitempty=False),
                Field("values", Many(STRING)),
            )
        ),
    ),
    optional=True,
)
SPREAD_CONSTRAINT = struct(
    "v1",
    "TopologySpreadConstraint",
    Field("maxSkew", INT32, omitempty=False),
    Field("topologyKey", STRING, omitempty=False),
    Field("whenUnsatisfiable", named("v1.UnsatisfiableConstraintAction"), omitempty=False),
    Field("labelSelector", LABEL_SELECTOR),
    Field("minDomains", OPTIONAL_INT32),
    Field("nodeAffinityPolicy", named("v1.NodeInclusionPolicy", optional=True)),
    Field("nodeTaintsPolicy", named("v1.NodeInclusionPolicy", optional=True)),
    Field("matchLabelKeys", Many(STRING)),
)
RESOURCE_SPEC = struct("v1", "ResourceSpec", Field("name", STRING, omitempty=False), Field("weight", INT64))
SHAPE_POINT = struct(
    "v1",
    "UtilizationShapePoint",
    Field("utilization", INT32, omitempty=False),
    Field("score", INT32, omitempty=False),
)


def default_resources() -> list[Value]:
    """The resources that are scored where none are named."""
    return [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def set_default_weights(resources: list[Value]) -> None:
    """A resource without a weight has weight 1."""
    for resource in resources:
        resource["weight"] = resource.get("weight") or 1


def shape_problems(path: str, points: Sequence[JsonArgs]) -> list[Problem]:
    """All that is wrong with the points of a scoring function."""
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
