"""Compares which tests a module's docstring names with those that run it, as `recording` has measured.

    python -m tools.module_tests.compare build/module-tests           names the modules whose tests are named badly
    python -m tools.module_tests.compare build/module-tests --write   and corrects the `Tests:` lines

A module's tests are named well if each of them runs function bodies of the module, and together they run four fifths of
the lines that any test runs. The file of the module's name counts without being named.
"""

import argparse
import ast
import collections
import dataclasses
import functools
import pathlib
import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping

import coverage

ROOT = pathlib.Path(__file__).parents[2]
_SOURCES = ROOT / "internal"
_UNIT = ROOT / "tests" / "unit"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TESTS = re.compile(r"^Tests: ([^:]+)\.\Z", re.MULTILINE)
#: Of the lines that any test runs, those that the named ones must run together, and what each must add.
_ENOUGH = 0.8
_LITTLE = 0.03
_MOST = 4
#: Of a module with fewer lines in functions nobody looks for tests.
_FEW = 3
#: Tests of other kinds are about many modules, and tell less of each of them.
_KINDS = {"unit": 1.0, "contract": 0.5, "security": 0.4, "conformance": 0.4, "simulation": 0.2}
_ELSEWHERE = 0.6
#: Shorter names of functions are words that any test may have.
_TELLING = 4

Lines = frozenset[int]
_NONE: Lines = frozenset()


@dataclasses.dataclass(eq=False)
class Module:
    """A module, and the lines of its functions that each test file runs."""

    path: pathlib.Path
    run_by: Mapping[str, Lines]

    @property
    def package(self) -> tuple[str, ...]:
        """The folders that it is in, without the outermost."""
        return self.path.relative_to(_SOURCES).parent.parts[1:]

    def lines(self, tests: Iterable[str]) -> Lines:
        """The lines that these tests run."""
        return _NONE.union(*(self.run_by.get(each, _NONE) for each in tests))

    def share(self, tests: Iterable[str]) -> float:
        """How much these tests run of what any test runs."""
        return len(self.lines(tests)) / max(1, len(self.lines(self.run_by)))

    def named(self) -> list[str]:
        """The tests that its docstring names."""
        found = _TESTS.search(ast.get_docstring(ast.parse(self.path.read_text())) or "")
        return re.split(r",\s+", found[1]) if found else []

    def of_its_name(self) -> list[str]:
        """The test files of its name, which are found without being named."""
        names = {f"test_{self.path.stem}.py"}
        if self.package[:1] == ("plugins",) and len(self.package) > 1:
            names |= {f"test_{self.package[1]}.py", f"test_{self.package[1]}_{self.path.stem}.py"}
        return [each for each in _test_files() if each.rpartition("/")[2] in names and self._is_near(each)]

    def _is_near(self, test: str) -> bool:
        """The test is in a folder of the module's package, or of another kind than unit tests."""
        kind, *inner = pathlib.PurePath(test).parts[1:-1]
        return kind != "unit" or tuple(inner) == self.package[: len(inner)]

    def weight(self, test: str) -> float:
        """How much the test is about this module: by its folder, and by what it imports and names of it."""
        kind = _KINDS.get(pathlib.PurePath(test).parts[1], 0.1)
        near = kind if self._is_near(test) else kind * _ELSEWHERE
        words = _words(ROOT / test)
        public = self._public_names()
        return near * (1 + 2 * len(public & words) / max(1, len(public))) * (3 if self.path.stem in words else 1)

    @functools.cache  # noqa: B019  there are a thousand modules
    def _public_names(self) -> frozenset[str]:
        """The functions, classes and methods that tests may call by name."""
        tree = ast.walk(ast.parse(self.path.read_text()))
        named = (each.name for each in tree if isinstance(each, (*_FUNCTIONS, ast.ClassDef)))
        return frozenset(name for name in named if not name.startswith("_") and len(name) > _TELLING)


@functools.cache
def _words(path: pathlib.Path) -> frozenset[str]:
    """The words of a file."""
    return frozenset(re.findall(r"\w+", path.read_text()))


@functools.cache
def _test_files() -> list[str]:
    """The paths of all test files."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


def best(module: Module, breadth: Mapping[str, int]) -> list[str]:
    """The tests that a module's docstring should name; none if the file of its name is enough.

    `breadth` is how many lines of all modules a test runs: of two tests that run as much of this module, the one that
    runs less besides is about it.
    """
    own = module.of_its_name()
    if own and module.share(own) >= _ENOUGH:
        return []
    first = dict.fromkeys([*own, *module.named()])
    chosen = [each for each in first if module.share([each]) > _LITTLE][:_MOST]
    while len(chosen) < _MOST and module.share(chosen) < _ENOUGH:
        known = module.lines(chosen)
        gains = {
            each: len(lines - known) * module.weight(each) / breadth[each] ** 0.25
            for each, lines in module.run_by.items()
        }
        chosen.append(max(gains, key=lambda each: gains[each]))
    return chosen


def are_well_named(module: Module, named: Collection[str]) -> bool:
    """Each of them runs some of the module, and together they run enough of it."""
    return module.share([*named, *module.of_its_name()]) >= _ENOUGH and all(
        module.share([each]) > _LITTLE for each in named
    )


def measured(folder: pathlib.Path) -> tuple[list[Module], dict[str, int], set[str]]:
    """The modules that tests run, each test's breadth, and the tests with figures."""
    data = coverage.CoverageData(no_disk=True)
    for file in folder.glob("lines.*"):
        one = coverage.CoverageData(str(file))
        one.read()
        data.update(one)
    modules, breadth = [], collections.Counter[str]()
    for name in sorted(data.measured_files()):
        path = pathlib.Path(name)
        run_by: dict[str, set[int]] = collections.defaultdict(set)
        bodies = _function_lines(path.read_text())
        for line, tests in data.contexts_by_lineno(name).items():
            # Without a context are what imports run: what a child process runs of it is its import too.
            if line in bodies and "" not in tests:
                for test in tests:
                    run_by[test].add(line)
        modules.append(Module(path, {test: frozenset(lines) for test, lines in run_by.items()}))
        breadth.update({test: len(lines) for test, lines in run_by.items()})
    return modules, breadth, data.measured_contexts() - {""}


def _function_lines(text: str) -> Lines:
    """The lines of function bodies, without those that begin a function."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, _FUNCTIONS)]
    bodies = (each for function in functions for each in function.body)
    lines = _NONE.union(*(range(each.lineno, (each.end_lineno or each.lineno) + 1) for each in bodies))
    return lines - {function.lineno for function in functions}


def write(path: pathlib.Path, tests: list[str]) -> None:
    """Replace or append the `Tests:` paragraph at the end of a module's docstring."""
    lines = path.read_text().splitlines()
    docstring = ast.parse("\n".join(lines)).body[0]
    first, last = docstring.lineno - 1, (docstring.end_lineno or docstring.lineno) - 1
    text = "\n".join(lines[first : last + 1]).removesuffix('"""').rstrip()
    text = text.partition("\nTests: ")[0].rstrip()
    if tests:
        paragraph = textwrap.fill(
            f"Tests: {', '.join(tests)}.", width=120, break_long_words=False, break_on_hyphens=False
        )
        text += f"\n\n{paragraph}\n"
    path.write_text("\n".join([*lines[:first], f'{text}"""', *lines[last + 1 :]]) + "\n")


def main() -> int:
    """Print what is named badly, and correct it with `--write`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the recordings are")
    parser.add_argument("--write", action="store_true", help="correct the docstrings")
    options = parser.parse_args()
    modules, breadth, recorded = measured(options.folder)
    wrong = 0
    for module in modules:
        named = module.named()
        if len(module.lines(module.run_by)) < _FEW or not {*named, *module.of_its_name()} <= recorded:
            continue
        if not are_well_named(module, named):
            better = best(module, breadth)
            wrong += set(better) != set(named)
            print(f"{module.path.relative_to(_SOURCES)}")
            print(f"    named    {module.share([*named, *module.of_its_name()]):4.0%}  {', '.join(named)}")
            print(f"    measured {module.share(better or module.of_its_name()):4.0%}  {', '.join(better)}")
            if options.write:
                write(module.path, better)
    print(f"{wrong} of {len(modules)} modules")
    return 1 if wrong and not options.write else 0


if __name__ == "__main__":
    sys.exit(main())
