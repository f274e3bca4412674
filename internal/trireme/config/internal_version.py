"""kube-scheduler's internal version, `__internal`: how a file of that version is read.

Nobody should write one, but kube-scheduler accepts it: fields have the names of its own structs, and no defaults are
filled in, so validation sees zeros where other files have defaults. It is separate from the schema of v1, because that
is an API and this is an accident.

Source: pkg/scheduler/apis/config (types), which have no JSON names of their own.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from trireme.registry import in_tree_args
from trireme_kube.apimachinery.golang import Duration
from trireme_kube.apimachinery.schema import Field, Kind, Many, Scalar, Struct, Type, zero

VERSION = "__internal"

#: Fields whose own names are not the API's with a capital; kind and version are the same everywhere.
_NAMES = {
    "kind": "kind",
    "apiVersion": "apiVersion",
    "qps": "QPS",
    "urlPrefix": "URLPrefix",
    "tlsConfig": "TLSConfig",
    "httpTimeout": "HTTPTimeout",
    "enableHTTPS": "EnableHTTPS",
    "caFile": "CAFile",
    "caData": "CAData",
}
#: Fields that may be absent here too, which is not the same as zero.
_OPTIONAL = frozenset({"percentageOfNodesToScore", "filterTimeout", "bindingTimeout"})
#: Fields that are always read, whatever their contents.
_EMPTY: Mapping[str, Callable[[], Any]] = {"profiles": list, "plugins": dict, "pluginConfig": list}


@functools.cache
def _core_types() -> frozenset[str]:
    """The structs of the core API in arguments of plugins, whose fields have the API's names here too."""
    return frozenset(name for args in in_tree_args.plugin_args().values() for name in args.core_types)


def internal_schema(of: Struct) -> Struct:
    """The struct with its fields by kube-scheduler's own names."""
    if of.name in _core_types():
        return of
    fields = (
        replace(entry, name=_internal_name(entry), type=_internal_type(entry.type)) for entry in of.fields.values()
    )
    return replace(of, fields={entry.name: entry for entry in fields})


def _internal_name(entry: Field) -> str:
    """The field's name in kube-scheduler's own struct."""
    return _NAMES.get(entry.name, entry.name[0].upper() + entry.name[1:])


def _internal_type(of: Type) -> Type:
    """The field's type with kube-scheduler's own names in it."""
    if isinstance(of, Many):
        return Many(_internal_type(of.of))
    return internal_schema(of) if isinstance(of, Struct) else of


def with_all_fields(value: Mapping[str, Any], of: Struct) -> dict[str, Any]:
    """The decoded value with the API's names for its fields, and zeros for missing ones."""
    if of.name in _core_types():
        return dict(value)
    out: dict[str, Any] = {}
    for name, entry in of.fields.items():
        member = value.get(_internal_name(entry))
        if member is not None:
            out[name] = _with_all_fields(member, entry.type)
        elif name in _OPTIONAL:
            out[name] = None
        elif name in _EMPTY:
            out[name] = _EMPTY[name]()
        elif isinstance(entry.type, Scalar):
            out[name] = Duration() if entry.type.kind is Kind.DURATION else zero(entry.type.kind)
        elif isinstance(entry.type, Struct) and not entry.type.optional:
            out[name] = with_all_fields({}, entry.type)
    return out


def _with_all_fields(value: Any, of: Type) -> Any:
    """As `with_all_fields`, for a value of any type."""
    if isinstance(of, Struct):
        return with_all_fields(value, of)
    if isinstance(of, Many):
        return [_with_all_fields(each, of.of) for each in value]
    return value
