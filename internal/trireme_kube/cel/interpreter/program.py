"""A compiled expression, and the state of one evaluation of it.

Errors are Python exceptions with Kubernetes' semantics: `||`, `&&` and loops continue after one if the result may not
depend on it, and the second operand is evaluated, and counted, even if the first failed. A variable of `cel.bind` is
evaluated at its first use. `planner` makes programs.

Source: github.com/google/cel-go/interpreter (interpretable, activation, runtimecost).

Tests: tests/unit/plugins/dynamic_resources/test_expressions.py.
"""

from collections.abc import Callable
from typing import Any, Final

from trireme_kube.cel import syntax
from trireme_kube.cel.interpreter import costs
from trireme_kube.cel.values import EvaluationError, Map

# A step of a program: returns its value, and adds its cost to the frame's.
# Implementers: trireme_kube.cel.interpreter.planner, trireme_kube.cel.interpreter.call_steps.
Run = Callable[["Frame"], Any]

# Iterations of a loop between two checks of the time limit.
_TURNS: Final = 100


class CostLimitError(Exception):
    """The evaluation exceeded the cost limit."""


class InterruptedEvaluationError(Exception):
    """The time limit was reached."""


class Frame:
    """The state of one evaluation."""

    __slots__ = ("cost", "expired", "scope", "turns", "variables")

    def __init__(self, variables: dict[str, Any], expired: Callable[[], bool] | None = None) -> None:
        """`expired` returns whether the time limit was reached."""
        self.variables = variables
        self.expired = expired
        self.scope: Scope | None = None
        self.cost = 0
        self.turns = 0

    def find_variable(self, name: str) -> Any:
        """The value of a variable. Raises: EvaluationError if evaluating it failed."""
        scope = None if name.startswith(".") else self.scope
        while scope is not None:
            if name == scope.loop.result_variable:
                return scope.result(self)
            if not scope.over:
                if name == scope.loop.variable:
                    return scope.first
                if name == scope.loop.second_variable:
                    return scope.second
            scope = scope.parent
        return self.variables[name.removeprefix(".")]

    def check_limits(self) -> None:
        """Raise if the cost or the time limit is exceeded; called once per iteration of a loop.

        Raises: CostLimitError, InterruptedEvaluationError.
        """
        if self.cost > costs.LIMIT:
            raise CostLimitError
        self.turns += 1
        if self.turns % _TURNS == 0 and self.expired is not None and self.expired():
            raise InterruptedEvaluationError


class Scope:
    """The variables of one loop."""

    __slots__ = ("first", "loop", "over", "parent", "second", "start", "started", "value")

    def __init__(self, loop: syntax.Comprehension, start: Run, parent: "Scope | None") -> None:
        self.loop, self.start, self.parent = loop, start, parent
        self.first: Any = None
        self.second: Any = None
        self.value: Any = None
        self.started = self.over = False

    def result(self, frame: Frame) -> Any:
        """The value of the loop's accumulator so far. Raises: EvaluationError if evaluating it failed."""
        if not self.started:
            self.started = True
            frame.scope, inner = self.parent, frame.scope
            try:
                self.value = _copy_if_mutable(self.start(frame))
            except EvaluationError as error:
                self.value = error
            finally:
                frame.scope = inner
        if isinstance(self.value, EvaluationError):
            raise self.value
        return self.value


def _copy_if_mutable(value: Any) -> Any:
    """Copy a value that loops extend in place."""
    if type(value) is list:
        return list(value)
    return Map(dict(value.items())) if type(value) is Map and not value.default else value


class Program:
    """A compiled expression."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def evaluate(self, variables: dict[str, Any], expired: Callable[[], bool] | None = None) -> tuple[Any, int]:
        """Return the value and its cost. Raises: EvaluationError, CostLimitError, InterruptedEvaluationError."""
        frame = Frame(variables, expired)
        try:
            value = self._run(frame)
        except EvaluationError:
            if frame.cost > costs.LIMIT:
                raise CostLimitError from None
            raise
        if frame.cost > costs.LIMIT:
            raise CostLimitError
        return value, frame.cost
