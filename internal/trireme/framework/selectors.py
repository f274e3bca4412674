"""Node selector terms as kube-scheduler reads them, parsed once per class.

Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity.

Also change: internal/trireme/plugins/node_affinity/args.py (rules of node selectors).
Also change: internal/trireme/framework/label_selectors.py, internal/trireme/snapshot/node_selection.py (what each
operator means).

Tests: tests/conformance/test_selectors.py, tests/unit/plugins/test_node_affinity.py,
tests/unit/framework/test_label_selectors.py.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from trireme.v1 import core_pb2
from trireme_kube.apimachinery import name_rules

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
GREATER = "Gt"
LESS = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression about one label. `bound` is the integer of Gt and Lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()
    bound: int = 0


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Expressions that must all hold.

    `names` are the node names that matchFields allow (None: any), `not_names` those that they forbid.
    """

    requirements: tuple[Requirement, ...]
    names: frozenset[str] | None = None
    not_names: frozenset[str] = frozenset()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node with this name and these labels satisfies the term."""
        if (self.names is not None and name not in self.names) or name in self.not_names:
            return False
        return all(_requirement_holds(requirement, labels.get(requirement.key)) for requirement in self.requirements)


def _requirement_holds(requirement: Requirement, value: str | None) -> bool:
    """Whether the label's value (None: no such label) meets the requirement."""
    if requirement.operator == IN:
        return value in requirement.values
    if requirement.operator == NOT_IN:
        return value not in requirement.values
    if requirement.operator in (EXISTS, DOES_NOT_EXIST):
        return (value is not None) == (requirement.operator == EXISTS)
    number = None if value is None else parse_int64(value)
    if number is None:
        return False
    return number > requirement.bound if requirement.operator == GREATER else number < requirement.bound


def parse_terms(terms: Sequence[core_pb2.NodeSelectorTerm]) -> tuple[NodeTerm, ...]:
    """The terms that can match anything: empty and invalid ones match nothing and are left out."""
    parsed = (parse_term(term) for term in terms)
    return tuple(term for term in parsed if term is not None)


def parse_term(term: core_pb2.NodeSelectorTerm) -> NodeTerm | None:
    """Parse a node selector term; None: it matches nothing, being empty or having an invalid expression."""
    if not term.match_expressions and not term.match_fields:
        return None
    requirements = []
    for expression in term.match_expressions:
        parsed = make_requirement(expression.key, expression.operator, expression.values)
        if parsed is None:
            return None
        requirements.append(parsed)
    names: frozenset[str] | None = None
    not_names: set[str] = set()
    for field in term.match_fields:
        if len(field.values) != 1 or field.operator not in (IN, NOT_IN):
            return None
        if field.key != "metadata.name":
            # Nodes have no other field: In matches nothing, NotIn everything.
            names = frozenset() if field.operator == IN else names
        elif field.operator == NOT_IN:
            not_names.add(field.values[0])
        else:
            names = frozenset(field.values) if names is None else names & set(field.values)
    return NodeTerm(tuple(requirements), names, frozenset(not_names))


_NAME_PART = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_PREFIX_PART = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


def valid_key(key: str) -> bool:
    """Whether the text is a label key. Source: apimachinery validation.IsQualifiedName."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or _PREFIX_PART.fullmatch(prefix) is None):
        return False
    return _NAME_PART.fullmatch(name) is not None


def valid_value(value: str) -> bool:
    """Whether the text is a label value. Source: apimachinery validation.IsValidLabelValue."""
    return value == "" or _NAME_PART.fullmatch(value) is not None


def make_requirement(key: str, operator: str, values: Sequence[str]) -> Requirement | None:
    """Make a requirement from its parts; None if they are invalid. Source: apimachinery labels.NewRequirement."""
    if not valid_key(key) or not all(valid_value(value) for value in values):
        return None
    if operator in (IN, NOT_IN):
        return Requirement(key, operator, frozenset(values)) if values else None
    if operator in (EXISTS, DOES_NOT_EXIST):
        return None if values else Requirement(key, operator)
    if operator in (GREATER, LESS) and len(values) == 1:
        bound = parse_int64(values[0])
        return None if bound is None else Requirement(key, operator, bound=bound)
    return None


_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GREATER, LESS)
_FIELD_OPERATORS = (IN, NOT_IN)


def term_problems(term: core_pb2.NodeSelectorTerm, path: str) -> list[str]:
    """Why the term at `path` cannot be parsed, as field errors; empty if it can."""
    out: list[str] = []
    for index, expression in enumerate(term.match_expressions):
        if expression.operator not in _OPERATORS:
            out.append(_unsupported_operator_text(f"{path}.matchExpressions[{index}]", expression.operator, _OPERATORS))
        elif make_requirement(expression.key, expression.operator, expression.values) is None:
            out += _node_requirement_problems(f"{path}.matchExpressions[{index}]", expression)
    for index, expression in enumerate(term.match_fields):
        if expression.operator not in _FIELD_OPERATORS:
            out.append(
                _unsupported_operator_text(f"{path}.matchFields[{index}]", expression.operator, _FIELD_OPERATORS)
            )
        elif len(expression.values) != 1:
            out.append(
                f"{path}.matchFields[{index}].values: {_invalid_value_prefix(expression.values)}: must have one element"
            )
    return out


def _node_requirement_problems(path: str, expression: core_pb2.NodeSelectorRequirement) -> list[str]:
    """Why a requirement cannot be read, as field errors in Go's words; empty if it can."""
    out: list[str] = []
    values = expression.values
    about_key = "; ".join(name_rules.label_key_problems(expression.key))
    if about_key:
        out.append(f"{path}.key: {_invalid_value_prefix(expression.key)}: {about_key}")
    if expression.operator in (IN, NOT_IN) and not values:
        out.append(
            f"{path}.values: {_invalid_value_prefix(values)}: for 'in', 'notin' operators, values set can't be empty"
        )
    if expression.operator in (EXISTS, DOES_NOT_EXIST) and values:
        out.append(
            f"{path}.values: {_invalid_value_prefix(values)}: values set must be empty for exists and does not exist"
        )
    if expression.operator in (GREATER, LESS):
        if len(values) != 1:
            out.append(
                f"{path}.values: {_invalid_value_prefix(values)}: "
                "for 'Gt', 'Lt' operators, exactly one value is required"
            )
        out += [
            f"{path}.values[{index}]: {_invalid_value_prefix(value)}: "
            "for 'Gt', 'Lt' operators, the value must be an integer"
            for index, value in enumerate(values)
            if parse_int64(value) is None
        ]
    for index, value in enumerate(values):
        about_value = "; ".join(name_rules.label_value_problems(value))
        if about_value:
            out.append(f"{path}.values[{index}][{expression.key}]: {_invalid_value_prefix(value)}: {about_value}")
    return out


def _invalid_value_prefix(value: str | Sequence[str]) -> str:
    """Go's words for an invalid value, with the value as JSON."""
    # An empty list and none are the same once an API server has stored them: Go writes null for both.
    listed = value if isinstance(value, str) else list(value) or None
    return f"Invalid value: {orjson.dumps(listed).decode()}"


def _unsupported_operator_text(path: str, operator: str, supported: Sequence[str]) -> str:
    """Go's words for an operator that is not supported there."""
    names = ", ".join(f'"{each}"' for each in supported)
    return f"{path}.operator: Unsupported value: {orjson.dumps(operator).decode()}: supported values: {names}"


def parse_int64(text: str) -> int | None:
    """The integer as Go's strconv.ParseInt(text, 10, 64) reads it, or None. Source: strconv."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        return None
    significant = digits.lstrip("0") or "0"
    if len(significant) > 19:
        return None
    number = int(text[: len(text) - len(digits)] + significant)
    return number if -(2**63) <= number < 2**63 else None
