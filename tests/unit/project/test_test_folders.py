"""Unit tests stand where the code stands that they test."""

import ast
import pathlib
import re

import pytest

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


def test_docstrings_of_tests_state_what_holds() -> None:
    """A docstring that begins with "Else" tells what would be if the test failed, and leaves the rule to be guessed."""
    begins_otherwise = re.compile(r'^\s*"""(?:Else|Otherwise)\b', re.MULTILINE)
    found = [path for path in (ROOT / "tests").rglob("*.py") if begins_otherwise.search(path.read_text())]
    assert [str(path.relative_to(ROOT)) for path in found] == []


#: A module longer than this has tests of its own, or says where they are.
_SHORT = 150


def _long_modules() -> list[pathlib.Path]:
    """The modules whose tests somebody will look for."""
    modules = (ROOT / "internal").rglob("*.py")
    written = (path for path in modules if path.name != "__init__.py" and "_pb2" not in path.name)
    return sorted(path for path in written if path.read_text().count("\n") > _SHORT)


_TEST_NAMES = frozenset(path.stem.removeprefix("test_") for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("module", _long_modules(), ids=lambda path: str(path.relative_to(ROOT / "internal")))
def test_the_tests_of_a_module_can_be_found(module: pathlib.Path) -> None:
    """They are in `test_<module>.py`, of a plugin in `test_<plugin>.py`, or the module's docstring names them."""
    names = {module.stem}
    if module.parent.parent.name == "plugins":
        names |= {module.parent.name, f"{module.parent.name}_{module.stem}"}
    if names & _TEST_NAMES:
        return
    docstring = ast.get_docstring(ast.parse(module.read_text())) or ""
    _, said, files = docstring.partition("Tests: ")
    assert said, f"name a test file test_{module.stem}.py, or add `Tests: tests/….py.` to the module's docstring"
    found = files.removesuffix(".").split()
    assert [name for name in found if not (ROOT / name.removesuffix(",")).is_file()] == []
