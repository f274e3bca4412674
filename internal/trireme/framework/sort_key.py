"""A pod's position in QueueSort's order: what a remote plugin answers (`QueueSortResponse`), and the queue sorts by.

`scheduling/queue_sort_keys.py` keeps them, `remote/remote_queue_sort.py`, `sdk/queueing.py`,
`plugin_verification/queue_specifications.py` and the SDKs of other languages (sdk/) check them.
"""

from typing import NamedTuple

# Compared from the first number on; the least is tried first.
SortNumbers = tuple[int, ...]

#: Of a level, and of the rest.
MAX_NUMBERS = 16


class SortKey(NamedTuple):
    """A pod's position in QueueSort's order."""

    #: Compared first: pods whose level is equal may go in one batch.
    level: SortNumbers
    #: The order within a class of one level, before age.
    rest: SortNumbers = ()
