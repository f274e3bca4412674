"""Mutation tests of the queueing hints: each small change of their code must fail a test.

    make mutation                    all modules
    make mutation MODULES="node_ports"   some of them

Mutants that no test can tell from the original are listed, with the reason, in `survivors.yaml`; the run fails for any
other that survives, and for entries of the list that hold no more. Changes are made by Cosmic Ray's operators and by
those of `row_operators`. Each mutant is tried in a fork of a process that has collected the tests, and never written to
disk: Cosmic Ray's own runner starts Python for each, which takes ten times as long, and changes the files.
"""

import argparse
import importlib
import itertools
import os
import pathlib
import re
import signal
import sys
import time
import types
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import cosmic_ray.plugins
import parso
import pytest
import yaml
from cosmic_ray import ast as cosmic_ast
from cosmic_ray import mutating

from tools.mutation import row_operators

ROOT = pathlib.Path(__file__).parents[2]
SOURCE = ROOT / "internal"
SURVIVORS = pathlib.Path(__file__).parent / "survivors.yaml"
SECONDS = 120

# The folders of plugins that have hints.
PLUGINS = tuple(sorted(path.parent.name for path in (SOURCE / "trireme/plugins").glob("*/hints.py")))


def _name(folder: str) -> str:
    """The plugin's name."""
    return "".join(word.capitalize() for word in folder.split("_"))


def _relevant(folder: str) -> tuple[str, ...]:
    """The tests of a plugin's hints, by patterns of their names."""
    return f"rows.py.*{_name(folder)}", f"plugins/(test_)?{folder}", "plugins/test_hints_"


# The tests that concern a module; other modules have all.
RELEVANT = {folder: _relevant(folder) for folder in PLUGINS} | {"pre_enqueue": _relevant("dynamic_resources")}
TESTS = (
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/unit/plugins").rglob("test_*hints*.py")),
    "tests/unit/plugins/test_node_label.py",
    "tests/unit/plugins/dynamic_resources/test_pre_enqueue.py",
    "tests/unit/queueing/test_hint_evaluation.py",
    "tests/conformance/test_hint_rows.py",
)

# The modules in the order in which they import each other.
MODULES = {
    "hints": "trireme.plugin_api.hints",
    "volumes_events": "trireme.plugin_kit.volumes_events",
    "cluster_view": "trireme.queueing.hints.cluster_view",
    "pre_enqueue": "trireme.plugins.dynamic_resources.pre_enqueue",
    **{folder: f"trireme.plugins.{folder}.hints" for folder in PLUGINS},
    "registrations": "trireme.queueing.hints.registrations",
}
# Where the report goes, whatever becomes of stdout in the forks.
OUTPUT = os.dup(1)

OPERATORS: Sequence[Any] = (
    *(
        cosmic_ray.plugins.get_operator(f"core/{name}")
        for name in (
            "AddNot",
            "ReplaceUnaryOperator_Delete_Not",
            "ReplaceComparisonOperator_Eq_NotEq",
            "ReplaceComparisonOperator_NotEq_Eq",
            "ReplaceComparisonOperator_Lt_LtE",
            "ReplaceComparisonOperator_Lt_Gt",
            "ReplaceComparisonOperator_LtE_Lt",
            "ReplaceComparisonOperator_Gt_GtE",
            "ReplaceComparisonOperator_Gt_Lt",
            "ReplaceComparisonOperator_GtE_Gt",
            "ReplaceComparisonOperator_Is_IsNot",
            "ReplaceComparisonOperator_IsNot_Is",
            "ReplaceBinaryOperator_Add_Sub",
            "ReplaceBinaryOperator_Sub_Add",
            "ReplaceTrueWithFalse",
            "ReplaceFalseWithTrue",
            "ReplaceAndWithOr",
            "ReplaceOrWithAnd",
            "ReplaceBreakWithContinue",
            "ReplaceContinueWithBreak",
            "NumberReplacer",
            "ZeroIterationForLoop",
        )
    ),
    row_operators.RemoveElement,
    row_operators.ChangeString,
    row_operators.SwapAnswer,
)


Key: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module.

    `before` and `after` are the first line that differs, without indentation; `inside` is the function around it.
    """

    module: str
    operator: str
    inside: str
    before: str
    after: str
    source: str

    @property
    def key(self) -> Key:
        """What it is known by in the list of survivors: lines move, and operators may make the same change."""
        return self.module, self.inside, self.before, self.after


def path_of(module: str) -> pathlib.Path:
    """The file of one of the modules."""
    return SOURCE / f"{MODULES[module].replace('.', '/')}.py"


def mutants(module: str) -> Iterator[Mutant]:
    """All changes of a module that leave it Python, each once."""
    original = path_of(module).read_text()
    seen = {original}
    for made in OPERATORS:
        operator = made()
        positions = _Counting(operator).count(original)
        for occurrence in range(positions):
            source = mutating.mutate_code(original, operator, occurrence)
            if source is None or source in seen:
                continue
            seen.add(source)
            try:
                compile(source, module, "exec")
            except SyntaxError:
                continue
            lines, changed = original.splitlines(), [*source.splitlines(), ""]
            at = next(at for at, line in enumerate(lines) if line != changed[at])
            after = " ".join(changed[at].split())
            yield Mutant(module, made.__name__, _inside(lines, at), lines[at].strip(), after, source)


def _inside(lines: Sequence[str], at: int) -> str:
    """The functions and classes around a line, outermost first, e.g. `node_ports.helps`."""
    names: list[str] = []
    indentation = len(lines[at]) - len(lines[at].lstrip())
    for line in reversed(lines[:at]):
        found = re.match(r"( *)(?:async )?(?:def|class) (\w+)", line)
        if found and len(found[1]) < indentation:
            names.insert(0, found[2])
            indentation = len(found[1])
    return ".".join(names)


class _Counting(cosmic_ast.Visitor):
    """Counts where an operator applies."""

    def __init__(self, operator: Any) -> None:
        self._operator = operator
        self._found = 0

    def count(self, source: str) -> int:
        self.walk(parso.parse(source))
        return self._found

    def visit(self, node: Any) -> Any:
        self._found += len(list(self._operator.mutation_positions(node)))
        return node


class Loop:
    """A pytest plugin that runs the collected tests once for each mutant, each time in a fork."""

    def __init__(self, modules: Sequence[str], known: Collection[Key]) -> None:
        self._modules = modules
        self._known = known
        self.failed_without_mutation = False
        self.unexplained = 0
        self.survivors: set[Key] = set()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of pytest's own loop."""
        self.failed_without_mutation = not _passes(session, None)
        if not self.failed_without_mutation:
            for module in self._modules:
                self._try_module(session, module)
        return True

    def _try_module(self, session: pytest.Session, module: str) -> None:
        started, tried = time.monotonic(), 0
        for mutant in mutants(module):
            tried += 1
            if _passes(session, mutant):
                self.survivors.add(mutant.key)
                if mutant.key not in self._known:
                    self.unexplained += 1
                    _print(_entry(mutant.key))
        _print(f"{module}: {tried} mutants in {time.monotonic() - started:.0f} s")


def _passes(session: pytest.Session, mutant: Mutant | None) -> bool:
    """Whether no test fails, with the mutant in place of its module."""
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(SECONDS)  # an endless loop counts as found
            code = _run(session, mutant)
        finally:
            # Whatever the mutant does, it was found; and nothing of the parent is cleaned up here.
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return status == 0


def _run(session: pytest.Session, mutant: Mutant | None) -> int:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    if mutant is not None:
        _replace(mutant)
    patterns = RELEVANT.get(mutant.module, ("",)) if mutant is not None else ("",)
    items = [item for item in session.items if any(re.search(pattern, item.nodeid) for pattern in patterns)]
    for item, following in itertools.pairwise([*items, None]):
        assert item is not None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


def _replace(mutant: Mutant) -> None:
    """Execute the mutant in its module's place, and again all modules that import from it."""
    names = list(MODULES)
    for name in names[names.index(mutant.module) :]:
        source = mutant.source if name == mutant.module else path_of(name).read_text()
        _execute(importlib.import_module(MODULES[name]), source)


def _execute(module: types.ModuleType, source: str) -> None:
    exec(compile(source, module.__file__ or "", "exec"), module.__dict__)  # that is what an import does


def _entry(key: Key) -> str:
    """A survivor as it stands in the list."""
    module, *rest = key
    fields = dict(zip(("inside", "before", "after"), rest, strict=True))
    return f"{module}:\n" + yaml.safe_dump([fields], width=1000, sort_keys=False, allow_unicode=True).rstrip()


def _print(text: str) -> None:
    """Past pytest, which captures what is printed."""
    os.write(OUTPUT, f"{text}\n".encode())


def explained() -> dict[Key, str]:
    """The survivors that are known, with the reason."""
    listed = yaml.safe_load(SURVIVORS.read_text()) if SURVIVORS.exists() else None
    return {
        (module, entry["inside"], entry["before"], entry["after"]): group["because"]
        for group in listed or ()
        for module, entries in group["survivors"].items()
        for entry in entries
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Try all mutants; answers the exit code."""
    modules = list(MODULES)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", choices=[*modules, []], help="modules of the hints (default: all)")
    chosen = parser.parse_args(argv).modules or modules
    os.chdir(ROOT)
    known = explained()
    loop = Loop(chosen, known)
    quiet = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--capture=no", "--no-header", "--no-summary")
    code = pytest.main([*quiet, *TESTS], plugins=[loop])
    if loop.failed_without_mutation or code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        print("the tests fail without any mutation", file=sys.stderr)
        return 1
    stale = [key for key in known if key[0] in chosen and key not in loop.survivors]
    for key in stale:
        print(f"this mutant does not survive: remove it from {SURVIVORS.name}\n{_entry(key)}")
    return 1 if loop.unexplained or stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
