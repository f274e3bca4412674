"""Which placement of a group the plugins prefer, by what its nodes and its members are."""

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.evaluation.scoring import group_placements
from trireme.registry import score_plugins
from trireme.v1 import score_phase_pb2


def _totals(
    plugins: dict[str, int], *placements: tuple[list[int], int], scheduled: int = 0, args: bytes = b""
) -> object:
    builder = SnapshotBuilder()
    for number, cpu in enumerate(("4", "4", "8")):
        builder.set_node(f"n{number}", allocatable={"cpu": cpu, "memory": "8Gi", "pods": "9"})
    builder.add_class(1, pod_of(requesting(cpu="1", memory="1Gi")))
    builder.place(1, "n0")
    request = score_phase_pb2.ScorePodGroupPlacementsRequest(scheduled=scheduled)
    for name, weight in plugins.items():
        request.plugins.add(plugin=name, weight=weight)
    for slots, pods in placements:
        request.placements.add(slots=slots, pod_classes=[1] * pods)
    return group_placements.placement_totals(
        request, builder.snap, score_plugins.all_placement_score_plugins(lambda name: args, {})
    )


def test_a_placement_is_better_the_more_of_its_nodes_is_used() -> None:
    """Means over all of its nodes, pods that are there included: (3 of 8 CPU, 3 of 16 GiB) and (2 of 8, 2 of 8)."""
    assert _totals({"NodeResourcesFit": 1}, ([0, 1], 2), ([2], 2)) == [(37 + 18) // 2, (25 + 25) // 2]
    args = b'{"scoringStrategy":{"type":"LeastAllocated","resources":[{"name":"cpu","weight":1}]}}'
    assert _totals({"NodeResourcesFit": 2}, ([0, 1], 2), ([2], 9), args=args) == [74, 200]


def test_plugins_of_this_process_add_up_by_weight() -> None:
    """Those of services do not count here."""
    one = _totals({"NodeResourcesFit": 1}, ([0, 1], 1), ([2], 3))
    other = _totals({"PodGroupPodsCount": 1}, ([0, 1], 1), ([2], 3))
    assert isinstance(one, list)
    assert isinstance(other, list)
    both = _totals({"NodeResourcesFit": 2, "Far": 9, "PodGroupPodsCount": 3}, ([0, 1], 1), ([2], 3))
    assert both == [2 * first + 3 * second for first, second in zip(one, other, strict=True)]


def test_a_placement_is_better_the_more_of_the_group_it_takes() -> None:
    """Relative to the best, with those who have a node already."""
    assert _totals({"PodGroupPodsCount": 1}, ([0], 1), ([1], 3), scheduled=1) == [50, 100]
    failed = _totals({"PodGroupPodsCount": 1}, ([0], 0))
    assert "no pods from pod group are assigned" in str(failed)
