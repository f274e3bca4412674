"""The arguments of PodTopologySpread.

Source: pkg/scheduler/apis/config (v1/defaults.go, validation) of Kubernetes 1.37.

`constraints.rules_of` reads them; `config_convert/profile_conversion.py` and `config_convert/policies.py` set them.

Tests: tests/conformance/test_config_golden.py, tests/unit/config/test_scheduler_configuration.py.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs
from trireme.plugin_kit import args_schema
from trireme_kube.apimachinery.declaration import Written
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
from trireme_kube.apimachinery.schema import StringMap

_INCLUSION_POLICY = Written(type=args_schema.named("v1.NodeInclusionPolicy", optional=True))


@dataclass(frozen=True, slots=True)
class LabelSelectorRequirement:
    """A requirement on labels."""

    key: Annotated[str, "The label's key.", Written(omitempty=False)]
    operator: Annotated[
        str,
        "In, NotIn, Exists or DoesNotExist.",
        Written(type=args_schema.named("v1.LabelSelectorOperator"), omitempty=False),
    ]
    values: Annotated[tuple[str, ...], "The values, for In and NotIn."] = ()


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Which pods are counted."""

    match_labels: Annotated[Any, "Labels with their values.", Written(type=StringMap())] = None
    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], "Requirements on labels."] = ()


@dataclass(frozen=True, slots=True)
class TopologySpreadConstraint:
    """A constraint of pods that have none."""

    max_skew: Annotated[int, "The largest difference between two domains.", Written(omitempty=False)]
    topology_key: Annotated[str, "The label of nodes whose values are the domains.", Written(omitempty=False)]
    when_unsatisfiable: Annotated[
        str,
        "DoNotSchedule or ScheduleAnyway.",
        Written(type=args_schema.named("v1.UnsatisfiableConstraintAction"), omitempty=False),
    ]
    label_selector: Annotated[LabelSelector | None, "Must be unset: it is found for each pod."] = None
    min_domains: Annotated[int | None, "The fewest domains."] = None
    node_affinity_policy: Annotated[str | None, "Whether nodes that the pod cannot use count.", _INCLUSION_POLICY] = (
        None
    )
    node_taints_policy: Annotated[str | None, "Whether nodes with taints count.", _INCLUSION_POLICY] = None
    match_label_keys: Annotated[tuple[str, ...], "Keys of labels whose values are the pod's own."] = ()


@dataclass(frozen=True, slots=True)
class PodTopologySpreadArgs:
    """The constraints of pods that have none."""

    default_constraints: Annotated[
        tuple[TopologySpreadConstraint, ...], "The constraints, with defaultingType List."
    ] = ()
    defaulting_type: Annotated[
        str,
        "System: built-in constraints; List: `defaultConstraints`.",
        Written(type=args_schema.named("v1.PodTopologySpreadConstraintsDefaulting")),
    ] = "System"


def _problems_of_args(path: str, args: JsonArgs, _gates: feature_gates.Gates) -> list[Problem]:
    """Return the problems of the default constraints; two with the same key and action are duplicates."""
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
    """Return the problems of one default constraint; it must have no selector, which is found for each pod."""
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
    PodTopologySpreadArgs,
    _problems_of_args,
    "want args to be of type PodTopologySpreadArgs, got <nil>",
    core_types=frozenset({TopologySpreadConstraint.__name__}),
)
