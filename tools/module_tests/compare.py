"""Compares the tests that a module's docstring names with those that check it: they notice small mistakes in it.

    python -m tools.module_tests.compare internal/trireme/bind           names the modules whose tests are named badly
    python -m tools.module_tests.compare internal/trireme/bind --write   and corrects the `Tests:` lines

A module's tests are named well if each of them notices a mutant of the module, and together they notice four fifths of
those that any test notices. The file of the module's name counts without being named. Tests that start processes cannot
be tried: if the docstring names one, it stays.
"""

import argparse
import ast
import dataclasses
import functools
import os
import pathlib
import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping

import pytest

from tools.module_tests.noticing_tests import NoticingTests
from tools.mutation import mutation_run, related_tests
from tools.mutation.mutants import MutatedFile
from tools.related import declared_links

ROOT = pathlib.Path(__file__).parents[2]
_SOURCES = ROOT / "internal"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Of the mutants that any test notices, those that the named ones must notice together.
_ENOUGH = 0.8
_MOST = 4
#: Of a module with fewer mutants that tests notice, they tell nothing.
_FEW = 3
#: Tests of other kinds are about many modules, and tell less of each of them.
_KINDS = {"unit": 1.0, "contract": 0.5, "security": 0.4, "conformance": 0.4, "simulation": 0.2}
_ELSEWHERE = 0.6
#: Shorter names of functions are words that any test may have.
_TELLING = 4

Mutants = frozenset[int]
_NONE: Mutants = frozenset()


@dataclasses.dataclass(eq=False)
class Module:
    """A module, and which of its mutants each test file notices."""

    path: pathlib.Path
    noticed_by: Mapping[str, Mutants]

    @property
    def package(self) -> tuple[str, ...]:
        """The folders that it is in, without the outermost."""
        return self.path.relative_to(_SOURCES).parent.parts[1:]

    def noticed(self, tests: Iterable[str]) -> Mutants:
        """The mutants that these tests notice."""
        return _NONE.union(*(self.noticed_by.get(each, _NONE) for each in tests))

    def share(self, tests: Iterable[str]) -> float:
        """How many these tests notice of those that any test notices."""
        return len(self.noticed(tests)) / max(1, len(self.noticed(self.noticed_by)))

    def named(self) -> list[str]:
        """The tests that its docstring names."""
        return declared_links.tests(self.path.read_text())

    def of_its_name(self) -> list[str]:
        """The test files of its name, which are found without being named."""
        names = {f"test_{self.path.stem}.py"}
        if self.package[:1] == ("plugins",) and len(self.package) > 1:
            names |= {f"test_{self.package[1]}.py", f"test_{self.package[1]}_{self.path.stem}.py"}
        return [each for each in _test_files() if each.rpartition("/")[2] in names and self._is_near(each)]

    def others(self) -> list[str]:
        """Other test files that may check it, those first that are most about it."""
        related = {*related_tests.of([str(self.path.relative_to(ROOT))])} - {*self.named(), *self.of_its_name()}
        about_code = (each for each in related if not each.startswith("tests/unit/project/"))
        return sorted(about_code, key=self.weight, reverse=True)

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

    `breadth` is how many blocks of all modules a test runs: of two tests that notice as much, the one that runs less
    besides is about this module.
    """
    chosen = [each for each in module.of_its_name() if module.noticed([each])]
    own = len(chosen)
    while len(chosen) < own + _MOST and module.share(chosen) < _ENOUGH:
        known = module.noticed(chosen)
        gains = {
            each: len(mutants - known) * module.weight(each) / breadth[each] ** 0.25
            for each, mutants in module.noticed_by.items()
        }
        chosen.append(max(gains, key=lambda each: gains[each]))
    return chosen[own:]


def are_well_named(module: Module, named: Collection[str]) -> bool:
    """Each of them notices a mutant, and together they notice enough."""
    return module.share([*named, *module.of_its_name()]) >= _ENOUGH and all(map(module.noticed, ([n] for n in named)))


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


def compare(module: Module, plugin: NoticingTests, *, is_written: bool) -> bool:
    """Whether the tests of a module are named well; prints those that are better, and writes them if asked."""
    named, own = module.named(), module.of_its_name()
    tried = [each for each in named if each in plugin.breadth]
    untried = [each for each in named if each not in plugin.breadth]
    number = len(module.noticed(module.noticed_by))
    print(f"{module.path.relative_to(_SOURCES)}: {module.share([*named, *own]):4.0%} of {number}", flush=True)
    if number < _FEW or are_well_named(module, tried):
        return True
    better = [*best(module, plugin.breadth), *untried][:_MOST]
    if set(better) == set(named) or not (better or own):
        return True
    print(f"    named  {', '.join(named)}\n    better {', '.join(better)}", flush=True)
    if is_written:
        write(module.path, better)
    return False


def main() -> int:
    """Print what is named badly, and correct it with `--write`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="folders or files of internal/")
    parser.add_argument("--write", action="store_true", help="correct the docstrings")
    parser.add_argument("--mutants", type=int, default=8, help="so many are tried of each module")
    parser.add_argument("--others", type=int, default=5, help="so many test files are tried that are not named")
    options = parser.parse_args()
    os.chdir(ROOT)
    modules = {path: Module(ROOT / path, {}) for path in mutation_run.files_of(options.folders)}
    modules = {path: each for path, each in modules.items() if each.named()}
    named = {path: [*dict.fromkeys([*each.named(), *each.of_its_name()])] for path, each in modules.items()}
    others = {path: each.others()[: options.others] for path, each in modules.items()}
    wrong = 0

    def judge(path: str, noticed_by: Mapping[str, Mutants]) -> None:
        nonlocal wrong
        module = dataclasses.replace(modules[path], noticed_by=noticed_by)
        wrong += not compare(module, plugin, is_written=options.write)

    plugin = NoticingTests([MutatedFile(path) for path in modules], named, others, options.mutants, judge)
    files = sorted({test for tests in (*named.values(), *others.values()) for test in tests})
    pytest.main([*mutation_run.QUIET, *files], [plugin])
    print(f"{wrong} of {len(modules)} modules")
    return 1 if wrong and not options.write else 0


if __name__ == "__main__":
    sys.exit(main())
