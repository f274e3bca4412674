"""Compiles a checked expression to a program: a tree of functions that also count their cost.

Errors are Python exceptions with Kubernetes' semantics: `||`, `&&` and loops continue after one if the result may not
depend on it, and the second operand is evaluated, and counted, even if the first failed. Constants are folded and cost
nothing. A variable of `cel.bind` is evaluated at its first use.

Source: github.com/google/cel-go/interpreter (planner, interpretable, attributes, runtimecost).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trireme_kube.apimachinery import semver
from trireme_kube.cel import costs, formats, functions, operators, string_functions, syntax, values
from trireme_kube.cel.qualifiers import Attribute, Choice, Qualifier
from trireme_kube.cel.values import EvaluationError, Map, Optional

Run = Callable[["Frame"], Any]

# Iterations of a loop between two checks of the time limit.
_TURNS: Final = 100


class InstantiationError(Exception):
    """The expression is valid, but its evaluation always fails."""


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
        self.scope: _Scope | None = None
        self.cost = 0
        self.turns = 0

    def find(self, name: str) -> Any:
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

    def turn(self) -> None:
        """Check the limits, once per iteration of a loop. Raises: CostLimitError, InterruptedEvaluationError."""
        if self.cost > costs.LIMIT:
            raise CostLimitError
        self.turns += 1
        if self.turns % _TURNS == 0 and self.expired is not None and self.expired():
            raise InterruptedEvaluationError


class _Scope:
    """The variables of one loop."""

    __slots__ = ("first", "loop", "over", "parent", "second", "start", "started", "value")

    def __init__(self, loop: syntax.Comprehension, start: Run, parent: "_Scope | None") -> None:
        self.loop, self.start, self.parent = loop, start, parent
        self.first: Any = None
        self.second: Any = None
        self.value: Any = None
        self.started = self.over = False

    def result(self, frame: Frame) -> Any:
        if not self.started:
            self.started = True
            frame.scope, inner = self.parent, frame.scope
            try:
                self.value = _own(self.start(frame))
            except EvaluationError as error:
                self.value = error
            finally:
                frame.scope = inner
        if isinstance(self.value, EvaluationError):
            raise self.value
        return self.value


def _own(value: Any) -> Any:
    """Copy a value that loops extend in place."""
    if type(value) is list:
        return list(value)
    return Map(dict(value.items())) if type(value) is Map and not value.default else value


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of the program. `attribute`: set if further selections may be appended."""

    run: Run
    attribute: "Attribute | Choice | None" = None
    constant: bool = False
    value: Any = None


class Program:
    """A compiled expression."""

    __slots__ = ("_run",)

    def __init__(self, checked: syntax.Checked) -> None:
        """Raises: InstantiationError."""
        self._run = _Planner(checked).plan(checked.root).run

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


class _Planner:
    def __init__(self, checked: syntax.Checked) -> None:
        self._checked = checked

    def plan(self, node: syntax.Node) -> _Step:
        if isinstance(node, syntax.Literal):
            return _constant(node.value)
        if isinstance(node, syntax.Name):
            return self._name(node.id, node.name)
        if isinstance(node, syntax.Select):
            return self._select(node)
        if isinstance(node, syntax.Call):
            return self._call(node)
        if isinstance(node, syntax.ListOf):
            return self._list(node)
        if isinstance(node, syntax.MapOf):
            return self._map(node)
        return self._loop(node)

    def _name(self, id_: int, name: str) -> _Step:
        referred = self._checked.names.get(id_, name)
        if referred.startswith(_FIELDS):
            device = Attribute(lambda frame: frame.find("device"))
            device.qualify(Qualifier(referred.removeprefix(_FIELDS)))
            return _of_attribute(device)
        if self._checked.is_type(id_):
            return _constant(values.TypeName(_TYPE_NAMES.get(referred, referred)))
        attribute = Attribute(lambda frame: frame.find(referred))
        return _of_attribute(attribute)

    def _select(self, node: syntax.Select) -> _Step:
        if node.id in self._checked.names:
            return self._name(node.id, self._checked.names[node.id])
        base = self._attribute(self.plan(node.operand))
        base.qualify(Qualifier(node.name, test_only=node.test_only))
        if not node.test_only:
            return _of_attribute(base)
        return _Step(lambda frame: _is_present(base.resolve(frame)), base)

    def _attribute(self, step: _Step) -> "Attribute | Choice":
        return step.attribute or Attribute(step.run)

    def _call(self, node: syntax.Call) -> _Step:
        arguments = [self.plan(argument) for argument in node.arguments]
        name = node.function
        if name == "_||_":
            return _Step(_either(*(argument.run for argument in arguments)))
        if name == "_&&_":
            return _Step(_both(*(argument.run for argument in arguments)))
        if name == "_?_:_":
            return _of_choice(Choice(arguments[0].run, *(self._attribute(each) for each in arguments[1:])))
        if name in _INDEXING:
            return self._index(arguments, optional=name != "_[_]")
        if name in ("or", "orValue") and len(arguments) == 2:
            return _Step(_alternative(name, *(argument.run for argument in arguments)))
        if name in _CONVERSIONS and len(arguments) == 1 and arguments[0].constant:
            return _constant(_instantiated(functions.caller(name, 1), arguments[0].value))
        return self._function(node, arguments)

    def _index(self, arguments: Sequence[_Step], *, optional: bool) -> _Step:
        base, key = self._attribute(arguments[0]), arguments[1]
        if key.constant:
            base.qualify(Qualifier(key.value, optional=optional))
        else:
            run = key.attribute.resolve if key.attribute is not None else key.run
            base.qualify(Qualifier(None, run, optional=optional))
        return _of_attribute(base)

    def _function(self, node: syntax.Call, arguments: Sequence[_Step]) -> _Step:
        name, overload = node.function, self._checked.overload(node.id)
        runs = [argument.run for argument in arguments]
        if name == "@not_strictly_false":
            return _Step(_not_strictly_false(runs[0]))
        if overload == "in_list" and arguments[1].constant:
            elements = _as_set(arguments[1].value)
            if elements is not None:
                return _member_of(runs[0], elements)
        # Only the accumulator of a loop that builds a list has this name.
        growing = name == "_+_" and isinstance(node.arguments[0], syntax.Name) and node.arguments[0].name == "@result"
        call = _grow if growing else _OPERATORS.get(name)
        if call is None:
            call = self._pattern(name, arguments) or functions.caller(name, len(arguments), member=node.member)
        if name in ("_==_", "_!=_"):
            overload = {"_==_": "equals", "_!=_": "not_equals"}[name]
        return _Step(_called(runs, call, costs.of(name, overload)))

    def _pattern(self, name: str, arguments: Sequence[_Step]) -> Callable[..., Any] | None:
        """Return a call with the constant pattern compiled, or None."""
        call = _PATTERNS.get(name)
        if call is None or len(arguments) < 2 or not arguments[1].constant or type(arguments[1].value) is not str:
            return None
        try:
            string_functions.pattern(arguments[1].value)
        except string_functions.PatternError as error:
            raise InstantiationError(str(error)) from None
        return call

    def _list(self, node: syntax.ListOf) -> _Step:
        elements = [self.plan(element) for element in node.elements]
        runs = [(element.run, at in node.optional) for at, element in enumerate(elements)]

        def run(frame: Frame) -> list[Any]:
            out = []
            for each, optional in runs:
                value = each(frame)
                if optional:
                    if not isinstance(value, Optional):
                        raise EvaluationError(
                            f"cannot initialize optional list element from non-optional value {values.written(value)}"
                        )
                    if not value.present:
                        continue
                    value = value.value
                out.append(value)
            frame.cost += costs.NEW_LIST
            return out

        return _folded(run, elements)

    def _map(self, node: syntax.MapOf) -> _Step:
        if node.name:
            raise InstantiationError(f"unknown type: {node.name}")
        planned = [(self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in node.entries]
        runs = [(key.run, value.run, optional) for key, value, optional in planned]

        def run(frame: Frame) -> Map:
            out = Map()
            for key_of, value_of, optional in runs:
                key, value = key_of(frame), value_of(frame)
                if optional:
                    if not isinstance(value, Optional):
                        entry = f"'{values.written(key)}' from non-optional value {values.written(value)}"
                        raise EvaluationError(f"cannot initialize optional entry {entry}")
                    if not value.present:
                        out.drop(key)
                        continue
                    value = value.value
                out.put(key, value)
            frame.cost += costs.NEW_MAP
            return out

        return _folded(run, [step for key, value, _ in planned for step in (key, value)])

    def _loop(self, node: syntax.Comprehension) -> _Step:
        over, start, condition, step, result = (
            self.plan(each).run for each in (node.over, node.start, node.condition, node.step, node.result)
        )

        def run(frame: Frame) -> Any:
            items = over(frame)
            outer = frame.scope
            scope = _Scope(node, start, outer)
            turns = _turns(items, pairs=bool(node.second_variable))
            frame.scope = scope
            try:
                for scope.first, scope.second in turns:
                    if _is_false(condition, frame):
                        break
                    try:
                        scope.value = step(frame)
                    except EvaluationError as error:
                        scope.value = error
                    scope.started = True
                    frame.turn()
                scope.over = True
                return result(frame)
            finally:
                frame.scope = outer

        return _Step(run)


def _turns(items: Any, *, pairs: bool) -> Sequence[tuple[Any, Any]]:
    if type(items) is list:
        return list(enumerate(items)) if pairs else [(item, None) for item in items]
    if type(items) is Map:
        return items.items()
    if pairs:
        raise EvaluationError(f"unsupported comprehension range type: {values.go_type(items)}")
    raise EvaluationError(f"got '{values.go_type(items)}', expected iterable type")


def _is_false(condition: Run, frame: Frame) -> bool:
    try:
        return condition(frame) is False
    except EvaluationError:
        return False


def _constant(value: Any) -> _Step:
    return _Step(lambda frame: value, None, True, value)


def _of_attribute(attribute: "Attribute | Choice") -> _Step:
    if isinstance(attribute, Choice):
        return _of_choice(attribute)

    def run(frame: Frame) -> Any:
        try:
            return attribute.resolve(frame)
        finally:
            frame.cost += 1

    return _Step(run, attribute)


def _of_choice(choice: Choice) -> _Step:
    return _Step(choice.resolve, choice)


def _is_present(value: Any) -> bool:
    return bool(value.present) if isinstance(value, Optional) else bool(value)


def _folded(run: Run, parts: Sequence[_Step]) -> _Step:
    if not all(part.constant for part in parts):
        return _Step(run)
    try:
        return _constant(run(Frame({})))
    except EvaluationError as error:
        raise InstantiationError(str(error)) from None


def _instantiated(call: Callable[..., Any], value: Any) -> Any:
    try:
        return call(value)
    except EvaluationError as error:
        raise InstantiationError(str(error)) from None


def _called(runs: Sequence[Run], call: Callable[..., Any], cost: costs.Cost) -> Run:
    def run(frame: Frame) -> Any:
        arguments = []
        for at, each in enumerate(runs):
            try:
                arguments.append(each(frame))
            except EvaluationError:
                if len(runs) <= 2:
                    _pay_in_vain(frame, [*arguments, _FAILED], runs[at + 1 :], cost)
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


def _pay_in_vain(frame: Frame, arguments: list[Any], runs: Sequence[Run], cost: costs.Cost) -> None:
    """Count a call of one or two arguments of which one failed, after evaluating the second."""
    for each in runs:
        try:
            arguments.append(each(frame))
        except EvaluationError:
            arguments.append(_FAILED)
    frame.cost += cost(arguments, _FAILED)


def _either(left: Run, right: Run) -> Run:
    def run(frame: Frame) -> bool:
        return _decided(frame, left, right, True)

    return run


def _both(left: Run, right: Run) -> Run:
    def run(frame: Frame) -> bool:
        return _decided(frame, left, right, False)

    return run


def _decided(frame: Frame, left: Run, right: Run, deciding: bool) -> bool:
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


def _not_strictly_false(argument: Run) -> Run:
    def run(frame: Frame) -> bool:
        decided = _is_false(argument, frame)
        frame.cost += 1
        return not decided

    return run


def _alternative(name: str, left: Run, right: Run) -> Run:
    def run(frame: Frame) -> Any:
        value = left(frame)
        if not isinstance(value, Optional):
            raise values.no_such_overload()
        if not value.present:
            return right(frame)
        return value if name == "or" else value.value

    return run


def _as_set(elements: Sequence[Any]) -> Map | None:
    if not all(type(each) in (bool, str) or values.is_number(each) for each in elements):
        return None
    out = Map()
    for each in elements:
        out.put(each, True)
    return out


def _member_of(left: Run, elements: Map) -> _Step:
    def run(frame: Frame) -> bool:
        value = left(frame)
        if isinstance(value, _UNHASHABLE):
            raise costs.CrashError(f"runtime error: hash of unhashable type {values.go_type(value)}")
        return value in elements

    return _Step(run) if len(elements) else _constant(False)


def _grow(left: Any, right: Any) -> Any:
    if type(left) is not list or type(right) is not list:
        return operators.add(left, right)
    left.extend(right)
    return left


def _not_equal(left: Any, right: Any) -> bool:
    return not values.same(left, right)


def _only_texts(call: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(text: Any, pattern: str, *rest: Any) -> Any:
        if type(text) is not str or any(type(each) is not int for each in rest):
            raise values.no_such_overload()
        return call(text, pattern, *rest)

    return guarded


# The checker sees a field of the device as a variable.
_FIELDS: Final = "device."
_FAILED: Final = values.Failed()
_UNHASHABLE: Final = (bytes, semver.Version, formats.Format)
_INDEXING: Final = ("_[_]", "_?._", "_[?_]")
_CONVERSIONS: Final = ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
_TYPE_NAMES: Final = {"null": "null_type"}
_PATTERNS: Final = {
    "matches": _only_texts(string_functions.matches),
    "find": _only_texts(string_functions.find),
    "findAll": _only_texts(string_functions.find_all),
}
_OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "_+_": operators.add,
    "_-_": operators.subtract,
    "_*_": operators.multiply,
    "_/_": operators.divide,
    "_%_": operators.modulo,
    "-_": operators.negate,
    "!_": operators.invert,
    "_<_": operators.less,
    "_<=_": operators.less_or_equal,
    "_>_": operators.greater,
    "_>=_": operators.greater_or_equal,
    "_==_": values.equal,
    "_!=_": _not_equal,
    "@in": operators.within,
}
