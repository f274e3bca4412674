"""Validation messages in the form that every Kubernetes component uses: path, what is wrong, the value, the rule.

Source: k8s.io/apimachinery/pkg/util/validation/field and .../api/validate/content.

Also change: internal/trireme_kube/cel/library/named_formats.py, internal/trireme/framework/selectors.py,
internal/trireme_kube/embedded/validation/name_validation.py (Kubernetes' rules for names and labels).
Also change: internal/trireme_kube/embedded/api/field_errors.py (the texts of field errors).

Tests: tests/unit/apimachinery/test_declaration.py, tests/unit/config/test_profiles.py,
tests/unit/config/test_scheduler_configuration.py, tests/unit/insight/http_api/test_requests.py.
"""

import re
from collections.abc import Iterable

from trireme_kube.apimachinery import golang

#: A message; several make an aggregate (`join_messages`).
Problem = str


class NamedString(str):
    """A string whose type has a name of its own: messages show it as JSON, not as `%q`."""

    __slots__ = ()


def child(path: str, *names: str) -> str:
    """The path of a field below another."""
    return ".".join(part for part in (path, *names) if part)


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


# Names. `trireme/framework/selectors.py`, `cel/library/named_formats.py` and, for the embedded cluster,
# `embedded/validation/name_validation.py` have the rules in other words.

_LABEL_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_LABEL_KEY})?"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = f"{_DNS_LABEL}(\\.{_DNS_LABEL})*"
_LONGEST_NAME, _LONGEST_SUBDOMAIN = 63, 253


def _regex_message(rule: str, pattern: str, *examples: str) -> str:
    """Go's message for a text that does not match a pattern, with examples."""
    examples_text = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {examples_text}regex used for validation is '{pattern}')"


def _too_long_message(length: int) -> str:
    """Go's message for a text of more bytes than this."""
    return f"must be no more than {length} bytes"


def _byte_length(text: str) -> int:
    """Return the length in bytes, by which limits of names count."""
    return len(text.encode("utf-8", "surrogateescape"))


def subdomain_problems(text: str) -> list[str]:
    """Return the problems of a DNS subdomain."""
    problems: list[str] = []
    if _byte_length(text) > _LONGEST_SUBDOMAIN:
        problems.append(_too_long_message(_LONGEST_SUBDOMAIN))
    if not re.fullmatch(_SUBDOMAIN, text):
        rule = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            "and must start and end with an alphanumeric character"
        )
        problems.append(_regex_message(rule, _SUBDOMAIN, "example.com"))
    return problems


def label_key_problems(text: str) -> list[str]:
    """Return the problems of a qualified name, such as a label's key or a resource's name."""
    rule = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
        "alphanumeric character"
    )
    form = _regex_message(rule, _LABEL_KEY, "MyName", "my.name", "123-abc")
    problems: list[str] = []
    parts = text.split("/")
    if len(parts) > 2:
        return [f"a valid label key {form} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    if len(parts) == 2:
        of_prefix = subdomain_problems(parts[0]) if parts[0] else ["must be non-empty"]
        problems.extend(f"prefix part {problem}" for problem in of_prefix)
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif _byte_length(name) > _LONGEST_NAME:
        problems.append(f"name part {_too_long_message(_LONGEST_NAME)}")
    if not re.fullmatch(_LABEL_KEY, name):
        problems.append(f"name part {form}")
    return problems


def label_value_problems(text: str) -> list[str]:
    """Return the problems of a label's value."""
    problems: list[str] = []
    if _byte_length(text) > _LONGEST_NAME:
        problems.append(_too_long_message(_LONGEST_NAME))
    if not re.fullmatch(_LABEL_VALUE, text):
        rule = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
        problems.append(_regex_message(rule, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return problems


def qualified_name_problems(path: str, text: str) -> list[Problem]:
    """Return the messages for a qualified name at a path, such as a label's key; none if it is valid."""
    return [invalid(path, text, problem) for problem in label_key_problems(text)]


def join_messages(problems: list[str]) -> str:
    """Several messages as one: `[a, b]`, each once."""
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else "[" + ", ".join(distinct) + "]"
