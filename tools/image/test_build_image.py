"""When the image is built again."""

from pathlib import Path

import pytest

from tools.image import build_image


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
