"""Counts how often each branch of some packages runs, without a tracer.

`install` it before the packages are imported: a counter stands at the beginning of each function, of each side of an
`if`, also where there is no `else`, of each body of a loop and of a handler, and of each case.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any, NamedTuple

_COUNTS = "_branch_counts"


class Branch(NamedTuple):
    """A branch: the module, the line where it begins, and what it is."""

    module: str
    line: int
    what: str

    @property
    def package(self) -> str:
        """The package that the module is in."""
        return self.module.rpartition(".")[0]


class BranchCounts(importlib.abc.MetaPathFinder):
    """The branches of modules that are imported after `install`, and how often each has run."""

    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = tuple(f"{package}." for package in packages)
        self.branches: list[Branch] = []
        self.counts: list[int] = []

    def install(self) -> None:
        """Count in modules that are imported from now on."""
        sys.meta_path.insert(0, self)

    def clear(self) -> None:
        """Begin anew."""
        self.counts[:] = [0] * len(self.counts)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find modules of the packages, which are compiled with counters."""
        if not f"{name}.".startswith(self._packages):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _CountingLoader(name, spec.loader.path, self)
        return spec

    def add(self, branch: Branch) -> int:
        """Another branch; returns its number."""
        self.branches.append(branch)
        self.counts.append(0)
        return len(self.counts) - 1


class _CountingLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, counts: BranchCounts) -> None:
        super().__init__(name, path)
        self._counts = counts

    def get_code(self, fullname: str) -> types.CodeType:
        """Compile the source with counters; compiled code that is stored has none."""
        path = self.get_filename(fullname)
        tree = _CounterInserter(self.name, self._counts).visit(ast.parse(self.get_data(path), path))
        code: types.CodeType = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: types.ModuleType) -> None:
        """Execute it, with the counters as one of its variables."""
        setattr(module, _COUNTS, self._counts.counts)
        super().exec_module(module)


class _CounterInserter(ast.NodeTransformer):
    """Inserts a counter at the beginning of each branch that is in a function."""

    def __init__(self, module: str, counts: BranchCounts) -> None:
        self._module = module
        self._counts = counts
        self._functions: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._count_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._count_function(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if self._functions:
            test = ast.unparse(node.test)
            node.body.insert(0, self._counter(node.lineno, f"if {test}"))
            node.orelse.insert(0, self._counter(node.lineno, f"else of if {test}"))
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._count_body(node, "for")

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        return self._count_body(node, "async for")

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._count_body(node, "while")

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        return self._count_body(node, f"except {ast.unparse(node.type) if node.type else ''}".rstrip())

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        self.generic_visit(node)
        if self._functions:
            node.body.insert(0, self._counter(node.pattern.lineno, f"case {ast.unparse(node.pattern)}"))
        return node

    def _count_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        documented = int(ast.get_docstring(node) is not None)
        if all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in node.body[documented:]):
            return node  # of a protocol
        self._functions.append(node.name)
        self.generic_visit(node)
        node.body.insert(documented, self._counter(node.lineno, f"def {node.name}"))
        self._functions.pop()
        return node

    def _count_body(self, node: Any, what: str) -> Any:
        self.generic_visit(node)
        if self._functions:
            node.body.insert(0, self._counter(node.lineno, what))
        return node

    def _counter(self, line: int, what: str) -> ast.stmt:
        number = self._counts.add(Branch(self._module, line, what))
        return ast.parse(f"{_COUNTS}[{number}] += 1").body[0]
