"""Unit tests stand where the code stands that they test."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[3]
UNIT = ROOT / "tests" / "unit"
MODULES = sorted(UNIT.rglob("*.py"))


def test_folders_of_unit_tests_are_those_of_the_code() -> None:
    """Else nobody finds the tests of what they change, and a folder outlives the code that it is named after."""
    code = {path.name for package in ("trireme", "trireme_kube") for path in (ROOT / "internal" / package).iterdir()}
    folders = {path.relative_to(UNIT).parts[0] for path in MODULES}
    assert folders - code == {"project"}


def test_folders_within_them_are_those_of_the_code() -> None:
    """Else the tests of a part are looked for in the wrong folder, or beside those of every other part."""
    packages = [ROOT / "internal" / package for package in ("trireme", "trireme_kube")]
    inner = {path.relative_to(UNIT).parent for path in MODULES if len(path.relative_to(UNIT).parts) > 2}
    assert inner
    assert [str(each) for each in inner if not any((package / each).is_dir() for package in packages)] == []


def test_helpers_are_no_part_of_unit_tests() -> None:
    """A helper is in tests/helpers, where all tests find it, and runs nobody's tests when it is imported."""
    assert [path.name for path in MODULES if not path.name.startswith("test_")] == []
    imports = re.compile(r"^\s*(?:from|import) (test_\w+)", re.MULTILINE)
    assert [name for path in MODULES for name in imports.findall(path.read_text())] == []
