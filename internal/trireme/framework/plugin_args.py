"""A plugin's arguments: the type that declares them, and the defaults and rules that do not follow from it.

Tests: tests/unit/config/test_scheduler_configuration.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trireme.framework import feature_gates
from trireme_kube.apimachinery import declaration
from trireme_kube.apimachinery.field_errors import Problem
from trireme_kube.apimachinery.schema import Struct

#: Arguments as JSON has them, to be read.
JsonArgs = Mapping[str, Any]
#: Decoded arguments, to be written.
Value = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PluginArgs:
    """The arguments of a plugin in `kubescheduler.config.k8s.io/v1`."""

    #: The declared type (`trireme_kube.apimachinery.declaration`).
    type: type[Any]
    #: (path of the arguments, arguments with all defaults, gates) -> all problems.
    validate: Callable[[str, JsonArgs, feature_gates.Gates], list[Problem]]
    #: The plugin's error for missing arguments, for which no defaults were filled in.
    missing: str
    #: Sets what is no default of a field: what depends on feature gates or on other fields.
    set_other_defaults: Callable[[Value, feature_gates.Gates], None] | None = None
    #: Validated with the configuration as well, not only when the plugin is made.
    validated_early: bool = True
    #: Structs of the core API within the arguments, by their Go names.
    core_types: frozenset[str] = frozenset()

    @property
    def schema(self) -> Struct:
        """The type of the arguments in a file."""
        return declaration.schema_of(self.type, is_object=True)

    def set_defaults(self, value: Value, gates: feature_gates.Gates) -> None:
        """Fill in the defaults of decoded arguments, in place."""
        declaration.set_defaults(self.type, value)
        if self.set_other_defaults is not None:
            self.set_other_defaults(value, gates)
