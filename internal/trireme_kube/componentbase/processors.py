"""How many processors this process may use.

Tests: tests/unit/componentbase/test_processors.py.
"""

import contextlib
import math
import os
import pathlib

# Microseconds of CPU in each period, and the period, of this container; `max`: no limit.
# Source: https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files.
_LIMIT = pathlib.Path("/sys/fs/cgroup/cpu.max")


def usable() -> int:
    """Return how many: those that it is bound to, and no more than its container's limit, rounded up."""
    count = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):  # without cgroups, or with `max`
        quota, period = (int(each) for each in _LIMIT.read_text().split())
        count = min(count, max(math.ceil(quota / period), 1))
    return count
