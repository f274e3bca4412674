"""Runs the tests that start processes again and again, several at a time, and names those that failed.

    python -m tools.flaky --rounds 20 tests/contract

Ends with 0 if none failed in any round. The tests are each other's load: with two workers for each processor all of
them wait for their turn all the time, and a round takes less time than one by one.
"""

import argparse
import collections
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

_NO_TESTS = 5


def failures(report: Path) -> Iterator[str]:
    """The tests that a JUnit report says have failed."""
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            yield f"{case.get('classname')}::{case.get('name')}"


def main() -> int:
    """Run all rounds. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2 * (os.cpu_count() or 1), help="tests at a time")
    parser.add_argument("tests", nargs="*", help="folders or files, as for pytest (all)")
    options = parser.parse_args()
    failed: collections.Counter[str] = collections.Counter()
    beside = [f"--numprocesses={options.workers}", "--dist=loadfile"]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, options.rounds + 1):
            report = Path(folder, f"{number}.xml")
            chosen = ["-m", "processes", f"--junitxml={report}", *beside, *options.tests]
            command = [sys.executable, "-m", "pytest", "-q", *chosen]
            code = subprocess.run(command, check=False).returncode
            if code == _NO_TESTS:
                print("no test there starts processes")
                return 2
            failed.update(failures(report))
            print(f"round {number} of {options.rounds}: exit code {code}", flush=True)
    for name, times in failed.most_common():
        print(f"{times:>3} of {options.rounds}  {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
