"""Builds and checks what a release consists of: `make release VERSION=0.2.0`.

Into build/release/VERSION go the wheel and the source distribution, the image with its software lists, vulnerabilities
and provenance, the chart, the packages of the SDKs, the contract as a buf module, the kubectl plugin with its manifest
for krew, an SPDX document of what an installed wheel consists of, the notes from the changelog, and SHA256SUMS. Each is
then used as a stranger would: pipx installs the wheel, built from the source distribution, and it schedules; so does a
container of the image; the kubectl plugin installs itself, Helm installs the packed chart, a plugin in each language is
built from the packages, and buf reads the packed contract. With `--key` the image and SHA256SUMS are signed, and
checked as documented. Nothing is tagged or sent anywhere.

Also change: docs/versioning.md.

Tests: tests/contract/test_release.py.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from tools.image import attestations, build_image
from tools.programs import build_cosign, build_programs
from tools.release import checks, kubectl_plugin, notes, signing, versions

ROOT = versions.ROOT
SDK = ROOT / "build" / "sdk"
SUMS = "SHA256SUMS"


class ReleaseError(Exception):
    """Something is not as a release has to be."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and check a release; return the exit code."""
    parser = argparse.ArgumentParser(description="Build and check a release.")
    parser.add_argument("version", help="as versions.py names it")
    parser.add_argument("--url", help="where the files will be, for krew (default: a place on the project's site)")
    parser.add_argument("--key", help="the key for the signatures, as cosign takes it (default: nothing is signed)")
    options = parser.parse_args(arguments)
    if options.version != versions.current():
        raise SystemExit(f"release: this is {versions.current()}; `make set-version VERSION={options.version}` first")
    folder = ROOT / "build" / "release" / options.version
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        build(folder, options.url or f"https://trireme.dev/releases/v{options.version}")
        check(folder)
        if options.key:
            sign_image(folder, options.key)
        write_sums(folder)
        if options.key:
            signing.sign_file(folder / SUMS, options.key)
            step("the signatures, by the documented commands")
            signing.check_as_documented(folder)
    except (ReleaseError, checks.CheckError, signing.SigningError) as error:
        raise SystemExit(f"release: {error}") from error
    print(f"release: {folder.relative_to(ROOT)} has {len(list(folder.rglob('*')))} files")
    return 0


def build(folder: Path, url: str) -> None:
    """Write all parts, which will be published at `url`."""
    run(Path(sys.executable).parent / "buf", "breaking", "--against", "protos/frozen.binpb")
    step("wheel and source distribution")
    build_distributions(folder)
    kubectl_plugin.write(folder, _only(folder, "*.whl"), url)
    step("image")
    build_images(folder)
    step("chart")
    build_programs.build()
    run(build_programs.HELM, "package", ROOT / "deploy" / "chart", "--destination", folder)
    step("packages of the SDKs")
    run(sys.executable, "sdk/build_packages.py", "--if-changed")
    for language in ("protos", *(script.parent.name for script in sorted(ROOT.glob("sdk/*/package.sh")))):
        if (SDK / language).exists():
            # Without the stamps of builds in this repository.
            shutil.copytree(SDK / language, folder / "sdk" / language, ignore=shutil.ignore_patterns(".*"))
        else:
            print(f"release: the SDK for {language} is left out: its toolchain is missing", file=sys.stderr)
    (folder / "RELEASE_NOTES.md").write_text(notes.of_release((ROOT / "CHANGELOG.md").read_text(), versions.current()))


def build_distributions(folder: Path) -> None:
    """Write the source distribution, and the wheel that is built from it, by the backend in this environment."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, quiet=True)


def build_images(folder: Path) -> None:
    """Write the image for all architectures, and what is said about it, where it can be built. Raises: ReleaseError."""
    lacks = [lack for architecture in build_image.ARCHITECTURES if (lack := build_image.missing(architecture))]
    if not lacks:
        build_image.build_all(folder)
    elif os.environ.get("CI") == "true":
        raise ReleaseError(lacks[0])
    else:
        print(f"release: the image is left out: {lacks[0]}", file=sys.stderr)


def sign_image(folder: Path, key: str) -> None:
    """Sign the image, if it is there, and write the public key. Raises: SigningError."""
    step("signatures")
    build_cosign.PROGRAMS.build()
    if (archive := image_of(folder)).exists():
        signing.sign_image(archive, build_image.REFERENCE, attestations.read(folder), key)
    signing.write_public_key(key, folder)


def image_of(folder: Path) -> Path:
    """Where the image of a release is."""
    return folder / f"trireme-{versions.current()}.tar"


def check(folder: Path) -> None:
    """Use each part as a stranger would. Raises: CheckError, ReleaseError."""
    wheel = _only(folder, "*.whl")
    _only(folder, "trireme_scheduler-*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="trireme-release-") as temporary:
        place = Path(temporary)
        step("the wheel, installed by pipx")
        pipx = environment(place / "pipx", "pipx")
        python = checks.install_by_pipx(pipx, wheel, place)
        checks.scheduler_runs(place / "bin")
        installed = _only(python.parent.parent / "lib", "python3*") / "site-packages"
        checks.write_software_list(installed, folder / f"{wheel.stem}.spdx.json")
        if image_of(folder).exists():
            step("a container of the image")
            checks.container_runs(image_of(folder), build_image.OWN)
        step("the kubectl plugin")
        checks.kubectl_plugin_runs(_only(folder, "kubectl-trireme-*.tar.gz"), place / "kubectl")
        step("the chart")
        run(build_programs.HELM, "lint", "--strict", _only(folder, "*.tgz"))
        checks.chart_installs(python, build_programs.HELM, _only(folder, "*.tgz"), place)
        for packages in sorted((folder / "sdk").iterdir()):
            if packages.name != "protos":
                step(f"a plugin in {packages.name}")
                checks.plugin_is_built(place / "bin", packages, place / packages.name)
        step("the contract")
        with tarfile.open(_only(folder / "sdk" / "protos", "*.tar.gz")) as archive:
            archive.extractall(place / "protos", filter="data")
        run(Path(sys.executable).parent / "buf", "build", place / "protos", "--output", place / "contract.binpb")


def environment(folder: Path, *packages: str | Path) -> Path:
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
    (folder / SUMS).write_text("".join(lines))


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
