"""Writes YAML that every reader of Kubernetes' files reads alike.

The readers differ in the meaning of a plain scalar (`y`, `0o17`, `1_000`), so a string that any of them could mistake
for something else is quoted.

Tests: tests/unit/config_convert/test_command_lines.py, tests/unit/apimachinery/test_documents.py.
"""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from trireme_kube.apimachinery import golang
from trireme_kube.apimachinery.yaml_document import resolve_scalar


class _QuotingDumper(yaml.SafeDumper):
    """Quotes strings that would not be read back as text."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Represent a string, in quotes where it would be read back as something else."""
    ambiguous = resolve_scalar("", text, plain=True) != text or text in ("<<", "=")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if ambiguous else None)


def _represent_float(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    """kube-scheduler's form: comparing the files must not find `1e-07` and `1.0e-07`."""
    return dumper.represent_scalar("tag:yaml.org,2002:float", golang.format_float(value))


_QuotingDumper.add_representer(str, _represent_text)
_QuotingDumper.add_representer(float, _represent_float)
# Otherwise `1e-07` would get an explicit tag for numbers.
_QuotingDumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"-?[0-9.]+e[-+][0-9]+"), list("-0123456789")
)


def write_yaml(document: Mapping[str, Any]) -> str:
    """Write a document with sorted keys."""
    return str(
        yaml.dump(
            document, Dumper=_QuotingDumper, default_flow_style=False, allow_unicode=True, sort_keys=True, width=4096
        )
    )
