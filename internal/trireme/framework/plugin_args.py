"""What a plugin says of its arguments: their type, their defaults and their rules."""

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
    """For arguments that have none."""


@dataclass(frozen=True, slots=True)
class PluginArgs:
    """The arguments of a plugin in `kubescheduler.config.k8s.io/v1`."""

    schema: Struct
    #: (path of the arguments, arguments with all defaults, gates) -> all that is wrong with them.
    validate: Callable[[str, JsonArgs, feature_gates.Gates], list[Problem]]
    #: What the plugin says of arguments that are not there: nobody filled in defaults for it.
    missing: str
    set_defaults: Callable[[Value, feature_gates.Gates], None] = set_no_defaults
    #: Validated with the configuration too, not only when the plugin is made.
    validated_early: bool = True
