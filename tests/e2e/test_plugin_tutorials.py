"""The tutorials of plugins, line by line: each command runs, and prints each line that the document shows after it."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers import toolchains

_ROOT = Path(__file__).parents[2]
_TUTORIALS = sorted((_ROOT / "docs" / "tutorials").glob("plugin-*.md"))
# From nothing to a Filter that refuses a node.
_LIMIT_SECONDS = 600.0


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("path", _TUTORIALS, ids=lambda path: path.stem.removeprefix("plugin-"))
def test_a_newcomer_gets_through_the_tutorial(path: Path, tmp_path: Path) -> None:
    """If this fails, the first thing that a plugin author tries fails, or takes longer than ten minutes."""
    language = path.stem.removeprefix("plugin-")
    for tool in toolchains.OF_PLUGINS[language]:
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}: the tutorial of {language} is not tested")
    subprocess.run([sys.executable, _ROOT / "sdk" / "build_packages.py", language], check=True, timeout=900)
    program = Path(sys.executable).parent
    # Rust's dependencies take minutes to compile, and the examples have compiled most of them.
    target = _ROOT / "build" / "sdk-rust-target"
    environment = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/root")}
    environment |= {"CARGO_TARGET_DIR": str(target)}
    folder, started = tmp_path, time.monotonic()
    for commands, expected in _steps(path.read_text()):
        link = f"if [ -f Cargo.toml ]; then ln -sfn {target} target; fi"
        script = f"set -euo pipefail\n{link}\n{commands}\npwd > {tmp_path}/.folder\n"
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        output = ran.stdout + ran.stderr
        assert ran.returncode == 0, f"{commands}\n{output}"
        missing = [line for line in expected if line not in output.splitlines()]
        assert not missing, f"{commands}\n{output}"
        folder = Path((tmp_path / ".folder").read_text().strip())
    assert time.monotonic() - started < _LIMIT_SECONDS


def test_every_language_has_a_tutorial() -> None:
    """If this fails, a template comes without a text that leads through it."""
    templates = _ROOT / "internal" / "trireme" / "cli" / "plugin_development" / "templates"
    assert {path.stem.removeprefix("plugin-") for path in _TUTORIALS} == {path.name for path in templates.iterdir()}


def _steps(text: str) -> list[tuple[str, list[str]]]:
    """The commands of each step, and the lines that the document shows of their output."""
    steps: list[tuple[str, list[str]]] = []
    for kind, block in re.findall(r"^```(sh tutorial|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if kind == "text":
            steps[-1][1].extend(block.splitlines())
        else:
            steps.append((block, []))
    assert steps
    return steps
