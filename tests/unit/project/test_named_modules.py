"""Modules that code names in texts, to import or start them, obey the layers as imports do, which import-linter sees.

A text that is a module's whole name may name one of the same layer or a lower one. The name must be written out: of
`f"trireme.{name}"` nobody can say what it names.
"""

import ast
import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "internal"
_NAME = re.compile(r"(trireme|trireme_kube)(\.[a-z_0-9]+)+")


def _ranks() -> dict[str, int]:
    """The number of the layer of each folder of trireme: the highest layer is 0."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    (layers,) = (
        section["layers"]
        for section in contracts.values()
        if "layers" in section and "trireme.cli" in section["layers"].split()
    )
    rows = filter(None, layers.splitlines())
    return {name.strip(): rank for rank, row in enumerate(rows) for name in row.split("|")}


def _is_module(name: str) -> bool:
    """Whether there is a module or package of this name."""
    path = SOURCES.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def _layer_of(name: str) -> str:
    """The part of a module's name that has a layer."""
    return ".".join(name.split(".")[:2])


def _problems(importer: str, tree: ast.AST, ranks: dict[str, int]) -> Iterator[str]:
    """What is wrong with the names in a module's texts."""
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]) if re.match(r"trireme(_kube)?\.", text):
                folder = _layer_of(text)
                if text.count(".") < 2 or ranks.get(folder, -1) < ranks[_layer_of(importer)]:
                    yield f"{importer}:{node.lineno}: {text}…: write the module's name out"
            case ast.Constant(value=str(text)) if _NAME.fullmatch(text) and _is_module(text):
                if importer.startswith("trireme_kube") and text.startswith("trireme."):
                    yield f"{importer}:{node.lineno}: {text}: a library of Kubernetes knows nothing of Trireme"
                elif text.startswith("trireme.") and ranks[_layer_of(text)] < ranks[_layer_of(importer)]:
                    yield f"{importer}:{node.lineno}: {text} is of a higher layer"


def _all_problems() -> Iterator[str]:
    ranks = _ranks()
    for path in sorted(SOURCES.rglob("*.py")):
        importer = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        if not path.stem.endswith(("_pb2", "_pb2_grpc")):
            yield from _problems(importer, ast.parse(path.read_text()), ranks)


@pytest.mark.slow
def test_no_text_names_a_module_of_a_higher_layer() -> None:
    assert [*_all_problems()] == []


def test_a_name_of_a_higher_layer_is_found() -> None:
    """The names are in texts, whatever is done with them."""
    ranks = _ranks()
    for text in ('import_module("trireme.cli.main")', 'f"trireme.{x}.process"', 'f"trireme.cli.{x}"'):
        assert len([*_problems("trireme.rpc.forker", ast.parse(text), ranks)]) == 1
    for text in ('"trireme.rpc.tls"', '"trireme.wire.status"', '"trireme.dev"', '"see trireme.cli.main"'):
        assert [*_problems("trireme.rpc.forker", ast.parse(text), ranks)] == []
    assert len([*_problems("trireme_kube.client.writes", ast.parse('"trireme.v1"'), ranks)]) == 1
