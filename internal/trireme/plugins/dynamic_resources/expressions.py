"""CEL selectors: compiled once, and evaluated once for each device.

The compiler, with RE2, is loaded with the first expression: a cluster without devices does not pay for it.
Source: k8s.io/dynamic-resource-allocation/cel.

Also change: internal/trireme/plugins/dynamic_resources/derived_attributes.py,
internal/trireme_kube/cel/compiler/environment.py, internal/trireme_kube/cel/values.py (types of CEL).

Tests: tests/unit/plugins/dynamic_resources/test_expressions.py, tests/conformance/test_selectors.py.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from trireme.plugins.dynamic_resources import derived_attributes
from trireme.v1 import resource_pb2
from trireme_kube.cel import values
from trireme_kube.cel.interpreter import costs, program

# Compiled expressions in the cache; a cluster has a handful.
_MAX_CACHED: Final = 1024

_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional"
    " fields"
)
# The errors of values that are no truth values; each kind has its own.
_NO_BOOL: Final = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "type": "type conversion not supported for 'type'",
    "optional_type": "optional.none() dereference",
    "kubernetes.NamedFormat": "type conversion error from 'Format' to 'bool'",
}


class CompileError(Exception):
    """The text is no valid expression."""


class DeviceExpressionError(Exception):
    """Evaluating the expression failed for this device."""


class CompiledExpressions:
    """Compiled CEL expressions by their text, the ones used last; errors are cached as well."""

    def __init__(self) -> None:
        self._cached: OrderedDict[tuple[str, bool], program.Program | CompileError] = OrderedDict()

    def matches(self, expression: str, device: values.Map, expired: Callable[[], bool] | None = None) -> bool:
        """Whether the device meets the expression.

        Raises: CompileError, DeviceExpressionError, program.InterruptedEvaluationError where it is `expired`.
        """
        try:
            return _as_bool(self._evaluate(self.compiled(expression), device, expired))
        except DeviceExpressionError as error:
            text = str(error)
            raise DeviceExpressionError(text + _HINT if "no such key:" in text else text) from None

    def attribute(
        self, expression: str, device: values.Map, expired: Callable[[], bool] | None = None
    ) -> resource_pb2.DeviceAttribute:
        """The attribute that the expression computes from those of the device.

        Raises: CompileError, DeviceExpressionError, program.InterruptedEvaluationError where it is `expired`.
        """
        value = self._evaluate(self.compiled(expression, attribute=True), device, expired)
        try:
            return derived_attributes.attribute_of(value)
        except ValueError as error:
            raise DeviceExpressionError(str(error)) from error

    def _evaluate(self, compiled: program.Program, device: values.Map, expired: Callable[[], bool] | None) -> Any:
        """Evaluate the expression for a device. Raises: DeviceExpressionError, InterruptedEvaluationError."""
        try:
            return compiled.evaluate({"device": device}, expired)[0]
        except program.CostLimitError:
            raise DeviceExpressionError("operation cancelled: actual cost limit exceeded") from None
        except costs.CrashError as error:
            raise DeviceExpressionError(str(error)) from None
        except values.EvaluationError as error:
            raise DeviceExpressionError(str(error)) from None

    def compiled(self, expression: str, *, attribute: bool = False) -> program.Program:
        """Return the compiled expression, of a selector or of an attribute; compiled once. Raises: CompileError."""
        key = (expression, attribute)
        known = self._cached.get(key)
        if known is None:
            from trireme_kube.cel.compiler import environment

            try:
                known = environment.compile_expression(expression, attribute=attribute)
            except environment.RefusedError as error:
                known = CompileError(str(error))
            self._cached[key] = known
            if len(self._cached) > _MAX_CACHED:
                self._cached.popitem(last=False)
        self._cached.move_to_end(key)
        if isinstance(known, CompileError):
            raise CompileError(str(known))
        return known


_NOTHING: Final = values.Map()


def cel_device(
    driver: str,
    allow_multiple: bool,
    attributes: Mapping[str, Mapping[str, Any]],
    capacity: Mapping[str, Mapping[str, Any]],
) -> values.Map:
    """Make the `device` variable of expressions; a domain that the device does not have is an empty map."""
    return values.Map(
        {
            "driver": driver,
            "allowMultipleAllocations": allow_multiple,
            "attributes": values.Map({domain: values.Map(of) for domain, of in attributes.items()}, _NOTHING),
            "capacity": values.Map({domain: values.Map(of) for domain, of in capacity.items()}, _NOTHING),
        }
    )


def _as_bool(value: Any) -> bool:
    """Convert a selector's value to a boolean. Raises: DeviceExpressionError with Kubernetes' message if it is none."""
    if isinstance(value, bool):
        return value
    kind = values.type_name(value)
    try:
        if isinstance(value, values.Optional) and value.present:
            return _as_bool(value.value)
    except DeviceExpressionError as error:
        inner = values.type_name(value.value)
        raise DeviceExpressionError(str(error).replace(f"of type {inner} ", f"of type {kind} ")) from None
    why = _NO_BOOL.get(kind, f"type conversion error from '{kind.rpartition('.')[2]}' to 'bool'")
    raise DeviceExpressionError(f"CEL result of type {kind} could not be converted to bool: {why}")
