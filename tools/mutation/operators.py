"""The small changes that a mutant makes: those that a tired engineer makes without a test noticing.

A statement is forgotten (one that undoes, discards, clears or notifies above all), a branch or one operand of `and`,
`>` stands for `>=`, an old value stays, a clock is read one statement too late. What only the log shows is left alone.

A statement is dropped by putting it under `if False:`, so that the function keeps its variables and stays what it is, a
generator or a coroutine: only then can the mutant's code take the place of the running one (`live_code`).
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Statements: TypeAlias = list[ast.stmt]

_BOUNDARIES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
}
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_NAMES = {"min": "max", "any": "all", "always": "never", "helps_all": "helps_none"}
_NAMES |= {after: before for before, after in _NAMES.items()}
_LOGGERS = re.compile(r"log(ger|ging)?|_log_\w+|klog|event_log|warnings")
_CLOCKS = frozenset({"clock", "_clock", "now", "_now", "monotonic", "steady", "time"})
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_STRINGS_COUNT_IN = (ast.Compare, ast.Subscript, ast.Dict, ast.Set)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a syntax tree: `apply` makes it. `before` and `after` are its first lines, as reports show them."""

    line: int
    before: str
    after: str
    apply: Callable[[], None]


def changes_of_list(statements: Statements) -> Iterator[Change]:
    """What may be forgotten or moved among the statements of one block."""
    alone = len(statements) == 1
    for at, statement in enumerate(statements):
        if _may_be_dropped(statement, alone):
            yield _drop(statements, at)
        if at + 1 < len(statements) and _reads_clock_into_name(statement) and _may_swap(statement, statements[at + 1]):
            yield _swap(statements, at)
        yield from _changes_of_branches(statement)


def changes_of_expression(node: ast.AST, parent: ast.AST) -> Iterator[Change]:
    """What may be wrong in one expression."""
    changes = _EXPRESSIONS.get(type(node))
    if changes is not None:
        yield from changes(node, parent)


def _changes_of_operands(node: ast.BoolOp, parent: ast.AST) -> Iterator[Change]:
    """Each operand of `and` and `or` is forgotten."""
    for forgotten in node.values:
        kept = [each for each in node.values if each is not forgotten]
        shown = ast.unparse(kept[0]) if len(kept) == 1 else ast.unparse(ast.BoolOp(node.op, kept))
        neutral = ast.Constant(isinstance(node.op, ast.And))  # the node has two operands at least
        yield _change(node, shown, values=[neutral, *kept])


def _changes_of_not(node: ast.UnaryOp, parent: ast.AST) -> Iterator[Change]:
    if isinstance(node.op, ast.Not) and not isinstance(parent, ast.If):
        yield _change(node, f"bool({ast.unparse(node.operand)})", operand=ast.UnaryOp(ast.Not(), node.operand))


def _changes_of_choice(node: ast.IfExp, parent: ast.AST) -> Iterator[Change]:
    yield _change(node, test=ast.UnaryOp(ast.Not(), node.test))


def _changes_of_sum(node: ast.BinOp, parent: ast.AST) -> Iterator[Change]:
    if isinstance(node.op, (ast.Add, ast.Sub)):
        yield _change(node, op=ast.Sub() if isinstance(node.op, ast.Add) else ast.Add())


def _changes_of_comprehension(node: ast.comprehension, parent: ast.AST) -> Iterator[Change]:
    for forgotten in node.ifs:
        yield _change(node, ifs=[each for each in node.ifs if each is not forgotten])


def _changes_of_name(node: ast.Name, parent: ast.AST) -> Iterator[Change]:
    if node.id in _NAMES and isinstance(node.ctx, ast.Load):
        yield _change(node, id=_NAMES[node.id])


def _changes_of_comparison(node: ast.Compare, parent: ast.AST) -> Iterator[Change]:
    if len(node.ops) > 1:
        return
    kind = type(node.ops[0])
    if kind in _BOUNDARIES:
        yield _change(node, ops=[_BOUNDARIES[kind]()])
    if kind in _OPPOSITES and not isinstance(parent, (ast.If, ast.While, ast.IfExp)):
        yield _change(node, ops=[_OPPOSITES[kind]()])


def _changes_of_constant(node: ast.Constant, parent: ast.AST) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool) and not _is_strictness(parent):
        yield _change(node, value=not value)
    elif isinstance(value, int) and isinstance(parent, (ast.Compare, ast.BinOp, ast.Return, ast.Assign)):
        yield _change(node, value=value + 1)
    elif isinstance(value, str) and isinstance(parent, _STRINGS_COUNT_IN):
        yield _change(node, value=f"{value}X")


def _is_strictness(parent: ast.AST) -> bool:
    """Whether it is zip's `strict`, which matters only where two lists differ in length that never do."""
    return isinstance(parent, ast.keyword) and parent.arg == "strict"


def _changes_of_dict(node: ast.Dict, parent: ast.AST) -> Iterator[Change]:
    for at in range(len(node.keys)):
        yield _change(node, keys=_without(node.keys, at), values=_without(node.values, at))


def _forgotten_elements(node: ast.List | ast.Set | ast.Tuple, parent: ast.AST) -> Iterator[Change]:
    """An element of a table is forgotten; tuples that are taken apart are none."""
    if isinstance(getattr(node, "ctx", None), ast.Store) or (isinstance(node, ast.Set) and len(node.elts) == 1):
        return
    if not isinstance(node, ast.Tuple) or _is_table(node, parent):
        for at in range(len(node.elts)):
            yield _change(node, elts=_without(node.elts, at))


def _changes_of_call(node: ast.Call, parent: ast.AST) -> Iterator[Change]:
    if ast.unparse(node.func) == "ClusterEventWithHint":
        for at in range(1, len(node.args)):
            yield _change(node, args=_without(node.args, at))


def _without(elements: Sequence[Any], at: int) -> list[Any]:
    return [*elements[:at], *elements[at + 1 :]]


def _is_table(node: ast.Tuple, parent: ast.AST) -> bool:
    """Whether a tuple is a list of like things: of calls, or what `in` looks in."""
    return isinstance(parent, ast.Compare) or (
        bool(node.elts) and all(isinstance(each, (ast.Call, ast.Starred)) for each in node.elts)
    )


_EXPRESSIONS: dict[type[ast.AST], Callable[[Any, ast.AST], Iterator[Change]]] = {
    ast.Compare: _changes_of_comparison,
    ast.BoolOp: _changes_of_operands,
    ast.UnaryOp: _changes_of_not,
    ast.IfExp: _changes_of_choice,
    ast.BinOp: _changes_of_sum,
    ast.comprehension: _changes_of_comprehension,
    ast.Name: _changes_of_name,
    ast.Constant: _changes_of_constant,
    ast.Dict: _changes_of_dict,
    ast.List: _forgotten_elements,
    ast.Set: _forgotten_elements,
    ast.Tuple: _forgotten_elements,
    ast.Call: _changes_of_call,
}


def _changes_of_branches(statement: ast.stmt) -> Iterator[Change]:
    if isinstance(statement, ast.If) and not logs(statement.test):
        yield _change(statement, test=ast.BoolOp(ast.And(), [statement.test, ast.Constant(False)]))
        yield _change(statement, test=ast.BoolOp(ast.Or(), [statement.test, ast.Constant(True)]))
    if isinstance(statement, (ast.If, ast.For, ast.While, ast.Try)) and statement.orelse:
        yield _forget_block(statement, "orelse")
    if isinstance(statement, ast.Try) and statement.finalbody:
        yield _forget_block(statement, "finalbody")
    if isinstance(statement, ast.Try) and (len(statement.handlers) > 1 or statement.finalbody):
        for handler in statement.handlers:
            yield _change(statement, handlers=[each for each in statement.handlers if each is not handler])
    if isinstance(statement, ast.For) and not isinstance(statement.body[-1], _LEAVING):
        shown = f"for {ast.unparse(statement.target)} in {ast.unparse(statement.iter)}:"
        yield _extend(statement.body, statement, shown, f"{shown} (once)")
    if isinstance(statement, (ast.Break, ast.Continue)):
        other = ast.Continue if isinstance(statement, ast.Break) else ast.Break
        yield Change(
            statement.lineno,
            _shown(statement),
            _shown(other()),
            lambda: setattr(statement, "__class__", other),
        )


def _may_be_dropped(statement: ast.stmt, alone: bool) -> bool:
    if isinstance(statement, ast.Expr):
        value = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
        return isinstance(value, (ast.Call, ast.Yield, ast.YieldFrom)) and not logs(value)
    if isinstance(statement, ast.Assign):
        return not all(isinstance(target, (ast.Name, ast.Tuple)) for target in statement.targets)
    if isinstance(statement, (ast.AugAssign, ast.Delete, ast.Raise)):
        return not (isinstance(statement, ast.Raise) and alone)
    return isinstance(statement, (ast.Return, ast.Break, ast.Continue)) and not alone


def logs(value: ast.expr) -> bool:
    names = [each.id if isinstance(each, ast.Name) else each.attr for each in ast.walk(value) if _is_named(each)]
    return any(_LOGGERS.fullmatch(name) for name in names)


def _is_named(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute))


def _reads_clock_into_name(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign) or not all(isinstance(each, ast.Name) for each in statement.targets):
        return False
    value = statement.value
    return isinstance(value, ast.Call) and ast.unparse(value.func).rsplit(".", 1)[-1] in _CLOCKS


def _may_swap(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether a statement can stand before the clock is read: it calls something, and does not use the time."""
    names = {each.id for target in getattr(first, "targets", ()) for each in ast.walk(target) if _is_name(each)}
    used = {each.id for each in ast.walk(second) if isinstance(each, ast.Name)}
    leaves = any(isinstance(each, (ast.Return, ast.Raise)) for each in ast.walk(second))
    return not (names & used) and not leaves and any(isinstance(each, ast.Call) for each in ast.walk(second))


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def never(statements: Sequence[ast.stmt]) -> ast.stmt:
    """The statements, where they are never executed."""
    made = ast.If(test=ast.Constant(False), body=list(statements), orelse=[])
    return ast.fix_missing_locations(ast.copy_location(made, statements[0]))


def _drop(statements: Statements, at: int) -> Change:
    dropped = statements[at]

    def apply() -> None:
        statements[at] = never([dropped])

    return Change(dropped.lineno, _shown(dropped), "pass", apply)


def _swap(statements: Statements, at: int) -> Change:
    first, second = statements[at], statements[at + 1]

    def apply() -> None:
        statements[at : at + 2] = [second, first]

    return Change(first.lineno, _shown(first), f"{_shown(first)} (after the next statement)", apply)


def _extend(body: Statements, statement: ast.stmt, before: str, after: str) -> Change:
    end = ast.copy_location(ast.Break(), body[-1])
    return Change(statement.lineno, before, after, lambda: body.append(end))


def _forget_block(statement: ast.stmt, field: str) -> Change:
    block = getattr(statement, field)
    word = "finally" if field == "finalbody" else "else"
    return Change(
        block[0].lineno,
        f"{word}: {_shown(block[0])}",
        f"{word}: pass",
        lambda: setattr(statement, field, [never(block)]),
    )


def _change(node: Any, shown: str = "", /, **fields: Any) -> Change:
    """Give fields of a node other values. `shown` is how that reads, if not by itself."""
    before = _shown(node)
    kept = {name: getattr(node, name) for name in fields}
    _set(node, fields)
    after = shown or _shown(node)
    _set(node, kept)
    line = getattr(node, "lineno", None) or node.target.lineno
    return Change(line, before, after, lambda: _set(node, fields))


def _set(node: ast.AST, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        setattr(node, name, value)
    if isinstance(node, (ast.stmt, ast.expr)):
        ast.fix_missing_locations(node)


def _shown(node: ast.AST) -> str:
    """The first line of a node's text."""
    if isinstance(node, ast.Try):
        return "try: except " + ", ".join(ast.unparse(each.type) if each.type else "" for each in node.handlers)
    if isinstance(node, ast.comprehension):
        return ast.unparse(node).strip()
    return ast.unparse(node).splitlines()[0]
