"""Semantic versions: their order, and what is refused."""

import re

import pytest

from trireme_kube.apimachinery import semver

ASCENDING = (
    "0.0.1",
    "0.1.0",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-beta",
    "1.0.0",
    "1.2.0",
    "1.10.0",
    "2.0.0",
)


def test_versions_are_ordered_by_precedence() -> None:
    versions = [semver.parse(text) for text in ASCENDING]
    versions.reverse()
    assert [str(version) for version in sorted(versions)] == list(ASCENDING)
    assert len(set(versions)) == len(versions)


def test_build_metadata_does_not_count() -> None:
    """Two versions that differ in it alone are one."""
    assert semver.parse("1.2.3+a.b") == semver.parse("1.2.3+c") == semver.parse("1.2.3")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("1.x.0", 'Invalid character(s) found in minor number "x"'),
        ("01.0.0", 'Major number must not contain leading zeroes "01"'),
        ("1..0", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("1.0.0-", "Prerelease is empty"),
        ("1.0.0-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.0.0-a_b", 'Invalid character(s) found in prerelease "a_b"'),
        ("1.0.0+", "Build meta data is empty"),
        ("99999999999999999999.0.0", 'strconv.ParseUint: parsing "99999999999999999999": value out of range'),
    ],
)
def test_invalid_versions_are_refused(text: str, why: str) -> None:
    """The text goes into the event of the pod whose selector, or device, has it."""
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        semver.parse(text)


@pytest.mark.parametrize(("text", "put_right"), [("v1", "1.0.0"), ("1.02", "1.2.0"), ("v01.00.3-rc", "1.0.3-rc")])
def test_sloppy_versions_are_normalised(text: str, put_right: str) -> None:
    """As people write versions."""
    assert semver.normalized(text) == put_right
