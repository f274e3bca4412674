"""The table in docs/plugin-verification.md, written from the specifications: `make docs` runs this, a test compares."""

import pathlib

from trireme.plugin_verification import catalogue

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/plugin-verification.md"

_BEGIN = "<!-- Written by `make docs` from internal/trireme/plugin_verification. -->\n"


def write() -> str:
    """The document's text: what is before the table as it is, and the table anew."""
    head, _, _ = DOCUMENT.read_text().partition(_BEGIN)
    lines = ["| number | about | what it requires | stated by |", "| --- | --- | --- | --- |"]
    for each in catalogue.SPECIFICATIONS:
        sources = ", ".join(dict.fromkeys(f"`{sentence.source}`" for sentence in each.sentences))
        lines.append(f"| {each.number} | {each.group} | {each.title.replace('|', '')} | {sources} |")
    return f"{head}{_BEGIN}\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(write())
