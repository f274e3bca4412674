"""Ending with the parent process.

A frontend that is killed cannot stop the phases it started, and an orphaned bind would go on obeying whoever finds its
socket. Linux tells a process that its parent is gone if it asks beforehand; asked once, at the start of the child.
"""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def exit_with_parent(parent: int) -> None:
    """Has the kernel send SIGTERM to this process when its parent, to be exact the thread that started it, ends.

    `parent` is the process id of the parent as the parent knows it: where ours is another by now, it died before we
    could ask, and this process ends at once.

    Raises:
        OSError: the kernel does not know how (it is not Linux).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    if os.getppid() != parent:
        raise SystemExit(0)


def name_process(name: str) -> None:
    """What this process is called in `top` and the like; cut to 15 bytes by the kernel."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
