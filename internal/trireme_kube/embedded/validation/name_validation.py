"""Validates names and labels, with the API server's messages.

Source: k8s.io/apimachinery, pkg/util/validation and pkg/api/validation.

Tests: tests/unit/embedded/registry/test_registry.py.
"""

from typing import Any

from trireme_kube.apimachinery import name_rules
from trireme_kube.embedded.api import field_errors
from trireme_kube.embedded.api.field_errors import Cause
from trireme_kube.embedded.api.resources import Resource

_ANY_NAME = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})
_LABEL_NAMES = frozenset({"namespaces", "services"})


def validate_subdomain(path: str, name: str) -> list[Cause]:
    """The problems of a name that must be a DNS subdomain."""
    return [field_errors.invalid(path, name, problem) for problem in name_rules.subdomain_problems(name)]


def validate_label(path: str, name: str) -> list[Cause]:
    """The problems of a name that must be a DNS label."""
    return [field_errors.invalid(path, name, problem) for problem in name_rules.dns_label_problems(name)]


def validate_qualified_name(path: str, key: str) -> list[Cause]:
    """The problems of the key of a label, annotation or taint."""
    return [field_errors.invalid(path, key, problem) for problem in name_rules.label_key_problems(key)]


def validate_object_name(resource: Resource, name: str) -> list[Cause]:
    """The problems of an object's name."""
    path = "metadata.name"
    if not name:
        return [field_errors.required(path, "name or generateName is required")]
    if resource.plural in _ANY_NAME:
        return []
    return validate_label(path, name) if resource.plural in _LABEL_NAMES else validate_subdomain(path, name)


def validate_labels(path: str, values: Any) -> list[Cause]:
    """The problems of labels or a selector made of them."""
    causes: list[Cause] = []
    for key, value in (values or {}).items():
        causes += validate_qualified_name(path, key)
        text = value if isinstance(value, str) else " "  # which no label has, as none has a value of another type
        causes += [field_errors.invalid(path, value, problem) for problem in name_rules.label_value_problems(text)]
    return causes


def validate_annotation_keys(path: str, annotations: Any) -> list[Cause]:
    """The problems of annotations; their keys may have capitals in the prefix."""
    return [
        cause
        for key in annotations or {}
        for cause in validate_qualified_name(path, key.lower() if "/" in key else key)
    ]
