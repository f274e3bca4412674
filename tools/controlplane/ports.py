"""Ports for what tests start. No two processes are given the same one, and nobody who connects takes one meanwhile.

A port that is found by binding to port 0 is free for a moment only: the kernel may give it to the next process that
asks, be it another worker of pytest or a client that connects. So these lie outside the range that the kernel gives
away, and a process that needs some takes a block of them for itself, by a lock that it holds until it ends.
"""

import fcntl
import functools
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

BLOCK = 50
_FIRST, _END = 20000, 32768
_KERNELS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on, and that are given to nobody else while this process runs."""
    found: list[int] = []
    while len(found) < count:
        port = next(_own_ports())
        if _is_free(port):
            found.append(port)
    return found


@functools.cache
def _own_ports() -> Iterator[int]:
    """The ports of this process, each once."""
    return (port for block in _locked_blocks() for port in block)


def _locked_blocks() -> Iterator[range]:
    """Blocks of ports that this process has locked. Raises: RuntimeError where there are no more."""
    folder = Path(tempfile.gettempdir(), f"trireme-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    starts = range(_FIRST, _end(), BLOCK)
    # Not from the first one on: its ports may still be closing, after the process that had them before.
    offset = os.getpid() % len(starts)
    for start in (*starts[offset:], *starts[:offset]):
        lock = os.open(folder / str(start), os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        yield range(start, start + BLOCK)  # the lock stays open, and so ends with the process
    raise RuntimeError(f"other processes have locked all ports from {_FIRST} to {_end()}")


def _end() -> int:
    """Where our ports end: before those that the kernel gives away, if these leave any."""
    lowest = int(_KERNELS.read_text().split()[0]) if _KERNELS.exists() else _END
    return min(lowest, _END) if lowest >= _FIRST + BLOCK else _END


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
