"""Example plugins on the SDKs that need a build: each is built from the SDK's package, as a stranger would build it.

A build is done once for the same sources: its stamp, a hash of all that goes into it, is beside the result. A language
without its toolchain is skipped with the reason, and in CI fails.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PACKAGES = ROOT / "build" / "sdk"

# What npm or Maven make in a folder of sources; .venv, build and the like are elsewhere.
_MADE = frozenset({"node_modules", "dist", "generated", "target", "v1.ts", "LICENSE"})
# For each plugin on an SDK the example, the file that runs, and its flags.
COMMANDS: Mapping[str, tuple[str, str, Sequence[str]]] = {
    "typescript": ("plugin-typescript", "dist/src/serve_maintenance.js", ()),
    "follower in typescript": ("plugin-typescript", "dist/src/serve_pod_limit.js", ()),
    "maintenance-windows-typescript": ("maintenance-windows-typescript", "dist/src/main.js", ()),
    "data-locality-typescript": (
        "data-locality-typescript",
        "dist/src/main.js",
        ("--index-url", (EXAMPLES / "data-locality-typescript" / "index.json").as_uri()),
    ),
}
TYPESCRIPT_EXAMPLES = sorted({example for example, _, _ in COMMANDS.values()})

# For each plugin in Java the example, and its class.
JAVA_CLASSES: Mapping[str, tuple[str, str]] = {
    "java": ("plugin-java", "dev.trireme.examples.Maintenance"),
    "follower in java": ("plugin-java", "dev.trireme.examples.PodLimit"),
    "floating-licences-java": ("floating-licences-java", "dev.trireme.examples.licences.FloatingLicences"),
}
JAVA_EXAMPLES = sorted({example for example, _ in JAVA_CLASSES.values()})

_NPM_FLAGS = ("--ignore-scripts", "--no-progress", "--prefer-offline")


def command(name: str) -> Sequence[str | Path]:
    """What starts the plugin, whose example is built if need be."""
    if name in JAVA_CLASSES:
        example, main_class = JAVA_CLASSES[name]
        target = java_example(example) / "target"
        return ("java", "-XX:+UseSerialGC", "-cp", f"{target}/classes:{target}/lib/*", main_class)
    example, file, flags = COMMANDS[name]
    return ("node", typescript_example(example) / file, *flags)


def typescript_example(name: str) -> Path:
    """The folder of an example in TypeScript, built: its dist/src has what node runs."""
    return build_typescript(EXAMPLES / name)


def build_typescript(folder: Path) -> Path:
    """Build a project in TypeScript with the SDK's package; returns its folder, whose dist has what node runs."""
    _require_toolchain("npm", str(folder.relative_to(ROOT)))
    stamp = folder / "node_modules" / ".built"
    with _one_build_at_a_time():
        package = _package("typescript")
        sources = f"{package} {_hash([folder])}"
        if _is_built(stamp, sources):
            return folder
        # npm would take a package of the same version for the one that it has.
        shutil.rmtree(folder / "node_modules", ignore_errors=True)
        shutil.rmtree(folder / "dist", ignore_errors=True)
        _run(["npm", "install", *_NPM_FLAGS], folder)
        _run(["npm", "run", "--silent", "build"], folder)
        stamp.write_text(sources)
    return folder


def java_example(name: str) -> Path:
    """The folder of an example in Java, built and tested: its target/classes and target/lib have what java runs."""
    return build_java(EXAMPLES / name)


def build_java(folder: Path) -> Path:
    """Build and test a project in Java with the SDK's package; returns its folder, whose target has what java runs."""
    _require_toolchain("mvn", str(folder.relative_to(ROOT)))
    stamp = folder / "target" / ".built"
    with _one_build_at_a_time():
        package = _package("java")
        sources = f"{package} {_hash([folder])}"
        if _is_built(stamp, sources):
            return folder
        # Maven would take a package of the same version for the one that it has.
        local = Path.home() / ".m2" / "repository" / "dev" / "trireme" / "trireme-plugin-sdk"
        shutil.rmtree(local, ignore_errors=True)
        shutil.rmtree(folder / "target", ignore_errors=True)
        _run(["mvn", "--batch-mode", "--quiet", "package"], folder)
        stamp.write_text(sources)
    return folder


def run_typescript_tests(name: str) -> None:
    """Run the example's own tests."""
    _run(["npm", "test", "--silent"], typescript_example(name))


def run_typescript_sdk_tests() -> None:
    """Run the SDK's own tests, which its package's build has compiled."""
    _require_toolchain("npm", "sdk/typescript")
    with _one_build_at_a_time():
        _package("typescript")
        folder = ROOT / "sdk" / "typescript"
        if not (folder / "dist" / "test").is_dir():
            _build_package("typescript")
    _run(["npm", "test", "--silent"], folder)


def run_java_sdk_tests() -> None:
    """Run the SDK's own tests, beside what its package's build has compiled."""
    _require_toolchain("mvn", "sdk/java")
    with _one_build_at_a_time():
        _package("java")
        folder = ROOT / "sdk" / "java"
        if not (folder / "target" / "classes").is_dir():
            _build_package("java")
        # The goals alone: the phase `test` would compile the SDK again.
        _run(["mvn", "--batch-mode", "--quiet", "compiler:testCompile", "surefire:test"], folder)


def _package(language: str) -> str:
    """Build the SDK's package if its sources have changed; returns the hash of the sources."""
    sources = _hash([ROOT / "sdk" / language, ROOT / "protos" / "trireme"])
    stamp = PACKAGES / language / ".built"
    if not _is_built(stamp, sources):
        _build_package(language)
        stamp.write_text(sources)
    return sources


def _build_package(language: str) -> None:
    """Build the SDK's package as `make sdk-packages` does."""
    _run([sys.executable, ROOT / "sdk" / "build_packages.py", language], ROOT)


def _is_built(stamp: Path, sources: str) -> bool:
    """Whether the stamp is of these sources."""
    return stamp.exists() and stamp.read_text() == sources


def _hash(folders: Iterable[Path]) -> str:
    """The hash of the files in the folders, those that a build makes left out."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(_sources(folder)):
            digest.update(f"{path.relative_to(ROOT)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _sources(folder: Path) -> Iterator[Path]:
    """The files of a folder that are not made by a build."""
    for path in folder.iterdir():
        if path.name in _MADE:
            continue
        if path.is_dir():
            yield from _sources(path)
        else:
            yield path


def _require_toolchain(command: str, what: str) -> None:
    """Skip the test where the command is missing; in CI it fails."""
    if shutil.which(command) is not None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"there is no {command} to build {what} with")
    pytest.skip(f"no {command}: {what} is not tested")


@contextlib.contextmanager
def _one_build_at_a_time() -> Iterator[None]:
    """Hold a lock that all processes of a test run share."""
    PACKAGES.mkdir(parents=True, exist_ok=True)
    with (PACKAGES / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: Sequence[str | Path], folder: Path) -> None:
    """Run it; fails with what it printed."""
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode != 0:
        pytest.fail(f"{' '.join(map(str, command))} in {folder}:\n{ended.stdout}{ended.stderr}")
