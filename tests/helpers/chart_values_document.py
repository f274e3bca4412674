"""The table of values in deploy/chart/README.md, written from values.yaml: `make docs` runs this, a test compares."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import yaml

CHART = pathlib.Path(__file__).parents[2] / "deploy/chart"
DOCUMENT = CHART / "README.md"
_BEGIN = "<!-- From here on written by `make docs`, from the comments in values.yaml. -->\n"


def write() -> str:
    """The document's text: what stands before the table, and the table."""
    before, mark, _ = DOCUMENT.read_text().partition(_BEGIN)
    rows = [
        f"| `{path}` | `{_shown(value)}` | {comment} |\n" for path, value, comment in rows_of(CHART / "values.yaml")
    ]
    return before + mark + "\n| value | default | what it does |\n| --- | --- | --- |\n" + "".join(rows)


def rows_of(file: pathlib.Path) -> Iterator[tuple[str, Any, str]]:
    """Path, default and comment of each value. Raises: ValueError: a value has no comment."""
    text = file.read_text()
    node = yaml.compose(text)
    assert node is not None
    yield from _rows(node, "", yaml.safe_load(text), text.splitlines())


def _rows(node: yaml.Node, path: str, value: Any, lines: list[str]) -> Iterator[tuple[str, Any, str]]:
    assert isinstance(node, yaml.MappingNode)
    for key, child in node.value:
        below = f"{path}.{key.value}" if path else key.value
        comment = _comment_above(lines, key.start_mark.line)
        if comment:
            yield below, value[key.value], comment
        elif isinstance(child, yaml.MappingNode) and child.value:
            yield from _rows(child, below, value[key.value], lines)
        else:
            raise ValueError(f"values.yaml: {below} has no comment")


def _comment_above(lines: list[str], index: int) -> str:
    found = []
    while index and lines[index - 1].strip().startswith("#"):
        index -= 1
        found.append(lines[index].strip().removeprefix("#").strip())
    return " ".join(reversed(found)).replace("|", "\\|")


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Write the document."""
    DOCUMENT.write_text(write())


if __name__ == "__main__":
    main()
