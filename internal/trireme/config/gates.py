"""Feature gates: their names, their stage in each version, and which are on.

The table (`feature_gates.json`) has every gate that kube-scheduler accepts, with its history, because
`--emulated-version` restores the defaults of an older version, and because gates without a meaning for a scheduler are
accepted too: clusters set the same gates on every component.

Source: k8s.io/component-base/featuregate.
"""

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import orjson

from trireme.framework import feature_gates
from trireme_kube.apimachinery import golang
from trireme_kube.apimachinery.field_errors import join_messages
from trireme_kube.componentbase.cli import flag_values, versions
from trireme_kube.componentbase.cli.versions import Effective

ALL_ALPHA = "AllAlpha"
ALL_BETA = "AllBeta"


class GateStage(enum.Enum):
    """How mature a feature is."""

    PRE_ALPHA = "PRE-ALPHA"
    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


@dataclass(frozen=True, slots=True)
class GateSpec:
    """A gate's properties from some version on."""

    version: tuple[int, int]
    stage: GateStage
    default: bool
    locked: bool = False
    #: Applies only if no peer is older than this.
    oldest_peer: tuple[int, int] = (0, 0)


_UNAVAILABLE = GateSpec((0, 0), GateStage.PRE_ALPHA, default=False)
_SPEC = re.compile(r"(\d+)\.(\d+) (\S+) (on|off)( locked)?(?: from (\d+)\.(\d+))?")


@dataclass(frozen=True, slots=True)
class GateTable:
    """All gates with their histories and dependencies."""

    gates: Mapping[str, tuple[GateSpec, ...]]
    dependencies: Mapping[str, tuple[str, ...]]

    def at(self, name: str, effective: Effective) -> GateSpec:
        """A gate's properties in a version."""
        for spec in reversed(self.gates[name]):
            if spec.version <= effective.emulated and spec.oldest_peer <= effective.oldest_peer:
                return spec
        return _UNAVAILABLE


def _parse_spec(text: str) -> GateSpec:
    """Parse an entry of the table. Raises: ValueError."""
    found = _SPEC.fullmatch(text)
    if not found:
        raise ValueError(f"malformed entry in the table of feature gates: {text}")
    major, minor, stage, default, locked, peer_major, peer_minor = found.groups()
    return GateSpec(
        (int(major), int(minor)),
        GateStage(stage),
        default=default == "on",
        locked=locked is not None,
        oldest_peer=(int(peer_major or 0), int(peer_minor or 0)),
    )


@cache
def read_table() -> GateTable:
    """Read the table of this version, once."""
    data = orjson.loads(resources.files("trireme.config").joinpath("feature_gates.json").read_bytes())
    return GateTable(
        {name: tuple(_parse_spec(text) for text in history.split("; ")) for name, history in data["gates"].items()},
        {name: tuple(needs) for name, needs in data["dependencies"].items()},
    )


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Which features are on."""

    effective: Effective = versions.DEFAULT
    #: The flag's values, and those that `AllAlpha` and `AllBeta` set.
    values: Mapping[str, bool] | None = None

    def enabled(self, name: str) -> bool:
        """Whether a feature is on."""
        if self.values and name in self.values:
            return self.values[name]
        if name == feature_gates.CORRECTED:
            return False
        return read_table().at(name, self.effective).default

    def all(self) -> dict[str, bool]:
        """Every gate that exists in the effective version, and whether it is on."""
        gate_table = read_table()
        return {
            name: self.enabled(name)
            for name in sorted(gate_table.gates)
            if gate_table.at(name, self.effective).stage is not GateStage.PRE_ALPHA
        }

    def with_corrections(self, corrected: bool) -> "FeatureGates":
        """The same gates, with the departures from kube-scheduler on or off."""
        return replace(self, values={**(self.values or {}), feature_gates.CORRECTED: corrected})

    def for_phases(self) -> dict[str, bool]:
        """The settings that phases receive: all gates, and whether the departures from kube-scheduler are on."""
        return {**self.all(), feature_gates.CORRECTED: self.enabled(feature_gates.CORRECTED)}

    def experimental(self) -> list[str]:
        """The alpha features that are on."""
        gate_table = read_table()
        return [
            name
            for name in sorted(gate_table.gates)
            if gate_table.at(name, self.effective).stage is GateStage.ALPHA and self.enabled(name)
        ]


class GateError(ValueError):
    """The gates cannot be set; `logs` are the lines to log before the error."""

    def __init__(self, problems: list[str], logs: list[str] | None = None) -> None:
        super().__init__(join_messages(problems))
        self.logs = logs or []


@dataclass(frozen=True, slots=True)
class GateResult:
    """The gates as set, and the lines to log."""

    gates: FeatureGates
    logs: tuple[str, ...] = ()


def parse_gates(text: str) -> dict[str, bool]:
    """Parse `A=true,B=false`; empty parts are ignored, and of a name given twice the last value counts.

    Raises:
        ValueError: a part is malformed.
    """
    found: dict[str, bool] = {}
    for part in text.split(","):
        if not part:
            continue
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals:
            raise ValueError(f"missing bool value for {name}")
        try:
            found[name] = flag_values.parse_bool(value.strip())
        except ValueError as error:
            raise ValueError(f"invalid value of {name}={value.strip()}, err: {error}") from error
    return found


def set_gates(requested: Mapping[str, bool], effective: Effective) -> GateResult:
    """Set gates beside the defaults of the effective version; AllAlpha and AllBeta set all of their stage.

    All problems are reported together, but nothing after an unknown gate is checked.

    Raises:
        GateError: a gate is unknown, locked or not yet there, or depends on one that is off.
    """
    gate_table = read_table()
    values: dict[str, bool] = {}
    problems: list[str] = []
    logs: list[str] = []
    for name, value in requested.items():
        if name not in gate_table.gates:
            # Nothing after an unknown gate is checked.
            raise GateError([*problems, f"unrecognized feature gate: {name}"], logs)
        spec = gate_table.at(name, effective)
        text = str(value).lower()
        if spec.locked and spec.default != value:
            locked = str(spec.default).lower()
            problems.append(f"cannot set feature gate {name} to {text}, feature is locked to {locked}")
            continue
        if name in (ALL_ALPHA, ALL_BETA):
            _set_all_gates_of_stage(name, value, effective, values)
            continue
        if spec.stage is GateStage.PRE_ALPHA:
            emulated, oldest = (f"{major}.{minor}" for major, minor in (effective.emulated, effective.oldest_peer))
            problems.append(
                f"cannot set feature gate {name} to {text}, feature is PreAlpha at emulated version {emulated}, "
                f"min compatibility version {oldest}"
            )
            continue
        values[name] = value
        if spec.stage in (GateStage.DEPRECATED, GateStage.GA):
            stage = "deprecated" if spec.stage is GateStage.DEPRECATED else "GA"
            logs.append(
                f'I "Warning: setting {stage} feature gate. It will be removed in a future release." '
                f"featureGate={golang.quote(name)} value={text}"
            )
    gates = FeatureGates(effective, values)
    problems = problems or _unmet_dependencies(gates)
    if problems:
        raise GateError(problems, logs)
    return GateResult(gates, tuple(logs))


def _set_all_gates_of_stage(name: str, value: bool, effective: Effective, values: dict[str, bool]) -> None:
    """`AllAlpha` and `AllBeta`: every gate of that stage that has not been set by then."""
    gate_table = read_table()
    stage = GateStage.ALPHA if name == ALL_ALPHA else GateStage.BETA
    for other in gate_table.gates:
        if other not in (ALL_ALPHA, ALL_BETA) and gate_table.at(other, effective).stage is stage:
            values.setdefault(other, value)
    values[name] = value


def _unmet_dependencies(gates: FeatureGates) -> list[str]:
    """An error message for each gate that is on and needs one that is off."""
    problems: list[str] = []
    for name, needs in read_table().dependencies.items():
        missing = [need for need in needs if not gates.enabled(need)]
        if missing and gates.enabled(name):
            problems.append(f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]")
    return problems


def from_flags(
    emulated: tuple[str, ...], oldest_peer: tuple[str, ...], gates: Mapping[str, tuple[str, ...]]
) -> GateResult:
    """Apply the three compatibility flags; `gates` has the values of `--feature-gates` by component.

    Raises: ValueError: a flag is malformed or invalid.
    """
    effective = versions.effective(emulated, oldest_peer)
    unmet = _unmet_dependencies(FeatureGates(effective))
    if unmet:
        raise GateError(unmet)
    result = GateResult(FeatureGates(effective))
    for component, values in gates.items():
        if not component and "kube" in gates:
            raise ValueError(
                "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
            )
        if component not in ("", "kube"):
            raise ValueError(f"component not registered: {component}")
        result = set_gates(parse_gates(",".join(values)), effective)
    return result
