"""Signs an image and files with cosign, by any key that it takes, and checks both as docs/deployment.md says.

No transparency log is used, so that nothing but the key is needed. The image is signed in a registry on this machine,
and taken out of it with its signature and attestations: `cosign load` pushes it with them to any other.

Also change: docs/deployment.md (the blocks `sh signed`).

Tests: tools/release/test_signing.py.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.controlplane import ports
from tools.image.attestations import Attestation
from tools.programs.build_cosign import COSIGN, CRANE
from tools.release import versions

PUBLIC_KEY = "trireme.pub"
"""Beside what is signed."""
REGISTRY = "registry.example.com"
"""In the documented commands."""

_DOCUMENT = versions.ROOT / "docs/deployment.md"
_START_SECONDS = 30.0
_NO_LOG = {"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json"}


class SigningError(Exception):
    """A signature cannot be made, or a documented command fails."""


def sign_image(archive: Path, name: str, attestations: Sequence[Attestation], key: str) -> None:
    """Add a signature and attestations to the image in an OCI archive, which is called `name` there.

    Raises: SigningError.
    """
    with registry() as address, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        place = f"{address}/trireme"
        with tarfile.open(archive) as packed:
            packed.extractall(folder / "image", filter="data")
        _run(CRANE, "push", folder / "image", f"{place}:signed")
        image = f"{place}@{_run(CRANE, 'digest', f'{place}:signed').strip()}"
        _sign("sign", image, key=key)
        for number, each in enumerate(attestations):
            predicate = folder / f"predicate-{number}"
            predicate.write_bytes(each.predicate)
            _sign("attest", "--type", each.kind, "--predicate", predicate, image, key=key)
        _run(COSIGN, "save", "--dir", folder / "signed", image)
        index = folder / "signed/index.json"
        described = json.loads(index.read_text())
        described["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"] = name
        index.write_text(json.dumps(described))
        with tarfile.open(archive, "w") as packed:
            packed.add(folder / "signed", "")


def sign_file(file: Path, key: str) -> None:
    """Write the signature of a file beside it. Raises: SigningError."""
    _sign("sign-blob", "--bundle", file.with_name(f"{file.name}.sigstore.json"), file, key=key)


def write_public_key(key: str, folder: Path) -> None:
    """Write the key's public half into a folder. Raises: SigningError."""
    _run(COSIGN, "public-key", "--key", key, "--outfile", folder / PUBLIC_KEY)


def check_as_documented(folder: Path) -> None:
    """Run the documented commands on a copy of a release, with a registry on this machine. Raises: SigningError."""
    with registry() as address, tempfile.TemporaryDirectory() as temporary:
        copied = shutil.copytree(folder, Path(temporary, "release"))
        for commands in documented():
            run_documented(commands, copied, address)


def documented() -> list[str]:
    """The documented commands: a block that pushes a signed image, one that checks it, and one for files."""
    return re.findall(r"^```sh signed\n(.*?)^```", _DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


def run_documented(commands: str, folder: Path, address: str) -> None:
    """Run commands of the document in a folder, with another registry. Raises: SigningError."""
    environment = {**os.environ, "PATH": f"{COSIGN.parent}{os.pathsep}{os.environ['PATH']}"}
    _run("bash", "-euc", commands.replace(REGISTRY, address), folder=folder, environment=environment)


@contextlib.contextmanager
def registry() -> Iterator[str]:
    """A registry on this machine, in memory, for the block; its address."""
    (port,) = ports.free_ports(1)
    address = f"127.0.0.1:{port}"
    process = subprocess.Popen([CRANE, "registry", "serve", "--address", address], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SigningError("the registry does not start")
            time.sleep(0.05)
        yield address
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _sign(command: str, *arguments: str | Path, key: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as settings:
        json.dump(_NO_LOG, settings)
        settings.flush()
        _run(COSIGN, command, "--yes", "--key", key, "--signing-config", settings.name, *arguments)


def _run(*command: str | Path, folder: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """What a program prints. It may ask for the key's password, if COSIGN_PASSWORD is not set."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SigningError(f"{Path(command[0]).name} {command[1]}: {done.stderr.strip()}")
    return done.stdout
