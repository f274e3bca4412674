"""What the tools import from the project is there: most of them run seldom, and no type checker reads them."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
OWN = ("trireme", "trireme_kube", "tools", "tests")


def _imports(path: Path) -> list[tuple[str, str]]:
    """The names that a file imports from the project's modules: (module, name)."""
    return [
        (node.module, each.name)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OWN
        for each in node.names
    ]


def _is_there(module: str, name: str) -> bool:
    return hasattr(importlib.import_module(module), name) or bool(importlib.util.find_spec(f"{module}.{name}"))


@pytest.mark.parametrize("folder", sorted(path.name for path in (REPOSITORY / "tools").iterdir() if path.is_dir()))
def test_what_the_tools_import_is_there(folder: str) -> None:
    missing = {
        f"{path.relative_to(REPOSITORY)}: {module}.{name}"
        for path in (REPOSITORY / "tools" / folder).rglob("*.py")
        for module, name in _imports(path)
        if not _is_there(module, name)
    }
    assert missing == set()
