"""What simulations find of small mistakes: `python -m tests.simulation.mutant_search --draw 10 --seed 1`.

The mistakes are mutants (`tools/mutation`) of the core, in a random order that follows from the seed. A mutant counts

- if a run gets to its block of statements;
- if one of the first runs differs by it: it writes something else to the API server, or violates an invariant;
- if a unit test fails with it, so that it is a mistake.

With each that counts, one small cluster after another is simulated until an invariant is violated or the processor time
is used up. The first search after a change begins with the runs of the product as it is.

Tests: tests/simulation/test_mutant_search.py.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import importlib.abc
import importlib.machinery
import itertools
import json
import random
import resource
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from tests.simulation.simulation_plan import Options
from tests.simulation.simulation_runs import Output, RunCrashed, Runs
from tools.mutation import related_tests
from tools.mutation.mutants import REACHED, ROOT, Mutant, MutatedFile
from tools.related import declared_links

CORE = (*("queueing", "scheduling", "cache", "snapshot", "evaluation", "bind", "frontend/phase_clients", "remote"),)
# The clusters of the seeds, in turn: number of nodes, and load. The shorter the runs, the more of them.
CLUSTERS = ((12, "light"), (12, "busy"), (6, "busy"))
HOURS = 0.08
# One of so many runs has to differ by a mutant that counts.
FIRST_RUNS = 3
# A run that takes more processor time does not end. Units: seconds.
_LONGEST_RUN = 150
# What the unchanged product does: the hashes of its traces, and the blocks that its runs get to.
_UNCHANGED = ROOT / "build" / "simulated-mutants.json"


class MutatedModules(importlib.abc.MetaPathFinder):
    """Modules that are compiled from the trees of `files`, if they are imported after `install`."""

    def __init__(self, files: Sequence[MutatedFile]) -> None:
        self._files = {file.module: file for file in files}
        #: The blocks that were reached, where they are marked: path and number.
        self.reached: set[tuple[str, int]] = set()

    def install(self) -> None:
        """Compile modules that are imported from now on."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find one of the modules."""
        if name not in self._files:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None
        assert isinstance(spec.loader, importlib.machinery.SourceFileLoader)
        spec.loader = _TreeLoader(name, spec.loader.path, self._files[name], self.reached)
        return spec


class _TreeLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, file: MutatedFile, reached: set[tuple[str, int]]) -> None:
        super().__init__(name, path)
        self._file = file
        self._reached = reached

    def get_code(self, fullname: str) -> types.CodeType:
        """Compile the tree; compiled code that is stored is another one's."""
        code: types.CodeType = compile(self._file.tree, self.get_filename(fullname), "exec", dont_inherit=True)
        return code

    def exec_module(self, module: types.ModuleType) -> None:
        """Execute it, with what notes the blocks that are reached."""
        path, reached = self._file.path, self._reached
        module.__dict__[REACHED] = lambda block: reached.add((path, block))
        super().exec_module(module)


class _MarkedRuns(Runs):
    """Runs whose outcome comes with the blocks that they got to."""

    def __init__(self, modules: MutatedModules) -> None:
        self._modules = modules
        super().__init__(modules.install)

    def _run(self, options: Options, output: Output, repeats: str) -> Any:
        return super()._run(options, output, repeats), self._modules.reached


@dataclasses.dataclass(frozen=True)
class Trial:
    """What came of a mutant: the last seed, the processor time, the first violation, and whether a run differed."""

    seed: int = 0
    seconds: float = 0.0
    violation: str = ""
    differs: bool = True


def main() -> int:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", type=int, default=10, help="so many mutants that count")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many of the order")
    parser.add_argument("--minutes", type=float, default=10.0, help="of processor time, for each")
    parser.add_argument("--try", nargs=2, metavar=("FILE", "NUMBER"), dest="one", help="try this mutant, print JSON")
    parser.add_argument("--unchanged", action="store_true", help="only simulate the product as it is")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(dataclasses.asdict(_try(options.one[0], int(options.one[1]), options.minutes * 60))))
        return 0
    if options.unchanged or not _UNCHANGED.exists():
        _simulate_unchanged()
    if not options.unchanged:
        _search(options)
    return 0


def options_of(seed: int) -> Options:
    """The simulation of a seed."""
    nodes, load = CLUSTERS[seed % len(CLUSTERS)]
    return Options(seed, HOURS, nodes, load=load)


def _simulate_unchanged() -> None:
    files = [MutatedFile(path) for path in _paths()]
    for file in files:
        file.mark_blocks()
    runs = _MarkedRuns(MutatedModules(files))
    hashes, reached = {}, set[tuple[str, int]]()
    for seed in range(1, FIRST_RUNS + 1):
        answer: Any = runs.run(options_of(seed))
        outcome, blocks = answer
        if outcome.violations:
            raise RuntimeError(f"seed {seed} violates without any mutant: {outcome.violations}")
        hashes[seed] = outcome.sha256
        reached |= blocks
    _UNCHANGED.parent.mkdir(exist_ok=True)
    _UNCHANGED.write_text(json.dumps({"hashes": hashes, "reached": sorted(reached)}), encoding="utf-8")


def _paths() -> list[str]:
    folders = (ROOT / "internal/trireme" / name for name in CORE)
    return sorted(str(file.relative_to(ROOT)) for folder in folders for file in folder.rglob("*.py"))


@functools.cache
def _unchanged() -> dict[str, Any]:
    known: dict[str, Any] = json.loads(_UNCHANGED.read_text(encoding="utf-8"))
    return known


def _order(seed: int) -> Iterator[tuple[int, Mutant]]:
    """The mutants in blocks that runs get to, each with its number in its file."""
    reached = {(path, block) for path, block in _unchanged()["reached"]}
    found = [(number, mutant) for path in _paths() for number, mutant in enumerate(MutatedFile(path).mutants)]
    random.Random(seed).shuffle(found)
    return ((number, mutant) for number, mutant in found if (mutant.path, mutant.block) in reached)


def _search(options: argparse.Namespace) -> None:
    found = counted = 0
    for at, (number, mutant) in itertools.islice(enumerate(_order(options.seed)), options.skip, None):
        trial = _try_apart(mutant.path, number, options.minutes)
        if not trial.differs:
            print(f"{at}. no run differs: {mutant}", flush=True)
        elif not _unit_tests_notice(mutant.path, number):
            print(f"{at}. no unit test fails: {mutant}", flush=True)
        else:
            counted, found = counted + 1, found + bool(trial.violation)
            print(f"{at}. seed {trial.seed}, {trial.seconds:.0f} s: {mutant}")
            print(f"    {trial.violation or 'NOTHING IS VIOLATED'}", flush=True)
            if counted == options.draw:
                break
    print(f"{found} of {counted} found")


def _try_apart(path: str, number: int, minutes: float) -> Trial:
    """Try a mutant in a process of its own: the product is imported once."""
    command = [
        sys.executable,
        "-m",
        "tests.simulation.mutant_search",
        f"--minutes={minutes}",
        "--try",
        path,
        str(number),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode < 0:
        raise RuntimeError(f"{path} {number}: a signal has ended the trial")
    if done.returncode:
        return Trial(violation=f"the product cannot be imported: {done.stderr.strip().splitlines()[-1:]}")
    return Trial(**json.loads(done.stdout.splitlines()[-1]))


def _try(path: str, number: int, seconds: float) -> Trial:
    file = MutatedFile(path)
    file.mutants[number].change.apply()
    ast.fix_missing_locations(file.tree)
    runs = Runs(MutatedModules([file]).install)
    resource.setrlimit(resource.RLIMIT_CPU, (_LONGEST_RUN, _LONGEST_RUN))  # of each run's process
    began, trial = _processor_seconds(), Trial(differs=False)
    while trial.seconds < seconds and not trial.violation and (trial.differs or trial.seed < FIRST_RUNS):
        trial = _run(runs, trial, began)
    return trial


def _run(runs: Runs, trial: Trial, began: float) -> Trial:
    """The trial with one more run."""
    seed, violation = trial.seed + 1, ""
    expected = _unchanged()["hashes"].get(str(seed))
    try:
        outcome = runs.run(options_of(seed))
        violation = next(iter(outcome.violations), "")
        differs = trial.differs or bool(violation) or expected not in (None, outcome.sha256)
    except RunCrashed as crashed:
        violation, differs = str(crashed), True
    return Trial(seed, _processor_seconds() - began, violation, differs)


def _unit_tests_notice(path: str, number: int) -> bool:
    """Whether a unit test fails with the mutant; those that its module names come first, for they are few."""
    related = [test for test in related_tests.of({path}) if test.startswith("tests/unit/")]
    named = [test for test in declared_links.tests((ROOT / path).read_text(encoding="utf-8")) if test in related]
    others = [test for test in related if test not in named]
    return any(tests and _one_fails(tests, path, number) for tests in (named, others))


def _one_fails(tests: Sequence[str], path: str, number: int) -> bool:
    command = [sys.executable, "-c", _TRY_WITH_TESTS, path, str(number), *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.endswith("noticed\n")


_TRY_WITH_TESTS = """
import os, sys, pytest
from tools.mutation import mutation_run, mutants, tried_mutants
path, number, *tests = sys.argv[1:]
file = mutants.MutatedFile(path)
plugin = tried_mutants.TriedMutants([file], [file.mutants[int(number)]], 1)
out = os.dup(1)
pytest.main([*mutation_run.QUIET, *tests], plugins=[plugin])
os.dup2(out, 1)
print("noticed" if plugin.found else "not noticed")
"""


def _processor_seconds() -> float:
    """The processor time of the processes so far: on a busy machine the other clock says little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
