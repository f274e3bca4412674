"""Compiles a checked expression to a program: a tree of functions that also count their cost.

Constants are folded and cost nothing.

Source: github.com/google/cel-go/interpreter (planner, attributes).

Tests: tests/unit/plugins/dynamic_resources/test_expressions.py, tests/conformance/test_selectors.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

from trireme_kube.apimachinery import semver
from trireme_kube.cel import syntax, values
from trireme_kube.cel.interpreter import call_steps, costs
from trireme_kube.cel.interpreter.program import Frame, Program, Run, Scope
from trireme_kube.cel.interpreter.qualifiers import Attribute, ConditionalAttribute, Qualifier
from trireme_kube.cel.library import functions, named_formats, operators, string_functions
from trireme_kube.cel.values import EvaluationError, Map, Optional


class InstantiationError(Exception):
    """The expression is valid, but its evaluation always fails."""


def program_of(checked: syntax.Checked) -> Program:
    """The program of a checked expression. Raises: InstantiationError."""
    return Program(_Planner(checked).plan(checked.root).run)


@dataclass(frozen=True, slots=True)
class _PlannedStep:
    """A step of the program. `attribute`: set if further selections may be appended."""

    run: Run
    attribute: "Attribute | ConditionalAttribute | None" = None
    constant: bool = False
    value: Any = None


class _Planner:
    """Makes the steps of one expression, a method for each kind of node."""

    def __init__(self, checked: syntax.Checked) -> None:
        self._checked = checked

    def plan(self, node: syntax.Node) -> _PlannedStep:
        """Return the step of a node, by its kind."""
        if isinstance(node, syntax.Literal):
            return _constant_step(node.value)
        if isinstance(node, syntax.Name):
            return self._plan_name(node.id, node.name)
        if isinstance(node, syntax.Select):
            return self._plan_select(node)
        if isinstance(node, syntax.Call):
            return self._plan_call(node)
        if isinstance(node, syntax.ListOf):
            return self._plan_list(node)
        if isinstance(node, syntax.MapOf):
            return self._plan_map(node)
        if isinstance(node, syntax.Comprehension):
            return self._plan_loop(node)
        assert_never(node)

    def _plan_name(self, id_: int, name: str) -> _PlannedStep:
        """Return the step of a name: a field of the device, a type, or a variable."""
        referred = self._checked.names.get(id_, name)
        if referred.startswith(_FIELDS):
            device = Attribute(lambda frame: frame.find_variable("device"))
            device.qualify(Qualifier(referred.removeprefix(_FIELDS)))
            return _attribute_step(device)
        if self._checked.is_type(id_):
            return _constant_step(values.TypeName(_TYPE_NAMES.get(referred, referred)))
        attribute = Attribute(lambda frame: frame.find_variable(referred))
        return _attribute_step(attribute)

    def _plan_select(self, node: syntax.Select) -> _PlannedStep:
        """Return the step of a selection or of `has()`; a qualified name is planned as one name."""
        if node.id in self._checked.names:
            return self._plan_name(node.id, self._checked.names[node.id])
        base = self._as_attribute(self.plan(node.operand))
        base.qualify(Qualifier(node.name, test_only=node.test_only))
        if not node.test_only:
            return _attribute_step(base)
        return _PlannedStep(lambda frame: _is_true_or_present(base.resolve(frame)), base)

    def _as_attribute(self, step: _PlannedStep) -> "Attribute | ConditionalAttribute":
        """Return the step's attribute, to which selections can be appended; a new one if it has none."""
        return step.attribute or Attribute(step.run)

    def _plan_call(self, node: syntax.Call) -> _PlannedStep:
        """Plan a call: first the operators that need not evaluate all arguments, then functions."""
        arguments = [self.plan(argument) for argument in node.arguments]
        name = node.function
        if name == "_||_":
            return _PlannedStep(call_steps.logical_or(*(argument.run for argument in arguments)))
        if name == "_&&_":
            return _PlannedStep(call_steps.logical_and(*(argument.run for argument in arguments)))
        if name == "_?_:_":
            return _conditional_step(
                ConditionalAttribute(arguments[0].run, *(self._as_attribute(each) for each in arguments[1:]))
            )
        if name in _INDEXING:
            return self._plan_index(arguments, optional=name != "_[_]")
        if name in ("or", "orValue") and len(arguments) == 2:
            return _PlannedStep(call_steps.optional_or(name, *(argument.run for argument in arguments)))
        if name in _CONVERSIONS and len(arguments) == 1 and arguments[0].constant:
            return _constant_step(_convert_literal(functions.overload_caller(name, 1), arguments[0].value))
        return self._plan_function(node, arguments)

    def _plan_index(self, arguments: Sequence[_PlannedStep], *, optional: bool) -> _PlannedStep:
        """Return the step of `a[key]`, or `a[?key]` if it is optional."""
        base, key = self._as_attribute(arguments[0]), arguments[1]
        if key.constant:
            base.qualify(Qualifier(key.value, optional=optional))
        else:
            run = key.attribute.resolve if key.attribute is not None else key.run
            base.qualify(Qualifier(None, run, optional=optional))
        return _attribute_step(base)

    def _plan_function(self, node: syntax.Call, arguments: Sequence[_PlannedStep]) -> _PlannedStep:
        """Plan the call of a function whose arguments are all evaluated.

        Three calls are planned as cel-go plans them, which shows in costs and errors: `in` with a constant list costs
        nothing, a list that a loop builds is appended to in place, and a constant pattern that cannot be compiled
        refuses the whole program. Raises: InstantiationError.
        """
        name, overload = node.function, self._checked.overload(node.id)
        runs = [argument.run for argument in arguments]
        if name == "@not_strictly_false":
            return _PlannedStep(call_steps.not_strictly_false(runs[0]))
        if overload == "in_list" and arguments[1].constant:
            elements = _set_of_constants(arguments[1].value)
            if elements is not None:
                return _step_of_constant_in(runs[0], elements)
        # The accumulator of a loop; `_extend_in_place` does so to lists alone.
        growing = name == "_+_" and isinstance(node.arguments[0], syntax.Name) and node.arguments[0].name == "@result"
        call = _extend_in_place if growing else _OPERATORS.get(name)
        if call is None:
            call = self._with_constant_pattern(name, arguments) or functions.overload_caller(
                name, len(arguments), member=node.member
            )
        if name in ("_==_", "_!=_"):
            overload = {"_==_": "equals", "_!=_": "not_equals"}[name]
        return _PlannedStep(call_steps.function_call(runs, call, costs.cost_function(name, overload)))

    def _with_constant_pattern(self, name: str, arguments: Sequence[_PlannedStep]) -> Callable[..., Any] | None:
        """Return a call with the constant pattern compiled, or None."""
        call = _PATTERNS.get(name)
        if call is None or len(arguments) < 2 or not arguments[1].constant or type(arguments[1].value) is not str:
            return None
        try:
            string_functions.compiled_pattern(arguments[1].value)
        except string_functions.PatternError as error:
            raise InstantiationError(str(error)) from None
        return call

    def _plan_list(self, node: syntax.ListOf) -> _PlannedStep:
        """The step that makes a list; optional elements that are absent are left out."""
        elements = [self.plan(element) for element in node.elements]
        runs = [(element.run, at in node.optional) for at, element in enumerate(elements)]

        def run(frame: Frame) -> list[Any]:
            out = []
            for each, optional in runs:
                value = each(frame)
                if optional:
                    if not isinstance(value, Optional):
                        given = values.value_text(value)
                        raise EvaluationError(
                            f"cannot initialize optional list element from non-optional value {given}"
                        )
                    if not value.present:
                        continue
                    value = value.value
                out.append(value)
            frame.cost += costs.NEW_LIST
            return out

        return _fold_constants(run, elements)

    def _plan_map(self, node: syntax.MapOf) -> _PlannedStep:
        """The step that makes a map; an optional entry without a value removes its key. Raises: InstantiationError."""
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
                        entry = f"'{values.value_text(key)}' from non-optional value {values.value_text(value)}"
                        raise EvaluationError(f"cannot initialize optional entry {entry}")
                    if not value.present:
                        out.drop(key)
                        continue
                    value = value.value
                out.put(key, value)
            frame.cost += costs.NEW_MAP
            return out

        return _fold_constants(run, [step for key, value, _ in planned for step in (key, value)])

    def _plan_loop(self, node: syntax.Comprehension) -> _PlannedStep:
        """The step of a loop. An error in an iteration is the loop's value until a later one replaces it."""
        over, start, condition, step, result = (
            self.plan(each).run for each in (node.over, node.start, node.condition, node.step, node.result)
        )

        def run(frame: Frame) -> Any:
            items = over(frame)
            outer = frame.scope
            scope = Scope(node, start, outer)
            turns = _loop_items(items, pairs=bool(node.second_variable))
            frame.scope = scope
            try:
                for scope.first, scope.second in turns:
                    if call_steps.is_false(condition, frame):
                        break
                    try:
                        scope.value = step(frame)
                    except EvaluationError as error:
                        scope.value = error
                    scope.started = True
                    frame.check_limits()
                scope.over = True
                return result(frame)
            finally:
                frame.scope = outer

        return _PlannedStep(run)


def _loop_items(items: Any, *, pairs: bool) -> Sequence[tuple[Any, Any]]:
    """Return the items of a loop over a list or map; with `pairs`, index or key with each. Raises: EvaluationError."""
    if type(items) is list:
        return list(enumerate(items)) if pairs else [(item, None) for item in items]
    if type(items) is Map:
        return items.items()
    if pairs:
        raise EvaluationError(f"unsupported comprehension range type: {values.go_type(items)}")
    raise EvaluationError(f"got '{values.go_type(items)}', expected iterable type")


def _constant_step(value: Any) -> _PlannedStep:
    """Return the step that gives a constant, without cost."""
    return _PlannedStep(lambda frame: value, None, True, value)


def _attribute_step(attribute: "Attribute | ConditionalAttribute") -> _PlannedStep:
    """Return the step that resolves an attribute; that costs 1, also if it fails."""
    if isinstance(attribute, ConditionalAttribute):
        return _conditional_step(attribute)

    def run(frame: Frame) -> Any:
        try:
            return attribute.resolve(frame)
        finally:
            frame.cost += 1

    return _PlannedStep(run, attribute)


def _conditional_step(choice: ConditionalAttribute) -> _PlannedStep:
    """Return the step of `condition ? one : other`."""
    return _PlannedStep(choice.resolve, choice)


def _is_true_or_present(value: Any) -> bool:
    """Whether the value of `has()` is true; of an optional value, whether it is present."""
    return bool(value.present) if isinstance(value, Optional) else bool(value)


def _fold_constants(run: Run, parts: Sequence[_PlannedStep]) -> _PlannedStep:
    """Return the constant step of a call whose arguments are all constant; else the step that calls it.

    Raises: InstantiationError if the call fails.
    """
    if not all(part.constant for part in parts):
        return _PlannedStep(run)
    try:
        return _constant_step(run(Frame({})))
    except EvaluationError as error:
        raise InstantiationError(str(error)) from None


def _convert_literal(call: Callable[..., Any], value: Any) -> Any:
    """Convert a literal while planning: `duration("1s")` is a constant. Raises: InstantiationError if that fails."""
    try:
        return call(value)
    except EvaluationError as error:
        raise InstantiationError(str(error)) from None


def _set_of_constants(elements: Sequence[Any]) -> Map | None:
    """Return the elements as the keys of a map, for a fast `in`; None if one cannot be a key."""
    if not all(type(each) in (bool, str) or values.is_number(each) for each in elements):
        return None
    out = Map()
    for each in elements:
        out.put(each, True)
    return out


def _step_of_constant_in(left: Run, elements: Map) -> _PlannedStep:
    """Return the step of `in` with a constant list; it raises CrashError for a value that cannot be a key."""

    def run(frame: Frame) -> bool:
        value = left(frame)
        if isinstance(value, _UNHASHABLE):
            raise costs.CrashError(f"runtime error: hash of unhashable type {values.go_type(value)}")
        return value in elements

    return _PlannedStep(run) if len(elements) else _constant_step(False)


def _extend_in_place(left: Any, right: Any) -> Any:
    """Append one list to another, changing it: a loop's accumulator is nobody else's. Other values are added."""
    if type(left) is not list or type(right) is not list:
        return operators.add(left, right)
    left.extend(right)
    return left


def _not_equal(left: Any, right: Any) -> bool:
    """Return left != right; values that cannot be compared differ."""
    return not values.same(left, right)


def _refusing_other_than_texts(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a call with a constant pattern: it fails unless the value is a text, and other arguments integers."""

    def call_with_texts_only(text: Any, pattern: str, *rest: Any) -> Any:
        if type(text) is not str or any(type(each) is not int for each in rest):
            raise values.no_such_overload()
        return call(text, pattern, *rest)

    return call_with_texts_only


# The checker sees a field of the device as a variable.
_FIELDS: Final = "device."
_UNHASHABLE: Final = (bytes, semver.Version, named_formats.Format)
_INDEXING: Final = ("_[_]", "_?._", "_[?_]")
_CONVERSIONS: Final = ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
_TYPE_NAMES: Final = {"null": "null_type"}
_PATTERNS: Final = {
    "matches": _refusing_other_than_texts(string_functions.matches),
    "find": _refusing_other_than_texts(string_functions.find),
    "findAll": _refusing_other_than_texts(string_functions.find_all),
}
_OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "_+_": operators.add,
    "_-_": operators.subtract,
    "_*_": operators.multiply,
    "_/_": operators.divide,
    "_%_": operators.modulo,
    "-_": operators.negate,
    "!_": operators.logical_not,
    "_<_": operators.less,
    "_<=_": operators.less_or_equal,
    "_>_": operators.greater,
    "_>=_": operators.greater_or_equal,
    "_==_": values.equal,
    "_!=_": _not_equal,
    "@in": operators.is_in,
}
