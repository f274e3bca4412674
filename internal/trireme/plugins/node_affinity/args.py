"""The arguments of NodeAffinity.

Source: pkg/scheduler/apis/config (v1/defaults.go, validation) of Kubernetes 1.37.

Also change: internal/trireme/framework/selectors.py (rules of node selectors).
Also change: internal/trireme_kube/embedded/validation/pod_validation.py (operators of node affinity).

Tests: tests/conformance/test_config_golden.py, tests/unit/plugins/test_node_affinity_hints.py.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs
from trireme.plugin_kit import args_schema
from trireme_kube.apimachinery import name_rules
from trireme_kube.apimachinery.declaration import Written
from trireme_kube.apimachinery.field_errors import (
    NamedString,
    Problem,
    child,
    index,
    invalid,
    key,
    not_supported,
)

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_INTEGER = re.compile(r"[+-]?[0-9]+")

_ALWAYS = Written(omitempty=False)


@dataclass(frozen=True, slots=True)
class NodeSelectorRequirement:
    """A requirement on labels or fields of nodes."""

    key: Annotated[str, "The label's key, or the field's path.", _ALWAYS]
    operator: Annotated[
        str,
        "In, NotIn, Exists, DoesNotExist, Gt or Lt.",
        Written(type=args_schema.named("v1.NodeSelectorOperator"), omitempty=False),
    ]
    values: Annotated[tuple[str, ...], "The values that the operator takes."] = ()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Requirements that nodes must all meet."""

    match_expressions: Annotated[tuple[NodeSelectorRequirement, ...], "Requirements on labels."] = ()
    match_fields: Annotated[tuple[NodeSelectorRequirement, ...], "Requirements on fields."] = ()


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Terms, one of which nodes must match."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], "The terms.", _ALWAYS] = ()


@dataclass(frozen=True, slots=True)
class PreferredSchedulingTerm:
    """A term that nodes should match."""

    weight: Annotated[int, "Its weight, 1 to 100.", _ALWAYS]
    preference: Annotated[NodeSelectorTerm, "The term.", _ALWAYS]


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """Affinity to nodes."""

    required: Annotated[
        NodeSelector | None, "What nodes must match.", Written("requiredDuringSchedulingIgnoredDuringExecution")
    ] = None
    preferred: Annotated[
        tuple[PreferredSchedulingTerm, ...],
        "What nodes should match.",
        Written("preferredDuringSchedulingIgnoredDuringExecution"),
    ] = ()


@dataclass(frozen=True, slots=True)
class NodeAffinityArgs:
    """The affinity of all pods."""

    added_affinity: Annotated[NodeAffinity | None, "Affinity beside that of each pod."] = None


def _problems_of_args(path: str, args: JsonArgs, _gates: feature_gates.Gates) -> list[Problem]:
    """Return what is wrong with `addedAffinity`. Preferred terms of weight 0 are not looked at."""
    affinity = args.get("addedAffinity")
    if affinity is None:
        return []
    problems: list[Problem] = []
    where = child(path, "addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    required_terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required_terms is not None:
        for position, term in enumerate(required_terms.get("nodeSelectorTerms") or ()):
            problems.extend(_selector_term_problems(index(child(where, "nodeSelectorTerms"), position), term))
    where = child(path, "addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
    for position, term in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        # A term without weight is not looked at.
        if term["weight"] != 0:
            problems.extend(_selector_term_problems(index(where, position), term["preference"]))
    return problems


def _selector_term_problems(path: str, term: JsonArgs) -> list[Problem]:
    """Return what is wrong with one term of a node selector: its label and its field requirements."""
    problems: list[Problem] = []
    for position, requirement in enumerate(term.get("matchExpressions") or ()):
        problems.extend(_label_requirement_problems(index(child(path, "matchExpressions"), position), requirement))
    for position, requirement in enumerate(term.get("matchFields") or ()):
        where = index(child(path, "matchFields"), position)
        operator, values = requirement["operator"], requirement.get("values")
        if operator not in ("In", "NotIn"):
            problems.append(not_supported(child(where, "operator"), NamedString(operator), ("In", "NotIn")))
        elif len(values or ()) != 1:
            problems.append(invalid(child(where, "values"), values, "must have one element"))
    return problems


def _label_requirement_problems(path: str, requirement: JsonArgs) -> list[Problem]:
    """Return what is wrong with a requirement on labels; with an unknown operator nothing else is checked."""
    operator, name = requirement["operator"], requirement["key"]
    if operator not in _OPERATORS:
        return [not_supported(child(path, "operator"), NamedString(operator), _OPERATORS)]
    problems: list[Problem] = []
    wrong = name_rules.label_key_problems(name)
    if wrong:
        problems.append(invalid(child(path, "key"), name, "; ".join(wrong)))
    values, where = requirement.get("values"), child(path, "values")
    problems.extend(_operator_problems(where, operator, values))
    for position, value in enumerate(values or ()):
        wrong = name_rules.label_value_problems(value)
        if wrong:
            problems.append(invalid(key(index(where, position), name), value, "; ".join(wrong)))
    return problems


def _operator_problems(where: str, operator: str, values: Sequence[str] | None) -> list[Problem]:
    """What is wrong with the values for this operator."""
    problems: list[Problem] = []
    count = len(values or ())
    if operator in ("In", "NotIn"):
        if count == 0:
            problems.append(invalid(where, values, "for 'in', 'notin' operators, values set can't be empty"))
    elif operator in ("Exists", "DoesNotExist"):
        if count != 0:
            problems.append(invalid(where, values, "values set must be empty for exists and does not exist"))
    else:
        if count != 1:
            problems.append(invalid(where, values, "for 'Gt', 'Lt' operators, exactly one value is required"))
        for position, value in enumerate(values or ()):
            if not _is_int64(value):
                rule = "for 'Gt', 'Lt' operators, the value must be an integer"
                problems.append(invalid(index(where, position), value, rule))
    return problems


def _is_int64(text: str) -> bool:
    """Whether the text is an integer of 64 bits, as Gt and Lt need it."""
    return bool(_INTEGER.fullmatch(text)) and -(1 << 63) <= int(text) < 1 << 63


ARGS = PluginArgs(
    NodeAffinityArgs,
    _problems_of_args,
    "args are not of type NodeAffinityArgs, got <nil>",
    core_types=frozenset({NodeAffinity.__name__}),
)
