"""Builds the wheel `trireme-plugin-sdk`: what `trireme.sdk` imports of this repository, and nothing else.

    python sdk/python/build_wheel.py OUTPUT_DIR

The modules are those of `internal/`, unchanged, so there is one implementation of the SDK. A plugin needs no scheduler:
the wheel leaves out the processes, the client for API servers and what they depend on. Who installs `trireme` has the
SDK already, in the same place, and does not need this wheel.

Also change: pyproject.toml (what a wheel contains).
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import grimp

_REPOSITORY = Path(__file__).resolve().parents[2]
_SOURCES = _REPOSITORY / "internal"
_ROOTS = ("trireme", "trireme_kube")
# The distribution that has each third-party module.
_DISTRIBUTIONS = {
    "cryptography": "cryptography",
    "google": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "numpy": "numpy",
    "orjson": "orjson",
    "prometheus_client": "prometheus-client",
    "uvloop": "uvloop",
}
_TYPES_ALONE = frozenset(("_typeshed",))


def imports_of(package: str) -> tuple[set[str], set[str]]:
    """The modules that a package needs: those of this repository, packages included, and third-party ones."""
    graph = grimp.build_graph(*_ROOTS, include_external_packages=True)
    own: set[str] = set()
    external: set[str] = set()
    pending = [name for name in graph.modules if name == package or name.startswith(f"{package}.")]
    while pending:
        module = pending.pop()
        if module.partition(".")[0] not in _ROOTS:
            external.add(module)
        elif module not in own:
            own.add(module)
            pending += graph.find_modules_directly_imported_by(module)
            if "." in module:
                pending.append(module.rpartition(".")[0])
    return own, external - sys.stdlib_module_names - _TYPES_ALONE


def dependencies_of(external: set[str], project: dict[str, list[str]]) -> list[str]:
    """The requirements for third-party modules, with the bounds of the project's own.

    Raises: KeyError: a module whose distribution is not listed here, or that the project does not depend on.
    """
    requirements = {re.split(r"[<>=!~ ]", line, maxsplit=1)[0]: line for line in project["dependencies"]}
    return sorted(requirements[_DISTRIBUTIONS[module]] for module in external)


def copy_modules(modules: set[str], target: Path) -> None:
    """Copy the modules, with the stubs beside them, into a folder."""
    for module in modules:
        path = _SOURCES.joinpath(*module.split("."))
        files = [path / "__init__.py"] if path.is_dir() else [path.with_suffix(".py"), path.with_suffix(".pyi")]
        for file in files:
            if file.exists():
                copy = target / file.relative_to(_SOURCES)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)
    for root in _ROOTS:
        (target / root / "py.typed").touch()


def write_project(target: Path, project: dict[str, list[str]], dependencies: list[str]) -> None:
    """Write the wheel's own pyproject.toml, README and licence."""
    shutil.copy(_REPOSITORY / "LICENSE", target)
    shutil.copy(_REPOSITORY / "sdk" / "python" / "README.md", target)
    lines = [
        "[build-system]",
        'requires = ["setuptools>=80"]',
        'build-backend = "setuptools.build_meta"',
        "[project]",
        'name = "trireme-plugin-sdk"',
        f'version = "{_version()}"',
        'description = "Write plugins of the Kubernetes scheduler Trireme in Python"',
        'readme = "README.md"',
        f'requires-python = "{project["requires-python"]}"',
        'license = "Apache-2.0"',
        'license-files = ["LICENSE"]',
        f"dependencies = {dependencies!r}",
        "[tool.setuptools.packages.find]",
        f"include = {[f'{root}*' for root in _ROOTS]!r}",
        "[tool.setuptools.package-data]",
        '"*" = ["py.typed", "*.pyi"]',
    ]
    (target / "pyproject.toml").write_text("\n".join(lines) + "\n")


def _version() -> str:
    release = (_SOURCES / "trireme" / "framework" / "release.py").read_text()
    (version,) = re.findall(r'^TRIREME = "(.+)"$', release, re.MULTILINE)
    return str(version)


def build(output: Path) -> None:
    """Build the wheel into the folder, in place of an older one."""
    project = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text())["project"]
    own, external = imports_of("trireme.sdk")
    output.mkdir(parents=True, exist_ok=True)
    for older in output.glob("trireme_plugin_sdk-*.whl"):
        older.unlink()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder)
        copy_modules(own, target)
        write_project(target, project, dependencies_of(external, project))
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--wheel-dir", str(output), str(target)], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: build_wheel.py OUTPUT_DIR")
    build(Path(sys.argv[1]))
