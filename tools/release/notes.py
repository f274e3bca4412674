"""The notes of a release, from CHANGELOG.md."""

import re


def of_release(changelog: str, version: str) -> str:
    """The section of the version, or of what is unreleased while the version has none. Raises: ValueError."""
    for name in (version, "Unreleased"):
        heading = re.search(rf"^## \[{re.escape(name)}\][^\n]*\n", changelog, re.MULTILINE)
        if heading is None:
            continue
        section = re.split(r"^## \[", changelog[heading.end() :], maxsplit=1, flags=re.MULTILINE)[0].strip()
        if section:
            return f"# Trireme {version}\n\n{section}\n"
    raise ValueError(f"CHANGELOG.md has no section [{version}], and nothing in [Unreleased]")
