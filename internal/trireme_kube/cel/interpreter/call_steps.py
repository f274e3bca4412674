"""The steps of a program that call functions and operators, with their cost.

Source: github.com/google/cel-go/interpreter (interpretable, runtimecost).

Tests: tests/conformance/test_selectors.py.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from trireme_kube.cel import values
from trireme_kube.cel.interpreter import costs
from trireme_kube.cel.interpreter.program import CostLimitError, Frame, Run
from trireme_kube.cel.values import EvaluationError, Optional

_FAILED: Final = values.FailedValue()


def function_call(runs: Sequence[Run], call: Callable[..., Any], cost: costs.Cost) -> Run:
    """A step that evaluates the arguments, calls the function with them, and adds the cost of the call.

    A call that fails costs, too; so does one of at most two arguments that is not made because an argument fails. The
    step raises CostLimitError after a call that exceeds the limit.
    """

    def run(frame: Frame) -> Any:
        arguments = []
        for at, each in enumerate(runs):
            try:
                arguments.append(each(frame))
            except EvaluationError:
                if len(runs) <= 2:
                    _add_cost_of_failed_call(frame, [*arguments, _FAILED], runs[at + 1 :], cost)
                raise
        result = None
        try:
            result = call(*arguments)
        finally:
            frame.cost += cost(arguments, result)
        if frame.cost > costs.LIMIT:
            raise CostLimitError
        return result

    return run


def _add_cost_of_failed_call(frame: Frame, arguments: list[Any], runs: Sequence[Run], cost: costs.Cost) -> None:
    """Count a call of one or two arguments when one failed, after evaluating the second."""
    for each in runs:
        try:
            arguments.append(each(frame))
        except EvaluationError:
            arguments.append(_FAILED)
    frame.cost += cost(arguments, _FAILED)


def logical_or(left: Run, right: Run) -> Run:
    """The step of `||`."""

    def run(frame: Frame) -> bool:
        return _evaluate_logical(frame, left, right, True)

    return run


def logical_and(left: Run, right: Run) -> Run:
    """The step of `&&`."""

    def run(frame: Frame) -> bool:
        return _evaluate_logical(frame, left, right, False)

    return run


def _evaluate_logical(frame: Frame, left: Run, right: Run, deciding: bool) -> bool:
    """Return `deciding` if either side is; raise if either is no boolean; else return the opposite."""
    problem: EvaluationError | None = None
    value: object
    for each in (left, right):
        try:
            value = each(frame)
        except EvaluationError as error:
            problem = problem or error
            continue
        if value is deciding:
            return deciding
        if value is not (not deciding):
            problem = problem or values.no_such_overload()
    if problem is not None:
        raise problem
    return not deciding


def not_strictly_false(argument: Run) -> Run:
    """The step of `@not_strictly_false`, by which loops of `all` and `exists` end: an error is not false."""

    def run(frame: Frame) -> bool:
        decided = is_false(argument, frame)
        frame.cost += 1
        return not decided

    return run


def optional_or(name: str, left: Run, right: Run) -> Run:
    """The step of the method `or` or `orValue` of an optional value."""

    def run(frame: Frame) -> Any:
        value = left(frame)
        if not isinstance(value, Optional):
            raise values.no_such_overload()
        if not value.present:
            return right(frame)
        return value if name == "or" else value.value

    return run


def is_false(condition: Run, frame: Frame) -> bool:
    """Whether the condition is false, and no error."""
    try:
        return condition(frame) is False
    except EvaluationError:
        return False
