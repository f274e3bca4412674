"""Checks what is installed against known vulnerabilities, with pip-audit.

    python -m tests.security.dependency_audit [--osv-url https://osv.internal/v1/query]

Asks PyPI, or a server that speaks OSV's protocol. Exit code 1 if something installed has a known vulnerability; where
no package could be checked, as on a machine without network, it says SKIPPED, and the exit code is 0.
"""

import argparse
import json
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from typing import Any

_ITSELF = "trireme"


def audit(osv_url: str) -> Sequence[dict[str, Any]]:
    """pip-audit's entry for each installed package: its `name`, and `vulns`, or why it was skipped (`skip_reason`).

    Raises: ConnectionError: the service cannot be reached.
    """
    service = ["--vulnerability-service=osv", f"--osv-url={osv_url}"] if osv_url else []
    installed = f"--path={sysconfig.get_path('purelib')}"
    command = [sys.executable, "-m", "pip_audit", "--format=json", "--progress-spinner=off", installed, *service]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise ConnectionError(done.stderr.strip().rpartition("\n")[2])
    packages: Sequence[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    return [package for package in packages if package["name"] != _ITSELF]


def main() -> int:
    """Prints what was found. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--osv-url", default="", help="ask this server in place of PyPI")
    try:
        packages = audit(parser.parse_args().osv_url)
    except ConnectionError as error:
        print(f"SKIPPED: the service cannot be reached: {error}")
        return 0
    unknown = [package["name"] for package in packages if "vulns" not in package]
    found = [(package, vulnerability) for package in packages for vulnerability in package.get("vulns", ())]
    for package, vulnerability in found:
        fixed = ", ".join(vulnerability["fix_versions"]) or "none"
        print(f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixed}")
    if len(unknown) == len(packages):
        print(f"SKIPPED: none of {len(packages)} packages could be checked; PyPI cannot be reached from here")
    else:
        print(f"{len(found)} known vulnerabilities in {len(packages) - len(unknown)} packages")
    if unknown and len(unknown) < len(packages):
        print(f"not checked: {', '.join(unknown)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
