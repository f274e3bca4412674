"""Break real processes again and again under load: `make chaos SIDE=trireme N=1000`.

Runs etcd and kube-apiserver, one side's processes and a steady load, in namespaces of its own, and injects faults drawn
from a seed. Prints each fault and, last, a table; writes build/chaos-SIDE.json. The exit code is 1 where a pod was lost
or bound twice, or a node overcommitted, or a gap after a fault that came alone was longer than the target.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import signal
import sys
import tempfile
from typing import Any

from tools.bench import run as bench
from tools.chaos import chaos_clock, chaos_isolation, chaos_report, chaos_run, chaos_sides
from tools.controlplane import launcher
from trireme_kube.componentbase import clocks

BUILD = launcher.REPOSITORY / "build"
DOCUMENT = launcher.REPOSITORY / "docs" / "reference" / "chaos.md"


def main() -> int:
    """Run what the command line says; returns the exit code."""
    chosen = _parser().parse_args()
    if chosen.render:
        _render()
        return 0
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT, too: a background job of a shell begins without it
        signal.signal(number, signal.default_int_handler)
    why = "" if launcher.available() else f"{launcher.BINARY} is not built; run `make controlplane` (needs Go)"
    why = why or chaos_isolation.missing()
    if why:
        print(f"chaos: {why}", file=sys.stderr)
        return 1
    if chosen.side == chaos_sides.KUBE_SCHEDULER and not chosen.no_clocks:
        chaos_clock.build_scheduler()
    chaos_isolation.enter(["-m", "tools.chaos.chaos", *sys.argv[1:]])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-chaos-"))
    try:
        return _run(chosen, folder)
    except KeyboardInterrupt:
        return 130
    finally:
        if not chosen.keep:
            shutil.rmtree(folder, ignore_errors=True)


def _render() -> None:
    """Write the results that there are into the document."""
    sides = (chaos_sides.TRIREME, chaos_sides.KUBE_SCHEDULER)
    paths = {side: BUILD / f"chaos-{side}.json" for side in sides}
    results = {side: json.loads(path.read_text()) for side, path in paths.items() if path.exists()}
    DOCUMENT.write_text(chaos_report.document(DOCUMENT.read_text(), results))


def _run(chosen: argparse.Namespace, folder: pathlib.Path) -> int:
    options = chaos_run.Options(
        side=chosen.side,
        count=chosen.faults,
        seed=chosen.seed,
        lease_seconds=chosen.lease,
        pods_per_second=chosen.rate,
        interval_seconds=chosen.interval,
        limit_seconds=chosen.seconds,
        clocks=not chosen.no_clocks,
    )
    about: dict[str, Any] = {
        "date": clocks.utc_now().date().isoformat(),
        "machine": bench.machine(),
        "versions": bench.versions(),
        "commit": bench.commit(),
    }
    outcome = chaos_run.run(options, folder, lambda line: print(line, flush=True))
    document = chaos_report.result(options, outcome, about)
    path = chosen.result or BUILD / f"chaos-{chosen.side}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    for violation in document["violation_list"]:
        print(f"{violation['at']:7.1f}  {violation['what']}: {violation['text']}")
    print(f"\n{chaos_report.table({chosen.side: document})}\n\n{path}")
    # Faults that overlap are felt for longer than one is.
    late = not options.interval_seconds and (document["gaps_over_target"] or document["not_recovered"])
    return 1 if outcome.checks.violations or late else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--side", choices=(chaos_sides.TRIREME, chaos_sides.KUBE_SCHEDULER), default=chaos_sides.TRIREME
    )
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lease", type=int, default=4, help="leaseDuration in seconds (default %(default)s)")
    parser.add_argument("--rate", type=float, default=20.0, help="pods a second (default %(default)s)")
    parser.add_argument("--interval", type=float, default=0.0, help="seconds between faults (default: until recovered)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="inject no faults after so many seconds")
    parser.add_argument("--result", type=pathlib.Path, help="file for the result (default build/chaos-SIDE.json)")
    parser.add_argument("--no-clocks", action="store_true", help="move no clocks, for a kube-scheduler as it is")
    parser.add_argument("--render", action="store_true", help="run nothing; write the results into the document")
    parser.add_argument("--keep", action="store_true", help="keep configurations and logs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
