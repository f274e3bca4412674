"""Label selectors as kube-scheduler reads them: parsed once, matched against the labels of classes or namespaces.

A selector that cannot be parsed is an error of the pod that has it. The error text is kube-scheduler's, since it ends
in the pod's condition. An unset selector matches nothing, an empty one everything.

Source: k8s.io/apimachinery meta/v1 LabelSelectorAsSelector, labels.NewRequirement.

Also change: internal/trireme/framework/selectors.py (the operators).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from trireme.framework import selectors
from trireme.v1 import meta_pb2
from trireme_kube.apimachinery import name_rules


class InvalidSelectorError(ValueError):
    """The selector cannot be parsed; the text is kube-scheduler's."""


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements that must all hold (none: everything matches), or None in their place: nothing matches."""

    requirements: tuple[selectors.Requirement, ...] | None = ()

    @property
    def empty(self) -> bool:
        """Whether it matches everything because it has no requirements."""
        return self.requirements == ()

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that it reads."""
        return frozenset(each.key for each in self.requirements or ())

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy it."""
        if self.requirements is None:
            return False
        return all(_requirement_holds(each, labels) for each in self.requirements)

    def and_labels(self, labels: Mapping[str, str]) -> "LabelSelector":
        """The selector that requires these labels in addition. One that matches nothing still matches nothing."""
        if self.requirements is None:
            return self
        return LabelSelector(_sorted_and_unique((*_equality_requirements(labels), *self.requirements)))

    def and_selector(self, other: "LabelSelector") -> "LabelSelector":
        """The selector with the requirements of both; one that matches nothing adds no requirements."""
        if self.requirements is None:
            return self
        return LabelSelector(_sorted_and_unique((*self.requirements, *(other.requirements or ()))))


NOTHING = LabelSelector(None)


def from_labels(labels: Mapping[str, str]) -> LabelSelector:
    """The selector that requires all of the labels, which are not validated."""
    return LabelSelector(_sorted_and_unique(_equality_requirements(labels)))


def parse(selector: meta_pb2.LabelSelector) -> LabelSelector:
    """The selector. Raises: InvalidSelectorError."""
    requirements = [
        _checked_requirement(key, selectors.IN, (selector.match_labels[key],)) for key in selector.match_labels
    ]
    for expression in selector.match_expressions:
        if expression.operator not in _OPERATORS:
            raise InvalidSelectorError(f"{_go_quoted(expression.operator)} is not a valid label selector operator")
        requirements.append(_checked_requirement(expression.key, expression.operator, expression.values))
    return LabelSelector(_sorted_and_unique(requirements))


_OPERATORS = (selectors.IN, selectors.NOT_IN, selectors.EXISTS, selectors.DOES_NOT_EXIST)


def _checked_requirement(key: str, operator: str, values: Sequence[str]) -> selectors.Requirement:
    """A requirement on labels. Raises: InvalidSelectorError: with all problems, as Go words them."""
    wrong = []
    about_key = "; ".join(name_rules.label_key_problems(key))
    if about_key:
        wrong.append(f"key: Invalid value: {_go_quoted(key)}: {about_key}")
    if operator in (selectors.IN, selectors.NOT_IN) and not values:
        # An empty list and none are the same once an API server has stored them: Go writes null for both.
        wrong.append("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty")
    if operator in (selectors.EXISTS, selectors.DOES_NOT_EXIST) and values:
        text = orjson.dumps(list(values)).decode()
        wrong.append(f"values: Invalid value: {text}: values set must be empty for exists and does not exist")
    for index, value in enumerate(values):
        about_value = "; ".join(name_rules.label_value_problems(value))
        if about_value:
            wrong.append(f"values[{index}][{key}]: Invalid value: {_go_quoted(value)}: {about_value}")
    if wrong:
        distinct = list(dict.fromkeys(wrong))
        raise InvalidSelectorError(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")
    return selectors.Requirement(key, operator, frozenset(values))


def _requirement_holds(requirement: selectors.Requirement, labels: Mapping[str, str]) -> bool:
    """Whether the labels meet the requirement; a missing label meets NotIn and DoesNotExist."""
    value = labels.get(requirement.key)
    if requirement.operator == selectors.IN:
        return value is not None and value in requirement.values
    if requirement.operator == selectors.NOT_IN:
        return value is None or value not in requirement.values
    return (value is not None) == (requirement.operator == selectors.EXISTS)


def _equality_requirements(labels: Mapping[str, str]) -> Iterable[selectors.Requirement]:
    return (selectors.Requirement(key, selectors.IN, frozenset((value,))) for key, value in labels.items())


def _sorted_and_unique(requirements: Iterable[selectors.Requirement]) -> tuple[selectors.Requirement, ...]:
    """Sorted, without duplicates, so that equivalent selectors are equal."""
    return tuple(sorted(set(requirements), key=lambda each: (each.key, each.operator, sorted(each.values))))


def _go_quoted(text: str) -> str:
    """The text in quotes, as Go writes it."""
    return orjson.dumps(text).decode()
