"""Shows that simulations find defects: `python -m tests.simulation.regression_run [NAME ...]`.

Each patch of `regressions/` puts a defect into the product. Its first lines say which, and the options of
`simulate.py` that show it soonest; and, of a defect that only a comparison with kube-scheduler shows, that it needs the
oracle. A copy of the product is patched and simulated from one seed after another until an invariant is violated.
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
ORACLE = ROOT / "build" / "oracle"
# Of virtual time for each seed, and the size of the cluster: the smaller, the fuller and the faster.
HOURS, NODES = 0.08, 12


def main() -> int:
    """Run the regressions; returns how many were not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of patches; none: all")
    parser.add_argument("--minutes", type=float, default=10.0, help="of processor time, for each")
    parser.add_argument("--seed", type=int, help="to begin with; none: what the patch says")
    parser.add_argument("--load", default="", help="as of simulate.py")
    options = parser.parse_args()
    names = options.names or [path.stem for path in sorted(PATCHES.glob("*.patch"))]
    more = [f"--seed={options.seed}"] if options.seed is not None else []
    more += [f"--load={options.load}"] if options.load else []
    return sum(not _find(name, options.minutes * 60, more) for name in names)


def _find(name: str, seconds: float, more: list[str]) -> bool:
    """Simulate one seed after another with the defect until it is found; prints a line, returns whether it was.

    Without the oracle, what needs it is skipped, and counts as found.
    """
    if needs_oracle(name) and not ORACLE.exists():
        print(f"{name}: skipped, build/oracle is missing: `python -m tests.conformance.real_framework`", flush=True)
        return True
    started = _processor_seconds()
    with tempfile.TemporaryDirectory(prefix="trireme-regression-") as folder:
        seed, violation = _simulate(name, patched_copy(name, pathlib.Path(folder)), seconds, more)
    print(
        f"{name}: seed {seed}, {_processor_seconds() - started:.0f} s: {violation or 'nothing is violated'}", flush=True
    )
    return bool(violation)


def _processor_seconds() -> float:
    """The processor time of the simulations so far: on a busy machine the other clock says little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def options_of(name: str) -> list[str]:
    """The options of `simulate.py` that show the defect soonest: which faults, perhaps which seed first, and more."""
    lines = (PATCHES / f"{name}.patch").read_text(encoding="utf-8").splitlines()
    return next(line.split()[1:] for line in lines if line.startswith("options: "))


def needs_oracle(name: str) -> bool:
    """Whether only a comparison with kube-scheduler's own framework shows the defect."""
    return "\nneeds: build/oracle\n" in (PATCHES / f"{name}.patch").read_text(encoding="utf-8")


def patched_copy(name: str, folder: pathlib.Path) -> pathlib.Path:
    """A copy of the product with the defect; returns its source root."""
    shutil.copytree(ROOT / "internal", folder / "internal", ignore=shutil.ignore_patterns("__pycache__"))
    apply_patch(name, folder)
    return folder / "internal"


def apply_patch(name: str, folder: pathlib.Path) -> None:
    """Put the defect into the product that is in a folder. Raises: CalledProcessError, if the product has changed."""
    command = ["git", "apply", "--whitespace=nowarn", PATCHES / f"{name}.patch"]
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)})


def _simulate(name: str, product: pathlib.Path, seconds: float, more: list[str]) -> tuple[str, str]:
    """The last seed that was simulated with that product, and what it violates first, empty if nothing."""
    options = [
        f"--hours={HOURS}",
        f"--nodes={NODES}",
        *options_of(name),
        *more,
        f"--cpu-seconds={seconds}",
        "--shrink-seconds=0",
    ]
    command = [sys.executable, "-m", "tests.simulation.simulate", "--endless", *options]
    environment = {**os.environ, "PYTHONPATH": str(product)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
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
