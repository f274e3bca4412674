"""Which releases of the frontend a phase works for."""

import pytest

from trireme.phases import release_skew
from trireme.v1 import snapshot_pb2


@pytest.mark.parametrize(
    ("theirs", "own"),
    [
        ("0.2.0", "0.2.0"),
        ("0.2.9", "0.2.0"),
        ("0.1.0", "0.2.0"),
        ("0.3.0", "0.2.5"),
        ("0.3.0rc1", "0.2.0"),
        ("0.3", "0.2.0"),
        ("", "0.9.0"),
    ],
)
def test_one_minor_release_may_be_between(theirs: str, own: str) -> None:
    """A rolling update mixes two releases, in either order; the first release does not state its own."""
    release_skew.check(snapshot_pb2.Configuration(release=theirs), own)


@pytest.mark.parametrize(
    ("theirs", "own"), [("0.4.0", "0.2.0"), ("0.2.0", "0.4.0"), ("1.0.0", "0.9.0"), ("1.2.0", "2.2.0")]
)
def test_what_is_further_apart_is_refused_with_both_releases(theirs: str, own: str) -> None:
    message = (
        f"the frontend is of release {theirs} and this process of {own}: they may be one minor release apart "
        r"\(https://trireme.dev/docs/upgrade.html\)"
    )
    with pytest.raises(ValueError, match=message):
        release_skew.check(snapshot_pb2.Configuration(release=theirs), own)


def test_what_is_no_version_is_refused() -> None:
    with pytest.raises(ValueError, match="release: 'next' is no version"):
        release_skew.check(snapshot_pb2.Configuration(release="next"), "0.2.0")
