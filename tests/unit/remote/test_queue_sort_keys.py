"""Keys of QueueSort that are none, as a plugin in any language might answer them."""

import pytest

from trireme.framework import sort_key
from trireme.remote import remote_queue_sort
from trireme.v1 import queue_pb2


def test_a_key_is_read_in_both_parts() -> None:
    """If this fails, pods of one level are in any order."""
    key = queue_pb2.SortKey(level=[3, -1], rest=[7])
    assert remote_queue_sort.read_key(key, "keys[0]") == sort_key.SortKey((3, -1), (7,))
    longest = tuple(range(sort_key.MAX_NUMBERS))
    key = queue_pb2.SortKey(level=longest, rest=longest)
    assert remote_queue_sort.read_key(key, "keys[0]") == sort_key.SortKey(longest, longest)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        pytest.param(
            queue_pb2.SortKey(rest=[1]), "keys[2].level: is empty; a key needs at least one number", id="none"
        ),
        pytest.param(
            queue_pb2.SortKey(level=range(17)), "keys[2].level: has 17 numbers; 16 are the most", id="long level"
        ),
        pytest.param(
            queue_pb2.SortKey(level=[1], rest=range(17)),
            "keys[2].rest: has 17 numbers; 16 are the most",
            id="long rest",
        ),
    ],
)
def test_a_key_that_is_none_is_named(key: queue_pb2.SortKey, told: str) -> None:
    """If this fails, a plugin's mistake makes keys that compare with none, or a queue that grows."""
    with pytest.raises(ValueError, match=told.replace("[", r"\[").replace("]", r"\]")):
        remote_queue_sort.read_key(key, "keys[2]")
