"""A plugin's state as bytes and back: it travels to the scheduler and returns in a later call, perhaps elsewhere.

Bytes are taken as they are. Any other value is JSON: texts, numbers, lists, mappings, and dataclasses of these.

Also change: sdk/go/state.go, sdk/java/src/main/java/dev/trireme/sdk/StateCodec.java, sdk/rust/src/results.rs,
sdk/typescript/src/calls.ts (the same in the other languages' SDKs).

Tests: tests/contract/test_plugin_sdk_results.py.
"""

import dataclasses
import typing
from typing import Any, TypeVar

import orjson

T = TypeVar("T")


def encode(state: object) -> bytes:
    """The bytes of a state; none for None.

    Raises:
        TypeError: it has a value that JSON has not.
    """
    if isinstance(state, bytes):
        return state
    return b"" if state is None else orjson.dumps(state)


def decode(state: bytes, kind: type[T]) -> T | None:
    """The state as a value of this type; None if there is none.

    Raises:
        ValueError: it is not of this type.
    """
    if not state or kind is bytes:
        return typing.cast(T, state) if state else None
    return typing.cast(T, _convert(orjson.loads(state), kind, "state"))


def _convert(value: Any, kind: Any, path: str) -> Any:
    """The value of a type as JSON writes it. Raises: ValueError naming what is not of its type."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object:
        return value
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        types = typing.get_type_hints(kind)
        known = {field.name for field in dataclasses.fields(kind)}
        if extra := sorted(set(value) - known):
            raise ValueError(f"{path}.{extra[0]}: {getattr(kind, '__name__', kind)} has no such field")
        try:
            return kind(**{name: _convert(each, types[name], f"{path}.{name}") for name, each in value.items()})  # type: ignore[operator]
        except TypeError as error:
            raise ValueError(f"{path}: {error}") from error
    if origin in (list, tuple, set, frozenset) and isinstance(value, list):
        each_kind = parts[0] if parts else Any
        return origin(_convert(each, each_kind, f"{path}[{at}]") for at, each in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return {name: _convert(each, parts[1], f"{path}.{name}") for name, each in value.items()}
    if not isinstance(value, origin or kind if isinstance(origin or kind, type) else object):
        raise ValueError(f"{path}: must be {getattr(kind, '__name__', kind)}, not {value!r}")
    return value
