"""Validation messages in the form that every Kubernetes component uses: path, what is wrong, the value, the rule.

Source: k8s.io/apimachinery/pkg/util/validation/field.

Also change: internal/trireme_kube/embedded/api/field_errors.py (the texts of field errors).

Tests: tests/unit/apimachinery/test_declaration.py, tests/unit/config/test_profiles.py,
tests/unit/config/test_scheduler_configuration.py, tests/unit/insight/http_api/test_requests.py.
"""

from collections.abc import Iterable

from trireme_kube.apimachinery import golang, name_rules

#: A message; several make an aggregate (`join_messages`).
Problem = str


class NamedString(str):
    """A string whose type has a name of its own: messages show it as JSON, not as `%q`."""

    __slots__ = ()


def child(path: str, *parts: str) -> str:
    """The path of a field below another."""
    return ".".join(part for part in (path, *parts) if part)


def index(path: str, position: int) -> str:
    """The path of an element of a list."""
    return f"{path}[{position}]"


def key(path: str, name: str) -> str:
    """The path of an entry of a map."""
    return f"{path}[{name}]"


def _path_prefix(path: str) -> str:
    """Return what a message begins with: the path, `<nil>` for none."""
    return f"{path or '<nil>'}: "


def show(value: object) -> str:
    """Format an invalid value for messages."""
    if isinstance(value, str) and not isinstance(value, NamedString):
        return golang.quote(value)
    return golang.json_text(value)


def _problem_with_detail(text: str, detail: str) -> Problem:
    """Join a problem and its detail, if there is one."""
    return f"{text}: {detail}" if detail else text


def invalid(path: str, value: object, detail: str) -> Problem:
    """Return the message for a value that breaks a rule."""
    return _problem_with_detail(f"{_path_prefix(path)}Invalid value: {show(value)}", detail)


def required(path: str, detail: str = "") -> Problem:
    """Return the message for a value that is missing."""
    return _problem_with_detail(f"{_path_prefix(path)}Required value", detail)


def duplicate(path: str, value: object) -> Problem:
    """Return the message for a value that occurs twice."""
    return f"{_path_prefix(path)}Duplicate value: {show(value)}"


def forbidden(path: str, detail: str) -> Problem:
    """Return the message for a value that must not be set here."""
    return _problem_with_detail(f"{_path_prefix(path)}Forbidden", detail)


def not_supported(path: str, value: str, supported: Iterable[str]) -> Problem:
    """Return the message for a value that is not among the supported ones."""
    quoted = ", ".join(golang.quote(name) for name in supported)
    return _problem_with_detail(
        f"{_path_prefix(path)}Unsupported value: {show(value)}", f"supported values: {quoted}" if quoted else ""
    )


def qualified_name_problems(path: str, text: str) -> list[Problem]:
    """Return the messages for a qualified name at a path, such as a label's key; none if it is valid."""
    return [invalid(path, text, problem) for problem in name_rules.label_key_problems(text)]


def join_messages(problems: list[str]) -> str:
    """Several messages as one: `[a, b]`, each once."""
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else "[" + ", ".join(distinct) + "]"
