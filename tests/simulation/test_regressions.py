"""The defects of `regressions/` can still be put into the product."""

import pathlib
import re
import shutil

import pytest

from tests.simulation import regression_run

PATCHES = sorted(regression_run.PATCHES.glob("*.patch"))


@pytest.mark.parametrize("name", [path.stem for path in PATCHES])
def test_a_regression_applies(name: str, tmp_path: pathlib.Path) -> None:
    """If this fails, the code that the patch changes has moved: make the same defect where it is now."""
    text = (regression_run.PATCHES / f"{name}.patch").read_text(encoding="utf-8")
    changed = [line.removeprefix("+++ b/") for line in text.splitlines() if line.startswith("+++ b/")]
    assert changed
    for path in changed:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(regression_run.ROOT / path, tmp_path / path)
    regression_run.apply_patch(name, tmp_path)
    for path in changed:
        source = (tmp_path / path).read_text(encoding="utf-8")
        assert source != (regression_run.ROOT / path).read_text(encoding="utf-8")
        compile(source, path, "exec")


@pytest.mark.parametrize("name", [path.stem for path in PATCHES])
def test_the_faults_of_a_regression_exist(name: str) -> None:
    """If this fails, a defect is simulated without the faults that show it."""
    injectors = (regression_run.HERE / "simulated_faults.py").read_text(encoding="utf-8")
    faults = regression_run.options_of(name)[0].removeprefix("--faults=")
    assert [kind for kind in faults.split(",") if f"self._{kind})" not in injectors] == []


def test_each_regression_is_documented() -> None:
    """If this fails, the documentation leaves out a defect, or has one that nobody can repeat."""
    text = (regression_run.ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    described = text.partition("## What it would find")[2].partition("\n## ")[0]
    names = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", described)) - {"simulate-regressions"}
    assert names == {path.stem for path in PATCHES}


def test_each_kind_of_fault_is_documented() -> None:
    """If this fails, the documentation leaves out a fault, or nobody has asked what would show that it comes."""
    injectors = (regression_run.HERE / "simulated_faults.py").read_text(encoding="utf-8")
    kinds = set(re.findall(r"\(\d, self\._(\w+)\),", injectors))
    text = (regression_run.ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    table = text.partition("| fault | of `simulated_faults.py` |")[2].partition("\n\n")[0]
    assert kinds
    assert kinds <= set(re.findall(r"`(\w+)`", table))


def test_each_regression_belongs_to_a_claim() -> None:
    """If this fails, the table of claims leaves out what shows that a check can fail, or names what there is not."""
    text = (regression_run.ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    table = text.partition("| claim | check, in `tests/simulation` |")[2].partition("\n\n")[0]
    names = {name for row in table.splitlines() for name in re.findall(r"`([\w-]+)`", row.split("|")[-2])}
    assert names == {path.stem for path in PATCHES}
