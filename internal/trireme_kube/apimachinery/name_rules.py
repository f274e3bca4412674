"""Kubernetes' rules for names and labels, and the messages about texts that break them.

Source: k8s.io/apimachinery, pkg/util/validation and pkg/api/validate/content.

Tests: tests/unit/config/test_profiles.py, tests/conformance/test_selectors.py,
tests/unit/embedded/registry/test_registry.py, tests/unit/framework/test_label_selectors.py.
"""

import re

_LABEL_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_LABEL_KEY})?"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = f"{_DNS_LABEL}(\\.{_DNS_LABEL})*"
_LONGEST_NAME, _LONGEST_SUBDOMAIN = 63, 253
_ENDS = "and must start and end with an alphanumeric character"
_LOWER_CASE = "must consist of lower case alphanumeric characters"


def _length_problems(text: str, longest: int) -> list[str]:
    """The problem of a text of more bytes than allowed, if it is one."""
    too_long = len(text.encode("utf-8", "surrogateescape")) > longest
    return [f"must be no more than {longest} bytes"] if too_long else []


def _pattern_problems(text: str, pattern: str, rule: str, *examples: str) -> list[str]:
    """The problem of a text that does not match, if it is one."""
    return [] if re.fullmatch(pattern, text) else [_pattern_message(pattern, rule, *examples)]


def _pattern_message(pattern: str, rule: str, *examples: str) -> str:
    examples_text = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {examples_text}regex used for validation is '{pattern}')"


def subdomain_problems(text: str) -> list[str]:
    """The problems of a DNS subdomain (RFC 1123)."""
    rule = f"a lowercase RFC 1123 subdomain {_LOWER_CASE}, '-' or '.', {_ENDS}"
    return _length_problems(text, _LONGEST_SUBDOMAIN) + _pattern_problems(text, _SUBDOMAIN, rule, "example.com")


def dns_label_problems(text: str) -> list[str]:
    """The problems of a DNS label (RFC 1123)."""
    rule = f"a lowercase RFC 1123 label {_LOWER_CASE} or '-', {_ENDS}"
    problems = _pattern_problems(text, _DNS_LABEL, rule, "my-name", "123-abc")
    if problems and re.fullmatch(_SUBDOMAIN, text):
        problems = ["must not contain dots"]
    return _length_problems(text, _LONGEST_NAME) + problems


def dns_1035_label_problems(text: str) -> list[str]:
    """The problems of a DNS label of RFC 1035, which begins with a letter."""
    ends = "start with an alphabetic character, and end with an alphanumeric character"
    rule = f"a DNS-1035 label {_LOWER_CASE} or '-', {ends}"
    problems = _pattern_problems(text, _DNS_1035_LABEL, rule, "my-name", "abc-123")
    return _length_problems(text, _LONGEST_NAME) + problems


def label_key_problems(text: str) -> list[str]:
    """The problems of a qualified name, such as a label's key or a resource's name."""
    rule = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
    form = _pattern_message(_LABEL_KEY, rule, "MyName", "my.name", "123-abc")
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [f"a valid label key {form} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    of_prefix = [] if not slash else subdomain_problems(prefix) if prefix else ["must be non-empty"]
    of_name = _length_problems(name, _LONGEST_NAME) if name else ["must be non-empty"]
    of_name += [] if re.fullmatch(_LABEL_KEY, name) else [form]
    return [f"prefix part {problem}" for problem in of_prefix] + [f"name part {problem}" for problem in of_name]


def label_value_problems(text: str) -> list[str]:
    """The problems of a label's value."""
    rule = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character"
    )
    examples = ("MyValue", "my_value", "12345")
    return _length_problems(text, _LONGEST_NAME) + _pattern_problems(text, _LABEL_VALUE, rule, *examples)
