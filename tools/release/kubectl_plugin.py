"""The archive of the kubectl plugin, and its manifest for krew.

The archive has the wheel and a shell script, for every architecture that the wheel's requirements are built for.
"""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import yaml

from tools.release import checks, versions

SCRIPT = Path(__file__).with_name("kubectl_trireme.sh")
COMMAND = "kubectl-trireme"
_DESCRIPTION = """\
Asks the Trireme scheduler of this cluster: its state, why a pod is where it is or nowhere, and what it would do if
something were different. It finds the scheduler by itself, and works with your own rights."""


def write(folder: Path, wheel: Path, url: str) -> None:
    """Write both into `folder`; the archive can be had at `url`/NAME once it is published."""
    archive = folder / f"{COMMAND}-{versions.current()}.tar.gz"
    # With no time but the commit's, so that the same sources give the same archive.
    at = int(checks.time_of_source().timestamp())
    with (
        gzip.GzipFile(archive, "wb", mtime=at) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):
        for name, content, mode in (
            (COMMAND, SCRIPT.read_bytes(), 0o755),
            (wheel.name, wheel.read_bytes(), 0o644),
            ("LICENSE", (versions.ROOT / "LICENSE").read_bytes(), 0o644),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(content), mode, at
            packed.addfile(member, io.BytesIO(content))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    manifest = _manifest(f"{url.rstrip('/')}/{archive.name}", digest)
    (folder / "trireme.krew.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))


def _manifest(uri: str, digest: str) -> dict[str, Any]:
    """What krew reads. Source: krew.sigs.k8s.io/docs/developer-guide/plugin-manifest."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "trireme"},
        "spec": {
            "version": f"v{versions.current()}",
            "homepage": "https://trireme.dev",
            "shortDescription": "Ask the Trireme scheduler why pods are where they are",
            "description": _DESCRIPTION,
            "caveats": "Needs Python 3.11 or newer, and a package index where it is used for the first time.",
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": "linux"}},
                    "uri": uri,
                    "sha256": digest,
                    "bin": COMMAND,
                    "files": [{"from": "*", "to": "."}],
                }
            ],
        },
    }
