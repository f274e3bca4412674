"""Runs the end-to-end tests on real control planes of several versions of Kubernetes: `make test-versions`.

    python -m tools.controlplane.versions_run [VERSION …] [--files test_e2e_scheduling.py …]

Each version is built where it is not yet, and each file of tests runs on it by itself. What came of a file replaces
what came of it before in versions.json, from which `make docs` writes the table of docs/kubernetes-versions.md; so a
run of some files leaves the others as they were.

Tests: tests/unit/project/test_versions_document.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tools.controlplane import build_controlplane
from trireme_kube.client.informers import resources
from trireme_kube.client.leaderelection import lease_candidate

Json = dict[str, Any]

VERSIONS = ("v1.35.4", "v1.36.3", "v1.37.2")
RESULTS = Path(__file__).with_name("versions.json")
TESTS = build_controlplane.REPOSITORY / "tests" / "e2e"
# A file whose tests hang fails, and the run goes on.
FILE_SECONDS = 1800


def dispensable() -> list[resources.Resource]:
    """The collections that Trireme reads where their gates are on, and can do without."""
    read = [each for each in vars(resources).values() if isinstance(each, resources.Resource) and each.optional]
    return [*read, lease_candidate.CANDIDATES]


def absent_apis(version: str) -> list[str]:
    """What Trireme reads and the API server of a built version does not serve, in no version of the API."""
    if build_controlplane.binary_of(version) == build_controlplane.BINARY:
        served = build_controlplane.served_resources(build_controlplane.download(version).folder / "api/discovery")
    else:
        served = build_controlplane.served_resources(build_controlplane.folder_of(version))
    return [each.api for each in dispensable() if not any(one.api in served for one in each.versions())]


def test_files() -> list[str]:
    """The files with tests that run on a real control plane, relative to `tests/e2e`."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "controlplane", str(TESTS)]
    done = subprocess.run(command, cwd=build_controlplane.REPOSITORY, capture_output=True, text=True, check=True)
    names = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    return sorted(str((build_controlplane.REPOSITORY / name).relative_to(TESTS)) for name in names)


def run_file(version: str, name: str) -> Json:
    """Run the tests of a file that need a control plane, on this version; what came of them."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        pytest = [sys.executable, "-m", "pytest", "-q", "-m", "controlplane"]
        # The newer form of the report has no room for what tests record beside their outcome.
        command = [*pytest, "-o", "junit_family=xunit1", f"--junitxml={report}", str(TESTS / name)]
        environment = {**os.environ, "TRIREME_KUBERNETES": version}
        try:
            subprocess.run(
                command, cwd=build_controlplane.REPOSITORY, env=environment, timeout=FILE_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return {"passed": 0, "failed": [f"not ended within {FILE_SECONDS} s"], "skipped": {}}
        return outcomes(report.read_text())


def outcomes(report: str) -> Json:
    """What came of the tests of a report in JUnit's form: how many passed, which failed, and why some were skipped."""
    passed, failed, skipped = 0, [], Counter[str]()
    for case in ElementTree.fromstring(report).iter("testcase"):
        if (reason := case.find("skipped")) is not None:
            skipped[reason.get("message", "")] += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            failed.append(case.get("name", ""))
        else:
            passed += 1
    return {"passed": passed, "failed": sorted(set(failed)), "skipped": dict(sorted(skipped.items()))}


def run(versions: Iterable[str], files: Sequence[str]) -> bool:
    """Build each version, run the files on it, and note what came of them. Returns whether all of them passed."""
    known = test_files()
    good = True
    for version in versions:
        build_controlplane.build_version(version)
        for name in files or known:
            print(f"{version}: {name}", flush=True)
            found = run_file(version, name)
            good &= not found["failed"]
            results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            entry = results.setdefault(version, {"files": {}})
            entry["absent"] = absent_apis(version)
            entry["files"][name] = found
            entry["not run"] = [each for each in known if each not in entry["files"]]
            RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return good


def main(arguments: Sequence[str]) -> int:
    """Run; returns 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="such as v1.36.3")
    parser.add_argument("--files", nargs="+", default=(), help="of tests/e2e (default: all)")
    chosen = parser.parse_args(arguments)
    return 0 if run(chosen.versions, chosen.files) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
