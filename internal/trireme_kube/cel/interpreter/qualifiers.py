"""Chains of selections: fields of maps and elements of lists.

A chain of selections is one step of a program: it costs one for its start and one per successful selection. After an
optional selection, a missing entry ends the chain, and the result is an optional.

Source: github.com/google/cel-go/interpreter (attributes).

Tests: tests/conformance/test_selectors.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trireme_kube.cel import values
from trireme_kube.cel.values import EvaluationError, Map, Optional, Uint


@dataclass(frozen=True, slots=True)
class Qualifier:
    """One selection. `run` computes a key that is not constant."""

    key: Any
    run: Callable[[Any], Any] | None = None
    optional: bool = False
    test_only: bool = False


class Attribute:
    """A value and a chain of selections."""

    __slots__ = ("_base", "_qualifiers")

    def __init__(self, base: Callable[[Any], Any]) -> None:
        """`base`: computes the value in a frame."""
        self._base = base
        self._qualifiers: list[Qualifier] = []

    def qualify(self, qualifier: Qualifier) -> None:
        """Append a selection."""
        self._qualifiers.append(qualifier)

    def resolve(self, frame: Any) -> Any:
        """Evaluate the chain; the caller counts its start. Raises: EvaluationError."""
        value = self._base(frame)
        optional = isinstance(value, Optional)
        if optional:
            if not value.present:
                return value
            value = value.value
        for qualifier in self._qualifiers:
            optional = optional or qualifier.optional
            key = qualifier.key if qualifier.run is None else _checked_key(qualifier.run(frame))
            # A missing entry is counted, unless it is no error.
            frame.cost += not optional
            present, value = _find_entry(value, key, presence=optional or qualifier.test_only)
            if qualifier.test_only and not optional:
                value = present
            elif not present:
                return Optional()
            frame.cost += optional
        return Optional(value, True) if optional else value


class ConditionalAttribute:
    """`condition ? one : other`, where both are attributes; selections apply to the chosen one."""

    __slots__ = ("_condition", "_sides")

    def __init__(self, condition: Callable[[Any], Any], first: "Side", other: "Side") -> None:
        """`condition`: whether it is the first."""
        self._condition = condition
        self._sides = (first, other)

    def qualify(self, qualifier: Qualifier) -> None:
        """Append a selection to both."""
        for side in self._sides:
            side.qualify(qualifier)

    def resolve(self, frame: Any) -> Any:
        """Evaluate the condition and the chosen attribute. Raises: EvaluationError."""
        value = self._condition(frame)
        if value is True:
            return self._sides[0].resolve(frame)
        if value is False:
            return self._sides[1].resolve(frame)
        raise values.no_such_overload()


Side = Attribute | ConditionalAttribute


def _checked_key(value: Any) -> Any:
    """Return the key. Raises: EvaluationError for a type that no map has keys of."""
    if type(value) in (bool, int, Uint, float, str):
        return value
    raise EvaluationError(f"invalid qualifier type: {values.go_type(value)}")


def _find_entry(value: Any, key: Any, *, presence: bool) -> tuple[bool, Any]:
    """Return whether the entry exists, and its value. Raises: EvaluationError; not for missing ones with `presence`."""
    if type(value) is Map:
        present, selected = value.find(key)
        if present or presence:
            return present, selected
    elif type(value) is list:
        index = _checked_index(key)
        if 0 <= index < len(value):
            return True, value[index]
        if presence:
            return False, None
        raise EvaluationError(f"index out of bounds: {values.value_text(key)}")
    elif presence:
        return False, None
    raise EvaluationError(f"no such key: {values.value_text(key)}")


def _checked_index(key: Any) -> int:
    """Return the index into a list as an integer; a float must be whole. Raises: EvaluationError."""
    if type(key) in (int, Uint):
        return int(key)
    if type(key) is float:
        if key.is_integer():
            return int(key)
        raise EvaluationError(f"unsupported index value {values.value_text(key)} in list")
    raise EvaluationError(f"unsupported index type '{values.type_name(key)}' in list")
