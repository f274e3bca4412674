"""docs/feature-gates.md, written from the table of gates: `make docs` runs this, and a test compares."""

import pathlib
from collections.abc import Iterator

from trireme.config import gate_effects, gates
from trireme_kube.componentbase import versions

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/feature-gates.md"

_HEAD = """# Feature gates

<!-- Written by `make docs` from internal/trireme/config/gate_effects.py. -->

Trireme accepts every gate that kube-scheduler v1.37 accepts, with the same defaults, stages and messages
(`--feature-gates`, `--emulated-version`). These are the ones that kube-scheduler's code asks about, and what they do
here. *obeyed*: as in kube-scheduler, in both positions. *nothing to do*: it decides how kube-scheduler does a thing,
not what comes of it. *not heeded*: setting it is answered by a warning in the log at the start. Gates that are locked
are left out, and so are those that no scheduler looks at.
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
    said = row.effect.value + (f": {row.text}" if row.text else "")
    if row.unheeded is not None:
        said = f"`{str(row.unheeded).lower()}` is {said}"
    for default in (True, False):
        names = [f"`{gate}`" for gate in row.gates if gates.table().at(gate, versions.DEFAULT).default is default]
        if names:
            yield f"| {', '.join(names)} | {'on' if default else 'off'} | {said} |\n"


if __name__ == "__main__":
    DOCUMENT.write_text(write())
