"""Shows that simulations find defects: `python -m tests.simulation.defect_search [NAME ...]`.

Each function of `defects/` puts a defect into the product, and says with which faults and from which seed on it shows
itself soonest. The product with the defect is simulated from one seed after another until an invariant is violated.

Continuous integration searches for some of them each day, and for all within a week or so (`names_of_day`): a check
that has stopped finding its defect shows itself soon.
"""

from __future__ import annotations

import argparse
import datetime
import pathlib
import resource
import subprocess
import sys

from tests.simulation import defects_document
from tests.simulation.defects.catalogue import DEFECTS
from tests.simulation.defects.registry import Defect
from trireme_kube.componentbase import clocks

ROOT = pathlib.Path(__file__).parents[2]
ORACLE = ROOT / "build" / "oracle"
# Of virtual time for each seed: the shorter, the more of them.
HOURS = 0.08
# Of processor time, for the defects of a day, by what it took to find them last.
DAY_SECONDS = 45


def main() -> int:
    """Search for the defects; returns how many were not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of defects; none: all")
    parser.add_argument("--minutes", type=float, default=10.0, help="of processor time, for each")
    parser.add_argument("--seed", type=int, help="to begin with; none: the defect's own")
    parser.add_argument("--load", default="", help="as of simulate.py")
    parser.add_argument("--today", action="store_true", help="the defects of the day")
    parser.add_argument("--save", action="store_true", help="keep what was found for `make docs`")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(DEFECTS)):
        parser.error(f"there is no defect {', '.join(unknown)}; there are {', '.join(sorted(DEFECTS))}")
    more = [f"--seed={options.seed}"] if options.seed is not None else []
    more += [f"--load={options.load}"] if options.load else []
    names = options.names or (names_of_day(clocks.utc_now().date()) if options.today else sorted(DEFECTS))
    return sum(not is_found(DEFECTS[name], options.minutes * 60, more, save=options.save) for name in names)


def names_of_day(day: datetime.date) -> list[str]:
    """The defects that are searched for on a day: those of each day take about as long, and every one has its turn."""
    days: list[list[str]] = [[]]
    seconds = 0
    for name, found in sorted(defects_document.found().items()):
        if days[-1] and seconds + found["seconds"] > DAY_SECONDS:
            days.append([])
            seconds = 0
        days[-1].append(name)
        seconds += found["seconds"]
    return days[day.toordinal() % len(days)]


def is_found(defect: Defect, seconds: float, more: list[str], *, save: bool = False) -> bool:
    """Simulate one seed after another with the defect until it is found; prints a line, returns whether it was.

    Without the oracle, what needs it is skipped, and counts as found.
    """
    if defect.needs_oracle and not ORACLE.exists():
        print(f"{defect.name}: skipped, build/oracle is missing: `python -m tests.conformance.real_framework`")
        return True
    started = processor_seconds()
    seed, violation = _simulate(defect, seconds, more)
    used = processor_seconds() - started
    print(f"{defect.name}: seed {seed}, {used:.0f} s: {violation or 'nothing is violated'}", flush=True)
    if violation and save:
        defects_document.save(defect.name, int(seed), round(used), str(clocks.utc_now().date()))
    return bool(violation)


def processor_seconds() -> float:
    """The processor time of the simulations so far: on a busy machine the other clock says little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def options_of(defect: Defect) -> list[str]:
    """The options of `simulate.py` that show the defect soonest."""
    load = [f"--load={defect.load}"] if defect.load else []
    faults = ",".join(defect.faults)
    return [
        f"--defect={defect.name}",
        f"--faults={faults}",
        f"--features={','.join(defect.features)}",
        f"--seed={defect.seed}",
        f"--nodes={defect.nodes}",
        *load,
    ]


def _simulate(defect: Defect, seconds: float, more: list[str]) -> tuple[str, str]:
    """The last seed that was simulated with the defect, and what it violates first, empty if nothing."""
    limits = [f"--hours={HOURS}", f"--cpu-seconds={seconds}", "--shrink-seconds=0"]
    command = [sys.executable, "-m", "tests.simulation.simulate", "--endless", *limits, *options_of(defect), *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seed, violation = "", ""
    for line in done.stdout.splitlines():
        if line.startswith("seed ") and "sha256 " in line:
            seed = line.split()[1].removesuffix(":")
        violation = violation or line.partition(" FAILED ")[2]
    if done.returncode and not violation:
        raise RuntimeError(f"a simulation crashed:\n{done.stdout}{done.stderr}")
    return seed, violation


if __name__ == "__main__":
    sys.exit(main())
