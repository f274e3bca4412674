"""Codes of reasons are an interface: each is declared with its parameters, listed, and stays as it is."""

import ast
import json
import pathlib
import string
from collections.abc import Iterator, Mapping

import pytest

from tests.helpers import reasons_document
from trireme import plugins
from trireme.bind import reasons as bind_reasons
from trireme.framework import reason_codes, status
from trireme.framework.reason_codes import ReasonCode
from trireme.registry import reason_texts
from trireme.registry.in_tree import IN_TREE
from trireme.v1 import status_pb2
from trireme.wire import status as wire_status

(_PLUGINS,) = map(pathlib.Path, plugins.__path__)
_TRIREME = _PLUGINS.parent

# Folders whose reasons are declared, and by whom.
_DECLARED: Mapping[pathlib.Path, Mapping[str, ReasonCode]] = {
    **{
        _PLUGINS / spec.package.rpartition(".")[2]: reason_texts.reasons_of(name)
        for name, spec in IN_TREE.plugins.items()
    },
    _TRIREME / "bind": bind_reasons.REASONS,
    _TRIREME / "framework": {**reason_codes.OF_REMOTE_CALLS, **reason_codes.OF_ANY},
}
_MAKERS = frozenset({"status.Reason", "status.Reason.of", "Reason", "Reason.of"})
_REFUSALS = frozenset({"status.unschedulable", "status.unresolvable"})


def _calls(path: pathlib.Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def _made(path: pathlib.Path) -> Iterator[tuple[str, set[str]]]:
    """The codes that the file's calls state, with the names of the parameters."""
    for name, call in _calls(path):
        if name not in _MAKERS:
            continue
        code, *rest = call.args
        codes = [
            each.value for each in ast.walk(code) if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
        parameters = rest[0] if rest and name.endswith(".of") else None
        keys = {ast.literal_eval(key) for key in parameters.keys if key} if isinstance(parameters, ast.Dict) else set()
        for each in codes:
            # A variable's parameters are those of its declaration.
            yield each, keys if not isinstance(parameters, ast.Name) else {"*"}


@pytest.mark.parametrize("folder", list(_DECLARED), ids=lambda folder: folder.name)
def test_a_code_that_is_given_is_declared_with_these_parameters(folder: pathlib.Path) -> None:
    for path in folder.glob("*.py"):
        for code, parameters in _made(path):
            declared = _DECLARED[folder].get(code)
            assert declared is not None, f"{path}: declare {code} in explain.py"
            assert parameters == {"*"} or parameters == set(declared.parameters), f"{path}: {code}"


@pytest.mark.parametrize("folder", list(_DECLARED), ids=lambda folder: folder.name)
def test_a_code_that_is_declared_is_given(folder: pathlib.Path) -> None:
    """Another one would be promised and never come."""
    texts = {
        node.value
        for path in folder.glob("*.py")
        if path.name not in ("explain.py", "reasons.py", "reason_codes.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
    }
    assert set(_DECLARED[folder]) - texts == set()


def test_no_other_folder_gives_codes() -> None:
    other = [
        path
        for path in _TRIREME.rglob("*.py")
        if path.parent not in _DECLARED and path.parent.name != "v1" and any(_made(path))
    ]
    assert other == []


@pytest.mark.parametrize("name", ["filter.py", "device_demand.py", "device_search.py", "node_allocatable.py"])
def test_a_refusal_of_a_node_has_a_code(name: str) -> None:
    """A program would have to read the message, which may change."""
    without = [
        f"{path}:{call.lineno}"
        for path in _PLUGINS.glob(f"*/{name}")
        for maker, call in _calls(path)
        if maker in _REFUSALS and not any(keyword.arg == "reasons" for keyword in call.keywords)
    ]
    assert without == []


@pytest.mark.parametrize("code", [code for code in status.Code if code not in (status.Code.SUCCESS, status.Code.SKIP)])
def test_no_status_is_made_without_a_code(code: status.Code) -> None:
    """Whatever makes it, a program that reads it would have the message alone, which may change."""
    (made,) = status.Status(code, "P", ("m",)).reasons
    sent = status_pb2.Status(code=status_pb2.Code.ValueType(code.value), plugin="P")
    (decoded,) = wire_status.from_message(sent).reasons
    assert made == decoded
    assert made.code in reason_codes.OF_ANY
    assert wire_status.to_message(status.Status(code, "P")).reasons[0].code == made.code


@pytest.mark.parametrize("name", list(reasons_document.sections()))
def test_texts_name_parameters_that_the_code_has(name: str) -> None:
    for code, declared in reasons_document.sections()[name].items():
        if isinstance(declared.text, str):
            fields = {field for _, field, _, _ in string.Formatter().parse(declared.text) if field}
            assert fields <= set(declared.parameters), code


def test_the_codes_that_were_there_are_there_with_their_parameters() -> None:
    """`make freeze` adds new ones; a code or parameter that goes, or changes its kind, breaks programs that read it."""
    now = reasons_document.contract()
    for name, codes in json.loads(reasons_document.FROZEN.read_text()).items():
        for code, parameters in codes.items():
            assert code in now.get(name, {}), f"{name}: {code}"
            assert parameters.items() <= now[name][code].items(), f"{name}: {code}"


def test_new_codes_are_frozen_too() -> None:
    assert reasons_document.contract() == json.loads(reasons_document.FROZEN.read_text()), "run `make freeze`"


def test_the_page_lists_the_codes_as_they_are() -> None:
    assert reasons_document.DOCUMENT.read_text() == reasons_document.write(), "run `make docs`"
