"""Checks what a plugin's methods return: Python accepts any value, and a wrong one must not become an answer.

Each check raises `InvalidResult`, whose text says what came and what is expected; the caller adds plugin, RPC, method.

Also change: sdk/go/statuses.go, sdk/java/src/main/java/dev/trireme/sdk/InvalidResult.java, sdk/rust/src/results.rs,
sdk/typescript/src/checks.ts (the same in the other languages' SDKs).

Tests: tests/contract/test_plugin_sdk_results.py.
"""

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from trireme.framework import status

#: What a message shows of a value, at most.
_LONGEST = 160


class InvalidResult(TypeError):
    """A method returned a value that its extension point does not accept."""


def reject(result: object, expected: str) -> InvalidResult:
    """The error of a result that is not what is expected."""
    shown = repr(result)
    if len(shown) > _LONGEST:
        shown = f"{shown[:_LONGEST]}…"
    return InvalidResult(f"returned {shown}: must be {expected}")


def check_status(result: object, expected: str) -> status.Status:
    """The status of a result that is None or a status.

    Raises:
        InvalidResult: it is something else, or a status that the method cannot return. `expected` names SKIP, and
            more_members, where they can be returned.
    """
    if result is None:
        return status.SUCCESS
    if not isinstance(result, status.Status):
        raise reject(result, expected)
    if result.code is status.Code.SKIP and "SKIP" not in expected:
        raise InvalidResult(f"returned SKIP: must be {expected}")
    if result.code is status.Code.WAIT and "more_members" not in expected:
        raise InvalidResult(f"returned a status of Code.WAIT: must be {expected}")
    return result


def check_bool(result: object) -> bool:
    """Raises: InvalidResult unless it is True or False."""
    if not isinstance(result, bool):
        raise reject(result, "True or False")
    return result


def check_sequence(result: Any, count: int, elements: str) -> Sequence[Any]:
    """Raises: InvalidResult unless it is a sequence, NumPy's arrays included, of one element for each node."""
    if isinstance(result, str | bytes | Mapping) or not hasattr(result, "__len__") or not hasattr(result, "__iter__"):
        raise reject(result, f"a sequence of {elements}, one a node")
    if len(result) != count:
        raise InvalidResult(f"returned {len(result)} {elements} of {count} nodes")
    found: Sequence[Any] = result
    return found


def check_scores(result: Any, count: int) -> list[int]:
    """The scores as integers, NumPy's included. Raises: InvalidResult for another number of scores, or other values."""
    scores = check_sequence(result, count, "scores")
    try:
        return [operator.index(score) for score in scores]
    except TypeError:
        wrong = next((at, score) for at, score in enumerate(scores) if not hasattr(score, "__index__"))
        raise InvalidResult(f"returned {wrong[1]!r} as score {wrong[0]}: must be a whole number") from None


def check_names(names: object) -> Collection[str]:
    """Raises: InvalidResult unless they are texts; one text would be taken for its letters."""
    if isinstance(names, str | bytes) or not isinstance(names, Collection):
        raise InvalidResult(f"returned {names!r} as nodes: must be a collection of names")
    for name in names:
        if not isinstance(name, str):
            raise InvalidResult(f"returned {name!r} among nodes: must be a name")
    return names


def capacity_of(verdict: object, expected: str) -> int:
    """The copies of a verdict that is neither None nor a status. Raises: InvalidResult: it is no number above 0."""
    if not isinstance(verdict, bool):
        try:
            copies = operator.index(verdict)  # type: ignore[arg-type]  # that is what is found out
        except TypeError:
            raise reject(verdict, expected) from None
        if copies > 0:
            return copies
    raise reject(verdict, expected)
