"""The programs trireme-filter, -score, -bind, -insight and -shadow: what happens before they import their modules.

Each function imports the process that it runs, so this is the highest layer. `trireme` and trireme-frontend begin at
functions of their own (`cli.main`, `frontend.process`); a frontend's own phases do not pass here, as the frontend has
done the same before it forked the forker.

Also change: pyproject.toml (the programs).

Tests: tests/contract/test_output_that_fails.py, tests/contract/test_plugin_contract.py.
"""

import sys

from trireme_kube.componentbase.logs import process_output


def run_filter() -> int:
    """Run trireme-filter. Returns the exit code."""
    _prepare()
    from trireme.filter import process

    return process.main()


def run_score() -> int:
    """Run trireme-score. Returns the exit code."""
    _prepare()
    from trireme.score import process

    return process.main()


def run_bind() -> int:
    """Run trireme-bind. Returns the exit code."""
    _prepare()
    from trireme.bind import process

    return process.main()


def run_insight() -> int:
    """Run trireme-insight. Returns the exit code."""
    _prepare()
    from trireme.insight import process

    return process.main()


def run_shadow() -> int:
    """Run trireme-shadow. Returns the exit code."""
    _prepare()
    from trireme.shadow import process

    return process.main()


def _prepare() -> None:
    """Make a closed output harmless, and keep gRPC's own log off it: gRPC's core reads that as it is imported."""
    process_output.ignore_failed_writes()
    process_output.silence_grpc_core(sys.argv[1:])
