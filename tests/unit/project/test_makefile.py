"""What the targets of the Makefile install: the package alone where something runs, the developers' tools elsewhere."""

import os
import pathlib
import shutil
import subprocess

import pytest

_ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(name="checkout")
def _checkout(tmp_path: pathlib.Path) -> pathlib.Path:
    """A checkout in which nothing is installed, as far as make goes by it."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(_ROOT / name, tmp_path / name)
    return tmp_path


def _installed(checkout: pathlib.Path, target: str) -> list[str]:
    """What pip would install for a target, one entry for each time."""
    command = ["make", "--dry-run", target]
    shown = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True, timeout=60).stdout
    return [line.rpartition(" -e ")[2] for line in shown.splitlines() if "pip install" in line]


def _change_dependencies(checkout: pathlib.Path) -> None:
    later = (checkout / "Makefile").stat().st_mtime + 1000
    os.utime(checkout / "pyproject.toml", (later, later))


@pytest.mark.parametrize("target", ["up", "up-real", "run-frontend", "run-insight", "controlplane"])
def test_what_runs_waits_for_the_package_alone(checkout: pathlib.Path, target: str) -> None:
    """If this fails, who tries Trireme waits for mypy, scipy and a site generator."""
    assert _installed(checkout, target) == ["'.'"]


@pytest.mark.parametrize("target", ["setup", "check", "test", "docs", "bench"])
def test_what_is_for_developers_installs_everything_once(checkout: pathlib.Path, target: str) -> None:
    """Some of these need the real control plane, too, which is among the targets that run."""
    assert _installed(checkout, target) == ["'.[dev,docs]'"]


def test_nothing_is_installed_again_until_the_dependencies_change(checkout: pathlib.Path) -> None:
    environment = checkout / ".venv"
    environment.mkdir()
    (environment / ".runnable").touch()
    assert _installed(checkout, "up") == []
    assert _installed(checkout, "setup") == ["'.[dev,docs]'"]
    _change_dependencies(checkout)
    assert _installed(checkout, "up") == ["'.'"]


def test_developers_tools_that_are_there_are_kept_up_to_date_by_what_runs(checkout: pathlib.Path) -> None:
    """If this fails, a developer who runs `make up` after a pull has outdated tools."""
    environment = checkout / ".venv"
    environment.mkdir()
    (environment / ".installed").touch()
    assert [_installed(checkout, target) for target in ("up", "setup", "bench")] == [[], [], []]
    _change_dependencies(checkout)
    assert [_installed(checkout, target) for target in ("up", "up-real", "setup")] == [["'.[dev,docs]'"]] * 3
