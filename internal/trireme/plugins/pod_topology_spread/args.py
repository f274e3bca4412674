"""The arguments of PodTopologySpread.

Source: pkg/scheduler/apis/config (v1/defaults.go, validation) of Kubernetes 1.37.
"""

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs, Value
from trireme.plugin_kit import args_schema
from trireme_kube.apimachinery.field_errors import (
    NamedString,
    Problem,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    qualified_name_problems,
    required,
)
from trireme_kube.apimachinery.schema import INT32, OPTIONAL_INT32, STRING, TYPE_META, Field, Many, StringMap, struct

_LABEL_SELECTOR = struct(
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
                Field("operator", args_schema.named("v1.LabelSelectorOperator"), omitempty=False),
                Field("values", Many(STRING)),
            )
        ),
    ),
    optional=True,
)
_SPREAD_CONSTRAINT = struct(
    "v1",
    "TopologySpreadConstraint",
    Field("maxSkew", INT32, omitempty=False),
    Field("topologyKey", STRING, omitempty=False),
    Field("whenUnsatisfiable", args_schema.named("v1.UnsatisfiableConstraintAction"), omitempty=False),
    Field("labelSelector", _LABEL_SELECTOR),
    Field("minDomains", OPTIONAL_INT32),
    Field("nodeAffinityPolicy", args_schema.named("v1.NodeInclusionPolicy", optional=True)),
    Field("nodeTaintsPolicy", args_schema.named("v1.NodeInclusionPolicy", optional=True)),
    Field("matchLabelKeys", Many(STRING)),
)
_SCHEMA = struct(
    "v1",
    "PodTopologySpreadArgs",
    *TYPE_META,
    Field("defaultConstraints", Many(_SPREAD_CONSTRAINT)),
    Field("defaultingType", args_schema.named("v1.PodTopologySpreadConstraintsDefaulting")),
)


def _set_defaults(value: Value, _gates: feature_gates.Gates) -> None:
    """Set kube-scheduler's default, the built-in constraints (`System`)."""
    value["defaultingType"] = value.get("defaultingType") or "System"


def _problems_of_args(path: str, args: JsonArgs, _gates: feature_gates.Gates) -> list[Problem]:
    """Return what is wrong with the default constraints; two with the same key and action are duplicates."""
    problems: list[Problem] = []
    kind, constraints = args["defaultingType"], args.get("defaultConstraints") or ()
    where = child(path, "defaultingType")
    if kind not in ("System", "List"):
        problems.append(not_supported(where, NamedString(kind), ("System", "List")))
    elif kind == "System" and constraints:
        problems.append(invalid(where, NamedString(kind), "when .defaultConstraints are not empty"))
    seen: set[tuple[str, str]] = set()
    for position, constraint in enumerate(constraints):
        where = index(child(path, "defaultConstraints"), position)
        problems.extend(_constraint_problems(where, constraint))
        topology_key, action = constraint["topologyKey"], constraint["whenUnsatisfiable"]
        if (topology_key, action) in seen:
            problems.append(duplicate(where, f"{{{topology_key}, {action}}}"))
        seen.add((topology_key, action))
    return problems


def _constraint_problems(path: str, constraint: JsonArgs) -> list[Problem]:
    """Return what is wrong with one default constraint; it must have no selector, which is found for each pod."""
    problems: list[Problem] = []
    if constraint["maxSkew"] <= 0:
        problems.append(invalid(child(path, "maxSkew"), constraint["maxSkew"], "not in valid range (0, inf)"))
    topology_key, where = constraint["topologyKey"], child(path, "topologyKey")
    problems.extend(
        qualified_name_problems(where, topology_key) if topology_key else [required(where, "can not be empty")]
    )
    action, where = constraint["whenUnsatisfiable"], child(path, "whenUnsatisfiable")
    actions = ("DoNotSchedule", "ScheduleAnyway")
    if not action:
        problems.append(required(where, "can not be empty"))
    elif action not in actions:
        problems.append(not_supported(where, NamedString(action), actions))
    if constraint.get("labelSelector") is not None:
        rule = "constraint must not define a selector, as they deduced for each pod"
        problems.append(forbidden(child(path, "labelSelector"), rule))
    return problems


ARGS = PluginArgs(
    _SCHEMA,
    _problems_of_args,
    "want args to be of type PodTopologySpreadArgs, got <nil>",
    _set_defaults,
    core_types=frozenset({_SPREAD_CONSTRAINT.name}),
)
