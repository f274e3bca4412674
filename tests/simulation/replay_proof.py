"""Records a simulated run of mixed load, and decides all of its decisions again: `make replay-proof N=100000`.

A whole Trireme runs on simulated time against the embedded cluster, with pods of all priorities, pod groups, volumes,
devices, a remote plugin, an HTTP extender and nodes that come and go, and insight records it. Then `trireme record
check`, `trireme record export` and `trireme replay` are run on the recording, as anybody would. Prints what they count,
and what was not decided again. The exit code is 1 if a decision differs or the recording is damaged.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

_cpu_clock = time.process_time
_TRIREME = pathlib.Path(sys.executable).with_name("trireme")


def main() -> int:
    """Record and replay. Returns the exit code."""
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="trireme-replay-proof-") as name:
        folder = pathlib.Path(options.keep or name)
        recordings = folder / "recordings"
        recordings.mkdir(parents=True, exist_ok=True)
        child = os.fork()
        if child == 0:
            _record(options, folder, recordings)
        if os.waitpid(child, 0)[1] != 0:
            print("the run failed")
            return 1
        return _replay(folder, recordings, redact=options.redact)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--decisions", type=int, default=100_000, help="how many to record at least")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--faults", action="store_true", help="with processes that are killed, and networks that break")
    parser.add_argument("--local", action="store_true", help="without pods that the remote plugin is called about")
    parser.add_argument("--redact", action="store_true", help="replay the recording without names, too")
    parser.add_argument("--keep", default="", metavar="DIR", help="a folder for the recording, which stays")
    return parser


def _record(options: argparse.Namespace, folder: pathlib.Path, recordings: pathlib.Path) -> None:
    """Run the simulation. The process ends here: its clocks are replaced, and its loop has timers of its own."""
    from tests.simulation import substituted_sources
    from tests.simulation.virtual_loop import VirtualLoop

    code, began = 1, _cpu_clock()
    try:
        loop = VirtualLoop()
        substituted_sources.install(loop, options.seed)
        from tests.simulation import recorded_simulation  # the product, which comes after what it is to see
        from tests.simulation.simulation_plan import Options

        substituted_sources.replace_what_leaves_the_process()
        sys.unraisablehook = lambda _: None  # what coroutines of killed processes make of their end
        logging.disable()
        plan = Options(options.seed, nodes=options.nodes, no_faults=not options.faults)
        run = recorded_simulation.RecordedSimulation(loop, folder, plan, recordings, local=options.local)
        asyncio.set_event_loop(loop)
        loop.run_until_complete(run.run(options.decisions, lambda line: print(line, flush=True)))
        answers = ", ".join(f"{verb} {number}" for verb, number in sorted(run.extender_answers.items()))
        print(f"recorded in {_cpu_clock() - began:.0f} s of processor time; answers of the extender: {answers}")
        print(run.self_checked())
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        os._exit(code)


def _replay(folder: pathlib.Path, recordings: pathlib.Path, *, redact: bool) -> int:
    """Check, export and replay the recording. Returns the exit code."""
    _, checked = _run("record", "check", "-o", "json", str(recordings))
    held = json.loads(checked)
    print(
        f"{held['files']} files, {held['sizeBytes']} bytes, {held['decisions']} decisions, {held['bindings']} reports "
        f"of bindings, {held['missingDecisions']} missing, {len(held['gaps'])} gaps"
    )
    code = int(bool(held["problems"]))
    for kind in ("plain", "redacted") if redact else ("plain",):
        target = folder / f"{kind}.trireme"
        exported, _ = _run(
            "record", "export", "--dir", str(recordings), *["--redact"][: kind == "redacted"], str(target)
        )
        began = _children_seconds()
        differs, answer = _run("replay", "--all", "-o", "json", str(target))
        seconds = _children_seconds() - began
        code |= exported | differs
        if not answer:
            continue
        report = json.loads(answer)
        made = report["same"] + report["different"]
        print(
            f"{kind}: {report['same']} decisions are the same, {report['different']} differ; "
            f"{made / seconds:.0f} decisions a second of processor time"
        )
        print("  by call:", ", ".join(f"{call} {number}" for call, number in sorted(report["calls"].items())))
        reasons = ("inexact", "remote", "incomplete", "missing", "gaps")
        print("  not decided again:", ", ".join(f"{reason} {report[reason]}" for reason in reasons))
        for difference in report["differences"][:5]:
            print(json.dumps(difference, indent=1))
    return code


def _children_seconds() -> float:
    """The processor time of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(*arguments: str) -> tuple[int, str]:
    """The exit code and the output of a command of Trireme."""
    done = subprocess.run([_TRIREME, *arguments], capture_output=True, text=True, check=False)
    if done.stderr:
        print(done.stderr, end="")
    return int(done.returncode != 0), done.stdout


if __name__ == "__main__":
    sys.exit(main())
