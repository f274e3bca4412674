"""An image and files are signed by a key made here, and checked by exactly the documented commands."""

import pathlib
import subprocess
import tarfile

import pytest

from tools.image import small_image
from tools.image.attestations import Attestation
from tools.image.build_image import REFERENCE
from tools.image.image_archive import write_index
from tools.programs import build_cosign
from tools.release import build_release, signing, versions

pytestmark = [pytest.mark.timeout(300), pytest.mark.processes]

ATTESTATIONS = [
    Attestation("spdxjson", b'{"spdxVersion": "SPDX-2.3"}'),
    Attestation("openvex", b'{"@context": "https://openvex.dev/ns/v0.2.0"}'),
    Attestation("slsaprovenance1", b'{"buildDefinition": {}, "runDetails": {}}'),
]


@pytest.fixture(autouse=True)
def key(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if not build_cosign.PROGRAMS.available():
        pytest.skip("cosign is not built: `make test-image` (needs Go 1.26)")
    monkeypatch.setenv("COSIGN_PASSWORD", "of the test")
    return new_key(tmp_path / "keys")


@pytest.fixture
def release(tmp_path: pathlib.Path, key: str) -> pathlib.Path:
    """A folder with a small image and what signs it, as a release has them."""
    return write_release(tmp_path / "release", key)


def new_key(folder: pathlib.Path) -> str:
    folder.mkdir()
    subprocess.run([build_cosign.COSIGN, "generate-key-pair"], cwd=folder, check=True, capture_output=True)
    return str(folder / "cosign.key")


def write_release(folder: pathlib.Path, key: str, text: str = "released") -> pathlib.Path:
    folder.mkdir()
    images = [small_image.write(folder / architecture, architecture, text) for architecture in ("amd64", "arm64")]
    write_index(images, archive(folder), REFERENCE)
    signing.sign_image(archive(folder), REFERENCE, ATTESTATIONS, key)
    signing.write_public_key(key, folder)
    build_release.write_sums(folder)
    signing.sign_file(folder / "SHA256SUMS", key)
    return folder


def archive(folder: pathlib.Path) -> pathlib.Path:
    return folder / f"trireme-{versions.current()}.tar"


def test_what_was_signed_passes_the_documented_commands(release: pathlib.Path) -> None:
    signing.check_as_documented(release)


def test_another_image_under_the_same_tag_is_refused(release: pathlib.Path, tmp_path: pathlib.Path) -> None:
    other = write_release(tmp_path / "other", new_key(tmp_path / "strangers"), text="changed")
    push, verify, _ = signing.documented()
    with signing.registry() as address:
        signing.run_documented(push, other, address)
        with pytest.raises(signing.SigningError, match="accepted signatures do not match threshold"):
            signing.run_documented(verify, release, address)


def test_an_image_without_a_signature_is_refused(release: pathlib.Path, tmp_path: pathlib.Path) -> None:
    _, verify, _ = signing.documented()
    images = [small_image.write(tmp_path / "unsigned", "amd64", "changed")]
    with signing.registry() as address:
        write_index(images, tmp_path / "index", REFERENCE)
        with tarfile.open(tmp_path / "index") as packed:
            packed.extractall(tmp_path / "layout", filter="data")
        place = f"{address}/trireme:{versions.current()}"
        subprocess.run([build_cosign.CRANE, "push", tmp_path / "layout", place], check=True, capture_output=True)
        with pytest.raises(signing.SigningError, match="no signatures"):
            signing.run_documented(verify, release, address)


@pytest.mark.parametrize(
    ("changed", "message"),
    [("SHA256SUMS", "invalid signature"), (archive(pathlib.Path()).name, "1 computed checksum did NOT match")],
)
def test_a_changed_file_is_refused(release: pathlib.Path, changed: str, message: str) -> None:
    *_, verify_files = signing.documented()
    signing.run_documented(verify_files, release, "")
    with (release / changed).open("ab") as file:
        file.write(b"0 more\n")
    with pytest.raises(signing.SigningError, match=message):
        signing.run_documented(verify_files, release, "")
