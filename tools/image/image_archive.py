"""Reads an image in an OCI archive: its configuration and its files; joins several. Standard library only.

Tests: tools/image/test_image.py.
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

Json = dict[str, Any]

_INDEX = "application/vnd.oci.image.index.v1+json"


class ImageArchive:
    """An OCI archive with one image of one layer, as the Dockerfile makes it."""

    def __init__(self, file: Path) -> None:
        """Raises: ValueError: the archive has another number of images or layers."""
        with tarfile.open(file) as archive:
            files = {
                each.name: cast("io.BufferedReader", archive.extractfile(each)).read()
                for each in archive
                if each.isfile()
            }
        self.blobs = {name: content for name, content in files.items() if name.startswith("blobs/")}
        images = json.loads(files["index.json"])["manifests"]
        if len(images) != 1:
            raise ValueError(f"{file} has {len(images)} images, and not one")
        self.digest = str(images[0]["digest"])
        manifest = self._blob(self.digest)
        described: Json = json.loads(manifest)
        if len(described["layers"]) != 1:
            raise ValueError(f"{file} has {len(described['layers'])} layers, and not one")
        self.config: Json = json.loads(self._blob(described["config"]["digest"]))
        layer = self._blob(described["layers"][0]["digest"])
        self.compressed_bytes = len(layer)
        self._layer = gzip.decompress(layer)
        platform = {key: self.config[key] for key in ("architecture", "os", "variant") if self.config.get(key)}
        self.descriptor = {**{key: images[0][key] for key in ("mediaType", "digest", "size")}, "platform": platform}

    @cached_property
    def files(self) -> dict[str, tarfile.TarInfo]:
        """What the layer has, by its path without a slash at the beginning, in the layer's order."""
        with tarfile.open(fileobj=io.BytesIO(self._layer)) as layer:
            return {each.name.removeprefix("./").rstrip("/"): each for each in layer}

    def read(self, path: str) -> bytes:
        """The contents of a file."""
        start = self.files[path].offset_data
        return self._layer[start : start + self.files[path].size]

    def extract(self, under: str, folder: Path) -> None:
        """Write the files whose paths begin so into a folder, at the same paths."""
        with tarfile.open(fileobj=io.BytesIO(self._layer)) as layer:
            layer.extractall(folder, [each for each in layer if each.name.startswith(under)], filter="data")

    def _blob(self, digest: str) -> bytes:
        return self.blobs[f"blobs/{digest.replace(':', '/')}"]


def write_index(images: Sequence[ImageArchive], file: Path, name: str) -> str:
    """Write images of several architectures into one archive, as the image `name`; return the digest of all.

    Source: image-layout.md and image-index.md of the OCI image specification.
    """
    index = json.dumps({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [each.descriptor for each in images]})
    digest = hashlib.sha256(index.encode()).hexdigest()
    described = {
        "mediaType": _INDEX,
        "digest": f"sha256:{digest}",
        "size": len(index),
        "annotations": {"org.opencontainers.image.ref.name": name},
    }
    files = {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [described]}).encode(),
        f"blobs/sha256/{digest}": index.encode(),
    }
    for each in images:
        files |= each.blobs
    with tarfile.open(file, "w") as archive:
        for path, content in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return f"sha256:{digest}"
