"""NodeColumns on the wire: what is written is read, and what does not fit together is refused by its field."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.framework import status
from trireme.v1 import filter_pb2, status_pb2
from trireme.wire import node_columns

STATUSES = tuple(status.unschedulable("P", f"no {number}") for number in range(300))


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 2**31 - 1)), max_size=40),
    st.one_of(st.none(), st.integers(1, 2**60)),
)
def test_columns_are_read_as_they_were_written(entries: list[tuple[int, int]], base: int | None) -> None:
    index = np.array([number for number, _ in entries], dtype=np.int16)
    capacity = np.array([copies for _, copies in entries], dtype=np.int32)
    slots = None if base is None else np.arange(len(entries)) * 3
    size = len(entries) if base is None else 3 * len(entries) + 1
    columns = node_columns.NodeColumns(7, base or 0, size, slots, STATUSES, index, capacity)
    message = node_columns.to_message(columns)
    read = node_columns.from_message(filter_pb2.NodeColumns.FromString(message.SerializeToString()))
    assert (read.generation, read.base_generation, read.size) == (7, base or 0, size)
    assert read.statuses == STATUSES
    assert read.index.tolist() == index.tolist()
    assert read.capacity.tolist() == capacity.tolist()
    assert (read.slots is None) == (base is None)
    if slots is not None and read.slots is not None:
        assert read.slots.tolist() == slots.tolist()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        pytest.param({"size": 2, "status_index": [0], "capacity": [1, 1]}, "status_index", id="short-index"),
        pytest.param({"size": 2, "status_index": [0, 0], "capacity": [1]}, "capacity", id="short-capacity"),
        pytest.param({"size": 1, "status_index": [1], "capacity": [0]}, "status_index", id="no-such-status"),
        pytest.param(
            {"size": 2, "base_generation": 1, "slots": [2], "status_index": [0], "capacity": [1]},
            "slots",
            id="no-such-slot",
        ),
        pytest.param(
            {"size": 1, "statuses": [status_pb2.Status()] * 65_536, "status_index": [65_536], "capacity": [1]},
            "statuses",
            id="an-index-that-would-become-0",
        ),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        node_columns.from_message(filter_pb2.NodeColumns(**fields))
