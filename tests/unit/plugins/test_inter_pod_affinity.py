"""InterPodAffinity: which nodes it refuses and why, from the pod's side and from that of pods that are there."""

from typing import Any

import pytest

from tests.helpers import domain_cluster

Json = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
RED, BLUE = {"app": "red"}, {"app": "blue"}
AFFINITY = ("node(s) didn't match pod affinity rules",)
ANTI_AFFINITY = ("node(s) didn't match pod anti-affinity rules",)
EXISTING = ("node(s) didn't satisfy existing pods anti-affinity rules",)


def _cluster() -> domain_cluster.Cluster:
    """Nodes a1, a2 and b1 in zones by their first letter, n1 in none."""
    cluster = domain_cluster.Cluster()
    for name in ("a1", "a2", "b1", "n1"):
        labels = {HOST: name} if name == "n1" else {HOST: name, ZONE: name[0]}
        cluster.add_node(domain_cluster.node(name, labels, cpu=64))
    for namespace, labels in (("default", {}), ("other", {"team": "x"})):
        cluster.add_object({"kind": "Namespace", "metadata": {"name": namespace, "labels": labels}})
    return cluster


def _near(*terms: Json, labels: Json = BLUE) -> Json:
    return domain_cluster.pod(labels, affinity=domain_cluster.affinity(terms))


def _apart(*terms: Json, labels: Json = BLUE) -> Json:
    return domain_cluster.pod(labels, affinity=domain_cluster.affinity((), terms))


BY_ZONE, BY_HOST = domain_cluster.term(ZONE, RED), domain_cluster.term(HOST, RED)
EVERYWHERE = dict.fromkeys(("a1", "a2", "b1", "n1"), AFFINITY)
X_TEAM = {"matchLabels": {"team": "x"}}
NOT_X = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}

# Pods that are there as (pod, node), the pod, and what refuses it.
VERDICTS = [
    pytest.param([(RED, "a1", "default")], _near(BY_ZONE), {"b1": AFFINITY, "n1": AFFINITY}, id="near"),
    pytest.param([], _near(BY_ZONE), EVERYWHERE, id="near-nobody"),
    pytest.param([], _near(BY_ZONE, labels=RED), {"n1": AFFINITY}, id="the-first-of-its-group"),
    pytest.param(
        [(RED, "n1", "default")], _near(BY_ZONE, labels=RED), {"n1": AFFINITY}, id="who-is-in-no-domain-does-not-count"
    ),
    pytest.param(
        [(RED, "a1", "default"), (RED, "b1", "default")],
        _near(BY_ZONE, BY_HOST),
        {"a2": AFFINITY, "n1": AFFINITY},
        id="near-by-all-terms",
    ),
    pytest.param([(RED, "a1", "other")], _near(BY_ZONE), EVERYWHERE, id="near-in-another-namespace"),
    pytest.param(
        [(RED, "a1", "other")],
        _near(BY_ZONE | {"namespaces": ["other"]}),
        {"b1": AFFINITY, "n1": AFFINITY},
        id="near-in-a-named-namespace",
    ),
    pytest.param(
        [(RED, "a1", "other")],
        _near(BY_ZONE | {"namespaceSelector": X_TEAM}),
        {"b1": AFFINITY, "n1": AFFINITY},
        id="near-in-a-selected-namespace",
    ),
    pytest.param(
        [(RED, "a1", "other")],
        _near(BY_ZONE | {"namespaceSelector": {}}),
        {"b1": AFFINITY, "n1": AFFINITY},
        id="near-in-any-namespace",
    ),
    pytest.param(
        [(RED, "a1", "default")], _apart(BY_ZONE), {"a1": ANTI_AFFINITY, "a2": ANTI_AFFINITY}, id="apart-by-zone"
    ),
    pytest.param([(RED, "n1", "default")], _apart(BY_ZONE), {}, id="apart-from-who-is-in-no-domain"),
    pytest.param(
        [(RED, "a1", "default"), (RED, "b1", "default")],
        _apart(BY_HOST, domain_cluster.term(ZONE, {"app": "green"})),
        {"a1": ANTI_AFFINITY, "b1": ANTI_AFFINITY},
        id="apart-by-any-term",
    ),
]


@pytest.mark.parametrize(("there", "pod", "expected"), VERDICTS)
def test_nodes_are_refused_by_the_pods_in_their_domains(
    there: list[tuple[Json, str, str]], pod: Json, expected: dict[str, Any]
) -> None:
    """A term asked wrongly puts a pod beside what it must not meet, or leaves it pending for no reason."""
    cluster = _cluster()
    for labels, node, namespace in there:
        cluster.place(domain_cluster.pod(labels, namespace=namespace), node)
    assert cluster.filtered(pod).refused == expected
    cluster.close()


EXISTING_TERMS = [
    pytest.param(domain_cluster.term(ZONE, BLUE), "default", ("a1", "a2"), id="by-zone"),
    pytest.param(domain_cluster.term(HOST, BLUE), "default", ("a1",), id="by-host"),
    pytest.param(domain_cluster.term(ZONE, RED), "default", (), id="about-others"),
    pytest.param(domain_cluster.term(ZONE, BLUE), "other", (), id="in-another-namespace"),
    pytest.param(
        domain_cluster.term(ZONE, BLUE, namespaceSelector={}), "other", ("a1", "a2"), id="about-any-namespace"
    ),
    pytest.param(
        domain_cluster.term(ZONE, BLUE, namespaceSelector=X_TEAM), "other", (), id="about-namespaces-of-a-team"
    ),
]


@pytest.mark.parametrize(("term", "namespace", "refusing"), EXISTING_TERMS)
def test_existing_pods_with_anti_affinity_repel_others(term: Json, namespace: str, refusing: tuple[str, ...]) -> None:
    """Anti-affinity holds for who was there first, too."""
    cluster = _cluster()
    there = domain_cluster.pod(RED, namespace=namespace, affinity=domain_cluster.affinity((), [term]))
    cluster.place(there, "a1")
    assert cluster.filtered(domain_cluster.pod(BLUE)).refused == dict.fromkeys(refusing, EXISTING)
    cluster.close()


def test_a_namespace_that_changes_is_seen() -> None:
    """A selector of namespaces is about those that there are now."""
    cluster = _cluster()
    cluster.place(domain_cluster.pod(RED, namespace="other"), "a1")
    pod = _apart(BY_ZONE | {"namespaceSelector": X_TEAM})
    assert cluster.filtered(pod).refused == {"a1": ANTI_AFFINITY, "a2": ANTI_AFFINITY}
    cluster.add_object({"kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "y"}}})
    assert cluster.filtered(pod).refused == {}
    cluster.close()


def test_an_excluded_namespace_does_not_count() -> None:
    """kubernetes/kubernetes#141526: anti-affinity to all namespaces but some was one to these as well."""
    term = domain_cluster.term(ZONE, BLUE, namespaceSelector=NOT_X)
    for namespace, refused in (("default", ("a1", "a2")), ("other", ())):
        theirs = _cluster()
        theirs.place(domain_cluster.pod(RED, affinity=domain_cluster.affinity((), [term])), "a1")
        pod = domain_cluster.pod(BLUE, namespace=namespace)
        assert theirs.filtered(pod).refused == dict.fromkeys(refused, EXISTING)
        theirs.close()
        own = _cluster()
        own.place(domain_cluster.pod(BLUE, namespace=namespace), "a1")
        assert own.filtered(_apart(term)).refused == dict.fromkeys(refused, ANTI_AFFINITY)
        own.close()


@pytest.mark.parametrize("counts", ["default", "other"])
def test_an_excluded_namespace_is_not_scored(counts: str) -> None:
    """kubernetes/kubernetes#141526, for a preference: the pods that are left out are more, and decided."""
    selector = NOT_X if counts == "default" else X_TEAM
    cluster = _cluster()
    for name in ("a2", "n1"):
        cluster.remove_node(name)
    excluded = ({"default", "other"} - {counts}).pop()
    for namespace, node, number in ((counts, "b1", 1), (excluded, "a1", 2)):
        for _ in range(number):
            cluster.place(domain_cluster.pod(RED, namespace=namespace), node)
    wish = domain_cluster.affinity(rather_apart=[(50, domain_cluster.term(ZONE, RED, namespaceSelector=selector))])
    (host,) = cluster.schedule(domain_cluster.pod(BLUE, affinity=wish), 1, 1)
    assert host == "a1"
    cluster.close()


PREFERENCES = [
    pytest.param(
        domain_cluster.pod(BLUE, affinity=domain_cluster.affinity(rather_near=[(5, BY_ZONE)])), "a", RED, id="near"
    ),
    pytest.param(
        domain_cluster.pod(BLUE, affinity=domain_cluster.affinity(rather_apart=[(5, BY_HOST)])), "b", RED, id="apart"
    ),
]


def _place_beside(there: Json, pod: Json, args: Json | None = None) -> str:
    cluster = domain_cluster.Cluster(args={"InterPodAffinity": args} if args else {})
    for name in ("a1", "b1"):
        cluster.add_node(domain_cluster.node(name, {HOST: name, ZONE: name[0]}, cpu=64))
    cluster.place(there, "a1")
    hosts = cluster.schedule(pod, 1, 1)
    cluster.close()
    return hosts[0][0]


@pytest.mark.parametrize(("pod", "zone", "there"), PREFERENCES)
def test_preferences_decide_among_equals(pod: Json, zone: str, there: Json) -> None:
    """A preference that is not scored might as well not be stated."""
    assert _place_beside(domain_cluster.pod(there), pod) == zone


SYMMETRIC = [
    pytest.param(domain_cluster.affinity([domain_cluster.term(ZONE, BLUE)]), {}, "a", id="required-counts-a-little"),
    pytest.param(domain_cluster.affinity(rather_apart=[(9, domain_cluster.term(ZONE, BLUE))]), {}, "b", id="apart"),
]


@pytest.mark.parametrize(("affinity", "args", "zone"), SYMMETRIC)
def test_terms_of_pods_that_are_there_are_scored(affinity: Json, args: Json, zone: str) -> None:
    """Who came first has wishes about who comes next."""
    there = domain_cluster.pod(RED, affinity=affinity)
    assert _place_beside(there, domain_cluster.pod(BLUE), args) == zone


def test_a_term_that_cannot_be_read_fails_its_own_pod() -> None:
    """A malformed term must say what is wrong, and harm no other pod."""
    cluster = _cluster()
    bad = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
    answer = cluster.ask_filter(cluster.class_of(_apart(bad)))
    text = 'parsing pod: requiredAntiAffinityTerms: "Near" is not a valid label selector operator'
    assert list(answer.pre_filter.status.messages) == [text]
    cluster.place(_apart(bad), "a1")
    assert cluster.filtered(domain_cluster.pod(BLUE)).refused == {}
    cluster.close()
