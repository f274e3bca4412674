"""Ends this process together with its parent.

A killed frontend cannot stop the phases it started, and an orphaned bind would still act for anybody who finds its
socket. On request, Linux signals a process when its parent dies; the child makes that request when it starts.

Tests: tests/contract/test_local_phases.py.
"""

import ctypes
import os
import pathlib
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_ARGUMENTS = slice(45, 47)  # of /proc/PID/stat after the name: where the command line begins and ends


def exit_with_parent(parent: int, number: signal.Signals = signal.SIGTERM) -> None:
    """Has the kernel send SIGTERM, or another signal, to this process when its parent ends.

    To be exact, the thread that started it.

    `parent` is the process id of the parent as the parent knows it: where ours is another by now, it died before we
    could ask, and this process ends at once.

    Raises:
        OSError: the kernel does not support it (it is not Linux).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    if os.getppid() != parent:
        raise SystemExit(0)


def name_process(name: str) -> None:
    """What this process is called in `top` and, in place of its command line, in `ps`, for a fork has its parent's.

    Cut to 15 bytes, and to what the command line took: the kernel shows the memory that it was given in.
    """
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
    fields = pathlib.Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = (int(field) for field in fields[_ARGUMENTS])
    if start:  # 0 if the kernel hides it
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, name.encode()[: end - start - 1], min(len(name.encode()), end - start - 1))
