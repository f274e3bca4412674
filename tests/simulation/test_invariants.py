"""Each invariant after a write at the API server is violated by what it rules out, and by nothing that is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.invariants import Invariants
from tests.simulation.pod_demands import APART, DEVICE_RESOURCE, LICENSE_RESOURCE
from tests.simulation.simulated_workloads import DEVICE_CLAIMS, GROUPS, VOLUME_CLAIMS, ZONE
from trireme_kube.embedded.api.resources import BY_KEY, NODES, PODS, Object, Resource
from trireme_kube.embedded.storage.store import Store

_VOLUMES = BY_KEY["persistentvolumes"]
_ROOM = {"cpu": "4", "memory": "4Gi", "ephemeral-storage": "4Gi", LICENSE_RESOURCE: "4", "pods": "4"}


class _Server:
    """A store with two open nodes, node-1 and node-2, each with four of everything, and a closed one."""

    def __init__(self) -> None:
        self.store = Store()
        self.invariants = Invariants(self.store)
        self.store.listen_to_all(self.invariants.on_write)
        for number in (1, 2, 3):
            labels = {ZONE: f"zone-{number}"}
            self.put(NODES, f"node-{number}", "", labels=labels, spec={}, status={"allocatable": dict(_ROOM)})

    def put(
        self,
        resource: Resource,
        name: str,
        namespace: str = "default",
        labels: Object | None = None,
        annotations: Object | None = None,
        owner: str = "",
        **fields: Any,
    ) -> None:
        """Store an object, whose UID is its name."""
        metadata: Object = {"name": name, "uid": name, "labels": labels or {}, "annotations": annotations or {}}
        if namespace:
            metadata["namespace"] = namespace
        if owner:
            metadata["ownerReferences"] = [{"uid": owner}]
        self.store.put(resource, {"metadata": metadata, **fields})

    def bind(self, name: str, node: str = "node-1", *, epochs: tuple[int, ...] = (1,), **pod: Any) -> None:
        """Create a pod, and bind it for the leaders of these epochs."""
        self.create(name, **pod)
        for epoch in epochs:
            self.invariants.on_bind_request(name, node, epoch)
        self.create(name, node=node, **pod)

    def create(self, name: str, node: str = "", labels: Object | None = None, **pod: Any) -> None:
        """Store a pod."""
        status = pod.pop("status", {})
        spec = {"containers": [_container()], **pod, **({"nodeName": node} if node else {})}
        self.put(PODS, name, labels=labels, spec=spec, status=status)

    def volume(self, name: str, zone: str) -> None:
        """Store a claim with its volume, which is in one zone."""
        expression = {"key": ZONE, "operator": "In", "values": [zone]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        self.put(_VOLUMES, name, "", spec={"nodeAffinity": affinity})
        self.put(VOLUME_CLAIMS, name, spec={"volumeName": name})

    def claim(self, name: str, *devices: str, pool: str = "node-1", user: str = "", made_for: str = "") -> None:
        """Store a claim that has devices."""
        results = [{"driver": "d", "pool": pool, "device": device} for device in devices]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": user}] if user else []}
        annotations = {"resource.kubernetes.io/extended-resource-claim": "true"} if made_for else {}
        self.put(DEVICE_CLAIMS, name, annotations=annotations, owner=made_for, spec={}, status=status)


def _container(requests: Object | None = None, **fields: Any) -> Object:
    return {"name": "c", "resources": {"requests": requests or {}}, **fields}


def _requesting(requests: Object) -> Object:
    return {"containers": [_container(requests)]}


def _volume(claim: str) -> Object:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}


def _device(claim: str) -> Object:
    return {"resourceClaims": [{"name": "d", "resourceClaimName": claim}]}


_EXTENDED: Object = {
    **_requesting({DEVICE_RESOURCE: "2"}),
    "status": {"extendedResourceClaimStatus": {"resourceClaimName": "made"}},
}


def _overcommit(requests: Object) -> Callable[[_Server], None]:
    def twice(server: _Server) -> None:
        server.bind("one", **_requesting(requests))
        server.bind("other", **_requesting(requests))

    return twice


def _overcommit_by_init_container(server: _Server) -> None:
    server.bind("one", **_requesting({"cpu": "2"}))
    server.bind("other", initContainers=[_container({"cpu": "2100m"})], **_requesting({"cpu": "1"}))


def _too_many_pods(server: _Server) -> None:
    for number in range(5):
        server.bind(f"pod-{number}")


def _bound_twice(server: _Server) -> None:
    server.bind("one")
    server.create("one", "node-2")


def _unbound(server: _Server) -> None:
    server.bind("one")
    server.create("one")


def _same_port(server: _Server) -> None:
    for name in ("one", "other"):
        server.bind(name, containers=[_container(ports=[{"hostPort": 8080}])])


def _kept_apart(server: _Server) -> None:
    for name in ("one", "other"):
        server.bind(name, labels={APART: "a"})


def _too_many_volumes(server: _Server) -> None:
    for name in ("a", "b", "c"):
        server.volume(name, "zone-1")
        server.bind(name, **_volume(name))


def _without_volume(server: _Server) -> None:
    server.put(VOLUME_CLAIMS, "a", spec={})
    server.bind("one", **_volume("a"))


def _volume_elsewhere(server: _Server) -> None:
    server.volume("a", "zone-2")
    server.bind("one", **_volume("a"))


def _devices_elsewhere(server: _Server) -> None:
    server.claim("a", "1", pool="node-2", user="one")
    server.bind("one", **_device("a"))


def _devices_of_another(server: _Server) -> None:
    server.claim("a", "1", user="other")
    server.bind("one", **_device("a"))


def _device_given_twice(server: _Server) -> None:
    server.claim("a", "1")
    server.claim("b", "2", "1")


def _too_few_devices(server: _Server) -> None:
    server.claim("made", "1", user="one", made_for="one")
    server.bind("one", **_EXTENDED)


def _two_claims_made(server: _Server) -> None:
    server.claim("made", "1", made_for="one")
    server.claim("again", "2", made_for="one")


def _former_leader(server: _Server) -> None:
    server.bind("one", epochs=(2,))
    server.bind("other", epochs=(1,))


@pytest.mark.parametrize(
    ("violate", "text"),
    [
        (_overcommit({"cpu": "2100m"}), "pod other overcommits node-1: (4200, 0, 0, 0, 2) of (4000, 4096, 4096, 4, 4)"),
        (_overcommit({"memory": "2100Mi"}), "pod other overcommits node-1"),
        (_overcommit({"ephemeral-storage": "2100Mi"}), "pod other overcommits node-1"),
        (_overcommit({LICENSE_RESOURCE: "3"}), "pod other overcommits node-1"),
        (_overcommit_by_init_container, "pod other overcommits node-1"),
        (_too_many_pods, "pod pod-4 overcommits node-1"),
        (_bound_twice, "pod one was bound to node-1 and is bound to 'node-2'"),
        (_unbound, "pod one was bound to node-1 and is bound to ''"),
        (_same_port, "pod other shares ['host port 8080'] with another pod on node-1"),
        (_kept_apart, "pod other shares ['label a'] with another pod on node-1"),
        (lambda server: server.bind("one", "node-3"), "pod one is bound to node-3, off which the remote plugin"),
        (_too_many_volumes, "pod c makes 3 volumes on node-1"),
        (_without_volume, "pod one is bound to node-1, its claim a has no volume"),
        (_volume_elsewhere, "pod one is bound to node-1, its volume is in zone-2"),
        (_devices_elsewhere, "pod one is bound to node-1, its claim a has devices of ['node-2']"),
        (_devices_of_another, "pod one is bound to node-1, its claim a has devices of ['node-1'] and users ['other']"),
        (_device_given_twice, "claim b got ('d', 'node-1', '1'), which another claim has"),
        (_too_few_devices, "pod one does not get 2 devices by its claim made"),
        (_two_claims_made, "again and made were made for one pod"),
        (lambda server: server.bind("one", epochs=()), "pod one was bound to node-1 without a leader's request"),
        (_former_leader, "pod other was bound for epoch 1 after epoch 2 had bound one"),
    ],
)
def test_a_violation_is_found(violate: Callable[[_Server], None], text: str) -> None:
    """If this fails, a simulation says that nothing is wrong where this is."""
    server = _Server()
    violate(server)
    (found,) = server.invariants.violations
    assert found.startswith(text)


def test_what_is_right_violates_nothing() -> None:
    """If this fails, a simulation reports what is no defect."""
    server = _Server()
    server.volume("a", "zone-1")
    server.claim("a", "1", user="one")
    full = {"cpu": "3", "memory": "3Gi", "ephemeral-storage": "3Gi", LICENSE_RESOURCE: "3"}
    init = [_container({"cpu": "4"})]
    server.bind("one", initContainers=init, **_requesting(full), **_volume("a"), **_device("a"))
    server.create("one", "node-1", status={"phase": "Succeeded"}, initContainers=init, **_requesting(full))
    server.bind("other", "node-1", epochs=(1, 2), containers=[_container(full, ports=[{"hostPort": 80}])])
    server.bind("third", "node-2", containers=[_container(full, ports=[{"hostPort": 80}])])
    server.claim("made", "2", "3", user="fourth", made_for="fourth")
    server.bind("fourth", epochs=(2,), **_EXTENDED)
    server.store.remove(PODS, "default", "other")
    server.bind("fifth", epochs=(3,), **_requesting({"cpu": "4"}))
    assert server.invariants.violations == []
    assert server.invariants.bound == 5
    assert server.invariants.useless_claims() == server.invariants.pods_that_fit() == []


def test_what_is_left_at_rest_is_found() -> None:
    """If this fails, pods that fit stay pending, or claims stay behind, and no simulation says so."""
    server = _Server()
    server.create("fits", **_requesting({"cpu": "4"}))
    server.create("does-not", **_requesting({"cpu": "5"}))
    server.create("gated", schedulingGates=[{"name": "later"}])
    assert server.invariants.pods_that_fit() == ["fits"]
    server.claim("made", "1", made_for="gone")
    assert server.invariants.useless_claims() == ["made is of no bound pod"]


def test_a_limit_that_no_leader_knew_is_none() -> None:
    """If this fails, a simulation blames a leader to which a CSINode came after its node, as it may."""
    server = _Server()
    invariants = Invariants(server.store, lambda uid, node: (uid, node) != ("third", "node-1"))
    server.store.listen_to_all(invariants.on_write)
    for name, volume in (("one", "a"), ("two", "b"), ("third", "c")):
        server.volume(volume, "zone-1")
        invariants.on_bind_request(name, "node-1", 1)
        server.bind(name, **_volume(volume))
    assert invariants.violations == []
    assert server.invariants.violations == ["pod third makes 3 volumes on node-1"]


_ZONED: Object = {"schedulingPolicy": {"gang": {"minCount": 2}}, "schedulingConstraints": {"topology": [{"key": ZONE}]}}


def test_a_group_of_one_zone_is_in_one_zone() -> None:
    """If this fails, a simulation misses that a group is spread over zones."""
    server = _Server()
    server.put(GROUPS, "gang", spec=_ZONED)
    member = {"schedulingGroup": {"podGroupName": "gang"}}
    server.bind("one", "node-1", **member)
    server.bind("two", "node-1", **member)
    assert server.invariants.violations == []
    server.bind("three", "node-2", **member)
    (found,) = server.invariants.violations
    assert found == "gang, with three bound to node-2, is in ['zone-1', 'zone-2']"


@pytest.mark.parametrize(("cpu", "fitting"), [("2", ["one", "two"]), ("3", [])])
def test_a_group_of_one_zone_fits_only_within_one(cpu: str, fitting: list[str]) -> None:
    """If this fails, a simulation reports a group that fits in no single zone, or none that is forgotten."""
    server = _Server()
    server.put(GROUPS, "gang", spec=_ZONED)
    for name in ("one", "two"):
        server.create(name, schedulingGroup={"podGroupName": "gang"}, **_requesting({"cpu": cpu}))
    assert server.invariants.pods_that_fit() == fitting


@pytest.mark.parametrize(
    ("spec", "fitting"), [(_ZONED, []), ({"schedulingPolicy": {"gang": {"minCount": 2}}}, ["one", "two"])]
)
def test_a_group_of_one_zone_waits_for_devices_that_are_not_released(spec: Object, fitting: list[str]) -> None:
    """As with kube-scheduler; others have theirs released, and then they fit."""
    server = _Server()
    server.put(GROUPS, "gang", spec=spec)
    server.claim("made", "1", made_for="one")
    server.create("one", schedulingGroup={"podGroupName": "gang"}, **_EXTENDED)
    server.create("two", schedulingGroup={"podGroupName": "gang"})
    assert server.invariants.pods_that_fit() == fitting
    assert bool(server.invariants.useless_claims()) == bool(fitting)


def test_a_gated_member_holds_back_its_group() -> None:
    """If this fails, a simulation reports a group that waits rightly, or none that is forgotten."""
    server = _Server()
    server.put(GROUPS, "gang", spec={"schedulingPolicy": {"gang": {"minCount": 2}}})
    member = {"schedulingGroup": {"podGroupName": "gang"}}
    server.create("one", **member)
    server.create("two", **member)
    server.create("three", **member, schedulingGates=[{"name": "later"}])
    assert server.invariants.pods_that_fit() == []
    server.create("three", **member)
    assert server.invariants.pods_that_fit() == ["one", "three", "two"]
