"""Tries mutants, each in a fork of a process that has collected the tests, with the tests that reach its block.

Python starts once and imports once: a mutant takes as long as its tests until the first that fails. The same fork says
first, with every block marked, which test gets where and how long each takes.
"""

import math
import os
import pathlib
import pickle
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import hypothesis
import pytest

from tools.mutation import live_code
from tools.mutation.mutants import REACHED, ROOT, Mutant, MutatedFile

# A test that takes longer than this, or than 30 times its processor time without a mutant, hangs: the mutant is found.
# What it waits for a processor does not count, as on a busy machine each mutant would be found.
TEST_SECONDS = 10
# Ends a mutant that hangs where Python runs no handler of signals.
_PROCESSOR_SECONDS = 600
# So much processor time is spent on a mutant that no test notices, by what the tests take without one.
MUTANT_SECONDS = 10
_MEMORY = 8 << 30
_SURVIVED, _FOUND = 0, 1


@dataclass(slots=True)
class Reach:
    """Which tests get to which block (`path`, number), and each's processor time. Tests go by their index."""

    tests: dict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[int, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class TriedMutants:
    """A pytest plugin that tries mutants in place of running the tests."""

    def __init__(self, files: Sequence[MutatedFile], chosen: Sequence[Mutant], jobs: int) -> None:
        self._files = {each.path: each for each in files}
        self._chosen = list(chosen)
        self._jobs = jobs
        self.on_failure: Callable[[], object] = lambda: None
        """Called in the fork where a test has failed."""
        self.failed: list[str] = []
        self.not_reached: list[Mutant] = []
        self.survivors: list[Mutant] = []
        self.found: list[Mutant] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """The same examples each time, and none kept: a mutant is found or not, whatever was tried before.

        The first example that fails is enough; nobody reads it, so none smaller is looked for.
        """
        hypothesis.settings.register_profile(
            "mutation",
            hypothesis.settings.get_profile("any machine"),
            derandomize=True,
            database=None,
            phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        )
        hypothesis.settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of pytest's own loop."""
        for each in self._files.values():
            __import__(each.module)
        live = live_code.LiveCode({str(ROOT / path) for path in self._files})
        reach = self._measure(session, live)
        self.failed = reach.failed
        if not self.failed:
            self._try_all(session, live, reach)
        return True

    def _measure(self, session: pytest.Session, live: live_code.LiveCode) -> Reach:
        """Run all tests once, in a fork, and see where they get."""
        read, write = os.pipe()
        child = os.fork()
        if not child:
            with os.fdopen(write, "wb") as pipe:
                _silence()
                pickle.dump(self._reach(session, live), pipe)
                pipe.flush()
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            reach = pickle.load(pipe)
        os.waitpid(child, 0)
        return reach

    def _reach(self, session: pytest.Session, live: live_code.LiveCode) -> Reach:
        reach = Reach()
        reached: set[tuple[str, int]] = set()
        for path, file in self._files.items():
            file.mark_blocks()
            sys.modules[file.module].__dict__[REACHED] = lambda number, path=path: reached.add((path, number))
            live.replace(_compile(file))
        for at, following in _with_next(range(len(session.items))):
            reached.clear()
            started = time.process_time()
            if not (_passes(session, at, following) or _passes(session, at, following)):  # a busy machine may be late
                reach.failed.append(session.items[at].nodeid)
            reach.seconds[at] = time.process_time() - started
            for place in reached:
                reach.tests[place].add(at)
        return reach

    def _try_all(self, session: pytest.Session, live: live_code.LiveCode, reach: Reach) -> None:
        running: dict[int, Mutant] = {}
        for mutant in self._chosen:
            tests = self._tests_of(session, mutant, reach)
            if not tests:
                self.not_reached.append(mutant)
                continue
            if len(running) == self._jobs:
                self._wait(running)
            child = os.fork()
            if not child:
                self._try(session, live, mutant, tests, reach)
            running[child] = mutant
        while running:
            self._wait(running)

    def _wait(self, running: dict[int, Mutant]) -> None:
        child, status = os.wait()
        mutant = running.pop(child)
        (self.survivors if status == _SURVIVED else self.found).append(mutant)

    def _tests_of(self, session: pytest.Session, mutant: Mutant, reach: Reach) -> list[int]:
        """Those that get to the mutant's block, the quick ones first, as far as the time goes."""
        spent, out = 0.0, []
        slow = {at for at in reach.seconds if session.items[at].get_closest_marker("hypothesis")}
        found = reach.tests.get((mutant.path, mutant.block), set())
        for at in sorted(found, key=lambda each: (each in slow, reach.seconds[each])):
            spent += reach.seconds[at]
            if out and spent > MUTANT_SECONDS:
                break
            out.append(at)
        return out

    def _try(
        self, session: pytest.Session, live: live_code.LiveCode, mutant: Mutant, tests: Sequence[int], reach: Reach
    ) -> None:
        """Leaves the process: whatever the mutant does, it was found unless all tests pass."""
        code = _FOUND
        try:
            _silence()
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_SECONDS, _PROCESSOR_SECONDS))
            mutant.change.apply()
            live.replace(_compile(self._files[mutant.path]))
            code = _SURVIVED
            for at, following in _with_next(tests):
                call_after(max(TEST_SECONDS, reach.seconds[at] * 30), lambda: os._exit(_FOUND))
                if not _passes(session, at, following):
                    code = _FOUND
                    self.on_failure()
                    break
        finally:
            os._exit(code)


def call_after(seconds: float, hung: Callable[[], object]) -> None:
    """Call `hung` once so much time has passed, without the time that this thread waits for a processor meanwhile.

    Another call takes the place of the last one.
    """
    end = time.monotonic() - _seconds_without_processor() + seconds

    def on_alarm(*_: object) -> None:
        left = end - time.monotonic() + _seconds_without_processor()
        if left > 0:
            signal.alarm(math.ceil(left))
        else:
            hung()

    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(math.ceil(seconds))


def _seconds_without_processor() -> float:
    """For how long the main thread could have run but had no processor; 0 where the system does not say."""
    try:
        return int(pathlib.Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def _compile(file: MutatedFile) -> object:
    return compile(file.tree, str(ROOT / file.path), "exec", dont_inherit=True)


def _passes(session: pytest.Session, at: int, following: int | None) -> bool:
    item, after = session.items[at], None if following is None else session.items[following]
    session.testsfailed = 0
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
    return not session.testsfailed


def _with_next(tests: Sequence[int]) -> Iterator[tuple[int, int | None]]:
    return zip(tests, [*tests[1:], None], strict=True)


def _silence() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
