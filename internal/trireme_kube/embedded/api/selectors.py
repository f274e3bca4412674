"""Label and field selectors, compiled once per request into a predicate over objects.

Source: k8s.io/apimachinery, pkg/labels and pkg/fields. Field selectors support only the fields of a resource's row, as
in the API server: an unknown one is refused, so that a client never mistakes "not supported" for "nothing found".
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.api.resources import Resource

#: Implementers: trireme_kube.embedded.api.selectors.parse_fields.
Predicate = Callable[[dict[str, Any]], bool]
#: Implementers: trireme_kube.embedded.api.selectors.parse_labels,
#: trireme_kube.embedded.api.selectors.compile_label_selector.
LabelPredicate = Callable[[Mapping[str, str]], bool]

_SET = re.compile(r"^\s*(?P<key>[^\s,()!=]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)\s*$")
_EQUAL = re.compile(r"^\s*(?P<key>[^\s,()!=]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s,()!=]*)\s*$")
_COMPARE = re.compile(r"^\s*(?P<key>[^\s,()!=<>]+)\s*(?P<operator>[<>])\s*(?P<value>-?\d+)\s*$")
_EXISTS = re.compile(r"^\s*(?P<absent>!?)\s*(?P<key>[^\s,()!=<>]+)\s*$")


def _split_outside_parentheses(text: str) -> list[str]:
    """Splits at the commas outside of parentheses."""
    parts: list[str] = []
    depth = start = 0
    for position, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return parts


def _set_requirement(key: str, operator: str, values: frozenset[str]) -> LabelPredicate:
    """Return the predicate of `key in (…)` or `key notin (…)`."""
    if operator == "In":
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values


def _existence_requirement(key: str, present: bool) -> LabelPredicate:
    """Return the predicate of `key` or `!key`."""
    return lambda labels: (key in labels) is present


def _number_requirement(key: str, operator: str, bound: str) -> LabelPredicate:
    """Return the predicate of `key>bound` or `key<bound`; what is no number matches neither."""

    def compare_with_bound(labels: Mapping[str, str]) -> bool:
        try:
            value, limit = int(labels[key]), int(bound)
        except (KeyError, ValueError):
            return False
        return value > limit if operator in (">", "Gt") else value < limit

    return compare_with_bound


def _parse_label_requirement(text: str) -> LabelPredicate:
    """Parse one requirement of a label selector. Raises: ApiError 400."""
    if match := _SET.match(text):
        values = frozenset(value.strip() for value in match["values"].split(","))
        return _set_requirement(match["key"], "In" if match["operator"] == "in" else "NotIn", values)
    if match := _EQUAL.match(text):
        return _set_requirement(
            match["key"], "NotIn" if match["operator"] == "!=" else "In", frozenset((match["value"],))
        )
    if match := _COMPARE.match(text):
        return _number_requirement(match["key"], match["operator"], match["value"])
    if match := _EXISTS.match(text):
        return _existence_requirement(match["key"], not match["absent"])
    raise api_errors.bad_request(f"unable to parse requirement: found '{text.strip()}', expected: identifier")


def _conjunction_of(parts: list[Any]) -> Any:
    """Return the predicate that holds where all of these do."""
    if len(parts) == 1:
        return parts[0]
    return lambda subject: all(part(subject) for part in parts)


def parse_labels(text: str) -> LabelPredicate:
    """A label selector as in a query parameter: `a=b,c!=d,e in (f,g),!h`.

    Raises: ApiError 400 if it cannot be parsed.
    """
    predicate: LabelPredicate = _conjunction_of(
        [_parse_label_requirement(part) for part in _split_outside_parentheses(text)]
    )
    return predicate


def compile_label_selector(selector: Mapping[str, Any]) -> LabelPredicate:
    """A metav1.LabelSelector (matchLabels, matchExpressions); the empty one matches everything.

    Expressions may be those of a node selector term, with Gt and Lt, as well.
    """
    parts: list[LabelPredicate] = [
        _set_requirement(key, "In", frozenset((value,))) for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        if operator in ("In", "NotIn"):
            parts.append(_set_requirement(key, operator, frozenset(expression.get("values") or ())))
        elif operator in ("Gt", "Lt"):
            parts.append(_number_requirement(key, operator, *expression["values"]))
        else:
            parts.append(_existence_requirement(key, operator == "Exists"))
    if not parts:
        return lambda labels: True
    predicate: LabelPredicate = _conjunction_of(parts)
    return predicate


def _comparable_field_text(obj: Any, path: tuple[str, ...]) -> str:
    """Return a field's value as field selectors compare it; empty if it is missing, `false` for two booleans."""
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
        if obj is None:
            return "false" if path[-1] in ("unschedulable", "hostNetwork") else ""
    if isinstance(obj, bool):
        return "true" if obj else "false"
    if path[-1] == "podIPs":
        return ",".join(one.get("ip", "") for one in obj)
    return str(obj)


def _field_getter(resource: Resource, name: str) -> Callable[[dict[str, Any]], str]:
    """Return the function that reads a selectable field. Raises: ApiError 400 if the resource does not select by it."""
    if name == "metadata.name" or (name == "metadata.namespace" and resource.namespaced) or name in resource.fields:
        path = tuple(name.split("."))
        if name == "source":
            return lambda obj: (
                _comparable_field_text(obj, ("source", "component"))
                or _comparable_field_text(obj, ("reportingComponent",))
            )
        if name == "status.replicas":
            return lambda obj: _comparable_field_text(obj, path) or "0"
        return lambda obj: _comparable_field_text(obj, path)
    raise api_errors.bad_request(f"field label not supported: {name}")


def _parse_field_requirement(resource: Resource, text: str) -> Predicate:
    """Parse one requirement of a field selector. Raises: ApiError 400."""
    for operator in ("!=", "==", "="):
        name, separator, value = text.partition(operator)
        if separator:
            get = _field_getter(resource, name.strip())
            if operator == "!=":
                return lambda obj: get(obj) != value
            return lambda obj: get(obj) == value
    raise api_errors.bad_request(f"invalid field selector: '{text}'; can't understand '{text}'")


def parse_fields(resource: Resource, text: str) -> Predicate:
    """A field selector as in a query parameter: `spec.nodeName=a,status.phase!=Running`.

    Raises: ApiError 400 if it cannot be parsed or names a field that the resource does not select by.
    """
    predicate: Predicate = _conjunction_of(
        [_parse_field_requirement(resource, part) for part in text.split(",") if part]
    )
    return predicate


def predicate(resource: Resource, labels: str, fields: str) -> Predicate | None:
    """Both selectors of a request in one; None if there is none, so that the common case costs nothing."""
    parts: list[Predicate] = []
    if fields:
        parts.append(parse_fields(resource, fields))
    if labels:
        matches = parse_labels(labels)
        parts.append(lambda obj: matches(obj["metadata"].get("labels") or {}))
    if not parts:
        return None
    combined: Predicate = _conjunction_of(parts)
    return combined
