"""The templates of plugins with other extension points than the tutorials have: each is built, tested and tried."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import toolchains
from trireme.cli.plugin_development import init

_ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("language", init.list_languages())
def test_plugins_that_score_are_built_and_score(language: str, tmp_path: Path) -> None:
    """If this fails, a new repository does not compile, or its plugin does not do what its README says."""
    for tool in toolchains.OF_PLUGINS[language]:
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}: the templates in {language} are not tested")
    # Rust's dependencies take minutes to compile, and the examples have compiled most of them.
    target = _ROOT / "build" / "sdk-rust-target"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment |= {"CARGO_TARGET_DIR": str(target)}

    def run(folder: Path, *command: str) -> str:
        ran = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    for points, shown in (
        ("filter,score", ["refuses 1 of 5 nodes: node(s) were closed (node-1)", "scores 4 nodes: node-3 70, node-"]),
        ("score", ["scores 5 nodes: node-3 70, node-"]),
    ):
        name = "My" + "".join(point.title() for point in points.split(","))
        run(tmp_path, "trireme", "plugin", "init", name, "--language", language, "--extension-points", points)
        folder = tmp_path / init.project_name(name)
        if language == "rust":
            (folder / "target").symlink_to(target)
        run(folder, "make", "test")
        output = run(folder, "trireme", "plugin", "run", "--once")
        assert f"{name} 0.1.0 takes part: {points.replace(',', ', ')}" in output
        assert [line for line in shown if line not in output] == []
