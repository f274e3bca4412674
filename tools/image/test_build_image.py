"""When the image is built again, and what is said where it cannot be."""

import os
from pathlib import Path

import pytest

from tools.image import build_image, whole_image
from tools.programs import build_cosign


def test_what_does_not_go_into_the_image_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make release` would build it again: the source distribution leaves a description among the sources."""
    monkeypatch.setattr(build_image, "ROOT", tmp_path)
    digests = []
    for name in ("trireme/a.py", "trireme.egg-info/PKG-INFO", "trireme/__pycache__/a.pyc", "trireme/b.py"):
        file = tmp_path / "internal" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        digests.append(build_image.digest_of_inputs())
    assert digests[0] == digests[1] == digests[2] != digests[3]


def test_a_source_that_changes_during_the_build_has_it_built_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built = []

    def build(architecture: str) -> None:
        build_image.archive(architecture).touch()
        built.append(architecture)
        (tmp_path / "Dockerfile").write_text("as it was changed during the first build")

    for name, value in (("ROOT", tmp_path), ("FOLDER", tmp_path / "image"), ("_build", build)):
        monkeypatch.setattr(build_image, name, value)
    for _ in range(3):
        build_image.build()
    assert len(built) == 2


@pytest.mark.usefixtures("without_cosign")
def test_what_is_skipped_is_named_in_a_line_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(build_image, "ARCHITECTURES", {build_image.OWN: "", "other": ""})
    monkeypatch.setenv("PATH", str(tmp_path))
    for program in ("buildah", "mmdebstrap"):
        (tmp_path / program).touch(mode=0o755)
    assert list(whole_image.skipped()) == [
        "the image for other cannot be built without a registry: install arch-test",
        "nothing is signed: install Go 1.26 or newer",
    ]
    for program, code in (("arch-test", 1), ("go", 0)):
        (tmp_path / program).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / program).chmod(0o755)
    (emulator,) = whole_image.skipped()
    assert emulator.startswith("programs of other do not run here: install qemu-user-static")


def test_without_go_the_rest_is_tried(capsys: pytest.CaptureFixture[str], without_cosign: None) -> None:
    whole_image.main()
    assert "skipped: nothing is signed: install Go" in capsys.readouterr().out


@pytest.fixture
def without_cosign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(build_cosign.PROGRAMS), "available", lambda _: False)
    monkeypatch.setenv("PATH", "")
