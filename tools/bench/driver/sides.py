"""Who competes: each side is a few command lines, read from `sides.yaml`.

A scheduler is known by its commands alone, so that any other can be put beside these by adding an entry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml


class SideError(ValueError):
    """An entry of sides.yaml that cannot be used; the message names it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """One process of a side, or several alike."""

    command: tuple[str, ...]
    replicas: int


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One competitor."""

    name: str
    programs: tuple[Program, ...]
    configuration: Mapping[str, Any]
    """Laid over the KubeSchedulerConfiguration that every side gets."""
    files: Mapping[str, Any]
    """More files of the side's folder, by name: YAML documents in which names are filled in as in commands."""
    feature_gates: bool
    """Whether it takes --feature-gates."""
    undecided: bool
    """Whether it binds without deciding, and so sits out the workloads where that is not the same work."""


def read(text: str) -> dict[str, Side]:
    """The sides of a sides.yaml, by name."""
    parsed = yaml.safe_load(text)
    return {name: _side(name, raw) for name, raw in parsed.items()}


def _side(name: str, raw: Mapping[str, Any]) -> Side:
    unknown = sorted(raw.keys() - {"processes", "configuration", "files", "featureGates", "undecided"})
    if unknown or not raw.get("processes"):
        raise SideError(f"{name}: {'unknown ' + ', '.join(unknown) if unknown else 'processes are missing'}")
    return Side(
        name=name,
        programs=tuple(Program(tuple(each["command"]), int(each.get("replicas", 1))) for each in raw["processes"]),
        configuration=raw.get("configuration", {}),
        files=raw.get("files", {}),
        feature_gates=bool(raw.get("featureGates", False)),
        undecided=bool(raw.get("undecided", False)),
    )


def select(known: Mapping[str, Side], names: Sequence[str]) -> list[Side]:
    """The sides asked for. Raises SideError for one that is not known."""
    missing = [name for name in names if name not in known]
    if missing:
        raise SideError(f"no side is called {missing[0]!r}; there are {', '.join(known)}")
    return [known[name] for name in names]


def configuration(kubeconfig: Path, overrides: Mapping[str, Any]) -> str:
    """A KubeSchedulerConfiguration with client limits that do not bite, no election, and a side's own settings."""
    return yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            **overrides,
            "clientConnection": {
                "kubeconfig": str(kubeconfig),
                "qps": 5000,
                "burst": 5000,
                **overrides.get("clientConnection", {}),
            },
        },
        sort_keys=False,
    )


def filled(side: Side, value: Any, names: Mapping[str, str]) -> Any:
    """A word, list or mapping with every {name} replaced. Raises SideError for one that is not known."""
    if isinstance(value, Mapping):
        return {key: filled(side, each, names) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [filled(side, each, names) for each in value]
    if not isinstance(value, str):
        return value
    try:
        return value.format(**names)
    except KeyError as error:
        raise SideError(f"{side.name}: {error} is not known; there are {', '.join(sorted(names))}") from error


def commands(side: Side, names: Mapping[str, str], ports: Sequence[int], gates: Mapping[str, bool]) -> list[list[str]]:
    """The command lines to start, every name filled in. Raises SideError for one that is not known."""
    result: list[list[str]] = []
    for program in side.programs:
        for index in range(program.replicas):
            own = {**names, "index": str(index), "port": str(ports[len(result)])}
            result.append(filled(side, program.command, own))
    if gates and side.feature_gates:
        flag = "--feature-gates=" + ",".join(f"{gate}={str(on).lower()}" for gate, on in gates.items())
        result = [[*command, flag] for command in result]
    return result


def processes(side: Side) -> int:
    """How many processes the side starts itself."""
    return sum(program.replicas for program in side.programs)
