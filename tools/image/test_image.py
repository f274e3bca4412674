"""The image as it is built: small, the same each time, without a shell, of a user without rights, and described."""

import datetime
import importlib.util
import os
import struct
from pathlib import Path

import pytest
from spdx_tools.spdx import model
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from tools.image import attestations, build_image, container
from tools.image.image_archive import ImageArchive
from tools.release import versions

pytestmark = [pytest.mark.timeout(3600), pytest.mark.processes, pytest.mark.slow]

MEGABYTES = 150
UP = ["trireme", "up", "--once", "--nodes", "3"]
WHOLE = "TRIREME_WHOLE_IMAGE" in os.environ
"""Build for all architectures, and twice."""


@pytest.fixture(scope="module", params=build_image.ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    chosen = str(request.param)
    if chosen != build_image.OWN and not WHOLE:
        pytest.skip("the image of another architecture takes ten minutes: `make test-image` builds it")
    if lack := build_image.missing(chosen):
        pytest.skip(lack)
    return chosen


@pytest.fixture(scope="module")
def image(architecture: str) -> ImageArchive:
    return ImageArchive(build_image.build(architecture))


@pytest.fixture(scope="module")
def software(image: ImageArchive) -> model.Document:
    return attestations.software(image)


def test_it_is_small(image: ImageArchive) -> None:
    assert image.compressed_bytes < MEGABYTES * 1e6


def test_it_runs_as_a_user_without_rights(image: ImageArchive, architecture: str) -> None:
    assert image.config["config"]["User"] == "65532:65532"
    assert image.config["architecture"] == architecture
    assert image.config["config"]["Labels"]["org.opencontainers.image.version"] == versions.current()


@pytest.mark.parametrize(
    "pattern",
    ["bin/sh", "bin/bash", "bin/dash", "bin/apt*", "bin/dpkg*", "bin/pip*", "site-packages/pip", "site-packages/pytest",
     "site-packages/numpy/**/tests", "tests/conftest.py", "sdk/go", "ca.crt", "etc/pip.conf"],
)  # fmt: skip
def test_it_has_only_what_runs(image: ImageArchive, pattern: str) -> None:
    assert [path for path in image.files if Path(path).match(f"*/{pattern}") or path == pattern] == []


def test_only_tmp_is_writable_by_all_and_nothing_changes_the_user(image: ImageArchive) -> None:
    writable = [path for path, each in image.files.items() if each.mode & 0o002 and not each.issym()]
    assert writable == ["tmp"]
    assert [path for path, each in image.files.items() if each.mode & 0o6000] == []


def test_layers_are_sorted_and_have_one_time(image: ImageArchive) -> None:
    """If this fails, two builds of the same sources differ."""
    assert len({each.mtime for each in image.files.values()}) == 1
    parts = [Path(path).parts for path in image.files]
    assert parts == sorted(parts)


def test_bytecode_is_found_without_times(image: ImageArchive) -> None:
    """Bit 0 of the flags: by the digest of its source; bit 1, which reads the source at each start, is not set."""
    compiled = [path for path in image.files if path.endswith(".pyc")]
    assert compiled
    headers = {struct.unpack("<4sI", image.read(path)[:8]) for path in compiled}
    assert headers == {(importlib.util.MAGIC_NUMBER, 1)}


def test_it_schedules(image: ImageArchive, architecture: str) -> None:
    done = container.run(build_image.archive(architecture), architecture, *UP)
    assert "demo: web: " in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.returncode == 0


def test_two_builds_are_one_image(image: ImageArchive, architecture: str, tmp_path: Path) -> None:
    if not WHOLE:
        pytest.skip("a second build takes a minute or two: `make test-image` does it")
    created = datetime.datetime.fromisoformat(image.config["created"])
    build_image.build_once(tmp_path / "again.tar", architecture, int(created.timestamp()))
    assert ImageArchive(tmp_path / "again.tar").digest == image.digest


def test_its_software_is_listed(software: model.Document) -> None:
    assert validate_full_spdx_document(software) == []
    names = {package.name for package in software.packages}
    assert {"trireme-scheduler", "numpy", "grpcio", "libc6", "cpython"} <= names
    assert "pip" not in names


def test_statements_about_vulnerabilities_name_packages_of_the_image(
    image: ImageArchive, software: model.Document
) -> None:
    """A statement about a package that left the image is to leave too."""
    places = {each.external_references[0].locator.partition("@")[0] for each in software.packages}
    statements = attestations.vulnerabilities([image.digest])["statements"]
    assert {each["products"][0]["subcomponents"][0]["@id"] for each in statements} <= places


def test_its_provenance_names_the_image_and_the_commit(image: ImageArchive, software: model.Document) -> None:
    statement = attestations.provenance([image.digest], image.config["created"], [software])
    assert statement["subject"][0]["digest"]["sha256"] == image.digest.removeprefix("sha256:")
    sources = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert len(sources[0]["digest"]["gitCommit"]) == 40
    assert any(source["uri"].startswith("pkg:pypi/numpy@") for source in sources)
