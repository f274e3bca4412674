"""Named formats: the syntax of a name, a label or a date.

Source: k8s.io/apiserver/pkg/cel/library (format), k8s.io/apimachinery/pkg/util/validation,
k8s.io/kube-openapi/pkg/validation/strfmt.

Tests: tests/conformance/test_selectors.py.
"""

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trireme_kube.apimachinery import name_rules
from trireme_kube.cel import values
from trireme_kube.cel.library import urls
from trireme_kube.cel.values import Optional

_UUID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `pattern_size`: the length of its pattern, for the cost of a call."""

    name: str
    problems: Callable[[str], list[str]]
    pattern_size: int


values.register(Format, "kubernetes.NamedFormat", lambda value: value.name)


def named(name: str) -> Optional:
    """CEL's format.named(string): the format of that name, absent for an unknown one."""
    return Optional(BY_NAME[name], True) if name in BY_NAME else Optional()


def validate(value: Format, text: str) -> Optional:
    """CEL's format.validate(string): the problems, or nothing."""
    problems = value.problems(text)
    return Optional(problems, True) if problems else Optional()


def _of_prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Return the check for a generateName: as `check`, but the text may end with a dash."""

    def problems_of_prefix(text: str) -> list[str]:
        return check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)

    return problems_of_prefix


def _uri_problems(text: str) -> list[str]:
    """Return the problem of a text that is no absolute URI or path, in the words of Go."""
    try:
        urls.parse_request_url(text)
    except ValueError as error:
        return [str(error)]
    return []


def _is_date(text: str) -> bool:
    """Whether the text is a date that exists, year 0 included."""
    if _DATE.fullmatch(text) is None:
        return False
    year, month, day = map(int, text.split("-"))
    try:
        # There is no year zero here; it is a leap year, as 2000 is.
        datetime.date(year or 2000, month, day)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    """Whether the text is an RFC 3339 date and time."""
    parts = text.lower().split("t")
    match = _TIME.fullmatch(parts[1]) if len(parts) > 1 and _is_date(parts[0]) else None
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _format_check(valid: Callable[[str], object], problem: str) -> Callable[[str], list[str]]:
    """Return the check that reports `problem` where `valid` is false."""
    return lambda text: [] if valid(text) else [problem]


BY_NAME: Final = {
    "dns1123Label": Format("DNS1123Label", name_rules.dns_label_problems, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", name_rules.subdomain_problems, 60),
    "dns1035Label": Format("DNS1035Label", name_rules.dns_1035_label_problems, 30),
    "qualifiedName": Format("QualifiedName", name_rules.label_key_problems, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _of_prefix(name_rules.dns_label_problems), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _of_prefix(name_rules.subdomain_problems), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _of_prefix(name_rules.dns_1035_label_problems), 30),
    "labelValue": Format("LabelValue", name_rules.label_value_problems, 40),
    "uri": Format("URI", _uri_problems, 1103),
    "uuid": Format("uuid", _format_check(_UUID.fullmatch, "does not match the UUID format"), 70),
    "byte": Format("byte", _format_check(_BASE64.fullmatch, "invalid base64"), 84),
    "date": Format("date", _format_check(_is_date, "invalid date"), 71),
    "datetime": Format("datetime", _format_check(_is_date_time, "invalid datetime"), 71),
}
