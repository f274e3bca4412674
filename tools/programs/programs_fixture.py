"""The check before tests that need these programs: skipped where Go is missing, failed where CI has to have it.

Also change: .github/workflows/ci.yaml (the versions of Python and Go).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.helpers import requirements
from tools.programs import build_programs

MISSING = "Helm, actionlint and dashboardcheck are not built: `make programs` (needs Go 1.26)"


def require_programs() -> None:
    """Skip the calling test without them, or with CI=true fail it: there a silent gap would pass for a success."""
    requirements.require(build_programs.available(), MISSING)


def helm(*arguments: str | Path, home: Path, environment: Mapping[str, str] | None = None) -> str:
    """What Helm prints; `home` takes its caches. Raises: AssertionError: it failed."""
    done = run_helm(*arguments, home=home, environment=environment)
    assert done.returncode == 0, f"helm {arguments[0]}: {done.stdout}\n{done.stderr}"
    return done.stdout


def run_helm(
    *arguments: str | Path, home: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Helm, and return what it did."""
    folders = {name: str(home) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    return subprocess.run(
        [str(build_programs.HELM), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **folders, **(environment or {})},
    )
