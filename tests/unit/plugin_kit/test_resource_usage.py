"""Percentages and fractions of resources are those of whole numbers, as Go divides them, however large these are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trireme.plugin_kit import resource_usage
from trireme.snapshot import arrays, node_usage

# Around the limits of what floating point holds exactly, of a hundredth of it, and of 64 bits.
_EDGES = [0, 1, 99, 100, 101, 2**53 // 100, 2**53, 2**56, 2**63 // 100, 2**63 - 1]
_amounts = st.integers(0, arrays.INT64_MAX) | st.integers(0, 5000) | st.sampled_from(_EDGES)
_near = st.builds(
    lambda edge, more: min(max(edge + more, 0), arrays.INT64_MAX), st.sampled_from(_EDGES), st.integers(-3, 3)
)


@given(
    nodes=st.lists(st.tuples(_amounts | _near, _amounts | _near), min_size=1, max_size=5),
    more=st.lists(_amounts | _near, min_size=1, max_size=5),
)
def test_they_are_those_of_whole_numbers(nodes: list[tuple[int, int]], more: list[int]) -> None:
    capacity = node_usage.Capacity.of(np.array([each for each, _ in nodes], dtype=np.int64))
    base = np.array([[used] for _, used in nodes], dtype=np.int64)
    use = resource_usage.ResourceUse(capacity, base, np.array(more, dtype=np.int64))
    free, used, fractions = use.percentages_free(), use.percentages_used(), use.fractions()
    for node, (has, taken) in enumerate(nodes):
        has = max(has, 1)
        for column, added in enumerate(more):
            total = min(taken + added, arrays.INT64_MAX)
            assert free[node, column] == max(has - total, 0) * 100 // has
            assert used[node, column] == min(total, has) * 100 // has
            assert fractions[node, column] == min(float(np.int64(total)) / float(np.int64(has)), 1.0)
