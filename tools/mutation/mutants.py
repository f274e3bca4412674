"""All mutants of a file: each change that `operators` knows, in each function of it.

Only functions are changed: what runs when a module is imported (constants, classes, decorators) has run before the
first mutant is tried. Each list of statements is a block with a number, which says when a test gets there.
"""

import ast
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.mutation import operators

ROOT = pathlib.Path(__file__).parents[2]
REACHED = "_mutation_reached"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What is only shown: texts for people, and what goes to the log.
_ONLY_SHOWN = re.compile(r"__repr__|__str__|_?log_.*")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one function. `number` tells changes apart that read alike."""

    path: str
    function: str
    first_line: int
    last_line: int
    block: int
    number: int
    change: operators.Change

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is known by among the accepted survivors: lines move."""
        again = f" ({self.number})" if self.number > 1 else ""
        return self.path, self.function, self.change.before, self.change.after + again

    def __str__(self) -> str:
        *_, before, after = self.key
        return f"{self.path}:{self.change.line}: {self.function}: `{before}` -> `{after}`"


@dataclass(slots=True)
class MutatedFile:
    """A file, its tree, and its mutants. `blocks` are the lists of statements, by number."""

    path: str
    tree: ast.Module = field(init=False)
    blocks: list[operators.Statements] = field(init=False, default_factory=list)
    mutants: list[Mutant] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.tree = ast.parse((ROOT / self.path).read_text())
        seen: dict[tuple[str, str, str], int] = {}
        for function, node in functions(self.tree):
            for block, change in self._changes(node):
                key = (function, change.before, change.after)
                seen[key] = seen.get(key, 0) + 1
                first = min((each.lineno for each in node.decorator_list), default=node.lineno)
                last = node.end_lineno or node.lineno
                self.mutants.append(Mutant(self.path, function, first, last, block, seen[key], change))

    @property
    def module(self) -> str:
        """The module's name."""
        parts = pathlib.PurePath(self.path).with_suffix("").parts[1:]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def mark_blocks(self) -> None:
        """Make each block say that it is reached."""
        for number, statements in enumerate(self.blocks):
            call = ast.Call(ast.Name(REACHED, ast.Load()), [ast.Constant(number)], [])
            mark = ast.copy_location(ast.Expr(call), statements[0])
            statements.insert(0, ast.fix_missing_locations(mark))

    def _changes(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[int, operators.Change]]:
        body = function.body
        is_stub = len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        if not is_stub:
            plain = _plain_ends(function)
            for block, change in self._changes_of_block(body):
                if not (change.after == "pass" and change.line in plain):
                    yield block, change

    def _changes_of_block(self, statements: operators.Statements) -> Iterator[tuple[int, operators.Change]]:
        number = len(self.blocks)
        self.blocks.append(statements)
        for change in operators.changes_of_list(statements):
            yield number, change
        for statement in statements:
            if isinstance(statement, (*_FUNCTIONS, ast.ClassDef, ast.Assert)):
                continue
            for child, parent in _expressions(statement):
                for change in operators.changes_of_expression(child, parent):
                    yield number, change
            for block in blocks_of(statement):
                yield from self._changes_of_block(block)


def _plain_ends(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[int]:
    """The lines of statements that nobody forgets, as nothing works without: attributes in `__init__`, the result."""
    lines = {function.body[-1].lineno} if isinstance(function.body[-1], ast.Return) else set()
    if function.name == "__init__":
        lines |= {each.lineno for each in function.body if isinstance(each, ast.Assign)}
    return lines


def functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions, with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _FUNCTIONS):
            if not _ONLY_SHOWN.fullmatch(node.name):
                yield f"{within}{node.name}", node
                yield from functions(node, f"{within}{node.name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{within}{node.name}.")
        else:
            yield from functions(node, within)


def blocks_of(statement: ast.stmt) -> Iterator[operators.Statements]:
    """The lists of statements within one."""
    for name in ("body", "orelse", "finalbody"):
        if found := getattr(statement, name, None):
            yield found
    for handler in getattr(statement, "handlers", ()):
        yield handler.body
    for case in getattr(statement, "cases", ()):
        yield case.body


def _expressions(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """All expressions of a statement with what they are in, without statements within, types and what is logged."""
    annotation = getattr(node, "annotation", None)
    for child in ast.iter_child_nodes(node):
        if child is annotation or isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case, ast.JoinedStr)):
            continue
        if isinstance(node, ast.Raise) or (isinstance(child, ast.Call) and operators.logs(child.func)):
            continue
        yield child, node
        yield from _expressions(child)
