"""The programs trireme-filter, -score, -bind, -insight, -shadow: what has to happen before they import their modules.

A frontend's own phases do not pass here: the forker has their modules already, and the frontend has done the same.
"""

import importlib
import sys

from trireme_kube.componentbase.logs import process_output


def run_filter() -> int:
    """Run trireme-filter. Returns the exit code."""
    return _run("trireme.filter.process")


def run_score() -> int:
    """Run trireme-score. Returns the exit code."""
    return _run("trireme.score.process")


def run_bind() -> int:
    """Run trireme-bind. Returns the exit code."""
    return _run("trireme.bind.process")


def run_insight() -> int:
    """Run trireme-insight. Returns the exit code."""
    return _run("trireme.insight.process")


def run_shadow() -> int:
    """Run trireme-shadow. Returns the exit code."""
    return _run("trireme.shadow.process")


def _run(module: str) -> int:
    """Import the module of a process and run its `main`; returns the exit code."""
    process_output.ignore_failed_writes()
    process_output.silence_grpc_core(sys.argv[1:])
    code: int = importlib.import_module(module).main()
    return code
