"""docs/reference/simulation-checks.md, from claims, faults and defects: `make docs` runs this, and a test compares."""

from __future__ import annotations

import inspect
import json
import pathlib
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from tests.simulation.claims import CLAIMS, Claim
from tests.simulation.defects.catalogue import DEFECTS
from tests.simulation.defects.registry import Defect
from tests.simulation.simulated_faults import Faults

FOUND = pathlib.Path(__file__).parent / "defects" / "found.json"
DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "simulation-checks.md"
Found: TypeAlias = dict[str, Any]
_HEAD = """# What simulations check

<!-- Written by `make docs` from tests/simulation: claims.py, simulated_faults.py and defects/. -->

[Reliability](../reliability.md) explains the simulation. Modules are in
`tests/simulation`; defects are put into the product to show that a check can
fail, and are [listed below](#defects).
"""
_FAULTS = """
## Faults

| fault | what it does | shows the defects |
| --- | --- | --- |
"""
_DEFECTS = """
## Defects

By `make simulate-regressions`, which knows the faults that show a defect soonest,
and with which seed to begin. *Found*: that seed, and the processor time from there.

| defect | found by | found | on |
| --- | --- | --- | --- |
"""


def write() -> str:
    """The document's text, as the code is now."""
    last = found()
    return "".join(
        (
            _HEAD,
            *(_claims(title, claims) for title, claims in CLAIMS.items()),
            _FAULTS,
            *map(_fault, fault_kinds()),
            _DEFECTS,
            *(_row(defect, last[name]) for name, defect in sorted(DEFECTS.items())),
        )
    )


def fault_kinds() -> list[str]:
    """The kinds of faults, in the order in which the code lists them."""
    return re.findall(r"\(\d, self\._(\w+)\),", inspect.getsource(Faults.__init__))


def found() -> dict[str, Found]:
    """By which seed, in how many seconds of processor time and when each defect was found last."""
    all_found: dict[str, Found] = json.loads(FOUND.read_text(encoding="utf-8"))
    return all_found


def save(name: str, seed: int, seconds: int, date: str) -> None:
    """Keep when the simulator found a defect."""
    all_found = found() | {name: {"seed": seed, "seconds": seconds, "date": date}}
    FOUND.write_text(json.dumps(all_found, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _claims(title: str, claims: tuple[Claim, ...]) -> str:
    rows = "".join(
        f"| {each.text} | {', '.join(map(_place, each.checks))} | {_names(each.found_defects)} |\n" for each in claims
    )
    return f"\n## {title}\n\n| claim | checked by | finds |\n| --- | --- | --- |\n{rows}"


def _place(check: Callable[..., Any]) -> str:
    return f"`{check.__module__.rpartition('.')[2]}.{check.__qualname__}`"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _fault(kind: str) -> str:
    text = (getattr(Faults, f"_{kind}").__doc__ or "").split("\n\n")[0]
    shown = tuple(name for name, defect in sorted(DEFECTS.items()) if kind in defect.faults)
    return f"| `{kind}` | {' '.join(text.split())} | {_names(shown)} |\n"


def _row(defect: Defect, found: Found) -> str:
    text = defect.text.removesuffix(".") + (" (needs the oracle)" if defect.needs_oracle else "")
    when = f"seed {found['seed']}, {found['seconds']} s | {found['date']}"
    return f"| `{defect.name}`: {text} | {defect.found_by} | {when} |\n"


if __name__ == "__main__":
    DOCUMENT.write_text(write(), encoding="utf-8")
