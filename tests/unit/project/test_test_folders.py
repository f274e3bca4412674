"""Unit tests stand where the code stands that they test."""

import ast
import functools
import pathlib
import re
from collections.abc import Iterator

import pytest

from tools.related import declared_links

ROOT = pathlib.Path(__file__).parents[3]
UNIT = ROOT / "tests" / "unit"
MODULES = sorted(UNIT.rglob("*.py"))


def test_folders_of_unit_tests_are_those_of_the_code() -> None:
    code = {path.name for package in ("trireme", "trireme_kube") for path in (ROOT / "internal" / package).iterdir()}
    folders = {path.relative_to(UNIT).parts[0] for path in MODULES}
    assert folders - code == {"project"}


def test_folders_within_them_are_those_of_the_code() -> None:
    packages = [ROOT / "internal" / package for package in ("trireme", "trireme_kube")]
    inner = {path.relative_to(UNIT).parent for path in MODULES if len(path.relative_to(UNIT).parts) > 2}
    assert inner
    assert [str(each) for each in inner if not any((package / each).is_dir() for package in packages)] == []


def test_helpers_are_no_part_of_unit_tests() -> None:
    """A helper is in tests/helpers, where all tests find it, and runs nobody's tests when it is imported."""
    assert [path.name for path in MODULES if not path.name.startswith("test_")] == []
    imports = re.compile(r"^\s*from tests\.unit\b.*", re.MULTILINE)
    assert [name for path in MODULES for name in imports.findall(path.read_text())] == []


#: A module with functions that is longer than this has tests of its own, or says where they are.
_SHORT = 40


def _modules_with_logic() -> list[pathlib.Path]:
    """The modules whose tests somebody will look for."""
    modules = (ROOT / "internal").rglob("*.py")
    written = (path for path in modules if path.name != "__init__.py" and "_pb2" not in path.name)
    return sorted(path for path in written if path.read_text().count("\n") > _SHORT and _has_logic(path))


def _has_logic(path: pathlib.Path) -> bool:
    """A function of the module does something: it has more than a docstring or an ellipsis."""
    functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, _FUNCTIONS))
    return any(
        not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for each in functions
        for node in each.body
    )


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _tests_of_its_name(package: tuple[str, ...], name: str) -> list[pathlib.Path]:
    """Where a test file of a module's name would be found: in the folder of its code, or with tests of another kind."""
    folders = [UNIT.joinpath(*package[: depth + 1]) for depth in range(len(package))]
    if package and package[0] == "plugins" and len(package) > 1:
        plugin = UNIT / "plugins" / f"test_{package[1]}"
        return [
            plugin.with_suffix(".py"),
            plugin.with_name(f"{plugin.name}_{name}.py"),
            folders[-1] / f"test_{name}.py",
        ]
    others = [ROOT / "tests" / kind for kind in ("contract", "security", "simulation")]
    return [folder / f"test_{name}.py" for folder in (*folders, *others)]


@functools.cache
def _imports(path: pathlib.Path) -> frozenset[str]:
    """What a file imports, by full names: modules, and what it takes from them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(found)


def _files(names: frozenset[str]) -> set[pathlib.Path]:
    """The files of this repository that are named so, or that the named things are taken from."""
    modules = names | {name.rpartition(".")[0] for name in names}
    places = (root / (name.replace(".", "/") + ".py") for name in modules for root in (ROOT / "internal", ROOT))
    return {place for place in places if place.is_file()}


def _reaches(test: pathlib.Path, root: str, package: str) -> bool:
    """A unit test of another package imports something of this one, itself or through a helper.

    Tests of other kinds may start processes instead.
    """
    if not test.is_relative_to(UNIT) or test.is_relative_to(UNIT / package):
        return True
    imports = _imports(test)
    for _ in ("a helper", "the service that it starts"):
        imports = imports.union(*map(_imports, _files(imports)))
    return any(name.startswith(f"{root}.{package}.") for name in imports)


def _problems(module: pathlib.Path) -> Iterator[str]:
    """What is wrong with how the tests of a module are found."""
    root, *package = module.relative_to(ROOT / "internal").parent.parts
    own = [path for path in _tests_of_its_name(tuple(package), module.stem) if path.is_file()]
    tests = [ROOT / name for name in declared_links.tests(module.read_text())]
    if not tests:
        if not own:
            yield f"name a test file test_{module.stem}.py, or end the module's docstring with `Tests: tests/….py.`"
        return
    if len(tests) > 4:
        yield "name the four that tell most"
    name = ".".join((root, *package, module.stem))
    yield from (f"name {path.name}, too" for path in own if name in _imports(path) and path not in tests)
    for path in tests:
        if not (path.is_file() and path.name.startswith("test_")):
            yield f"{path} is no test file"
        elif package and not own and not _reaches(path, root, package[0]):
            yield f"neither {path.name} nor what it imports uses the module's package"


@pytest.mark.slow
def test_the_tests_of_a_module_can_be_found() -> None:
    """They are in `test_<module>.py`, of a plugin in `test_<plugin>.py`, or the module's docstring names them."""
    problems = [(str(module), each) for module in _modules_with_logic() for each in _problems(module)]
    assert problems == []
