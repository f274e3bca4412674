"""Builds the image where no container registry is reached: `python -m tools.image.build_image`.

The base of the build stage is made of Debian's packages by mmdebstrap, and pip trusts this machine's certificates.
Leaves an OCI archive in build/image with its software list, statements about vulnerabilities and provenance beside it.
Later calls compare a digest of what goes into the image. Needs root, buildah and mmdebstrap.

Tests: tools/image/test_image.py.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.image import attestations
from tools.image.image_archive import ImageArchive
from tools.release import versions

ROOT = versions.ROOT
FOLDER = ROOT / "build" / "image"
STAMP = FOLDER / "inputs"
BASE = "localhost/debian-python:bookworm"

_BASE_PACKAGES = "python3,python3-venv,ca-certificates"
_INPUTS = ("Dockerfile", "pyproject.toml", "README.md", "LICENSE", "deploy/image/*", "internal/**/*")
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
# In the build stage, where it does not come into the image.
_MOUNTED_AUTHORITIES = "/run/ca.crt"
_PIP = f"[global]\ncert = {_MOUNTED_AUTHORITIES}\n"


def missing() -> str:
    """What this machine lacks to build the image, or an empty text."""
    if os.geteuid() != 0:
        return "the image cannot be built without a registry: needs root"
    absent = [program for program in ("buildah", "mmdebstrap") if shutil.which(program) is None]
    return f"the image cannot be built without a registry: install {' and '.join(absent)}" if absent else ""


def archive() -> Path:
    """Where the image is."""
    return FOLDER / f"trireme-{versions.current()}.tar"


def build() -> Path:
    """Build it where needed; the archive. Raises: SystemExit: something is missing, or a program failed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in several processes want it at once
        if not (archive().exists() and STAMP.exists() and STAMP.read_text() == _digest()):
            _build()
    return archive()


def _build() -> None:
    if lack := missing():
        raise SystemExit(f"image: {lack}")
    build_base()
    print("image: building it, one or two minutes", flush=True)
    # First, so that a build that is interrupted leaves no digest of other inputs beside a new image.
    STAMP.unlink(missing_ok=True)
    build_once(archive())
    attestations.write(ImageArchive(archive()), FOLDER)
    STAMP.write_text(_digest())


def build_once(file: Path, source_date: int | None = None, source: Path = ROOT, version: str = "") -> None:
    """Build the image from the base, whatever was built before, into an OCI archive. Raises: SystemExit.

    `source_date`: of all files, in Unix seconds; by default the last commit's. `source`, `version`: of another release.
    """
    version = version or versions.current()
    tag = f"trireme:{version}"
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "pip.conf")
        settings.write_text(_PIP)
        flags = ["--pull-never", "--no-cache", "--network=host", f"--build-arg=PYTHON_IMAGE={BASE}"]
        mounts = [f"{_AUTHORITIES}:{_MOUNTED_AUTHORITIES}:ro", f"{settings}:/etc/pip.conf:ro"]
        flags += [f"--volume={mount}" for mount in mounts]
        date = {} if source_date is None else {"SOURCE_DATE_EPOCH": str(source_date)}
        _run([source / "deploy/image/build.sh", tag, *flags], BUILDER="buildah", **date)
    file.unlink(missing_ok=True)
    _run(["buildah", "push", "--quiet", f"localhost/{tag}", f"oci-archive:{file}:{version}"])


def build_base() -> None:
    """Make the base of the build stage, unless this machine has it."""
    if subprocess.run(["buildah", "inspect", "--type=image", BASE], capture_output=True, check=False).returncode == 0:
        return
    print("image: making a base of Debian's packages, one or two minutes", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "base.tar")
        _run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_BASE_PACKAGES}", "bookworm", files])
        Path(folder, "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        _run(["buildah", "build", "--quiet", "--tag", BASE, folder])


def _run(command: Sequence[str | Path], **environment: str) -> None:
    # In a chroot: without the privileges for namespaces of its own, a container cannot be started.
    variables = {**os.environ, "BUILDAH_ISOLATION": "chroot", **environment}
    done = subprocess.run(list(map(str, command)), env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"image: {command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _files() -> Iterator[Path]:
    for pattern in _INPUTS:
        yield from (path for path in sorted(ROOT.glob(pattern)) if path.is_file() and "__pycache__" not in path.parts)


def _digest() -> str:
    digest = hashlib.sha256()
    for path in _files():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    print(build().relative_to(ROOT))
