"""The example plugins' own tests, as a reader of examples/ runs them, and the generated code beside the Go one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GO = EXAMPLES / "plugin-go"


def run(*command: str | Path, cwd: Path) -> None:
    """Fails with what the command printed."""
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_python_example_passes_its_own_tests() -> None:
    """Broken, the example that people copy from is wrong."""
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "plugin-python", cwd=EXAMPLES)


@pytest.mark.parametrize(
    "command",
    [
        ("go", "vet", "./..."),
        ("go", "test", "./..."),
        (GO / "generate.sh", "--check"),
    ],
    ids=["vet", "test", "generated code"],
)
@pytest.mark.timeout(600)
def test_the_go_example_is_in_order(command: Sequence[str | Path]) -> None:
    """Broken, the example that people copy from is wrong, or was generated from other protos than these."""
    if shutil.which("go") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("there is no Go toolchain to test examples/plugin-go with")
        pytest.skip("no Go toolchain: the plugin in Go is not tested")
    run(*command, cwd=GO)
