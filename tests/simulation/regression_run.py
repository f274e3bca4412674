"""Shows that simulations find defects: `python regression_run.py [NAME ...]`.

Each patch of `regressions/` puts a defect into the product. Its first lines say which, and which faults show it. A copy
of the product is patched and simulated from one seed after another until an invariant is violated.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
PATCHES = HERE / "regressions"
# Of virtual time for each seed, and the size of the cluster: the smaller, the fuller and the faster.
HOURS, NODES = 0.08, 12


def main() -> int:
    """Run the regressions; returns how many were not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of patches; none: all")
    parser.add_argument("--minutes", type=float, default=10.0, help="of processor time, for each")
    options = parser.parse_args()
    names = options.names or [path.stem for path in sorted(PATCHES.glob("*.patch"))]
    return sum(not _find(name, options.minutes * 60) for name in names)


def _find(name: str, seconds: float) -> bool:
    """Simulate with one defect until it is found; prints a line, and returns whether it was."""
    started = _processor_seconds()
    with tempfile.TemporaryDirectory(prefix="trireme-regression-") as folder:
        copy = patched_copy(name, pathlib.Path(folder))
        seed = 0
        while _processor_seconds() - started < seconds:
            seed += 1
            violation = _simulate(copy, seed, faults_of(name))
            if violation:
                print(f"{name}: seed {seed}, {_processor_seconds() - started:.0f} s: {violation}", flush=True)
                return True
    print(f"{name}: not found in {seed} seeds, {_processor_seconds() - started:.0f} s", flush=True)
    return False


def _processor_seconds() -> float:
    """The processor time of the simulations so far: on a busy machine the other clock says little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def faults_of(name: str) -> str:
    """The faults that show the defect soonest."""
    text = (PATCHES / f"{name}.patch").read_text(encoding="utf-8")
    return next(line for line in text.splitlines() if line.startswith("faults: ")).removeprefix("faults: ")


def patched_copy(name: str, folder: pathlib.Path) -> pathlib.Path:
    """A copy of the product with the defect; returns its source root."""
    shutil.copytree(ROOT / "internal", folder / "internal", ignore=shutil.ignore_patterns("__pycache__"))
    command = ["git", "apply", "--whitespace=nowarn", PATCHES / f"{name}.patch"]
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)})
    return folder / "internal"


def _simulate(product: pathlib.Path, seed: int, faults: str) -> str:
    """What a simulation of that product violates first; empty if nothing."""
    arguments = [f"--seed={seed}", f"--hours={HOURS}", f"--faults={faults}", f"--nodes={NODES}", "--shrink-seconds=0"]
    command = [sys.executable, HERE / "simulate.py", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(product)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    failed = [line.partition(" FAILED ")[2] for line in done.stdout.splitlines() if " FAILED " in line]
    return failed[0] if failed else (done.stderr.splitlines() or ["no output"])[-1]


if __name__ == "__main__":
    sys.exit(main())
