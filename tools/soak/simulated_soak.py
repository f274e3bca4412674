"""A day of steady load on the simulated system, and whether anything grows: `make simulated-soak`.

The load is the same at any time by construction, and every quarter of an hour, at rest, the entries of all containers
of each process are counted, its tasks and its connections. Ends with 1 if a quantity grows. The samples go to a file,
from which `--from` makes the table again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

RESULT = pathlib.Path(__file__).parents[2] / "build" / "simulated-soak.json"
# The first hour and a half of a process's role is left out: the API server keeps events for an hour. A line is fitted
# to averages over half an hour. Units: seconds.
SETTLING_SECONDS, BLOCK_SECONDS = 5400.0, 1800.0


def main() -> int:
    """Parse the flags, run and report. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0, help="of virtual time")
    parser.add_argument("--result", type=pathlib.Path, default=RESULT, help="file for the samples")
    parser.add_argument("--from", dest="recorded", type=pathlib.Path, help="report on such a file again; run nothing")
    options = parser.parse_args()
    if options.recorded is not None:
        return report(options.recorded)
    _record(options.hours, options.result)
    # In an interpreter of its own: in this one no clock is the real one.
    return subprocess.run(
        [sys.executable, "-m", "tools.soak.simulated_soak", "--from", options.result], check=False
    ).returncode


def _record(hours: float, result: pathlib.Path) -> None:
    from tests.simulation import substituted_sources
    from tests.simulation.virtual_loop import VirtualLoop

    processor_seconds = time.process_time
    loop = VirtualLoop()
    substituted_sources.install(loop, 0)
    from tools.soak import steady_simulation  # the product, which comes after what it is to see

    substituted_sources.replace_what_leaves_the_process()
    sys.unraisablehook = lambda _: None  # what coroutines of killed processes make of their end
    logging.disable()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-simulated-soak-"))
    try:
        run = steady_simulation.SteadySimulation(loop, folder)
        began = processor_seconds()
        loop.run_until_complete(run.run(hours, lambda line: print(line, flush=True)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    series = {name: [dataclasses.astuple(each) for each in samples] for name, samples in run.series.items()}
    summary = f"{run.summary}, {processor_seconds() - began:.0f} s of processor time"
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps({"summary": summary, "series": series}))


def report(recorded: pathlib.Path) -> int:
    """Print what the samples say. Returns the exit code: 1 if something grows."""
    from tools.soak import slopes, soak_report

    raw = json.loads(recorded.read_text())
    series = {name: [slopes.Sample(*each) for each in samples] for name, samples in raw["series"].items()}
    judged = soak_report.judge(series, BLOCK_SECONDS, SETTLING_SECONDS, of_all=True)
    print(soak_report.table(judged))
    constant = sum(len({sample.value for sample in samples}) == 1 for samples in series.values())
    print(f"\n{raw['summary']}; {len(series)} quantities, {constant} of which never change")
    growing = [name for name, slope in judged.items() if not slope.is_flat]
    for name in growing:
        print(f"grows: {name}")
    return 1 if growing else 0


if __name__ == "__main__":
    sys.exit(main())
