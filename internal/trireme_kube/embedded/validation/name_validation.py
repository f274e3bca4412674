"""Validates names and labels, with the API server's messages.

Source: k8s.io/apimachinery, pkg/util/validation and pkg/api/validation.

Also change: internal/trireme_kube/apimachinery/field_errors.py, internal/trireme_kube/cel/library/named_formats.py,
internal/trireme/framework/selectors.py (Kubernetes' rules for names and labels).

Tests: tests/unit/embedded/registry/test_registry.py.
"""

import re
from typing import Any

from trireme_kube.embedded.api import field_errors
from trireme_kube.embedded.api.field_errors import Cause
from trireme_kube.embedded.api.resources import Resource

_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_KEY = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_QUALIFIED_TEXT = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. "
    "'example.com/MyName')"
)
_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_ANY_NAME = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})
_LABEL_NAMES = frozenset({"namespaces", "services"})


def validate_subdomain(path: str, name: str) -> list[Cause]:
    """The problems of a name that must be a DNS subdomain."""
    if len(name) > 253:
        return [field_errors.invalid(path, name, "must be no more than 253 bytes")]
    return [] if _SUBDOMAIN.match(name) else [field_errors.invalid(path, name, _SUBDOMAIN_TEXT)]


def validate_label(path: str, name: str) -> list[Cause]:
    """The problems of a name that must be a DNS label."""
    if len(name) > 63:
        return [field_errors.invalid(path, name, "must be no more than 63 bytes")]
    return [] if _LABEL.match(name) else [field_errors.invalid(path, name, _LABEL_TEXT)]


def validate_qualified_name(path: str, key: str) -> list[Cause]:
    """The problems of the key of a label, annotation or taint."""
    prefix, slash, name = key.rpartition("/")
    if prefix.count("/"):
        return [field_errors.invalid(path, key, _QUALIFIED_TEXT)]
    causes: list[Cause] = []
    if slash and not prefix:
        causes.append(field_errors.invalid(path, key, "prefix part must be non-empty"))
    elif slash and not _SUBDOMAIN.match(prefix):
        causes.append(field_errors.invalid(path, key, f"prefix part {_SUBDOMAIN_TEXT}"))
    if not name:
        causes.append(field_errors.invalid(path, key, "name part must be non-empty"))
    if not _KEY.match(name):
        causes.append(field_errors.invalid(path, key, _KEY_TEXT))
    return causes


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
        if not isinstance(value, str) or not _VALUE.match(value):
            causes.append(field_errors.invalid(path, value, _VALUE_TEXT))
        elif len(value) > 63:
            causes.append(field_errors.invalid(path, value, "must be no more than 63 bytes"))
    return causes


def validate_annotation_keys(path: str, annotations: Any) -> list[Cause]:
    """The problems of annotations; their keys may have capitals in the prefix."""
    return [
        cause
        for key in annotations or {}
        for cause in validate_qualified_name(path, key.lower() if "/" in key else key)
    ]
