"""Fuzzes the targets, guided by coverage (atheris, which is libFuzzer for Python).

    python -m tools.fuzz.fuzz_run [--targets cel,delta] [--seconds 60] [--runs 1000000]

Begins with the interesting inputs of `tools/fuzz/corpus`, adds new ones to `build/fuzz`, and with `--save` to the
repository. An input that crashes a target, takes over five seconds or over 2 GiB ends the run: its bytes are in
`build/fuzz/TARGET-crash-…`, and `--input FILE` runs them again. How many inputs each target has had in all is in
`build/fuzz/inputs.json`.
"""

import argparse
import base64
import json
import re
import subprocess
import sys
from pathlib import Path

from tools.fuzz import fuzz_targets

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
CORPUS = Path(__file__).with_name("corpus")
CHILD = (sys.executable, "-m", "tools.fuzz.fuzz_run", "--child")
SLOWEST_SECONDS = 5
MOST_MEBIBYTES = 2048
LONGEST_BYTES = 4096
#: Of a target, in the repository: the shortest ones that reach what the others do not.
SAVED_BYTES = 60_000

_RUN = re.compile(r"^#(\d+)\s+DONE|stat::number_of_executed_units:\s+(\d+)", re.MULTILINE)


def corpus(name: str) -> list[bytes]:
    """The saved inputs of a target, one in a line, and those it begins with."""
    file = CORPUS / f"{name}.b64"
    saved = [base64.b64decode(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [*fuzz_targets.seeds(name), *saved]


def fuzz(name: str, runs: int, seconds: int) -> tuple[int, int]:
    """Fuzz one target. Returns the exit code, and how many inputs it had."""
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(corpus(name)):
        (folder / f"saved-{number}").write_bytes(content)
    limits = [f"-timeout={SLOWEST_SECONDS}", f"-rss_limit_mb={MOST_MEBIBYTES}", f"-max_len={LONGEST_BYTES}"]
    limits += [f"-runs={runs}"] if runs else []
    limits += [f"-max_total_time={seconds}"] if seconds else []
    flags = ["-print_final_stats=1", f"-artifact_prefix={BUILD}/{name}-", *limits, str(folder)]
    done = subprocess.run(
        [*CHILD, name, *flags],
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=ROOT,
        check=False,
    )
    counts = [int(first or second) for first, second in _RUN.findall(done.stderr)]
    if done.returncode:
        sys.stderr.write(done.stderr[-6000:])
    return done.returncode, max(counts, default=0)


def save(name: str) -> None:
    """Put the interesting inputs into the repository: the shortest set that covers as much."""
    smallest = BUILD / f"{name}.smallest"
    smallest.mkdir(exist_ok=True)
    for file in smallest.iterdir():
        file.unlink()
    command = [*CHILD, name, "-merge=1", str(smallest), str(BUILD / name)]
    subprocess.run(command, capture_output=True, cwd=ROOT, check=True)
    lines, size = [], 0
    for content in sorted((file.read_bytes() for file in smallest.iterdir()), key=lambda found: (len(found), found)):
        size += len(content)
        if size <= SAVED_BYTES:
            lines.append(base64.b64encode(content).decode())
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{name}.b64").write_text("".join(f"{line}\n" for line in lines))


def child(name: str, flags: list[str]) -> None:
    """The process that fuzzes one target: everything that it imports from here on is instrumented."""
    import atheris

    with atheris.instrument_imports(include=["trireme", "trireme_kube"]):
        run = fuzz_targets.TARGETS[name]()
    # libFuzzer starts itself again by its first argument, to merge.
    atheris.Setup([f"{' '.join(CHILD)} {name}", *flags], run)
    atheris.Fuzz()


def main() -> int:
    """Fuzz the chosen targets one after the other. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(fuzz_targets.TARGETS), help="some of: %(default)s")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (0: no limit)")
    parser.add_argument("--runs", type=int, default=0, help="inputs for each target (0: no limit)")
    parser.add_argument("--save", action="store_true", help="put interesting inputs into tools/fuzz/corpus")
    parser.add_argument("--input", type=Path, help="run this file's bytes through the target, without fuzzing")
    options = parser.parse_args()
    names = options.targets.split(",")
    unknown = [name for name in names if name not in fuzz_targets.TARGETS]
    if unknown:
        parser.error(f"--targets: {', '.join(unknown)}: no such target")
    if options.input is not None:
        for name in names:
            fuzz_targets.TARGETS[name]()(options.input.read_bytes())
        return 0
    totals_file, failed = BUILD / "inputs.json", []
    for name in names:
        code, count = fuzz(name, options.runs, options.seconds)
        totals = json.loads(totals_file.read_text()) if totals_file.exists() else {}
        totals[name] = totals.get(name, 0) + count
        totals_file.write_text(json.dumps(totals, indent=2))
        print(f"{name}: {count:,} inputs, {totals[name]:,} in all{', FAILED' if code else ''}", flush=True)
        failed += [name] if code else []
        if options.save and not code:
            save(name)
    print(f"{sum(totals.values()):,} inputs in all")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
    sys.exit(main())
