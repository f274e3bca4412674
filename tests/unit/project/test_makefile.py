"""What the targets of the Makefile install: the package alone where something runs, the developers' tools elsewhere."""

import functools
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Set

import pytest
from packaging import requirements

_ROOT = pathlib.Path(__file__).parents[3]
_RUNNING = next(re.finditer(r"^RUNNING := (.*)$", (_ROOT / "Makefile").read_text(), re.MULTILINE))[1].split()
_WITHOUT = """
import importlib.abc, runpy, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"{{name}} is a developers' tool")
sys.meta_path.insert(0, Absent())
sys.argv[1:] = ["--help"]
runpy.{run}({program!r}, run_name="__main__")
"""


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


@functools.cache
def _of_the_package(name: str = "trireme-scheduler") -> Set[str]:
    """The names of the distributions that an installation of this one has."""
    parsed = [requirements.Requirement(each) for each in importlib.metadata.requires(name) or ()]
    needed = [each.name for each in parsed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return {_normal(name)}.union(*(_of_the_package(_normal(each)) for each in needed))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _programs(target: str) -> set[tuple[str, str]]:
    """The Python programs that a target runs: the function of runpy that runs each, and its argument."""
    command = ["make", "--dry-run", target]
    shown = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    modules = re.findall(r"bin/python -m ((?:tools|tests)\S+)", shown)
    paths = re.findall(r"bin/python ((?:cmd|deploy)/\S+)", shown)
    installed = re.findall(r"bin/trireme\b", shown)
    return {
        *(("run_module", module) for module in modules),
        *(("run_path", path) for path in paths),
        *(("run_module", "trireme.cli.main") for _ in installed),
    }


@pytest.mark.parametrize("target", _RUNNING)
def test_what_runs_imports_what_the_package_alone_installs(target: str) -> None:
    """If this fails, the target ends with an ImportError on a fresh clone, and works for developers."""
    installed = _of_the_package()
    absent = {
        module
        for module, names in importlib.metadata.packages_distributions().items()
        if not any(_normal(name) in installed for name in names)
    }
    assert {"spdx_tools", "pytest"} <= absent
    programs = _programs(target)
    assert programs
    for run, program in programs:
        script = _WITHOUT.format(absent=absent, run=run, program=program)
        command = [sys.executable, "-c", script]
        ran = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=60)
        assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("target", ["up", "up-real", "run-frontend", "run-insight", "controlplane"])
def test_what_runs_waits_for_the_package_alone(checkout: pathlib.Path, target: str) -> None:
    """If this fails, who tries Trireme waits for mypy, scipy and a site generator."""
    assert _installed(checkout, target) == ["'.'"]


@pytest.mark.parametrize("target", ["setup", "check", "test", "docs", "bench", "node"])
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


def test_the_list_of_targets_has_its_columns_on_a_terminal_alone_in_colour() -> None:
    """If this fails, a long name runs into its text, or what searches the list finds control characters."""
    command = ["make", "--no-print-directory", "help"]  # `make test` runs this test, too
    shown = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    named = [line for line in shown.splitlines() if line[2] != " "]
    assert len(named) > 50
    assert [line for line in named if not re.fullmatch(r"  [a-z-]+ +\S.*", line) or line[24] != " "] == []
    assert [line for line in shown.splitlines() if len(line) > 80] == []


def test_the_values_that_the_list_of_targets_offers_are_those_of_the_program() -> None:
    """If this fails, a value that the program has is found by nobody, or one that it refuses is offered."""
    found = re.findall(r"^([a-z-]+):.*## (.*\|.*)$", (_ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found
    for target, text in found:
        offered = {frozenset(each.split("|")) for each in re.findall(r"\b[A-Z]+=([\w-]+(?:\|[\w-]+)+)", text)}
        ((_, module),) = _programs(target) - {("run_module", "tools.controlplane.build_controlplane")}
        command = [sys.executable, "-m", module, "--help"]
        shown = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
        assert offered <= {frozenset(each.split(",")) for each in re.findall(r"\{([\w,-]+)\}", shown)}, target
