"""The defects of `regressions/` can still be put into the product."""

import pathlib

import pytest
import regression_run


@pytest.mark.parametrize("name", [path.stem for path in sorted(regression_run.PATCHES.glob("*.patch"))])
def test_a_regression_applies(name: str, tmp_path: pathlib.Path) -> None:
    """If this fails, the code that the patch changes has moved: make the same defect where it is now."""
    assert (regression_run.patched_copy(name, tmp_path) / "trireme").is_dir()
    assert regression_run.faults_of(name)
