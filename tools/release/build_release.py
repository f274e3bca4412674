"""Builds and checks what a release consists of: `make release VERSION=0.2.0`.

Into build/release/VERSION go the wheel and the source distribution, the chart, the packages of the SDKs, the contract
as a buf module, the kubectl plugin with its manifest for krew, an SPDX document of what an installed wheel consists of,
the notes from the changelog, and SHA256SUMS. Each is then used as a stranger would: the wheel, built from the source
distribution, is installed into an empty environment and schedules there, the kubectl plugin installs itself, Helm
renders the packed chart, and buf reads the packed contract. Nothing is tagged, signed or sent anywhere.

Also change: docs/versioning.md.

Tests: tests/contract/test_release.py.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from tools.programs import build_programs
from tools.release import checks, kubectl_plugin, notes, versions

ROOT = versions.ROOT
SDK = ROOT / "build" / "sdk"


class ReleaseError(Exception):
    """Something is not as a release has to be."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and check a release; return the exit code."""
    parser = argparse.ArgumentParser(description="Build and check a release.")
    parser.add_argument("version", help="as versions.py names it")
    parser.add_argument("--url", help="where the files will be, for krew (default: a place on the project's site)")
    options = parser.parse_args(arguments)
    if options.version != versions.current():
        raise SystemExit(f"release: this is {versions.current()}; `make set-version VERSION={options.version}` first")
    folder = ROOT / "build" / "release" / options.version
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        build(folder, options.url or f"https://trireme.dev/releases/v{options.version}")
        check(folder)
    except (ReleaseError, checks.CheckError) as error:
        raise SystemExit(f"release: {error}") from error
    write_sums(folder)
    print(f"release: {folder.relative_to(ROOT)} has {len(list(folder.rglob('*')))} files")
    return 0


def build(folder: Path, url: str) -> None:
    """Write all parts, which will be published at `url`."""
    run(Path(sys.executable).parent / "buf", "breaking", "--against", "protos/frozen.binpb")
    step("wheel and source distribution")
    build_distributions(folder)
    kubectl_plugin.write(folder, _only(folder, "*.whl"), url)
    step("chart")
    build_programs.build()
    run(build_programs.HELM, "package", ROOT / "deploy" / "chart", "--destination", folder)
    step("packages of the SDKs")
    run(sys.executable, "sdk/build_packages.py", "--if-changed")
    for language in ("protos", *(script.parent.name for script in sorted(ROOT.glob("sdk/*/package.sh")))):
        if (SDK / language).exists():
            # Stamps, and the crate unpacked, are for builds in this repository.
            unwanted = shutil.ignore_patterns(".*", "trireme-sdk", "version")
            shutil.copytree(SDK / language, folder / "sdk" / language, ignore=unwanted)
        else:
            print(f"release: the SDK for {language} is left out: its toolchain is missing", file=sys.stderr)
    (folder / "RELEASE_NOTES.md").write_text(notes.of_release((ROOT / "CHANGELOG.md").read_text(), versions.current()))


def build_distributions(folder: Path) -> None:
    """Write the source distribution, and the wheel that is built from it, by the backend in this environment."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, quiet=True)


def check(folder: Path) -> None:
    """Use each part as a stranger would. Raises: CheckError, ReleaseError."""
    wheel = _only(folder, "*.whl")
    _only(folder, "trireme_scheduler-*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="trireme-release-") as temporary:
        place = Path(temporary)
        step("the wheel in an empty environment")
        python = environment(place / "environment", wheel)
        checks.scheduler_runs(python.parent)
        packages = _only(python.parent.parent / "lib", "python3*") / "site-packages"
        checks.write_software_list(packages, folder / f"{wheel.stem}.spdx.json")
        step("the kubectl plugin")
        checks.kubectl_plugin_runs(_only(folder, "kubectl-trireme-*.tar.gz"), place / "kubectl")
        step("the chart")
        run(build_programs.HELM, "lint", "--strict", _only(folder, "*.tgz"))
        run(build_programs.HELM, "template", "trireme", _only(folder, "*.tgz"), quiet=True)
        step("the SDK for Python, and the contract")
        plugin = environment(place / "plugin", _only(folder / "sdk" / "python", "*.whl"))
        run(plugin, "-c", "from trireme import sdk; sdk.Info")
        with tarfile.open(_only(folder / "sdk" / "protos", "*.tar.gz")) as archive:
            archive.extractall(place / "protos", filter="data")
        run(Path(sys.executable).parent / "buf", "build", place / "protos", "--output", place / "contract.binpb")


def environment(folder: Path, *packages: Path) -> Path:
    """A new virtual environment with these packages and what they need from their registry; its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return python


def write_sums(folder: Path) -> None:
    """Write the digests of all files, as sha256sum does."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    (folder / "SHA256SUMS").write_text("".join(lines))


def step(text: str) -> None:
    """Say what comes next."""
    print(f"release: {text}", flush=True)


def run(*command: str | Path, quiet: bool = False) -> None:
    """Run a command in the repository. Raises: ReleaseError: it failed."""
    output = subprocess.DEVNULL if quiet else None
    if code := subprocess.run([str(word) for word in command], cwd=ROOT, check=False, stdout=output).returncode:
        raise ReleaseError(f"{' '.join(map(str, command))} failed with exit code {code}")


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise ReleaseError(f"{folder}: {len(found)} files match {pattern}, and not one")
    return found[0]


if __name__ == "__main__":
    sys.exit(main())
