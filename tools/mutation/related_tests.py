"""Which test files may notice a change of a file: those of its folder, those that it names, and those that import it.

Where many import it, those count that import the fewest modules: they are about it, and the others pass by. Unit tests
come before others, which take longer. Which of their tests get to a mutant is measured (`tried_mutants`); this only
says where to look.
"""

import ast
import functools
import pathlib
from collections.abc import Collection, Iterator

from tools.related import declared_links

ROOT = pathlib.Path(__file__).parents[2]
_TESTS = ("tests/unit", "tests/contract")
_HINT_TESTS = ("tests/conformance/test_hint_rows.py", "tests/unit/queueing/test_hint_evaluation.py")
_FEW = 10


def of(paths: Collection[str]) -> list[str]:
    """The test files of some source files, by their paths from the root."""
    imported = _importers()
    found: set[str] = set()
    for path in paths:
        found |= set(_mirrored(path)) | set(_named(path))
        found.update(imported.get(_module(path), [])[:_FEW])
    return sorted(found)


def _module(path: str) -> str:
    return ".".join(pathlib.PurePath(path).with_suffix("").parts[1:])


def _mirrored(path: str) -> Iterator[str]:
    """The tests in the folder that is named as the file's, or as one above it."""
    inner = pathlib.PurePath(path).parts[2:-1]
    for length in range(len(inner), 0, -1):
        folder = ROOT / "tests/unit" / pathlib.PurePath(*inner[:length])
        plugin = ROOT / "tests/unit/plugins"
        if inner[0] == "plugins" and length == 1:
            yield from _relative(plugin.glob(f"test_{inner[-1]}*.py"))
            if path.endswith("/hints.py"):
                yield from (*_HINT_TESTS, *_relative(plugin.glob("test_hints_*.py")))
        elif folder.is_dir():
            yield from _relative(folder.rglob("test_*.py"))
            return


def _relative(paths: Iterator[pathlib.Path]) -> Iterator[str]:
    yield from (str(each.relative_to(ROOT)) for each in paths)


def _named(path: str) -> Iterator[str]:
    """The tests that the file's docstring names."""
    named = declared_links.tests((ROOT / path).read_text())
    return (each for each in named if (ROOT / each).exists())


@functools.cache
def _importers() -> dict[str, list[str]]:
    """The test files by the modules that they import, themselves or through the modules that tests share.

    Unit tests come first, and of these those with the fewest imports.
    """
    direct: dict[str, set[str]] = {}
    tests: list[str] = []
    for folder in (*_TESTS, "tests/helpers"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            path = str(file.relative_to(ROOT))
            direct[path] = set(_imports(ast.parse(file.read_text())))
            if file.name.startswith("test_"):
                tests.append(path)
    shared = {path.removesuffix(".py").replace("/", "."): path for path in direct}
    reachable = {test: _reachable(test, direct, shared) for test in tests}
    out: dict[str, list[str]] = {}
    for test in sorted(tests, key=lambda each: (not each.startswith("tests/unit/"), len(reachable[each]))):
        for name in reachable[test]:
            out.setdefault(name, []).append(test)
    return out


def _reachable(test: str, direct: dict[str, set[str]], shared: dict[str, str]) -> set[str]:
    found: set[str] = set()
    todo = [test]
    while todo:
        for name in direct[todo.pop()] - found:
            found.add(name)
            if name in shared:
                todo.append(shared[name])
    return found


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
