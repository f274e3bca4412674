"""Reads an image in an OCI archive: its configuration and its files. Standard library only.

Tests: tools/image/test_image.py.
"""

import gzip
import io
import json
import tarfile
from functools import cached_property
from pathlib import Path
from typing import Any, cast

Json = dict[str, Any]


class ImageArchive:
    """An OCI archive with one image of one layer, as the Dockerfile makes it."""

    def __init__(self, file: Path) -> None:
        """Raises: ValueError: the archive has another number of images or layers."""
        with tarfile.open(file) as archive:
            blobs = {
                each.name: cast("io.BufferedReader", archive.extractfile(each)).read()
                for each in archive
                if each.isfile()
            }
        images = json.loads(blobs["index.json"])["manifests"]
        if len(images) != 1:
            raise ValueError(f"{file} has {len(images)} images, and not one")
        self.digest = str(images[0]["digest"])
        manifest = _blob(blobs, self.digest)
        described: Json = json.loads(manifest)
        if len(described["layers"]) != 1:
            raise ValueError(f"{file} has {len(described['layers'])} layers, and not one")
        self.config: Json = json.loads(_blob(blobs, described["config"]["digest"]))
        layer = _blob(blobs, described["layers"][0]["digest"])
        self.compressed_bytes = len(layer)
        self._layer = gzip.decompress(layer)

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


def _blob(blobs: dict[str, bytes], digest: str) -> bytes:
    return blobs[f"blobs/{digest.replace(':', '/')}"]
