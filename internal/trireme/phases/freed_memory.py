"""Keeps freed memory in the process for the arrays of the next call."""

import contextlib
import ctypes

# Numbers of glibc's mallopt, and what they are set to, in bytes. The largest arrays of a call have 400,000 entries of 8
# bytes; a few of them are in use at a time.
_TRIM_THRESHOLD, _TRIM_BYTES = -1, 16 << 20
_MMAP_THRESHOLD, _MMAP_BYTES = -3, 4 << 20


def keep_for_next_call() -> None:
    """Have the allocator keep up to 16 MiB of freed memory, and blocks of up to 4 MiB in it.

    Otherwise it returns large arrays to the kernel at the end of each call, and the next call pays a page fault for
    every 4 KiB that it writes, some 260 to place 32 classes on 5,000 nodes. C libraries other than
    glibc decide by themselves.
    """
    with contextlib.suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)
        mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
