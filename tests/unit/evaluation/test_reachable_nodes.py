"""Narrowing a batch to the nodes that it can reach."""

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trireme.evaluation.scoring import reachable_nodes
from trireme.framework import domain_rules


@given(st.integers(1, 120), st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32))
def test_the_best_of_each_kind_stand_for_all(size: int, count: int, kinds: int, skew: int, seed: int) -> None:
    """A kind without its best nodes is placed on worse ones; one that stands for too few is weighed amiss."""
    draw = np.random.default_rng(seed)
    alone = draw.permutation(size).astype(np.int64)
    columns = [draw.integers(-1, kinds, size) ** skew, draw.random(size) < 0.2]
    # One kind is better than all others.
    alone += np.where(columns[0] == columns[0][0], 1000, 0)
    found = reachable_nodes.find_reachable_nodes(alone, columns, count)
    of_kind = defaultdict(list)
    for node in sorted(range(size), key=lambda node: -alone[node]):
        of_kind[tuple(int(column[node]) for column in columns)].append(node)
    stands_for = dict(zip(found.nodes.tolist(), found.stands_for.tolist(), strict=True))
    assert list(stands_for) == sorted(stands_for)
    narrowed = 1 < count < size
    for nodes in of_kind.values():
        best = nodes[:count] if narrowed else nodes
        expected = dict.fromkeys(best, 1)
        expected[best[-1]] += len(nodes) - len(best)
        assert {node: stands_for[node] for node in nodes if node in stands_for} == expected


def test_too_many_kinds_of_nodes_are_not_narrowed() -> None:
    """Telling each node from each other would cost more than looking at all of them."""
    every = np.arange(100_000)
    found = reachable_nodes.find_reachable_nodes(every, [every], 8)
    assert found.nodes.shape == (100_000,)
    assert found.stands_for.sum() == 100_000


def test_nodes_in_domains_of_their_own_are_grouped_by_state() -> None:
    """Nodes told apart by their own names are as many kinds as nodes; those of one shared domain must stay one kind."""
    domain = np.array([0, *range(1, 20), 5], dtype=np.int32)
    state = np.array([7, 7, *[0] * 18])
    columns = domain_rules.distinguishing_columns(domain, state)
    kinds = list(zip(*(column.tolist() for column in columns), strict=True))
    assert kinds[0] == kinds[1]
    assert kinds[5] == kinds[20]
    assert len(set(kinds)) == 3
