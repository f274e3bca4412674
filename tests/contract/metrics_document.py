"""What docs/metrics.md says, for tests that hold it against what is served."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs/metrics.md"


def own(*sections: str) -> set[str]:
    """Trireme's own metrics that these sections name."""
    parts = re.split(r"^## (.*)\n", DOCUMENT.read_text(), flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    rows = [line for section in sections for line in texts[section].splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(trireme_[a-z_]+)`", row.split("|")[1])}
