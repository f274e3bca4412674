"""CEL selectors: compiled once, and asked once of each device.

An expression is checked against the types that Kubernetes declares for it, so that it is refused for the same faults
and in the same words. It is evaluated against the device's plain values. Kubernetes' map of attributes answers an
unknown domain with an empty map; here a lookup that failed for want of a domain is repeated with that domain there.

The library is loaded with the first expression: a cluster without devices does not pay for it.

Source: k8s.io/dynamic-resource-allocation/cel.
"""

import functools
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trireme.plugins.dynamic_resources import cel_environment

# Compiled expressions kept; a cluster has a handful.
_MAX_KEPT = 1024

# A lookup is repeated so often at most; each time one more domain is there.
_MAX_DOMAINS = 32

_CODE = re.compile(r"^(?:[A-Z_]+: )+")
_TRAILING_CODE = re.compile(r" \[[A-Z_]+\]$")
_MISSING = re.compile(r'^Key not found in map : (?:"(.*)"|(.*))$', re.DOTALL)
_OVERLOAD = re.compile(r"^No matching overloads found : (.*)$", re.DOTALL)
_OF_FUNCTION = re.compile(r"^\w+\(\): ")
_NO_FIELD = re.compile(r"(: undefined field '[^']*') not found in struct '[^']*'$", re.MULTILINE)
_MEMBER = re.compile(r"^\(([^)]*)\)\.(\w+)\((.*)\)$")

_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional"
    " fields"
)

_GO_NAMES = {"int64": "int", "uint64": "uint", "struct": "kubernetes.Quantity", "float64": "double"}


class CompileError(Exception):
    """The expression is not one."""


class EvaluationError(Exception):
    """The expression has no answer for this device."""


@dataclass(frozen=True, slots=True)
class DeviceValues:
    """A device as expressions see it: attributes and capacities by domain and name."""

    driver: str
    allow_multiple: bool
    attributes: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, Any]]


class Expressions:
    """Compiled expressions by their text. `lists`: attributes may be lists."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def matches(self, expression: str, device: DeviceValues) -> bool:
        """Whether the device meets the expression. Raises: CompileError, EvaluationError."""
        compiled = self.compiled(expression)
        attributes, capacity = dict(device.attributes), dict(device.capacity)
        for _ in range(_MAX_DOMAINS):
            found = cel_environment.evaluate(compiled, device.driver, device.allow_multiple, attributes, capacity)
            if found.error is None:
                return _truth(found)
            missing = _missing_key(found.error)
            if missing is None or (missing in attributes and missing in capacity):
                break
            attributes.setdefault(missing, {})
            capacity.setdefault(missing, {})
        raise EvaluationError(_runtime_text(found.error))

    def compiled(self, expression: str) -> Any:
        """The compiled expression. Raises: CompileError."""
        known = self._kept.get(expression)
        if known is None:
            try:
                known = cel_environment.compiled(expression)
            except cel_environment.Refused as error:
                known = CompileError(_compile_text(str(error)))
            self._kept[expression] = known
            if len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(expression)
        if isinstance(known, CompileError):
            raise CompileError(str(known))
        return known


def _truth(found: cel_environment.Found) -> bool:
    if isinstance(found.value, bool):
        return found.value
    kind = found.type_name
    why = {
        "string": "unsupported native conversion from string to 'bool'",
        "int": "unsupported type conversion from 'int' to bool",
        "uint": "unsupported type conversion from 'uint' to bool",
    }.get(kind, f"type conversion error from '{kind}' to 'bool'")
    raise EvaluationError(f"CEL result of type {kind} could not be converted to bool: {why}")


def _missing_key(text: str) -> str | None:
    found = _MISSING.match(_CODE.sub("", text))
    return None if found is None else found.group(1)


@functools.lru_cache(maxsize=1024)
def _runtime_text(text: str) -> str:
    """What kube-scheduler says of what the library says."""
    bare = _TRAILING_CODE.sub("", _CODE.sub("", text))
    missing = _MISSING.match(bare)
    if missing is not None:
        key = missing.group(2) if missing.group(1) is None else missing.group(1)
        return f"no such key: {key}{_HINT}"
    overload = _OVERLOAD.match(bare)
    if overload is not None:
        member = _MEMBER.match(overload.group(1))
        if member is None:
            return "no such overload"
        receiver, name, arguments = member.groups()
        kinds = [receiver, *(arguments.split(", ") if arguments else ())]
        return f"no such overload: {name}({', '.join(_GO_NAMES.get(kind, kind) for kind in kinds)})"
    return {"divide by zero": "division by zero"}.get(bare, _OF_FUNCTION.sub("", bare))


def _compile_text(text: str) -> str:
    return _NO_FIELD.sub(r"\1", _TRAILING_CODE.sub("", _CODE.sub("", text)))
