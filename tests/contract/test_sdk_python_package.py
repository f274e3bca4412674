"""The Python SDK as a stranger gets it: the wheel in an environment of its own, without this repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.contract_services import PYTHON_EXAMPLES, ROOT

_PLUGINS = {"plugin-python": ("maintenance.py",), **PYTHON_EXAMPLES}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("sdk")
    subprocess.run([ROOT / "sdk" / "python" / "package.sh", folder], check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=120)
    interpreter = folder / "venv" / "bin" / "python"
    pip = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
    subprocess.run(pip, check=True, timeout=600)
    return interpreter


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("example", _PLUGINS)
def test_a_plugin_runs_on_the_wheel_alone(example: str, python: Path, tmp_path: Path) -> None:
    """If this fails, a plugin author needs the scheduler's sources, or what the scheduler depends on."""
    folder = shutil.copytree(ROOT / "examples" / example, tmp_path / "plugin")
    script, *flags = _PLUGINS[example]
    socket = f"unix:{tmp_path}/plugin.sock"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        [python, folder / script, *flags, "--listen", socket],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"listening on {socket}"
        trireme = Path(sys.executable).with_name("trireme")
        command = [trireme, "plugin", "verify", socket, "--latency-calls", "0"]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        process.terminate()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    freeze = subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    assert "trireme-plugin-sdk" in freeze
    assert not {"aiohttp", "kubernetes", "trireme"} & {
        line.split("==")[0].split(" ")[0] for line in freeze.splitlines()
    }
