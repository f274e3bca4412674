"""The benchmark: runs workloads with each side in turn on fresh real control planes, and reports.

    python -m tools.bench.run --nodes 5000 --workloads basic,nodeaffinity

Sides alternate within each round, so that a machine that gets slower for a while does so for all of them. The result
goes to build/bench.json after every run (an interrupted benchmark keeps what it has), and a table of medians, ranges
and ratios to the terminal.

Also change: docs/performance.md.
"""

from __future__ import annotations

import argparse
import compileall
import dataclasses
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.bench.driver import plots, processes, report, rounds, sides, workload
from tools.controlplane import launcher
from trireme.framework import release
from trireme_kube.componentbase import clocks

BENCH = Path(__file__).resolve().parent


RESULT = launcher.REPOSITORY / "build" / "bench.json"
DOCUMENT = launcher.REPOSITORY / "docs" / "performance.md"
PLOTS = DOCUMENT.with_suffix(".svg")
WORKLOADS = BENCH / "workloads" / "performance-config.yaml"
LIMIT = launcher.REPOSITORY / "build" / "limit"
DEFAULT_SIDES = "kube-scheduler,trireme,limit"


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Benchmark schedulers on a real control plane.")
    parser.add_argument("--nodes", type=numbers, default=[], help="only workloads with so many nodes: 500,5000")
    parser.add_argument("--workloads", type=words, default=[], help="only these tests: basic,nodeaffinity")
    parser.add_argument(
        "--sides", type=words, default=[], help=f"default: {DEFAULT_SIDES}, or those that a workload names"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--set",
        type=assignments,
        default={},
        metavar="NAME=NUMBER,...",
        dest="parameters",
        help="parameters of the workloads to be others: measurePods=100000,podsPerSecond=150",
    )
    parser.add_argument("--file", type=Path, default=WORKLOADS, help="a workload file, ours or scheduler_perf's")
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--merge", action="store_true", help="keep the result file's runs of other workloads and sides")
    parser.add_argument(
        "--wait-idle",
        type=float,
        default=0,
        metavar="S",
        help="before each run wait until others leave the machine alone",
    )
    parser.add_argument("--list", action="store_true", help="list the workloads and end")
    parser.add_argument(
        "--render",
        action="store_true",
        help="write the result's table into docs/performance.md, its plots beside that, and end",
    )
    return parser.parse_args(arguments)


def words(text: str) -> list[str]:
    """Words separated by commas or spaces."""
    return text.replace(",", " ").split()


def numbers(text: str) -> list[int]:
    """Numbers separated by commas or spaces."""
    return [int(word) for word in words(text)]


def assignments(text: str) -> dict[str, int]:
    """Parameters and their values."""
    return {name: int(value) for name, _, value in (word.partition("=") for word in words(text))}


def build_limit() -> None:
    """Compiles the limit unless it is there already. Raises OSError or CalledProcessError where that is impossible."""
    source, stamp = BENCH / "limit", LIMIT.with_suffix(".inputs")
    inputs = hashlib.sha256(b"".join((source / name).read_bytes() for name in ("main.go", "go.mod"))).hexdigest()
    if LIMIT.exists() and stamp.exists() and stamp.read_text() == inputs:
        return
    LIMIT.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["go", "build", "-buildvcs=false", "-o", str(LIMIT), "."], cwd=source, check=True)
    stamp.write_text(inputs)


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 1e9),
        "kernel": platform.release(),
    }


def versions() -> dict[str, str]:
    """The versions of what takes part."""
    command = [str(launcher.BINARY), "kube-scheduler", "--version"]
    kubernetes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]
    return {"kubernetes": kubernetes, "trireme": release.TRIREME, "python": platform.python_version()}


def commit() -> str:
    """The commit that was measured; `+` where the work tree differs from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(launcher.REPOSITORY), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain") else "")


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What to run, in which order."""

    workloads: Sequence[tuple[workload.Workload, Sequence[sides.Side]]]
    rounds: int

    def runs(self) -> list[tuple[int, workload.Workload, sides.Side]]:
        """Every run: workload by workload, round by round, the sides in turn and each round with another first."""
        result = []
        for each, competitors in self.workloads:
            taking_part = [side for side in competitors if each.limited or not side.undecided]
            for number in range(self.rounds):
                shift = number % len(taking_part) if taking_part else 0
                result += [(number, each, side) for side in taking_part[shift:] + taking_part[:shift]]
        return result


def perform(plan: Plan, result: Path, kept: Sequence[dict[str, Any]], wait_idle: float) -> list[report.Run]:
    """Carries out a plan; a run that fails is reported as such, and the others go on."""
    about = {
        "date": clocks.utc_now().date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "commit": commit(),
        "rounds": plan.rounds,
    }
    done: list[report.Run] = []
    todo = plan.runs()
    for position, (number, each, side) in enumerate(todo):
        print(f"[{position + 1}/{len(todo)}] {each.name}, {each.nodes} nodes, {side.name}: ", end="", flush=True)
        processes.wait_until_idle(wait_idle)
        run = run_one(number, each, side)
        done.append(run)
        print(summary(run), flush=True)
        fresh = report.rows(done)
        replaced = {identity(row) for row in fresh}
        old = [row for row in kept if identity(row) not in replaced]
        result.parent.mkdir(parents=True, exist_ok=True)
        runs = [dataclasses.asdict(each) for each in done]
        result.write_text(json.dumps({**about, "rows": report.grouped([*old, *fresh]), "runs": runs}, indent=1) + "\n")
    return done


def identity(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """What a row is the only one for."""
    return row["side"], row["workload"], row["variant"]


def run_one(number: int, each: workload.Workload, side: sides.Side) -> report.Run:
    """One run, a failure caught and kept as its reason."""
    about = (side.name, each.test, each.variant, each.nodes, number)
    started = time.monotonic()
    try:
        measured = rounds.run(side, each)
    except (Exception, ExceptionGroup) as error:
        causes = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
        reason = "; ".join(f"{type(cause).__name__}: {cause}" for cause in causes)
        return report.Run(*about, None, reason, time.monotonic() - started)
    return report.Run(*about, measured, None, time.monotonic() - started)


def summary(run: report.Run) -> str:
    """A run in one line."""
    if run.figures is None:
        return f"FAILED after {run.took_s:.0f} s: {run.error}"
    found = run.figures
    return (
        f"{found.pods} pods, {found.complete_pods_per_s or 0:.0f} complete pods/s ({found.pods_per_s:.0f} bound; "
        f"events: {found.events_behind} behind, p99 {found.event_lag_p99_ms or 0:.0f} ms, max "
        f"{found.event_lag_max_ms or 0:.0f} ms, {found.events_missing} missing), "
        f"{found.cpu_ms_per_pod:.2f} ms of CPU a pod, "
        f"{found.pss_mb:.0f} MB (machine {found.elsewhere_percent:.0f} % busy elsewhere; took {run.took_s:.0f} s)"
    )


def render(result: Path, document: Path, plot: Path) -> None:
    """Writes the tables of a result into a document, and the plots where it has several sizes."""
    found = json.loads(result.read_text())
    document.write_text(report.document(document.read_text(), found))
    if plots.write(found["rows"], plot):
        print(f"{plot}: written")


def main(arguments: Sequence[str]) -> int:
    """Runs what the command line asks for; 1 where a run failed or could not be asked for."""
    chosen = parse_arguments(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as on Ctrl-C: clusters stopped, files removed
    try:
        known = workload.load(chosen.file, chosen.workloads, chosen.parameters)
        everybody = sides.read((BENCH / "sides.yaml").read_text())
        if chosen.list:
            for each in known:
                print(f"{each.test:<24} {each.variant:<32} {each.nodes:>6} nodes  {' '.join(sorted(each.labels))}")
            return 0
        if chosen.render:
            render(chosen.result, DOCUMENT, PLOTS)
            return 0
        selected = [
            (each, sides.select(everybody, chosen.sides or each.sides or words(DEFAULT_SIDES)))
            for each in workload.select(known, chosen.workloads, chosen.nodes)
        ]
    except (workload.WorkloadError, sides.SideError, OSError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    # As an installation does it, so that no start compiles.
    compileall.compile_dir(launcher.REPOSITORY / "internal", quiet=1)
    if not launcher.available():
        print(f"bench: {launcher.BINARY} is not built; run `make controlplane` (needs Go)", file=sys.stderr)
        return 1
    if any(side.undecided for _, competitors in selected for side in competitors):
        try:
            build_limit()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"bench: the limit cannot be built: {error}", file=sys.stderr)
            return 1
    kept = json.loads(chosen.result.read_text())["rows"] if chosen.merge and chosen.result.exists() else []
    done = perform(Plan(selected, chosen.rounds), chosen.result, kept, chosen.wait_idle)
    written = json.loads(chosen.result.read_text())["rows"]
    print(f"\n{report.table(written)}\n\n{report.processes_table(written)}\n\n{chosen.result}")
    return 1 if any(run.error for run in done) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
