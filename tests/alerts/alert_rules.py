"""The alerts of the chart, and Prometheus' own tools, which a test needs.

The programs are those of `PATH` or `build/`: Debian's package `prometheus` has both.
"""

import pathlib
import re
import shutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import yaml

REPOSITORY = pathlib.Path(__file__).parents[2]
RULES = REPOSITORY / "deploy/chart/files/rules.yaml"
RUNBOOKS = REPOSITORY / "docs/runbooks/README.md"

Json = dict[str, Any]


def groups() -> list[Json]:
    """The groups of rules."""
    found: list[Json] = yaml.safe_load(RULES.read_text())["groups"]
    return found


def alerts() -> list[Json]:
    """The alerts, in the order of the file."""
    return [rule for group in groups() for rule in group["rules"] if "alert" in rule]


def write(folder: pathlib.Path, wait: str = "", ranges: Mapping[str, str] = MappingProxyType({})) -> pathlib.Path:
    """Write the rules as Prometheus reads them.

    `wait`: for how long each alert's expression has to hold; `ranges`: what stands for a range of time in them, such as
    for `1h`.
    """
    found = groups()
    for group in found:
        for rule in group["rules"]:
            rule["expr"] = re.sub(
                r"\b(?:[0-9]+[smh])\b", lambda found: ranges.get(found.group(), found.group()), rule["expr"]
            )
            if wait and "for" in rule:
                rule["for"] = wait
    path = folder / "trireme.rules.yaml"
    path.write_text(yaml.safe_dump({"groups": found}))
    return path


def program(name: str) -> str | None:
    """The path of promtool or prometheus; None: it is not installed."""
    built = REPOSITORY / "build" / name
    return str(built) if built.exists() else shutil.which(name)


def metrics_in(expression: str) -> set[str]:
    """The metrics that a PromQL expression reads, without those of recording rules."""
    text = re.sub(r'"[^"]*"|\{[^}]*\}|\b(on|by|without|ignoring) ?\([^)]*\)', " ", expression)
    return set(re.findall(r"\b(?:trireme|scheduler|leader|process|rest_client)_[a-z0-9_]+\b", text))
