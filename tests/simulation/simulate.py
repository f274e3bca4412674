"""Run the whole system in one process on one virtual clock: `python -m tests.simulation.simulate --seed 7 --hours 24`.

Prints a line after each storm of faults and, last, the SHA-256 of the trace: the same for the same seed. The exit code
is 1 where an invariant was violated. Then the violations, a short list of faults and changes that is enough for them,
and a timeline are printed before. It is 1, too, if a run differs from the trace that it repeats (`--replay`).
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import pathlib
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.simulation import failure_shrinking
from tests.simulation.defects.catalogue import DEFECTS
from tests.simulation.simulation_plan import Options, PlannedEvent
from tests.simulation.simulation_runs import Output, RunCrashed, Runs

if TYPE_CHECKING:
    from tests.simulation.simulation import Outcome


def main() -> int:
    """Do what the arguments say; returns the exit code."""
    arguments = _parser().parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT, too: a background job of a shell begins without it
        signal.signal(number, signal.default_int_handler)
    runs = Runs(DEFECTS[arguments.defect].put_into_product) if arguments.defect else Runs()
    try:
        if arguments.replay:
            return _replay(runs, arguments.replay)
        if arguments.endless:
            return _run_many(runs, arguments)
        return _run_one(runs, arguments)
    except RunCrashed as crashed:
        print(crashed)
        return 1
    except KeyboardInterrupt:
        return 130  # as a shell says it of a program that SIGINT has ended


def _run_one(runs: Runs, arguments: argparse.Namespace) -> int:
    output = Output(arguments.trace, arguments.packets, arguments.log, progress=True, profile=arguments.profile)
    outcome = runs.run(_options(arguments), output)
    print(outcome.summary)
    _print_delays(outcome)
    if outcome.violations:
        _show_failure(runs, outcome, arguments)
    print(f"sha256 {outcome.sha256}")
    return 1 if outcome.violations else 0


def _run_many(runs: Runs, arguments: argparse.Namespace) -> int:
    """One seed after another until a signal or a violation."""
    first, seeds, seconds, faults, cpu_seconds = _options(arguments), 0, 0.0, 0, 0.0
    code = 0
    try:
        for seed in itertools.count(first.seed):
            outcome = runs.run(dataclasses.replace(first, seed=seed))
            seeds, seconds, faults = seeds + 1, seconds + outcome.seconds, faults + outcome.faults
            cpu_seconds += outcome.cpu_seconds
            print(f"seed {seed}: {outcome.summary}, sha256 {outcome.sha256[:16]}", flush=True)
            _print_delays(outcome)
            if outcome.violations:
                code = 1
                _show_failure(runs, outcome, arguments)
                break
            if cpu_seconds >= arguments.cpu_seconds:
                break
    except KeyboardInterrupt:
        print()
    speed = seconds / max(cpu_seconds, 0.001)
    print(
        f"{seeds} seeds, {seconds / 3600:.2f} h of virtual time, {faults} faults, {code} with violations; "
        f"{speed:.0f} virtual seconds per CPU second"
    )
    return code


def _replay(runs: Runs, path: str) -> int:
    """Repeat the run of a trace, and compare."""
    options, environment = runs.options_of(path)
    outcome = runs.run(options, repeats=path)
    if not outcome.difference:
        print(f"{outcome.equal_lines} lines are the same")
        return 0
    print(f"line {outcome.equal_lines + 2} differs (-: {path}, +: this run):")
    print(outcome.difference)
    if environment != runs.environment():
        print(f"- was written by {environment}\n+ is of          {runs.environment()}")
    return 1


def _show_failure(runs: Runs, outcome: Outcome, arguments: argparse.Namespace) -> None:
    """Print what went wrong and how to repeat it."""
    seed, shrink_seconds = outcome.options.seed, arguments.shrink_seconds
    print(f"seed {seed}, after {outcome.seconds:.1f} s:")
    _print_violations(outcome)
    if shrink_seconds > 0:
        print(f"leaving out faults and changes for {shrink_seconds:g} s", flush=True)
        outcome = failure_shrinking.shrink_failure(runs, outcome, shrink_seconds, print)
        _print_violations(outcome)
        print("faults and changes that are enough:")
        for line in _lines(outcome.events):
            print(f"  {line}")
    print("timeline (seconds, process, what happened):")
    for entry in outcome.timeline:
        print(f"  {entry}")
    again = f"make simulate SEED={seed} HOURS={outcome.options.hours:g}"
    if outcome.options.faults:
        again += f" FAULTS={','.join(outcome.options.faults)}"
    if outcome.options.features is not None:
        again += f" FEATURES={','.join(outcome.options.features) or 'none'}"
    if outcome.options.load != Options.load:
        again += f" LOAD={outcome.options.load}"
    defect = f" DEFECT={arguments.defect}" if arguments.defect else ""
    again += defect
    if outcome.options.events is not None:
        plan = _write_plan(outcome.options, outcome.events)
        again = f"make simulate PLAN={plan}{defect}, all of it: {again}"
    print(f"seed {seed}: {len(outcome.violations)} violations; again: {again}")


def _print_violations(outcome: Outcome) -> None:
    for violation in outcome.violations:
        print(f"  FAILED {violation}")


def _print_delays(outcome: Outcome) -> None:
    for delay in outcome.delays:
        print(f"  longer than planned: {delay}")


def _lines(events: tuple[PlannedEvent, ...]) -> Iterator[str]:
    """One for each fault, and one for changes of a kind that follow each other."""
    for (storm, what, name), grouped in itertools.groupby(events, lambda event: (event.storm, event.what, event.name)):
        same = list(grouped)
        if what == "fault" or len(same) == 1:
            yield from map(str, same)
        else:
            yield f"storm {storm}, {same[0].at:.3f} to {same[-1].at:.3f} s: {what} {name}, {len(same)} times"


def _write_plan(options: Options, events: tuple[PlannedEvent, ...]) -> str:
    path = pathlib.Path("build") / f"simulation-{options.seed}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(dataclasses.replace(options, events=events).to_json() + "\n", encoding="utf-8")
    return str(path)


def _options(arguments: argparse.Namespace) -> Options:
    if arguments.plan:
        return Options.from_json(pathlib.Path(arguments.plan).read_text(encoding="utf-8"))
    return Options(
        arguments.seed,
        arguments.hours,
        arguments.nodes,
        features=arguments.features,
        faults=arguments.faults,
        no_faults=arguments.no_faults,
        load=arguments.load,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name not in ("", "none"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hours", type=float, default=1.0, help="of virtual time, for each seed")
    parser.add_argument("--nodes", type=int, default=100, help="of the cluster, at any time")
    parser.add_argument("--endless", action="store_true", help="one seed after another until SIGINT or a violation")
    parser.add_argument("--cpu-seconds", type=float, default=float("inf"), help="end then, by processor time")
    parser.add_argument("--faults", type=_names, default=(), metavar="KIND,…", help="these kinds of faults only")
    parser.add_argument(
        "--features",
        type=_names,
        metavar="NAME,…",
        help="of simulated_features.py, empty for none; default: by the seed",
    )
    parser.add_argument("--no-faults", action="store_true")
    parser.add_argument("--load", choices=("busy", "light"), default=Options.load, help="how many pods come and go")
    parser.add_argument(
        "--defect", choices=sorted(DEFECTS), metavar="NAME", help="put one of `defects/` into the product"
    )
    parser.add_argument("--plan", default="", metavar="FILE", help="the faults and changes of a failed run")
    parser.add_argument("--trace", default="", metavar="FILE", help="write every line of the trace there")
    parser.add_argument("--replay", default="", metavar="FILE", help="repeat the run of a trace, and compare")
    parser.add_argument("--shrink-seconds", type=float, default=300.0, help="for a short list after a failure")
    parser.add_argument("--log", default="", metavar="LEVEL", help="print the processes' log to stderr")
    parser.add_argument("--profile", action="store_true", help="print where the processor time went")
    parser.add_argument("--packets", default="", metavar="FILE", help="write what is sent over the network there")
    return parser


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the loop has timers of its own
