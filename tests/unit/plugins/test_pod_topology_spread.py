"""PodTopologySpread: which nodes it refuses and why, and what its counts are made of."""

from typing import Any

import pytest

from tests.helpers import domain_cluster

Json = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
OWN = {"app": "red"}
SKEWED = ("node(s) didn't match pod topology spread constraints",)
MISSING = ("node(s) didn't match pod topology spread constraints (missing required label)",)


def _cluster(args: Json | None = None) -> domain_cluster.Cluster:
    """Nodes a1, a2, b1 and c1 in zones by their first letter, n1 in none; c1 is tainted."""
    cluster = domain_cluster.Cluster(args={"PodTopologySpread": args} if args else {})
    for name in ("a1", "a2", "b1", "c1", "n1"):
        labels = {HOST: name} if name == "n1" else {HOST: name, ZONE: name[0]}
        taints = [("t", "1", "NoSchedule")] if name == "c1" else []
        cluster.add_node(domain_cluster.node(name, labels, taints=taints))
    return cluster


def _pod(*constraints: Json, labels: Json | None = None, **spec: Any) -> Json:
    return domain_cluster.pod(OWN if labels is None else labels, topologySpreadConstraints=list(constraints), **spec)


TOLERANT = {"tolerations": [{"operator": "Exists"}]}
BY_ZONE = domain_cluster.spread(ZONE, True, OWN)

# Pods that are there as (labels, node, namespace), the pod, and what of it is refused beside the taint of c1.
VERDICTS = [
    pytest.param([], _pod(BY_ZONE, **TOLERANT), {"n1": MISSING}, id="nobody-there"),
    pytest.param(
        [(OWN, "a1", "default")], _pod(BY_ZONE, **TOLERANT), {"a1": SKEWED, "a2": SKEWED, "n1": MISSING}, id="one-there"
    ),
    pytest.param(
        [(OWN, "a1", "default"), (OWN, "b1", "default")],
        _pod(domain_cluster.spread(ZONE, True, OWN, nodeTaintsPolicy="Honor")),
        {"n1": MISSING},
        id="tainted-nodes-do-not-count-where-taints-are-honoured",
    ),
    pytest.param(
        [(OWN, "a1", "default"), (OWN, "b1", "default")],
        _pod(BY_ZONE),
        {"a1": SKEWED, "a2": SKEWED, "b1": SKEWED, "n1": MISSING},
        id="tainted-nodes-count-otherwise",
    ),
    pytest.param([(OWN, "a1", "other")], _pod(BY_ZONE, **TOLERANT), {"n1": MISSING}, id="another-namespace"),
    pytest.param(
        [(OWN, "a1", "default")],
        _pod(domain_cluster.spread(ZONE, True, OWN, max_skew=2), **TOLERANT),
        {"n1": MISSING},
        id="within-max-skew",
    ),
    pytest.param(
        [(OWN, "a1", "default")], _pod(BY_ZONE, labels={"app": "blue"}, **TOLERANT), {"n1": MISSING}, id="not-its-own"
    ),
    pytest.param(
        [(OWN, "a1", "default"), (OWN, "b1", "default"), (OWN, "c1", "default")],
        _pod(domain_cluster.spread(ZONE, True, OWN, minDomains=4), **TOLERANT),
        {"a1": SKEWED, "a2": SKEWED, "b1": SKEWED, "c1": SKEWED, "n1": MISSING},
        id="fewer-domains-than-asked-for",
    ),
    pytest.param(
        [(OWN, "a1", "default"), (OWN, "a2", "default")],
        _pod(domain_cluster.spread(ZONE, True, OWN), nodeSelector={ZONE: "a"}, **TOLERANT),
        {"n1": ("node(s) didn't match Pod's node affinity/selector",)}
        | dict.fromkeys(("b1", "c1"), ("node(s) didn't match Pod's node affinity/selector",)),
        id="only-nodes-that-affinity-allows-count",
    ),
    pytest.param(
        [(OWN, "a1", "default"), (OWN, "a2", "default")],
        _pod(domain_cluster.spread(ZONE, True, OWN, nodeAffinityPolicy="Ignore"), nodeSelector={ZONE: "a"}, **TOLERANT),
        {"a1": SKEWED, "a2": SKEWED}
        | dict.fromkeys(("b1", "c1", "n1"), ("node(s) didn't match Pod's node affinity/selector",)),
        id="all-nodes-count-where-affinity-is-ignored",
    ),
    pytest.param(
        [(OWN, "a1", "default")],
        _pod(domain_cluster.spread(ZONE, True, {}), **TOLERANT),
        {"a1": SKEWED, "a2": SKEWED, "n1": MISSING},
        id="an-empty-selector-counts-all",  # kubernetes/kubernetes#141339: it counted nobody
    ),
    pytest.param(
        [({}, "a1", "default"), (OWN, "b1", "other")],
        _pod(domain_cluster.spread(ZONE, True, {}), labels={}, **TOLERANT),
        {"a1": SKEWED, "a2": SKEWED, "n1": MISSING},
        id="an-empty-selector-counts-pods-without-labels-of-its-namespace",
    ),
    pytest.param(
        [(OWN, "a1", "default")],
        _pod(domain_cluster.spread(ZONE, True, None), **TOLERANT),
        {"n1": MISSING},
        id="no-selector-counts-nobody",
    ),
    pytest.param(
        [(OWN | {"v": "1"}, "a1", "default")],
        _pod(domain_cluster.spread(ZONE, True, OWN, matchLabelKeys=["v"]), labels=OWN | {"v": "2"}, **TOLERANT),
        {"n1": MISSING},
        id="match-label-keys",
    ),
]


@pytest.mark.parametrize(("there", "pod", "expected"), VERDICTS)
def test_nodes_are_refused_by_their_domain(
    there: list[tuple[Json, str, str]], pod: Json, expected: dict[str, Any]
) -> None:
    """A domain counted wrongly puts too many pods in one zone, or leaves a pod pending for no reason."""
    cluster = _cluster()
    for labels, node, namespace in there:
        cluster.place(domain_cluster.pod(labels, namespace=namespace), node)
    refused = cluster.filtered(pod).refused
    assert {name: said for name, said in refused.items() if "taint" not in said[0]} == expected
    cluster.close()


def test_pods_that_go_do_not_count() -> None:
    """Counting pods that are being deleted keeps a rolling update from going on."""
    cluster = _cluster()
    cluster.place(domain_cluster.pod(OWN), "a1", terminating=True)
    assert "a1" not in cluster.filtered(_pod(BY_ZONE, **TOLERANT)).refused
    cluster.close()


def test_default_constraints_spread_by_services() -> None:
    """Pods of a service that end on one node share its fate: by default they are spread."""
    cluster = domain_cluster.Cluster()
    for name in ("a1", "b1"):
        cluster.add_node(domain_cluster.node(name, {HOST: name, ZONE: name[0]}, cpu=64))
    service = {"kind": "Service", "metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": OWN}}
    cluster.add_object(service)
    hosts = cluster.schedule(domain_cluster.pod(OWN), 8, 8)
    assert (hosts.count("a1"), hosts.count("b1")) == (4, 4)
    cluster.close()


OWNERS = [
    pytest.param("ReplicaSet", "apps/v1", {"matchLabels": OWN}, id="replica-set"),
    pytest.param("StatefulSet", "apps/v1", {"matchLabels": OWN}, id="stateful-set"),
    pytest.param("ReplicationController", "v1", OWN, id="replication-controller"),
]


@pytest.mark.parametrize(("kind", "version", "selector"), OWNERS)
def test_default_constraints_spread_by_owner(kind: str, version: str, selector: Json) -> None:
    """The list of default constraints is a rule like any other where the profile says so."""
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    cluster = _cluster({"defaultingType": "List", "defaultConstraints": [rule]})
    cluster.place(domain_cluster.pod(OWN), "a1")
    owner = {"apiVersion": version, "kind": kind, "name": "o", "controller": True}
    pod = domain_cluster.pod(OWN, owners=[owner], **TOLERANT)
    assert cluster.filtered(pod).refused == {}
    metadata = {"name": "o", "namespace": "default"}
    cluster.add_object({"kind": kind, "metadata": metadata, "spec": {"selector": selector}})
    assert cluster.filtered(pod).refused == {"a1": SKEWED, "a2": SKEWED, "n1": MISSING}
    cluster.close()


def test_a_selector_that_cannot_be_read_fails_its_own_pod() -> None:
    """A malformed constraint must say what is wrong, and harm no other pod."""
    cluster = _cluster()
    constraint = domain_cluster.spread(ZONE, True, None)
    constraint["labelSelector"] = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    answer = cluster.ask_filter(cluster.class_of(_pod(constraint)))
    assert list(answer.pre_filter.status.messages) == [
        'running PreFilter plugin "PodTopologySpread": get constraints from pod: obtaining pod\'s hard topology spread '
        'constraints: "Near" is not a valid label selector operator'
    ]
    assert "a1" not in cluster.filtered(_pod(BY_ZONE)).refused
    cluster.close()
