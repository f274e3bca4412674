"""Memory that a call freed is there for the next one."""

import subprocess
import sys

# Page faults of a hundred arrays of 1.28 MB, made and freed one after the other, once some were.
_FAULTS = """
import resource
import numpy as np
from trireme.phases import freed_memory

if {kept}:
    freed_memory.keep_for_next_call()

def write_arrays(count):
    for _ in range(count):
        arrays = [np.ones(160_000) for _ in range(4)]
        del arrays

write_arrays(5)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
write_arrays(25)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _page_faults(*, kept: bool) -> int:
    program = _FAULTS.format(kept=kept)
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)


def test_arrays_as_large_as_those_before_cause_few_page_faults() -> None:
    """How many there are otherwise depends on the size of the kernel's pages."""
    assert 10 * _page_faults(kept=True) < _page_faults(kept=False)
