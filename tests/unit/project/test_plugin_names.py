"""Plugins are known by name in their own folders and in the registry alone."""

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

import trireme
from trireme.registry.in_tree import IN_TREE

(_ROOT,) = map(pathlib.Path, trireme.__path__)

# Folders whose code is about plugins by name.
_ABOUT_PLUGINS = {"plugins", "registry"}

# Generated from the protos, where comments name plugins.
_GENERATED = {"v1"}


def _folders() -> list[str]:
    folders = {path.name for path in _ROOT.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    return sorted(folders - _ABOUT_PLUGINS - _GENERATED)


# A module whose text has none of these, names no plugin: most need not be parsed. A constant may be written as
# VOLUME_BINDING.
_MAY_NAME_PLUGIN = re.compile(
    "|".join([*IN_TREE.plugins, *(re.sub("(?<=[a-z])(?=[A-Z])", "_", name).upper() for name in IN_TREE.plugins)])
    + r"|trireme\.plugins\b"
)


def _trees(room: str) -> Iterator[ast.Module]:
    """The modules of a room that may name a plugin."""
    for path in sorted((_ROOT / room).rglob("*.py")):
        if _MAY_NAME_PLUGIN.search(text := path.read_text()):
            yield ast.parse(text)


def _texts(tree: ast.Module) -> Iterator[str]:
    """The texts of a module that are no docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value


def _words(text: str) -> set[str]:
    letters = "".join(letter if letter.isalnum() else " " for letter in text)
    return {word.removesuffix("Args") for word in letters.split()}


def _identifiers(tree: ast.Module) -> Iterator[str]:
    """The names in a module, without those of other modules' classes: types of the API are called like plugins.

    A constant is written as a class would be, _VOLUME_BINDING as VolumeBinding.
    """
    for node in ast.walk(tree):
        name = ""
        if isinstance(node, ast.Name):
            name = node.id
        elif isinstance(node, ast.Attribute) and node.attr.isupper():
            name = node.attr
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        yield "".join(word.capitalize() for word in name.split("_")) if name.isupper() else name.strip("_")


@pytest.mark.parametrize("folder", _folders())
def test_no_module_names_a_plugin(folder: str) -> None:
    texts = {name for tree in _trees(folder) for text in _texts(tree) for name in _words(text)}
    identifiers = {name for tree in _trees(folder) for name in _identifiers(tree)}
    assert not (texts | identifiers) & set(IN_TREE.plugins)


@pytest.mark.parametrize("folder", _folders())
def test_no_module_imports_a_plugin(folder: str) -> None:
    """Outside the registry nothing depends on a plugin's modules, so that a process loads only what it runs."""
    found = {
        name
        for tree in _trees(folder)
        for node in ast.walk(tree)
        for module in _modules(node)
        for name in [module.removeprefix("trireme.plugins.").partition(".")[0]]
        if module.startswith("trireme.plugins.")
    }
    assert not found


def _modules(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", _folders())
def test_no_module_checks_for_the_class_of_a_plugin(folder: str) -> None:
    asked = {
        name
        for tree in _trees(folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        for part in ast.walk(node.args[1])
        for name in [part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""]
    }
    assert not asked & set(IN_TREE.plugins)
