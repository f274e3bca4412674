"""How many copies a node takes, as its neighbours change."""

from tests.helpers import domain_cluster
from tests.helpers.domain_cluster import affinity, node, pod, term

ZONE = "topology.kubernetes.io/zone"


def test_a_limit_that_holds_no_more_is_lifted() -> None:
    """A node that shares its domain from now on would go on to take one pod of a class alone."""
    cluster = domain_cluster.Cluster()
    cluster.add_node(node("n0", {ZONE: "a"}))
    cluster.add_node(node("n1", {ZONE: "b"}))
    apart = pod({"app": "x"}, affinity=affinity((), [term(ZONE, {"app": "x"})]))
    assert cluster.filtered(apart).capacity == {"n0": 1, "n1": 1}
    cluster.add_node(node("n1", {ZONE: "a"}))
    assert cluster.filtered(apart).capacity == {"n0": 40, "n1": 40}
    cluster.close()
