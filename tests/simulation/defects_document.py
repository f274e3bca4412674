"""The table of defects in docs/reliability.md, from the registry and `defects/found.json`: `make docs` runs this."""

from __future__ import annotations

import json
import pathlib
from typing import Any, TypeAlias

from tests.simulation.defects.catalogue import DEFECTS
from tests.simulation.defects.registry import Defect

FOUND = pathlib.Path(__file__).parent / "defects" / "found.json"
DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "reliability.md"
Found: TypeAlias = dict[str, Any]
_HEAD = "| defect | found by | seed, processor time | on |\n| --- | --- | --- | --- |\n"


def write() -> str:
    """The document's text, with the table as it is now."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(_HEAD)
    last = found()
    rows = (_row(defect, last[name]) for name, defect in sorted(DEFECTS.items()))
    return before + _HEAD + "".join(rows) + "\n" + rest.partition("\n\n")[2]


def found() -> dict[str, Found]:
    """By which seed, in how many seconds of processor time and when each defect was found last."""
    all_found: dict[str, Found] = json.loads(FOUND.read_text(encoding="utf-8"))
    return all_found


def save(name: str, seed: int, seconds: int, date: str) -> None:
    """Keep when the simulator found a defect."""
    all_found = found() | {name: {"seed": seed, "seconds": seconds, "date": date}}
    FOUND.write_text(json.dumps(all_found, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _row(defect: Defect, found: Found) -> str:
    text = defect.text.removesuffix(".") + (" (needs the oracle)" if defect.needs_oracle else "")
    when = f"{found['seed']}, {found['seconds']} s | {found['date']}"
    return f"| `{defect.name}`: {text} | {defect.found_by} | {when} |\n"


if __name__ == "__main__":
    DOCUMENT.write_text(write(), encoding="utf-8")
