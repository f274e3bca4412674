"""Unit tests stand where the code stands that they test."""

import pathlib
import re

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
    imports = re.compile(r"^\s*(?:from|import) (test_\w+)", re.MULTILINE)
    assert [name for path in MODULES for name in imports.findall(path.read_text())] == []


def test_docstrings_of_tests_state_what_holds() -> None:
    """A docstring that begins with "Else" tells what would be if the test failed, and leaves the rule to be guessed."""
    begins_otherwise = re.compile(r'^\s*"""(?:Else|Otherwise)\b', re.MULTILINE)
    found = [path for path in (ROOT / "tests").rglob("*.py") if begins_otherwise.search(path.read_text())]
    assert [str(path.relative_to(ROOT)) for path in found] == []
