"""What a class says about its pods, by the fields that these share."""

from typing import Any

import pytest

from tests.helpers.snapshot_views import pod_of, requesting
from trireme.snapshot import classes, resources

_NAMED_NODES = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]}
_LABELLED_NODES = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
_PREFERRED_NODES = [{"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]
_PODS_NEARBY = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
_REQUESTS = {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}


def _class(spec: dict[str, Any]) -> classes.PodClass:
    return classes.PodClass(1, pod_of(spec))


def _required(selector: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}}


_NODE, _FAMILY, _BESIDE = "node_terms", "family", "beside_node_affinity"


@pytest.mark.parametrize(
    ("spec", "differs"),
    [
        pytest.param({}, set(), id="nothing"),
        pytest.param({"priority": 7}, {_FAMILY, _BESIDE}, id="priority"),
        pytest.param({"containers": [_REQUESTS]}, {_BESIDE}, id="requests"),
        pytest.param({"containers": [{"image": "a:1"}]}, {_NODE, _FAMILY, _BESIDE}, id="image"),
        pytest.param({"nodeName": "n0"}, {_NODE, _FAMILY, _BESIDE}, id="node-name"),
        pytest.param({"nodeSelector": {"zone": "a"}}, {_NODE, _FAMILY, _BESIDE}, id="node-selector"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, {_NODE, _FAMILY, _BESIDE}, id="tolerations"),
        pytest.param(
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": _PREFERRED_NODES}}},
            {_NODE, _FAMILY, _BESIDE},
            id="preferred-nodes",
        ),
        pytest.param({"affinity": {"podAffinity": _PODS_NEARBY}}, {_FAMILY, _BESIDE}, id="pods-nearby"),
        pytest.param(
            {"volumes": [{"name": "v", "image": {"reference": "a:1"}}]}, {_NODE, _FAMILY, _BESIDE}, id="image-volume"
        ),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]}, {_FAMILY, _BESIDE}, id="other-volume"),
    ],
)
def test_classes_share_what_none_of_their_differing_fields_concerns(spec: dict[str, Any], differs: set[str]) -> None:
    """An answer about one class would be given for another one that states something else."""
    one, other = _class({}), _class(spec)
    assert {name for name in (_NODE, _FAMILY, _BESIDE) if getattr(one, name) != getattr(other, name)} == differs


def test_init_containers_count_by_their_images_and_not_by_their_requests() -> None:
    plain, requesting, other = (_class({"initContainers": [each]}) for each in ({}, _REQUESTS, {"image": "a:1"}))
    assert plain.family == requesting.family != other.family
    assert plain.node_terms == requesting.node_terms != other.node_terms


def test_pods_of_a_daemon_set_differ_in_the_required_node_affinity_alone() -> None:
    named, labelled = _class(_required(_NAMED_NODES)), _class(_required(_LABELLED_NODES))
    assert (named.names_nodes, labelled.names_nodes, _class({}).names_nodes) == (True, False, False)
    assert named.beside_node_affinity == labelled.beside_node_affinity
    assert named.node_terms != labelled.node_terms
    assert named.family != labelled.family


@pytest.mark.parametrize(
    ("spec", "takes"),
    [
        pytest.param({}, (False, False, ()), id="nothing"),
        pytest.param({"containers": [_REQUESTS]}, (False, False, ()), id="resources"),
        pytest.param(
            {"containers": [{"ports": [{"containerPort": 80}, {"containerPort": 80, "hostPort": 8080}]}]},
            (False, True, (("0.0.0.0", "TCP", 8080),)),
            id="host-port",
        ),
        pytest.param({"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]}, (True, True, ()), id="claim"),
        pytest.param(
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, (True, True, ()), id="volume"
        ),
    ],
)
def test_pods_take_claims_and_ports_of_a_node(spec: dict[str, Any], takes: tuple[bool, bool, object]) -> None:
    """Pods placed together would get the same port, or the same device."""
    seen = _class(spec)
    assert (seen.has_claims, seen.takes_more_than_resources, seen.host_ports) == takes


@pytest.mark.parametrize("way", ["podAffinity", "podAntiAffinity"])
def test_affinity_to_pods_or_against_them_relates_a_class_to_pods(way: str) -> None:
    assert _class({"affinity": {way: _PODS_NEARBY}}).relates_to_pods
    assert not _class(_required(_NAMED_NODES)).relates_to_pods


def test_a_class_of_invalid_amounts_says_so_and_requests_nothing() -> None:
    """Its pods are refused one by one; a replica that raised could follow no delta with it."""
    assert _class({"containers": [_REQUESTS]}).invalid is None
    pod = pod_of({"containers": [_REQUESTS]})
    pod.spec.containers[0].resources.requests["cpu"].string = "much"
    seen = classes.PodClass(1, pod)
    assert seen.invalid is not None
    assert "quantities must match" in seen.invalid
    assert seen.placed_nonzero_requests.tolist() == [0, 0]


def test_a_memo_is_computed_once_for_each_key() -> None:
    seen = _class({})
    one = seen.memo("one", lambda of: [of.id])
    assert (one, seen.memo("other", lambda _: [7])) == ([1], [7])
    assert seen.memo("one", lambda _: [9]) is one


def test_what_a_pod_uses_is_found_out_once() -> None:
    pod_class, names = classes.PodClass(1, pod_of(requesting(cpu="1"))), resources.ResourceNames()
    assert pod_class.placed_requests(names) is pod_class.placed_requests(names)
