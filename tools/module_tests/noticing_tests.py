"""Tries some mutants of each module with each test file that may check it, and says which files notice which."""

import itertools
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import pytest

from tools.mutation import live_code
from tools.mutation.mutants import Mutant, MutatedFile
from tools.mutation.tried_mutants import Reach, TriedMutants

#: So much processor time is spent on a mutant that the tests of a file do not notice, by what they take without one.
_FILE_SECONDS = 2
Judge = Callable[[str, Mapping[str, frozenset[int]]], None]
"""Gets the path of a module, and of each test file which mutants it notices. Implementers: compare.main."""


class NoticingTests(TriedMutants):
    """A pytest plugin that tries mutants in place of running the tests.

    `named` and `others` are test files of each module, by its path: those that it names are tried with each mutant, and
    if they do not notice it, others up to the first that does. `breadth` is how many blocks of all modules a test file
    runs.
    """

    def __init__(
        self,
        files: Sequence[MutatedFile],
        named: Mapping[str, Sequence[str]],
        others: Mapping[str, Sequence[str]],
        most: int,
        judge: Judge,
    ) -> None:
        super().__init__(files, [], jobs=1)
        self._named = named
        self._others = others
        self._most = most
        self._judge = judge
        self._test_files: list[str] = []
        self.breadth: Counter[str] = Counter()

    def _measure(self, session: pytest.Session, live: live_code.LiveCode) -> Reach:
        """Tests that fail without a mutant say nothing."""
        self._test_files = [item.nodeid.partition("::")[0] for item in session.items]
        reach = super()._measure(session, live)
        failed = {at for at, item in enumerate(session.items) if item.nodeid in reach.failed}
        for tests in reach.tests.values():
            tests -= failed
            self.breadth.update({self._test_files[at] for at in tests})
        self.breadth.update(self._test_files)
        reach.failed = []
        return reach

    def _try_all(self, session: pytest.Session, live: live_code.LiveCode, reach: Reach) -> None:
        def try_with(tests: Sequence[int], mutant: Mutant) -> bool:
            return bool(tests) and self._is_noticed(session, live, mutant, tests, reach)

        for path, file in self._files.items():
            noticed: dict[str, set[int]] = defaultdict(set)
            for number, mutant in enumerate(self._drawn(file, reach)):
                by_file = self._tests_by_file(mutant, reach)
                found = {test for test in self._named[path] if try_with(by_file[test], mutant)}
                others = () if found else self._others[path]
                found |= set(itertools.islice((test for test in others if try_with(by_file[test], mutant)), 1))
                for test in found:
                    noticed[test].add(number)
            self._judge(path, {test: frozenset(numbers) for test, numbers in noticed.items()})

    def _drawn(self, file: MutatedFile, reach: Reach) -> list[Mutant]:
        """Some mutants that tests get to, of as many functions as there are."""
        drawn = random.Random(file.path).sample(file.mutants, len(file.mutants))
        of_function: Counter[str] = Counter()
        ranks = {}
        for each in drawn:
            if reach.tests.get((each.path, each.block)):
                ranks[each] = of_function[each.function]
                of_function[each.function] += 1
        return sorted(ranks, key=lambda each: ranks[each])[: self._most]

    def _tests_by_file(self, mutant: Mutant, reach: Reach) -> dict[str, list[int]]:
        """Of each test file those that get to the mutant's block, the quick ones first, as far as the time goes."""
        spent: Counter[str] = Counter()
        out: dict[str, list[int]] = defaultdict(list)
        for at in sorted(reach.tests[mutant.path, mutant.block], key=lambda each: reach.seconds[each]):
            file = self._test_files[at]
            spent[file] += reach.seconds[at]  # type: ignore[assignment]  a Counter may count in fractions
            if not out[file] or spent[file] < _FILE_SECONDS:
                out[file].append(at)
        return out

    def _is_noticed(
        self, session: pytest.Session, live: live_code.LiveCode, mutant: Mutant, tests: Sequence[int], reach: Reach
    ) -> bool:
        child = os.fork()
        if not child:
            self._try(session, live, mutant, tests, reach)
        return bool(os.waitpid(child, 0)[1])
