"""A plugin's declaration of its arguments: their type, their defaults and their rules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trireme.framework import feature_gates
from trireme_kube.apimachinery.field_errors import Problem
from trireme_kube.apimachinery.schema import Struct

#: Arguments as JSON has them, to be read.
JsonArgs = Mapping[str, Any]
#: Decoded arguments, to be written.
Value = dict[str, Any]


def set_no_defaults(value: Value, gates: feature_gates.Gates) -> None:
    """Set no defaults, for arguments that have none."""


@dataclass(frozen=True, slots=True)
class PluginArgs:
    """The arguments of a plugin in `kubescheduler.config.k8s.io/v1`."""

    schema: Struct
    #: (path of the arguments, arguments with all defaults, gates) -> all problems.
    validate: Callable[[str, JsonArgs, feature_gates.Gates], list[Problem]]
    #: The plugin's error for missing arguments, for which no defaults were filled in.
    missing: str
    set_defaults: Callable[[Value, feature_gates.Gates], None] = set_no_defaults
    #: Validated with the configuration as well, not only when the plugin is made.
    validated_early: bool = True
    #: Structs of the core API within the arguments, by their Go names.
    core_types: frozenset[str] = frozenset()
