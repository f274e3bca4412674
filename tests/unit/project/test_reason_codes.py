"""Codes of reasons are an interface: each is declared with its parameters, listed, and stays as it is."""

import ast
import json
import pathlib
import string
from collections.abc import Iterable, Iterator, Mapping

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

# Folders whose reasons are declared, and by whom. All others give those of the scheduler itself.
_DECLARED: Mapping[pathlib.Path, Mapping[str, ReasonCode]] = {
    **{
        _PLUGINS / spec.package.rpartition(".")[2]: reason_texts.reasons_of(name)
        for name, spec in IN_TREE.plugins.items()
    },
    _TRIREME / "bind": bind_reasons.REASONS,
}
_OF_OTHERS = {
    **reason_codes.OF_ANY,
    **reason_codes.OF_REMOTE_CALLS,
    **reason_codes.OF_SCHEDULER,
    **reason_codes.OF_GROUPS,
}
_MAKERS = frozenset({"status.Reason", "status.Reason.of", "Reason", "Reason.of"})
# What makes a refusal, wait or failure, and the number of arguments from which on it has reasons.
_REFUSALS = {
    "status.unschedulable": None,
    "status.unresolvable": None,
    "status.error": None,
    "status.Status": 4,
    "Status": 4,
    "Failure": None,
    "GroupStatus": 3,
    "PodGroupPostFilterResult": 3,
    "PostFilterResult": 8,
}
# Statuses with the code of their kind: what plugins of others answer, and copies without the details.
_OF_THEIR_KIND = {
    # The SDK and the checks of plugins: the codes are the plugin's, of another process.
    "sdk",
    "plugin_verification",
    # A defect of this process, or of a plugin: `failed`, and the message says which.
    "evaluation/score_engine.py",
    "bind/action_executor.py",
    "plugin_kit/bind_phase_plugin.py",
    "wire/status.py",
    # A status whose details are dropped because there are too many.
    "plugin_api/interfaces.py",
    # Not about pods.
    "tracing/otlp.py",
}


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


def _others() -> Iterator[pathlib.Path]:
    """The modules outside of the folders that declare their own."""
    return (path for path in _TRIREME.rglob("*.py") if path.parent not in _DECLARED and path.parent.name != "v1")


@pytest.mark.parametrize("folder", list(_DECLARED), ids=lambda folder: folder.name)
def test_a_code_that_is_given_is_declared_with_these_parameters(folder: pathlib.Path) -> None:
    for path in folder.glob("*.py"):
        _check_codes(path, _DECLARED[folder])


def test_a_code_of_the_scheduler_is_declared_with_these_parameters() -> None:
    assert sum(bool(list(_made(path))) for path in _others()) > 20
    for path in _others():
        _check_codes(path, _OF_OTHERS)


def _check_codes(path: pathlib.Path, declared: Mapping[str, ReasonCode]) -> None:
    for code, parameters in _made(path):
        assert code in declared, f"{path}: declare {code}"
        assert parameters == {"*"} or parameters == set(declared[code].parameters), f"{path}: {code}"


@pytest.mark.parametrize("folder", list(_DECLARED), ids=lambda folder: folder.name)
def test_a_code_that_is_declared_is_given(folder: pathlib.Path) -> None:
    """Another one would be promised and never come."""
    assert set(_DECLARED[folder]) - _texts(folder.glob("*.py")) == set()


def test_a_code_of_the_scheduler_that_is_declared_is_given() -> None:
    assert set(_OF_OTHERS) - _texts(_others()) == set()


def test_a_preemption_that_evicts_nobody_has_a_declared_code_and_each_is_given() -> None:
    given: set[str] = set()
    for module in ("preemption_explanation.py", "service.py", "simulations/group_preemption.py"):
        path = _TRIREME / "insight" / module
        given |= {
            keyword.value.value
            for name, call in _calls(path)
            if name in ("out.reasons.add", "status_pb2.Reason")
            for keyword in call.keywords
            if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
        }
        (explains,) = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef) and node.name == "_reason_for_none"
        ] or [ast.Module([], [])]
        given |= {
            ast.literal_eval(node.value.elts[0])
            for node in ast.walk(explains)
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)
        }
    assert given == set(reason_codes.OF_PREEMPTION)


def test_a_wait_that_is_declared_is_reported_and_no_other() -> None:
    path = _TRIREME / "frontend/serving/pending_report.py"
    kinds = {
        keyword.value.value
        for name, call in _calls(path)
        if name == "PodWait"
        for keyword in call.keywords
        if keyword.arg == "kind" and isinstance(keyword.value, ast.Constant)
    }
    assert kinds == set(reason_codes.OF_WAITS)


def _texts(paths: Iterable[pathlib.Path]) -> set[str]:
    """The texts in these modules, but for those that declare codes."""
    return {
        node.value
        for path in paths
        if path.name not in ("explain.py", "reasons.py", "reason_codes.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_a_refusal_wait_or_failure_has_a_code() -> None:
    """A program would have to read the message, which may change. A new place that makes one gives it a code, too."""
    made, without = 0, []
    for path in _TRIREME.rglob("*.py"):
        within = path.relative_to(_TRIREME)
        if within.parts[0] in ("v1", *_OF_THEIR_KIND) or str(within) in _OF_THEIR_KIND:
            continue
        for name, call in _calls(path):
            if name not in _REFUSALS or _is_excused(name, call, path):
                continue
            made += 1
            if not _has_reasons(call, _REFUSALS[name]):
                without.append(f"{within}:{call.lineno}: {ast.unparse(call)}")
    assert made > 100
    assert without == []


def _is_excused(name: str, call: ast.Call, path: pathlib.Path) -> bool:
    """Whether it needs no code: a success, or an error within a plugin, which is `failed`, with the plugin's name."""
    if name == "status.error":
        return _PLUGINS in path.parents
    return not call.args or ast.unparse(call.args[0]).endswith((".SUCCESS", ".SKIP"))


def _has_reasons(call: ast.Call, position: int | None) -> bool:
    if position is not None and len(call.args) >= position:
        return True
    return any(keyword.arg in ("reasons", "refusals") for keyword in call.keywords)


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
