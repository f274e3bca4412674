"""The frontend process: hears signals first, forks off what its phases are to be forks of, and then loads its own.

Exit codes as kube-scheduler's: 0 when told to end, 1 when the configuration is wrong or the Lease is lost. Without
leader election kube-scheduler takes every end for an error, and so do we: whoever watches exit codes of one sees the
same of the other.
"""

import gc
from collections.abc import Sequence

from trireme.frontend import ending


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to end, or until the Lease is lost. Returns the exit code."""
    told = ending.Ending()
    # What is loaded at the start stays: to look through it for garbage all the while costs a twentieth of the start.
    gc.disable()
    from trireme.rpc import forker

    forked = forker.fork()
    with forker.without_system_authorities():
        from trireme.frontend import starting

    return starting.start(argv, told, forked)
