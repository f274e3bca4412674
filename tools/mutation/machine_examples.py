"""How many examples a state machine needs to find mutants of the code that it tests.

    python -m tools.mutation.machine_examples tests/unit/queueing/test_state_machine.py internal/trireme/queueing

Takes mutants in random order until the machine has found some (`--mutants`), and runs it on each of these from several
seeds (`--runs`). The largest number of examples that any run took is how many the machine should have; mutants that it
does not find within `--most` are counted, as some cannot be found.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import core, stateful

from tools.mutation.mutants import ROOT, Mutant, MutatedFile
from tools.mutation.mutation_run import QUIET, files_of
from tools.mutation.tried_mutants import Reach, TriedMutants


class Measured(TriedMutants):
    """Runs a state machine on mutants, and counts the examples until it fails."""

    def __init__(self, files: Sequence[MutatedFile], options: argparse.Namespace) -> None:
        super().__init__(files, [each for file in files for each in file.mutants], 1)
        self._options = options
        random.Random(options.seed).shuffle(self._chosen)

    def _try_all(self, session: pytest.Session, live: Any, reach: Reach) -> None:
        self._out = os.dup(1)
        worst: list[int] = []
        missed = 0
        for mutant in self._chosen:
            if not reach.tests.get((mutant.path, mutant.block)):
                continue
            if (first := self._examples(session, live, mutant, 1)) is None:
                missed += 1
                continue
            more = [self._examples(session, live, mutant, seed) for seed in range(2, self._options.runs + 1)]
            examples = [first, *(self._options.most if each is None else each for each in more)]
            worst.append(max(examples))
            self._print(f"{max(examples)} examples at most, {sorted(examples)}, {more.count(None)} without: {mutant}")
            if len(worst) == self._options.mutants:
                break
        self._print(f"{max(worst, default=0)} examples find {len(worst)} mutants; {missed} others were not found")

    def _print(self, text: str) -> None:
        os.write(self._out, f"{text}\n".encode())

    def _examples(self, session: pytest.Session, live: Any, mutant: Mutant, seed: int) -> int | None:
        """How many examples the machine takes to find a mutant; none if it does not."""
        read, write = os.pipe()
        child = os.fork()
        if not child:
            begun = _count_examples()
            core.global_force_seed = seed
            for item in session.items:
                _extend(item, self._options.most)
            # The number is written before the process may end by itself.
            self.on_failure = lambda: os.write(write, str(begun[0]).encode())
            self._try(session, live, mutant, range(len(session.items)), Reach(seconds=_PATIENCE))
        os.close(write)
        with os.fdopen(read) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        return int(text) if text else None


class _Patient(dict[int, float]):
    def __missing__(self, key: int) -> float:
        return 60.0


_PATIENCE = _Patient()


def _count_examples() -> list[int]:
    """A counter of the machines that are made."""
    begun = [0]
    original = stateful.RuleBasedStateMachine.__init__

    def counted(machine: Any, *arguments: Any, **named: Any) -> None:
        begun[0] += 1
        original(machine, *arguments, **named)

    stateful.RuleBasedStateMachine.__init__ = counted  # type: ignore[method-assign]
    return begun


def _extend(item: Any, examples: int) -> None:
    """More examples, and no time for making the failing one small."""
    item.cls.settings = hypothesis.settings(
        item.cls.settings, max_examples=examples, derandomize=False, phases=[hypothesis.Phase.generate]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test", help="the file of the machine")
    parser.add_argument("code", nargs="+", help="folders or files of internal/")
    parser.add_argument("--mutants", type=int, default=10)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--most", type=int, default=500, metavar="EXAMPLES")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    os.chdir(ROOT)
    started = time.process_time()
    plugin = Measured([MutatedFile(path) for path in files_of(options.code)], options)
    code = pytest.main([*QUIET, "-k", "runTest", options.test], plugins=[plugin])
    print(f"{time.process_time() - started + sum(os.times()[2:4]):.0f} s", *plugin.failed, file=sys.stderr)
    return int(code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) or bool(plugin.failed))


if __name__ == "__main__":
    raise SystemExit(main())
