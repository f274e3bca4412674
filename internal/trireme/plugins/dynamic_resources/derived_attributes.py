"""What the expression of a derived attribute comes to, as an attribute of the device.

Source: k8s.io/dynamic-resource-allocation/cel (valToDeviceAttribute).

Also change: internal/trireme/plugins/dynamic_resources/expressions.py,
internal/trireme_kube/cel/compiler/environment.py, internal/trireme_kube/cel/values.py (types of CEL).

Tests: tests/unit/plugins/dynamic_resources/test_gated.py.
"""

from typing import Any, Final

from trireme.v1 import resource_pb2
from trireme_kube.apimachinery import semver
from trireme_kube.cel import values

# By type: the field of an attribute for one value, that for a list, and what Kubernetes calls the type.
_FIELDS: Final[dict[type, tuple[str, str, str]]] = {
    bool: ("bool", "bools", "bool"),
    int: ("int", "ints", "int"),
    str: ("string", "strings", "string"),
    semver.Version: ("version", "versions", "semver"),
}
# What Go calls the types of values that no attribute can have.
_GO_TYPES: Final = {
    "uint": "uint64",
    "double": "float64",
    "bytes": "[]uint8",
    "null_type": "structpb.NullValue",
    "google.protobuf.Duration": "time.Duration",
    "google.protobuf.Timestamp": "time.Time",
    "list": "[]ref.Val",
    "map": "map[ref.Val]ref.Val",
    "kubernetes.Quantity": "*resource.Quantity",
    "net.IP": "netip.Addr",
    "net.CIDR": "netip.Prefix",
    "kubernetes.URL": "*url.URL",
    "bool": "bool",
    "int": "int64",
    "string": "string",
    "kubernetes.Semver": "semver.Version",
}


def attribute_of(value: Any) -> resource_pb2.DeviceAttribute:
    """Convert an expression's value to a device attribute. Raises: ValueError where no attribute can have it."""
    value = _as_go_value(value)
    out = resource_pb2.DeviceAttribute()
    fields = _FIELDS.get(type(value))
    if fields is not None:
        setattr(out, fields[0], _version_as_text(value))
        return out
    if not isinstance(value, list):
        raise ValueError(f"unsupported CEL return type: {_go_type(value)}")
    if not value:
        return out
    elements = [_as_go_value(each) for each in value]
    fields = _FIELDS.get(type(elements[0]))
    if fields is None:
        raise ValueError(f"unsupported list element type: {_go_type(elements[0])}")
    for at, each in enumerate(elements):
        if type(each) is not type(elements[0]):
            wanted = f"expected list element at index {at} to be {fields[2]}"
            raise ValueError(f"{wanted}, got {_go_type(each)}")
    getattr(out, fields[1]).extend(map(_version_as_text, elements))
    return out


def _as_go_value(value: Any) -> Any:
    """What Go has in the place of the value: of an optional value what it holds, of a type its name."""
    while isinstance(value, values.Optional) and value.present:
        value = value.value
    return value.name if isinstance(value, values.TypeName) else value


def _version_as_text(value: Any) -> Any:
    """Return a semantic version as text, and any other value as it is."""
    return str(value) if isinstance(value, semver.Version) else value


def _go_type(value: Any) -> str:
    """Return the name of the value's type in Go, for messages."""
    if isinstance(value, values.Optional):
        return "<nil>"
    name = values.type_name(value)
    return _GO_TYPES.get(name, name)
