"""Builds the image where no container registry is reached: `python -m tools.image.build_image`.

The base of the build stage is made of Debian's packages by mmdebstrap, and pip trusts this machine's certificates.
Leaves an OCI archive for this machine's architecture in build/image; `build_all` joins those of all architectures, with
software lists, statements about vulnerabilities and provenance beside it. Programs of another architecture run under an
emulator. Later calls compare a digest of what goes into the image. Needs root, buildah and mmdebstrap.

Tests: tools/image/test_build_image.py, tools/image/test_image.py.
"""

import fcntl
import hashlib
import os
import platform
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.image import attestations
from tools.image.image_archive import ImageArchive, write_index
from tools.release import versions

ROOT = versions.ROOT
FOLDER = ROOT / "build" / "image"
NAME = "docker.io/library/trireme"
REFERENCE = f"{NAME}:{versions.current()}"
"""The name in the archives: containerd takes it over, and a pod's `image: trireme:TAG` means it."""
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
"""As images and Debian name them, with the kernel's name."""
OWN = next(name for name, machine in ARCHITECTURES.items() if machine == platform.machine())

_BASE_PACKAGES = "python3,python3-venv,ca-certificates"
_INPUTS = ("Dockerfile", "pyproject.toml", "README.md", "LICENSE", "deploy/image/*", "internal/**/*")
# As in .dockerignore.
_LEFT_OUT = ("__pycache__", ".egg-info")
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
# In the build stage, where it does not come into the image.
_MOUNTED_AUTHORITIES = "/run/ca.crt"
_PIP = f"[global]\ncert = {_MOUNTED_AUTHORITIES}\n"


def missing(architecture: str = OWN) -> str:
    """What this machine lacks to build the image, or an empty text."""
    if os.geteuid() != 0:
        return f"the image for {architecture} cannot be built without a registry: needs root"
    programs = ("buildah", "mmdebstrap") if architecture == OWN else ("buildah", "mmdebstrap", "arch-test")
    absent = [program for program in programs if shutil.which(program) is None]
    if absent:
        return f"the image for {architecture} cannot be built without a registry: install {' and '.join(absent)}"
    if architecture != OWN and subprocess.run(["arch-test", architecture], capture_output=True, check=False).returncode:
        emulator = "install qemu-user-static, and have binfmt_misc mounted and systemd-binfmt run"
        return f"programs of {architecture} do not run here: {emulator}"
    return ""


def archive(architecture: str = OWN) -> Path:
    """Where the image is."""
    return FOLDER / f"trireme-{versions.current()}-{architecture}.tar"


def build(architecture: str = OWN) -> Path:
    """Build it where needed; the archive. Raises: SystemExit: something is missing, or a program failed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"lock-{architecture}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in several processes want it at once
        stamp = FOLDER / f"inputs-{architecture}"
        inputs = digest_of_inputs()  # before the build, during which sources may change
        if not (archive(architecture).exists() and stamp.exists() and stamp.read_text() == inputs):
            # First, so that a build that is interrupted leaves no digest of other inputs beside a new image.
            stamp.unlink(missing_ok=True)
            _build(architecture)
            stamp.write_text(inputs)
    return archive(architecture)


def build_all(folder: Path) -> Path:
    """Build it for all architectures; one archive of them, with what is said about it beside it. Raises: SystemExit."""
    images = [ImageArchive(build(architecture)) for architecture in ARCHITECTURES]
    archive = folder / f"trireme-{versions.current()}.tar"
    attestations.write(images, write_index(images, archive, REFERENCE), folder)
    return archive


def _build(architecture: str) -> None:
    if lack := missing(architecture):
        raise SystemExit(f"image: {lack}")
    build_base(architecture)
    took = "one or two minutes" if architecture == OWN else "ten minutes under an emulator"
    print(f"image: building it for {architecture}, {took}", flush=True)
    build_once(archive(architecture), architecture)


def build_once(
    file: Path, architecture: str = OWN, source_date: int | None = None, source: Path = ROOT, version: str = ""
) -> None:
    """Build the image from the base, whatever was built before, into an OCI archive. Raises: SystemExit.

    `source_date`: of all files, in Unix seconds; by default the last commit's. `source`, `version`: of another release.
    """
    version = version or versions.current()
    # Another build may run on this machine, of other sources.
    tag = f"trireme-{architecture}-{secrets.token_hex(4)}:{version}"
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "pip.conf")
        settings.write_text(_PIP)
        flags = ["--pull-never", "--no-cache", "--network=host", f"--arch={architecture}"]
        flags.append(f"--build-arg=PYTHON_IMAGE={_base(architecture)}")
        mounts = [f"{_AUTHORITIES}:{_MOUNTED_AUTHORITIES}:ro", f"{settings}:/etc/pip.conf:ro"]
        flags += [f"--volume={mount}" for mount in mounts]
        date = {} if source_date is None else {"SOURCE_DATE_EPOCH": str(source_date)}
        _run([source / "deploy/image/build.sh", tag, *flags], BUILDER="buildah", **date)
    file.unlink(missing_ok=True)
    _run(["buildah", "push", "--quiet", f"localhost/{tag}", f"oci-archive:{file}:{NAME}:{version}"])
    _run(["buildah", "rmi", f"localhost/{tag}"])  # the archive has it


def build_base(architecture: str) -> None:
    """Make the base of the build stage, unless this machine has it."""
    base = _base(architecture)
    if subprocess.run(["buildah", "inspect", "--type=image", base], capture_output=True, check=False).returncode == 0:
        return
    print(f"image: making a base of Debian's packages for {architecture}, some minutes", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--quiet", "--variant=minbase", f"--architectures={architecture}", f"--include={_BASE_PACKAGES}"]
        _run(["mmdebstrap", *flags, "bookworm", Path(folder, "base.tar")])
        Path(folder, "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        _run(["buildah", "build", "--quiet", f"--arch={architecture}", "--tag", base, folder])


def _base(architecture: str) -> str:
    return f"localhost/debian-python-{architecture}:bookworm"


def _run(command: Sequence[str | Path], **environment: str) -> None:
    # In a chroot: without the privileges for namespaces of its own, a container cannot be started.
    variables = {**os.environ, "BUILDAH_ISOLATION": "chroot", **environment}
    done = subprocess.run(list(map(str, command)), env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"image: {command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _files() -> Iterator[Path]:
    for pattern in _INPUTS:
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and not any(part.endswith(_LEFT_OUT) for part in path.parts):
                yield path


def digest_of_inputs() -> str:
    """What goes into the image, its packages apart."""
    digest = hashlib.sha256()
    for path in _files():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    print(build().relative_to(ROOT))
