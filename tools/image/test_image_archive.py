"""Archives of several images, made of small ones."""

import json
import pathlib
import tarfile

from tools.image import small_image
from tools.image.image_archive import write_index

NAME = "docker.io/library/trireme:0.2.0"


def test_an_image_is_read(tmp_path: pathlib.Path) -> None:
    image = small_image.write(tmp_path / "image", "arm64", "contents")
    assert image.config["architecture"] == "arm64"
    assert image.read("text") == b"contents"


def test_the_images_of_all_architectures_are_one_of_this_name(tmp_path: pathlib.Path) -> None:
    """containerd, kind and k3s take the name over, and the image of the architecture that they run on."""
    images = [small_image.write(tmp_path / each, each, each) for each in ("amd64", "arm64")]
    digest = write_index(images, tmp_path / "all", NAME)
    with tarfile.open(tmp_path / "all") as packed:
        packed.extractall(tmp_path / "layout", filter="data")
    (described,) = json.loads((tmp_path / "layout/index.json").read_text())["manifests"]
    assert described["digest"] == digest
    assert described["annotations"] == {"org.opencontainers.image.ref.name": NAME}
    blobs = tmp_path / "layout/blobs"
    members = json.loads((blobs / digest.replace(":", "/")).read_text())["manifests"]
    assert [each["platform"] for each in members] == [
        {"architecture": "amd64", "os": "linux"},
        {"architecture": "arm64", "os": "linux"},
    ]
    assert [each["digest"] for each in members] == [image.digest for image in images]
    for image in images:
        assert {path.removeprefix("blobs/") for path in image.blobs} <= {
            str(path.relative_to(blobs)) for path in blobs.rglob("*")
        }
