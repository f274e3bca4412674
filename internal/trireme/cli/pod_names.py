"""Names of pods on the command line.

Tests: tests/unit/cli/test_wrong_usage.py, tests/contract/test_serving_access.py.
"""

import argparse


def parse(name: str) -> str:
    """NAMESPACE/POD, in `default` without a namespace. Raises: ArgumentTypeError."""
    namespace, slash, pod = name.rpartition("/")
    if not pod or "/" in namespace or (slash and not namespace):
        raise argparse.ArgumentTypeError(f"{name!r} is neither NAMESPACE/POD nor POD")
    return f"{namespace or 'default'}/{pod}"
