"""The version stands in one place; what package managers want of it elsewhere is the same."""

import pathlib
import shutil

import pytest

from tools.release import versions
from trireme.framework import release

FILES = sorted({str(path.relative_to(versions.ROOT)) for path, _ in versions.found()})


def test_all_places_name_the_release() -> None:
    """An SDK, or a chart, of another version than the scheduler's is not found, or is the wrong one."""
    assert versions.current() == release.TRIREME
    assert {version for _, version in versions.found()} == {release.TRIREME}
    for place in versions.PLACES:
        assert [path for path, _ in versions.found() if path.match(place.glob)], place.glob


def test_a_new_version_is_written_everywhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(versions.ROOT / name, tmp_path / name)
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    versions.write("7.8.9")
    assert {version for _, version in versions.found()} == {"7.8.9"}
    with pytest.raises(ValueError, match=r"'next' is no version such as 0\.2\.0"):
        versions.write("next")
