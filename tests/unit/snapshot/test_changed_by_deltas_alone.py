"""Who changes the snapshot: its own folder, as deltas say. Everything else reads it, or an overlay or fork of it."""

import ast
import pathlib
import re

import pytest

import trireme

(_ROOT,) = map(pathlib.Path, trireme.__path__)
_FOLDERS = sorted({path.name for path in _ROOT.iterdir() if path.is_dir()} - {"snapshot", "v1", "__pycache__"})
# A setting of the whole process, made before the first delta.
_SETTINGS = {"amount_rules"}
_MAY_ASSIGN = re.compile(r"\b_?snap(shot)?\b\s*[.\[]")


def _is_part_of_snapshot(node: ast.AST) -> bool:
    """Whether the target of an assignment is a field, or an entry, of what is called a snapshot."""
    last = node.attr if isinstance(node, ast.Attribute) else ""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name in ("snap", "_snap", "snapshot", "_snapshot"):
            return last not in _SETTINGS
    return False


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


@pytest.mark.parametrize("folder", _FOLDERS)
def test_no_other_folder_assigns_to_the_snapshot(folder: str) -> None:
    found = [
        f"{path.relative_to(_ROOT)}:{node.lineno}"
        for path in sorted((_ROOT / folder).rglob("*.py"))
        if _MAY_ASSIGN.search(text := path.read_text())  # most need not be parsed
        for node in ast.walk(ast.parse(text))
        for target in _targets(node)
        if _is_part_of_snapshot(target)
    ]
    assert not found
