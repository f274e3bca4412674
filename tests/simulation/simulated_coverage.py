"""Which situations simulations reach, and how often: `python -m tests.simulation.simulated_coverage --seeds 1-6`.

Prints for each module of the packages that schedule how many of its branches how many of the runs reach, and then,
with `--never`, those that none reaches. What a run never reaches needs a load, or a test of its own.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from tests.simulation.branch_counts import Branch, BranchCounts
from tests.simulation.simulation_plan import Options
from tests.simulation.simulation_runs import Output, Runs

PACKAGES = tuple(
    f"trireme.{name}" for name in ("scheduling", "queueing", "cache", "bind", "evaluation", "insight", "extenders")
)


class CountedRuns(Runs):
    """Runs whose outcome comes with how often each branch ran."""

    def __init__(self, counts: BranchCounts) -> None:
        self._counts = counts
        counts.install()
        super().__init__()

    def _run(self, options: Options, output: Output, repeats: str) -> Any:
        self._counts.clear()
        outcome = super()._run(options, output, repeats)
        return outcome, self._counts.branches, self._counts.counts


def main() -> int:
    """Run the seeds, and print the tables; returns 1 if one of them violates something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1-6", help="from the first to the last one")
    parser.add_argument("--hours", type=float, default=0.08, help="of virtual time, for each seed")
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--never", action="store_true", help="list the branches that no run reaches")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    runs, code = CountedRuns(BranchCounts(PACKAGES)), 0
    reached: collections.Counter[Branch] = collections.Counter()
    branches: dict[Branch, None] = {}
    seeds = range(int(first), int(last or first) + 1)
    for seed in seeds:
        answer: Any = runs.run(Options(seed, options.hours, options.nodes))
        outcome, known, counts = answer
        print(f"seed {seed}: {outcome.summary}", flush=True)
        for violation in outcome.violations:
            code = 1
            print(f"  FAILED {violation}")
        # A module that only some runs import is known to these alone.
        branches.update(dict.fromkeys(known))
        reached.update(branch for branch, count in zip(known, counts, strict=True) if count)
    print(*table(list(branches), reached, len(seeds)), sep="\n")
    if options.never:
        print(*never_reached(list(branches), reached), sep="\n")
    return code


def table(branches: Sequence[Branch], reached: collections.Counter[Branch], runs: int) -> Iterator[str]:
    """A line for each module, with a title, and one for all: of how many branches how many are reached how often."""
    yield ""
    yield f"{'module':60} branches  never  in few of {runs} runs  reached"
    modules = collections.defaultdict(list)
    for branch in branches:
        modules[branch.module].append(reached[branch])
    everything = [reached[branch] for branch in branches]
    for module, seen in (*sorted(modules.items()), ("all together", everything)):
        never, few = seen.count(0), sum(0 < each <= runs / 4 for each in seen)
        yield f"{module:60} {len(seen):8} {never:6} {few:17} {1 - never / len(seen):8.0%}"


def never_reached(branches: Sequence[Branch], reached: collections.Counter[Branch]) -> Iterator[str]:
    """A line for each branch that no run reaches."""
    yield ""
    for branch in sorted(branches):
        if not reached[branch]:
            yield f"{branch.module}:{branch.line}: {branch.what}"


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # as simulate.py
