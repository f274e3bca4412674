"""The frontend process: hears signals first, and then loads the rest.

Exit codes as kube-scheduler's: 0 when told to end, 1 when the configuration is wrong or the Lease is lost. Without
leader election kube-scheduler takes every end for an error, and so do we: whoever watches exit codes of one sees the
same of the other.
"""

from collections.abc import Sequence

from trireme.frontend import ending


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to end, or until the Lease is lost. Returns the exit code."""
    told = ending.Ending()
    from trireme.frontend import starting

    return starting.start(argv, told)
