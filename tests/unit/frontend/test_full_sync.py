"""What a replica gets that begins to follow: made once for all that begin about the same time, and never stale."""

from tests.helpers.frontend_world import World
from trireme.v1 import core_pb2, snapshot_pb2


def _nodes(requests: list[bytes]) -> list[str]:
    deltas = (snapshot_pb2.SyncRequest.FromString(request).delta for request in requests)
    return [entry.node.metadata.name for delta in deltas for entry in delta.nodes]


def test_a_full_sync_is_made_again_only_where_much_has_changed() -> None:
    """If this fails, a leader with many replicas makes the cluster for each, or one begins with an old cluster."""
    world = World()
    try:
        frontend = world.frontend
        node = core_pb2.Node()
        node.metadata.name = "early"
        frontend.cluster.cache.set_node(node)
        first = frontend.phases.publisher.full_sync()
        assert _nodes(list(first)) == ["early"]
        assert frontend.phases.publisher.full_sync() == first
        node.metadata.name = "late"
        frontend.cluster.cache.set_node(node)
        second = frontend.phases.publisher.full_sync()
        assert second[: len(first)] == first
        assert _nodes(list(second)) == ["early", "late"]
        node.metadata.name = "later"
        for number in range(20):
            node.metadata.labels["changed"] = str(number)
            frontend.cluster.cache.set_node(node)
            frontend.phases.publisher.publish()
        assert _nodes(list(frontend.phases.publisher.full_sync())) == ["early", "late", "later"]
    finally:
        world.close()
