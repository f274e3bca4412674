"""An image of one small file, for tests of what does not depend on its contents."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from tools.image.image_archive import ImageArchive


def write(file: Path, architecture: str, text: str) -> ImageArchive:
    """Write it as an OCI archive."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as packed:
        member = tarfile.TarInfo("text")
        member.size = len(text)
        packed.addfile(member, io.BytesIO(text.encode()))
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def add(kind: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        files[f"blobs/sha256/{digest}"] = content
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": f"sha256:{digest}",
            "size": len(content),
        }

    settings = {"architecture": architecture, "os": "linux", "rootfs": {"type": "layers", "diff_ids": [
        f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]}}  # fmt: skip
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": add("config.v1+json", json.dumps(settings).encode()),
        "layers": [add("layer.v1.tar+gzip", gzip.compress(layer.getvalue(), mtime=0))],
    }
    described = add("manifest.v1+json", json.dumps(manifest).encode())
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [described]}).encode()
    with tarfile.open(file, "w") as packed:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return ImageArchive(file)
