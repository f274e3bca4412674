"""YAML that every reader of Kubernetes' files reads as it was meant.

The readers differ in what a plain scalar is (`y`, `0o17`, `1_000`), so a string that any of them could take for
something else is quoted.
"""

from collections.abc import Mapping
from typing import Any

import yaml

from trireme.config.yaml_document import resolve


class _Dumper(yaml.SafeDumper):
    """Quotes what would not come back as text."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    ambiguous = resolve("", text, plain=True) != text or text in ("<<", "=")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if ambiguous else None)


_Dumper.add_representer(str, _text)


def write_yaml(document: Mapping[str, Any]) -> str:
    """A document with sorted keys."""
    return str(
        yaml.dump(document, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, sort_keys=True, width=4096)
    )
