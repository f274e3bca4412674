"""docs/security.md names a test for each statement."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_every_named_test_exists() -> None:
    """A statement whose test was renamed or removed would be believed without being held."""
    text = (ROOT / "docs" / "security.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    defined = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        defined.update(re.findall(r"^\s*(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE))
    assert len(named) > 20
    assert not named - defined
