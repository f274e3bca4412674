"""docs/feature-gates.md, written from the table of gates: `make docs` runs this, and a test compares."""

import pathlib
from collections.abc import Iterator

from trireme.config import gate_effects, gates
from trireme_kube.componentbase.cli import versions

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/feature-gates.md"

_HEAD = """# Feature gates

<!-- Written by `make docs` from internal/trireme/config/gate_effects.py. -->

Trireme accepts every gate that kube-scheduler v1.38 accepts, with the same
defaults, stages and messages (`--feature-gates`, `--emulated-version`). This
table has the gates that kube-scheduler's code reads, and their effect here.
*implemented*: as in kube-scheduler, on or off. *not applicable*: it decides how
kube-scheduler does something, not the result. *no effect*: setting it logs a
warning at the start. Locked gates are left out, and so are gates that no
scheduler reads.
"""


def write() -> str:
    """The document's text."""
    return _HEAD + "".join(_section(section) for section in gate_effects.SECTIONS)


def _section(section: gate_effects.Section) -> str:
    lines = [f"\n## {section.title}\n\n| gate | default | here |\n| --- | --- | --- |\n"]
    for row in section.rows:
        lines += _lines(row)
    return "".join(lines) + (f"\n{section.below}" if section.below else "")


def _lines(row: gate_effects.Row) -> Iterator[str]:
    """One line for the gates that have one default, so at most two."""
    effect = row.effect.value + (f": {row.text}" if row.text else "")
    if row.ineffective is not None:
        effect = f"`{str(row.ineffective).lower()}` has {effect}"
    for default in (True, False):
        names = [f"`{gate}`" for gate in row.gates if gates.read_table().at(gate, versions.DEFAULT).default is default]
        if names:
            yield f"| {', '.join(names)} | {'on' if default else 'off'} | {effect} |\n"


if __name__ == "__main__":
    DOCUMENT.write_text(write())
