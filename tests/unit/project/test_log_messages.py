"""Warnings and errors in the log say what happens next, or what to do.

Each message of that level in `internal` and `cmd` states the fact, then, behind `; ` or `: `, the action: a clause of
at least three words, without those that are filled in, one of which is in `_ACTIONS`. Instead it may name a page of
`componentbase/documents.py`, or a `consequence`. Text that is filled in counts for nothing. `_EXEMPT` has the others,
each with the reason.
"""

import ast
import functools
import operator
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).parents[3]
LEVELS = {"warning", "error", "exception", "critical"}
LOGGERS = {"log", "_LOG"}

# What happens without anybody doing anything, and what a reader does.
_ACTIONS = re.compile(
    r"\b(?:again|apart|begins|called|exits?|goes on|going on|retrying|stands in|stays?|until|once"
    r"|add|check|configure|correct|do as|leave|let|must|report|start)\b"
)
_FILLED_IN = re.compile(r"%[-+.\d]*[a-zA-Z]|\{\}")
_KUBERNETES = "kube-scheduler's own text, which filters of logs look for"
_PASSED_ON = "passes on the text of its caller, which is checked there"

_EXEMPT: Mapping[tuple[str, str], str] = {
    ("trireme/extenders/extenders.py", "Evaluation failed on nominated node: node=%s err=%s"): _KUBERNETES,
    ("trireme/frontend/running.py", "Leaderelection lost"): _KUBERNETES,
    ("trireme/frontend/running.py", "command failed"): _KUBERNETES,
    ("trireme/frontend/starting.py", "command failed"): _KUBERNETES,
    ("trireme/remote/remote_bind.py", "Plugin failed"): _KUBERNETES,
    ("trireme/scheduling/attempt_reporter.py", "Error scheduling pod; retrying"): _KUBERNETES,
    ("trireme/scheduling/groups/pod_group_reporter.py", "Error scheduling composite pod group"): _KUBERNETES,
    ("trireme/scheduling/groups/pod_group_reporter.py", "Error scheduling pod group"): _KUBERNETES,
    ("trireme/scheduling/post_filtering.py", "Status after running PostFilter plugins for pod"): _KUBERNETES,
    ("trireme_kube/client/leaderelection/lease.py", "Error initially creating lease lock"): _KUBERNETES,
    ("trireme_kube/client/leaderelection/lease.py", "Error retrieving lease lock"): _KUBERNETES,
    ("trireme_kube/client/leaderelection/lease.py", "Failed to update lease"): _KUBERNETES,
    ("trireme_kube/componentbase/server/authentication.py", "Unable to authenticate the request"): _KUBERNETES,
    ("trireme/frontend/configuration_reloader.py", ""): "a line of a start, as kube-scheduler writes it",
    ("trireme/frontend/phase_clients/replica_link.py", "{}: {}"): "AcknowledgementError says what happens next",
    ("trireme/frontend/plugin_monitor.py", "%s %s"): "DescriptionChanges.problem says what to check",
    ("trireme/frontend/plugin_monitor.py", "%s: %s"): "replica_comparison says what to do",
    ("trireme/rpc/tls_files.py", "%s"): "validity_problem names a page",
    ("trireme/sdk/scoring.py", "plugin %s: %s"): "_use_of_cluster says what to set",
    ("trireme_kube/componentbase/logs/failure_log.py", ""): _PASSED_ON,
    ("trireme_kube/componentbase/logs/klog.py", ""): _PASSED_ON,
}


class Message(NamedTuple):
    """A call that logs."""

    file: str
    line: int
    #: Without what is filled in; empty: it is no literal.
    text: str
    #: Whether it names a page or a consequence.
    refers: bool

    @property
    def names_an_action(self) -> bool:
        """Whether the message says what happens next, or what to do."""
        clauses = re.split(r"[;:] ", self.text)[1:]
        return self.refers or any(
            _ACTIONS.search(clause) and len(_FILLED_IN.sub("", clause).split()) >= 3 for clause in clauses
        )


def _text(expression: ast.expr | None) -> str:
    """The literal text of an expression, with `{}` for each part that is computed."""
    if isinstance(expression, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in expression.values)
    return str(expression.value) if isinstance(expression, ast.Constant) else ""


def _names_a_page(expression: ast.expr) -> bool:
    return any(
        isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "documents"
        and each.attr.isupper()
        for each in ast.walk(expression)
    )


def _message(call: ast.Call) -> ast.expr | None:
    """The argument of a call that is the message of a warning or an error; None: it logs none."""
    function = call.func
    if not isinstance(function, ast.Attribute):
        return None
    owner = ast.unparse(function.value)
    is_logger = owner in LOGGERS or owner == "self._log" or "getLogger(" in owner
    if function.attr == "log_failure" or (function.attr == "log" and (is_logger or owner == "logger")):
        position = 1
        if function.attr == "log" and ast.unparse(call.args[0]) == "level" and "extra" in ast.unparse(call):
            return None  # klog.info, whose level is INFO at most
    elif function.attr in LEVELS and owner == "klog":
        position = 1
    elif function.attr in LEVELS and is_logger:
        position = 0
    else:
        return None
    return call.args[position]


def _messages(file: str, source: str) -> Iterator[Message]:
    """All warnings and errors that a module logs."""
    functions = [
        each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    calls: dict[tuple[int, int], Message] = {}
    for function in functions:  # an outer one before those in it, which replace what it found
        assignments = [
            (each.lineno, target.id, each.value)
            for each in ast.walk(function)
            if isinstance(each, ast.Assign)
            for target in each.targets
            if isinstance(target, ast.Name)
        ]
        for call in (each for each in ast.walk(function) if isinstance(each, ast.Call)):
            if (message := _message(call)) is None:
                continue
            values = {
                name: value
                for line, name, value in sorted(assignments, key=operator.itemgetter(0))
                if line <= call.lineno
            }
            given = [*call.args, *(each.value for each in call.keywords)]
            resolved = [values.get(each.id, each) if isinstance(each, ast.Name) else each for each in given]
            refers = any(map(_names_a_page, resolved)) or any(each.arg == "consequence" for each in call.keywords)
            literal = values.get(message.id) if isinstance(message, ast.Name) else message
            calls[call.lineno, call.col_offset] = Message(file, call.lineno, _text(literal), refers)
    yield from calls.values()


@functools.cache
def _all_messages() -> tuple[Message, ...]:
    source = ROOT / "internal"
    modules = [*source.rglob("*.py"), *(ROOT / "cmd").rglob("*.py")]
    return tuple(
        message
        for path in modules
        if "_pb2" not in path.name and "log" in (text := path.read_text())
        for message in _messages(str(path.relative_to(source if source in path.parents else ROOT)), text)
    )


def test_each_warning_and_error_names_an_action() -> None:
    """See the module's docstring for the rule."""
    silent = [each for each in _all_messages() if not each.names_an_action and (each.file, each.text) not in _EXEMPT]
    assert [
        f"{each.file}:{each.line}: {each.text!r}: say behind `; ` what happens, or what to do" for each in silent
    ] == []
    assert len(_all_messages()) > 100


def test_each_exemption_is_needed() -> None:
    assert _EXEMPT.keys() - {(each.file, each.text) for each in _all_messages() if not each.names_an_action} == set()


@pytest.mark.parametrize(
    ("call", "passes"),
    [
        ('log.warning("it failed: %s", why)', False),
        ('log.warning("it failed again: %s", why)', False),
        ('log.warning("it failed; again")', False),
        ('log.warning("it failed; %s %s again", a, b)', False),
        ('log.warning("it failed; what a pity that is")', False),
        ('log.error(f"{why}")', False),
        ('klog.error(log, "It failed", err=why)', False),
        ('failures.log_failure("kind", f"{name}: {why}")', False),
        ('log.warning("it failed: %s; it is tried again", why)', True),
        ('log.exception("it failed; report this defect")', True),
        ('log.warning("%s", documents.with_page(why, documents.UPGRADE))', True),
        ('klog.error(log, "It failed", consequence=why)', True),
        ('failures.log_failure("kind", f"{name}: {why}; it is called again")', True),
    ],
)
def test_an_empty_word_is_no_action(call: str, passes: bool) -> None:
    (message,) = _messages("module.py", f"def function():\n    {call}\n")
    assert message.names_an_action is passes


def test_text_of_a_variable_is_read() -> None:
    source = 'def function():\n    text = "it failed; it is tried again"\n    log.warning(text, why)\n'
    assert [each.names_an_action for each in _messages("module.py", source)] == [True]


def test_loggers_have_the_names_that_are_looked_for() -> None:
    """If this fails, messages of another logger escape the rule."""
    made = re.compile(r"^ *([\w.]+)(?:: [\w.]+)? = logging\.getLogger", re.MULTILINE)
    found = {name for path in (ROOT / "internal").rglob("*.py") for name in made.findall(path.read_text())}
    assert found <= LOGGERS | {"root"}
