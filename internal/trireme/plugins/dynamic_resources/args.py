"""The arguments of DynamicResources.

Source: pkg/scheduler/apis/config (v1/defaults.go, validation) of Kubernetes 1.37.

Tests: tests/conformance/test_config_golden.py, tests/unit/plugins/dynamic_resources/test_features.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs, Value
from trireme.plugins.dynamic_resources import features
from trireme_kube.apimachinery import golang
from trireme_kube.apimachinery.declaration import Written
from trireme_kube.apimachinery.field_errors import Problem, child, forbidden, invalid

DEFAULT_FILTER_TIMEOUT = golang.Duration(10 * golang.SECOND)
DEFAULT_BINDING_TIMEOUT = golang.Duration(600 * golang.SECOND)


@dataclass(frozen=True, slots=True)
class DynamicResourcesArgs:
    """The time-outs of claims."""

    filter_timeout: Annotated[
        golang.Duration | None, "How long Filter may take for one node.", Written(omitempty=False)
    ] = None
    binding_timeout: Annotated[golang.Duration | None, "How long devices may take to get ready."] = None


def _set_defaults(value: Value, gates: feature_gates.Gates) -> None:
    """Set the two time-outs to kube-scheduler's defaults, each where its feature gates are on."""
    if gates.enabled("DRASchedulerFilterTimeout"):
        value.setdefault("filterTimeout", DEFAULT_FILTER_TIMEOUT)
    if gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus"):
        value.setdefault("bindingTimeout", DEFAULT_BINDING_TIMEOUT)


def _problems_of_args(path: str, args: JsonArgs, gates: feature_gates.Gates) -> list[Problem]:
    """Return the problems of the two time-outs; setting one whose feature gate is off is an error too."""
    problems: list[Problem] = []
    timeout, where = args.get("filterTimeout"), child(path, "filterTimeout")
    if timeout is not None:
        if not gates.enabled("DRASchedulerFilterTimeout"):
            problems.append(forbidden(where, "DRASchedulingFilterTimeout feature gate is disabled"))
        elif golang.parse_duration(timeout).nanoseconds < 0:
            problems.append(invalid(where, timeout, "must be zero or positive"))
    timeout, where = args.get("bindingTimeout"), child(path, "bindingTimeout")
    if timeout is not None:
        if not (gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")):
            rule = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            problems.append(forbidden(where, rule))
        elif golang.parse_duration(timeout).nanoseconds < golang.SECOND:
            problems.append(invalid(where, timeout, "must be at least 1 second"))
    return problems


@dataclass(frozen=True, slots=True)
class Args:
    """DynamicResourcesArgs, in seconds, and the features that are on. No filter timeout: 0."""

    filter_timeout: float = DEFAULT_FILTER_TIMEOUT.seconds
    binding_timeout: float = DEFAULT_BINDING_TIMEOUT.seconds
    on: features.Features = field(default_factory=features.Features)


def binding_timeout(args: JsonArgs) -> float:
    """Return how long devices may take to get ready, in seconds."""
    stated = args.get("bindingTimeout")
    return (golang.parse_duration(stated) if stated else DEFAULT_BINDING_TIMEOUT).seconds


def read(args: JsonArgs, gates: Mapping[str, bool]) -> Args:
    """Read a profile's checked arguments; a gate that `gates` does not name is at its default."""
    return Args(
        # Null without the gate DRASchedulerFilterTimeout: no limit.
        filter_timeout=golang.parse_duration(args.get("filterTimeout", str(DEFAULT_FILTER_TIMEOUT)) or "0").seconds,
        binding_timeout=binding_timeout(args),
        on=features.of_gates(gates),
    )


ARGS = PluginArgs(
    DynamicResourcesArgs, _problems_of_args, "got args of type <nil>, want *DynamicResourcesArgs", _set_defaults
)
