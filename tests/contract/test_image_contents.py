"""Nothing needs what the image leaves out of its packages: every program starts, and pods are scheduled, without it."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

REPOSITORY = pathlib.Path(__file__).parents[2]
PRUNE = REPOSITORY / "deploy/image/prune.py"
# Packages of the development environment that the image does not have anyway, by how their names begin.
_LARGE_AND_UNUSED = ("mypy", "pip", "setuptools", "grpc_tools", "hypothesis", "ruff")


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """This environment's packages as the image has them."""
    folder = tmp_path_factory.mktemp("image") / "packages"
    source = pathlib.Path(sysconfig.get_path("purelib"))

    def left_out(_: str, names: list[str]) -> list[str]:
        return [name for name in names if name.startswith(_LARGE_AND_UNUSED)]

    shutil.copytree(source, folder, ignore=left_out, copy_function=os.link)
    subprocess.run([sys.executable, str(PRUNE), str(folder)], check=True, timeout=120, capture_output=True)
    return folder


def _run(pruned: pathlib.Path, program: str, *arguments: str) -> str:
    # The interpreter that the environment was made of, which has no packages of its own for this.
    interpreter = pathlib.Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    paths = os.pathsep.join([str(REPOSITORY / "internal"), str(pruned)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "XDG_STATE_HOME": str(pruned)}
    environment["TRIREME_SOCKET"] = str(pruned / "admin.sock")
    done = subprocess.run(
        [str(interpreter), "-c", program, *arguments], env=environment, capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    "module",
    [
        "trireme.cli.main",
        "trireme.frontend.running",
        "trireme.filter.process",
        "trireme.score.process",
        "trireme.bind.process",
        "trireme_kube.client.rest.external_credentials",
        "trireme.registry.filter_plugins",
        "trireme.registry.score_plugins",
        "trireme.sdk",
    ],
)
def test_a_program_is_loaded(pruned: pathlib.Path, module: str) -> None:
    """A pod would crash at its start."""
    _run(pruned, f"import {module}")


def test_device_selectors_are_compiled(pruned: pathlib.Path) -> None:
    """A claim would make its pod fail, days after the installation."""
    program = (
        "from trireme.plugins.dynamic_resources import expressions as e; import inspect; "
        "from trireme_kube.cel.compiler import environment; environment._make_environment(False)"
    )
    _run(pruned, program)


def test_pods_are_scheduled(pruned: pathlib.Path) -> None:
    """Something is loaded only when it is needed."""
    said = _run(
        pruned, "import sys; from trireme.cli.main import main; sys.exit(main())", "up", "--once", "--nodes", "5"
    )
    assert "demo: web: " in said
