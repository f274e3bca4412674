"""The figures of a placement."""

import pytest

from tests.helpers.shadow_cluster import CONFIGURED, Pods, node_event
from trireme.scheduling import in_memory, ports
from trireme.shadow import cluster_model, measures


def _measured(nodes: list[tuple[str, str]], pods: list[tuple[str, str]], **more: object) -> measures.Measures:
    """Nodes of four CPUs by name and zone, and pods on them by node and CPU."""
    effects = ports.Effects(in_memory.Binder(), in_memory.Events())
    made, source = cluster_model.ClusterModel(CONFIGURED.completed, effects), Pods()
    made.handlers.objects.on_nodes([node_event(name, "4", zone=zone) for name, zone in nodes])
    made.handlers.pods.on_pods(
        [source.added(f"pod-{number}", node, cpu=cpu, **more) for number, (node, cpu) in enumerate(pods)]
    )
    made.publish()
    return measures.measure(made.snap)


async def test_what_is_requested_is_a_share_of_what_can_be_allocated() -> None:
    """Utilisation is what is paid for."""
    found = _measured([("a", "x"), ("b", "y")], [("a", "2"), ("a", "1")])
    assert (found.nodes, found.pods, found.nodes_in_use) == (2, 2, 1)
    assert found.cpu == pytest.approx(3 / 8)


async def test_free_cpu_that_is_too_little_for_a_large_pod_is_fragmented() -> None:
    """Two nodes with one free CPU each do not take a pod of two."""
    found = _measured([("a", "x"), ("b", "x"), ("c", "x")], [("a", "3"), ("b", "3"), ("c", "2")])
    assert found.fragmentation == pytest.approx(1.0)
    found = _measured([("a", "x"), ("b", "x")], [("a", "2"), ("a", "1")])
    assert found.fragmentation == pytest.approx(1 / 5)


async def test_spread_is_the_share_of_places_that_a_controllers_pods_are_on() -> None:
    """Pods of one controller on one node fail together."""
    nodes = [("a", "x"), ("b", "x"), ("c", "y")]
    apart = _measured(nodes, [("a", "1"), ("b", "1"), ("c", "1")])
    assert (apart.node_spread, apart.zone_spread) == (1.0, 1.0)
    together = _measured(nodes, [("a", "1"), ("a", "1"), ("b", "1")])
    assert together.node_spread == pytest.approx(2 / 3)
    assert together.zone_spread == pytest.approx(1 / 2)


async def test_pods_of_daemon_sets_count_as_use_alone() -> None:
    """Every node has them: with them every node would be in use, whatever a scheduler does."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    found = _measured([("a", "x"), ("b", "x")], [("a", "1"), ("b", "1")], metadata={"ownerReferences": [owner]})
    assert (found.nodes_in_use, found.node_spread, found.cpu) == (0, 1.0, 0.25)


async def test_an_empty_cluster_has_figures() -> None:
    """A division by zero would end the run before the first pod."""
    assert _measured([], []) == measures.Measures(0, 0, 0, 0.0, 0.0, 0.0, 1.0, 1.0)
