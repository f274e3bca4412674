"""The notes of a release: its section of CHANGELOG.md, or before `towncrier build` what the fragments make."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def of_release(changelog: str, version: str) -> str:
    """The section of the version, or the fragments of changelog.d. Raises: ValueError, if there is neither."""
    notes = section(changelog, version) or section(_draft(version), version)
    if not notes:
        raise ValueError(f"CHANGELOG.md has no section {version}, and changelog.d has no fragments")
    return f"# Trireme {version}\n\n{notes}\n"


def section(changelog: str, version: str) -> str:
    """The text below the version's heading; empty if there is none."""
    heading = re.search(rf"^## {re.escape(version)}\b[^\n]*\n", changelog, re.MULTILINE)
    if heading is None:
        return ""
    return re.split(r"^## ", changelog[heading.end() :], maxsplit=1, flags=re.MULTILINE)[0].strip()


def _draft(version: str) -> str:
    """What `towncrier build` would add to the changelog; without fragments nothing."""
    if not any((ROOT / "changelog.d").glob("*.md")):
        return ""
    towncrier = Path(sys.executable).parent / "towncrier"
    command = [towncrier, "build", "--draft", "--version", version, "--date", "unreleased"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
