"""Placing a batch against the obvious way: one pod after the other, everything scored anew each time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trireme.evaluation.scoring import placement, sampling
from trireme.plugin_api.scorers import UNKNOWN, Normalization
from trireme.snapshot import arrays

Table = list[list[int]]


def _one_by_one(
    capacity: list[int], ties: list[int], static: list[placement.ScoredPlugin], own: Table, count: int
) -> tuple[list[tuple[int, int]], placement.UnknownScore | None]:
    """The slow way, and the score that is needed next and not known. `own` is a score per node and copy."""
    left = list(capacity)
    copies = [0] * len(capacity)
    out: list[tuple[int, int]] = []
    for _ in range(count):
        open_nodes = [node for node, free in enumerate(left) if free > 0]
        if not open_nodes:
            break
        totals = {node: own[node][copies[node]] for node in open_nodes}
        for plugin in static:
            raw = {node: int(plugin.raw[node]) for node in open_nodes}
            most = max(raw.values(), default=0)
            for node in open_nodes:
                if plugin.normalization is Normalization.NONE:
                    score = raw[node]
                elif most == 0:
                    score = 100 if plugin.normalization is Normalization.MAX_REVERSED else 0
                else:
                    score = raw[node] * 100 // most
                    score = 100 - score if plugin.normalization is Normalization.MAX_REVERSED else score
                totals[node] += score * plugin.weight
        best = max(open_nodes, key=lambda node: (totals[node], ties[node]))
        out.append((best, totals[best] if len(open_nodes) > 1 else 0))
        left[best] -= 1
        copies[best] += 1
        if len(out) < count and left[best] and own[best][copies[best]] == UNKNOWN:
            return out, placement.UnknownScore(best, copies[best])
    return out, None


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[int], list[int], list[placement.ScoredPlugin], Table, int]:
    """Capacities, places among equals, plugins, own scores per node and copy, and how many pods there are."""
    size = draw(st.integers(0, 7))
    count = draw(st.integers(1, 12))
    capacity = draw(st.lists(st.sampled_from([0, 1, 1, 2, 3, 50]), min_size=size, max_size=size))
    ties = draw(st.permutations(range(size)))
    static = [
        placement.ScoredPlugin(
            f"P{number}",
            draw(st.sampled_from([1, 2, 3])),
            draw(st.sampled_from([Normalization.NONE, Normalization.MAX, Normalization.MAX_REVERSED])),
            np.array(draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)), dtype=np.int64),
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    row = st.lists(st.integers(0, 100), min_size=count + 1, max_size=count + 1)
    # Falling scores spread pods, rising ones pile them up, and some do neither.
    shaped = st.one_of(row.map(lambda scores: sorted(scores, reverse=True)), row.map(sorted), row)
    own = draw(st.lists(shaped, min_size=size, max_size=size))
    # A service may not say what a node scores with some copies, or with more.
    for row in own:
        known = draw(st.sampled_from((count + 1, count + 1, 1, 2, 3)))
        row[known:] = [UNKNOWN] * (count + 1 - known)
    return capacity, list(ties), static, own, count


@settings(max_examples=400)
@given(situations(), st.booleans(), st.booleans())
def test_a_batch_lands_as_its_pods_would_one_by_one(
    situation: tuple[list[int], list[int], list[placement.ScoredPlugin], Table, int], has_own: bool, known: bool
) -> None:
    capacity, ties, static, own, count = situation
    if not has_own:
        own = [[0] * len(row) for row in own]
    table = np.array(own, dtype=np.int64).reshape(len(capacity), count + 1)

    def own_scores(nodes: arrays.SlotArray, copies: int) -> arrays.Int64Array:
        assert 1 <= copies <= count
        return table[nodes, :copies]

    nodes = placement.ScoredNodes(
        np.array(capacity, dtype=np.int32),
        np.array(ties, dtype=np.int64),
        static,
        own_scores if has_own else None,
        table[:, 0] if has_own and known else None,
    )
    placer = placement.Placer(nodes)
    chosen = [(choice.node_number, choice.total) for choice in placer.place(count)]
    assert (chosen, placer.unknown) == _one_by_one(capacity, ties, static, own, count)


@pytest.mark.parametrize(
    ("raw", "normalization", "scores"),
    [
        pytest.param([1, 2, 3], Normalization.NONE, [1, 2, 3], id="none"),
        pytest.param([1, 2, 3], Normalization.MAX, [33, 66, 100], id="max"),
        pytest.param([1, 2, 3], Normalization.MAX_REVERSED, [67, 34, 0], id="reversed"),
        pytest.param([0, 0], Normalization.MAX, [0, 0], id="all-zero"),
        pytest.param([0, 0], Normalization.MAX_REVERSED, [100, 100], id="all-zero-reversed"),
        pytest.param([], Normalization.MAX, [], id="nothing"),
    ],
)
def test_scores_are_normalised_as_kube_scheduler_normalises_them(
    raw: list[int], normalization: Normalization, scores: list[int]
) -> None:
    with np.errstate(divide="raise"):
        assert placement.normalize_scores(np.array(raw, dtype=np.int64), normalization).tolist() == scores


def test_places_among_equals_are_an_order_that_more_slots_do_not_change() -> None:
    few, many = (placement.tie_order(np.arange(size)) for size in (5_000, 100_000))
    assert len(np.unique(many)) == many.size
    assert np.array_equal(np.argsort(few), [slot for slot in np.argsort(many).tolist() if slot < few.size])
    assert int(many.max()) < 1 << 20


def _splitmix64(number: int) -> int:
    """The generator's next value after this state."""
    bits = (1 << 64) - 1
    x = (number + 0x9E37_79B9_7F4A_7C15) & bits
    x = (x ^ (x >> 30)) * 0xBF58_476D_1CE4_E5B9 & bits
    x = (x ^ (x >> 27)) * 0x94D0_49BB_1331_11EB & bits
    return x ^ (x >> 31)


def test_slots_are_ordered_by_a_published_generator() -> None:
    """Replicas in other languages choose among equals alike."""
    order = np.argsort(placement.tie_order(np.arange(500))).tolist()
    assert order == sorted(range(500), key=_splitmix64)


def test_places_among_equals_follow_no_pattern() -> None:
    places = placement.tie_order(np.arange(10_000))
    correlation = np.corrcoef(places, np.arange(10_000))[0, 1]
    assert abs(float(correlation)) < 0.05


@pytest.mark.parametrize(
    ("feasible", "nodes", "percentage", "expected"),
    [
        pytest.param(80, 99, 10, 80, id="small-cluster"),
        pytest.param(500, 1000, 30, 300, id="a-share"),
        pytest.param(500, 1000, 5, 100, id="at-least-a-hundred"),
        pytest.param(200, 1000, 30, 200, id="fewer-than-that"),
        pytest.param(300, 1000, 30, 300, id="just-as-many"),
        pytest.param(1000, 1000, 100, 1000, id="all"),
    ],
)
def test_a_share_of_the_nodes_is_scored_where_the_profile_asks_for_it(
    feasible: int, nodes: int, percentage: int, expected: int
) -> None:
    slots = np.arange(feasible) * 2
    chosen = sampling.sample_slots(slots, nodes, percentage, 3)
    assert chosen.size == expected == len(np.unique(chosen))
    assert set(chosen.tolist()) <= set(slots.tolist())
    assert expected < feasible or chosen.tolist() == slots.tolist()


def test_the_share_moves_on_over_the_nodes() -> None:
    """Sampling starts where the previous sample ended, so that every node is considered over time."""
    slots = np.arange(1000)
    seen: set[int] = set()
    for generation in range(40):
        seen |= set(sampling.sample_slots(slots, 1000, 10, generation).tolist())
    assert len(seen) > 900


def test_a_node_with_the_lowest_total_is_likely_to_be_next_where_it_takes_a_pod() -> None:
    """Its score beside a pod would be found out only once it is needed."""
    static = [placement.ScoredPlugin("P", 1, Normalization.NONE, np.array([0, 0, 0], dtype=np.int64))]
    capacity = np.array([1, 0, 1], dtype=np.int32)
    placer = placement.Placer(placement.ScoredNodes(capacity, np.array([0, 1, 2]), static, None))
    assert sorted(placer.likely_nodes(5)) == [0, 2]


@pytest.mark.parametrize("raw", [0, 3])
@pytest.mark.parametrize("normalization", [Normalization.NONE, Normalization.MAX, Normalization.MAX_REVERSED])
def test_a_plugin_that_scores_all_nodes_alike_adds_the_same_as_any_other(
    raw: int, normalization: Normalization
) -> None:
    scores = placement.normalize_scores(np.array([raw, raw], dtype=np.int64), normalization)
    assert placement.common_score(raw, normalization, 2) == 2 * int(scores[0])
