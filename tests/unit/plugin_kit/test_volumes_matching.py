"""Matching claims on all slots at once is what one node after the other would have given; and so is counting volumes.

The twins here are slow and obvious: a loop over nodes, volumes and claims.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trireme.plugin_api import interfaces
from trireme.plugin_kit import volumes_attachments, volumes_matching
from trireme.plugins.node_volume_limits import filter as node_volume_limits
from trireme.plugins.volume_binding import args as binding_args
from trireme.plugins.volume_binding import score as binding_score
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, snapshot_pb2, storage_pb2
from trireme_kube.apimachinery import decode

Json = dict[str, Any]

ZONES = ("a", "b", "c")
KINDS: dict[str, Any] = {
    "persistent_volume": core_pb2.PersistentVolume,
    "persistent_volume_claim": core_pb2.PersistentVolumeClaim,
    "storage_class": storage_pb2.StorageClass,
    "csi_node": storage_pb2.CSINode,
    "csi_driver": storage_pb2.CSIDriver,
    "csi_storage_capacity": storage_pb2.CSIStorageCapacity,
    "volume_attachment": storage_pb2.VolumeAttachment,
}


class Cluster:
    """A snapshot that is changed by deltas."""

    def __init__(self, zones: list[str]) -> None:
        self.snap = snapshot.Snapshot()
        delta = snapshot_pb2.Delta(reset=True, to_generation=1)
        for slot, zone in enumerate(zones):
            node = core_pb2.Node()
            node.metadata.name = f"n{slot}"
            node.metadata.labels["zone"] = zone
            delta.nodes.add(slot=slot, node=node)
        self.snap.apply(delta)

    def change(self) -> snapshot_pb2.Delta:
        """The next delta, to be filled."""
        generation = self.snap.generation
        return snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1)

    def put(self, kind: str, *objects: Json) -> None:
        """These objects are there from now on."""
        delta = self.change()
        for entry in objects:
            getattr(delta.objects.add(), kind).CopyFrom(decode.decode(entry, KINDS[kind]))
        self.snap.apply(delta)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """The object is gone."""
        delta = self.change()
        delta.removed_objects.add(kind=kind, namespace=namespace, name=name)
        self.snap.apply(delta)

    def add_class(self, number: int, claims: list[str]) -> None:
        """A class of pods with these claims."""
        delta = self.change()
        entry = delta.classes.add(id=number)
        entry.pod.metadata.namespace = "d"
        for claim in claims:
            entry.pod.spec.volumes.add(name=claim).volume_source.persistent_volume_claim.claim_name = claim
        self.snap.apply(delta)

    def place(self, row: int, class_id: int, slot: int) -> None:
        """A pod of the class is on the slot."""
        delta = self.change()
        for name, value in (("row", row), ("pod_class", class_id), ("slot", slot), ("start_time_s", 0), ("flags", 0)):
            getattr(delta.pods, name).append(value)
        delta.pods.uid.append(f"u{row}")
        delta.pods.name.append(f"p{row}")
        self.snap.apply(delta)


def _volume(name: str, size: int, zones: tuple[str, ...], claim: str = "", handle: str = "") -> Json:
    spec: Json = {"capacity": {"storage": f"{size}Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "c"}
    if zones:
        expression = {"key": "zone", "operator": "In", "values": list(zones)}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    if claim:
        spec["claimRef"] = {"namespace": "d", "name": claim}
    if handle:
        spec["csi"] = {"driver": "x", "volumeHandle": handle}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}


def _claim(name: str, size: int, volume: str = "") -> Json:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "c",
        "resources": {"requests": {"storage": f"{size}Gi"}},
        "volumeName": volume,
    }
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    return {"metadata": {"name": name, "namespace": "d", "uid": name, "annotations": annotations}, "spec": spec}


def _chosen_one_by_one(zone: str, volumes: list[Json], claims: list[Json]) -> dict[str, str]:
    """What the claims get on a node of the zone, one after the other."""
    free = sorted(volumes, key=lambda volume: (_size(volume["spec"]["capacity"]), volume["metadata"]["name"]))
    out: dict[str, str] = {}
    for claim in sorted(claims, key=lambda claim: _size(claim["spec"]["resources"]["requests"])):
        name = claim["metadata"]["name"]
        wanted = _size(claim["spec"]["resources"]["requests"])
        fitting = [
            v for v in free if _size(v["spec"]["capacity"]) >= wanted and v["metadata"]["name"] not in out.values()
        ]
        meant = sorted((v for v in fitting if _claimed(v) == name), key=lambda volume: str(volume["metadata"]["name"]))
        choice = next(iter(meant), None) or next((v for v in fitting if not _claimed(v) and _reaches(v, zone)), None)
        if choice is not None and _reaches(choice, zone):
            out[name] = choice["metadata"]["name"]
    return out


def _size(amounts: Json) -> int:
    return int(amounts["storage"].removesuffix("Gi"))


def _claimed(volume: Json) -> str:
    return str(volume["spec"].get("claimRef", {}).get("name", ""))


def _reaches(volume: Json, zone: str) -> bool:
    affinity = volume["spec"].get("nodeAffinity")
    terms = affinity["required"]["nodeSelectorTerms"] if affinity else []
    return not terms or zone in terms[0]["matchExpressions"][0]["values"]


zones_strategy = st.sets(st.sampled_from(ZONES)).map(lambda zones: tuple(sorted(zones)))
volumes_strategy = st.lists(
    st.tuples(st.integers(1, 4), zones_strategy, st.sampled_from(["", "", "c0", "c1"])), max_size=9
)


@settings(max_examples=150)
@given(
    zones=st.lists(st.sampled_from(ZONES), min_size=1, max_size=5),
    drawn=volumes_strategy,
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_matching_on_all_slots_equals_matching_on_each(
    zones: list[str], drawn: list[tuple[int, tuple[str, ...], str]], sizes: list[int]
) -> None:
    """A volume taken twice on a node, or a larger one than needed, would differ from kube-scheduler's choice."""
    cluster = Cluster(zones)
    volumes = [_volume(f"v{n}", size, reach, claim) for n, (size, reach, claim) in enumerate(drawn)]
    claims = [_claim(f"c{n}", size) for n, size in enumerate(sizes)]
    mode = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.put("storage_class", {"metadata": {"name": "c"}, **mode})
    cluster.put("persistent_volume", *volumes)
    cluster.put("persistent_volume_claim", *claims)
    cluster.add_class(1, [claim["metadata"]["name"] for claim in claims])
    found = volumes_matching.match_volumes(
        volumes_matching.pod_claims(cluster.snap.classes[1], cluster.snap), cluster.snap
    )
    for slot, zone in enumerate(zones):
        chosen = {
            entry.claim.metadata.name: entry.volumes[entry.chosen[slot]].name
            for entry in found.static
            if entry.chosen[slot] != volumes_matching.NONE
        }
        expected = _chosen_one_by_one(zone, volumes, claims)
        assert chosen == expected
        assert (found.conflicts[slot] == 0) == (len(expected) == len(claims))


changes_strategy = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.integers(0, 7), st.integers(1, 4), st.integers(0, 2)),
        st.tuples(st.just("attach"), st.integers(0, 3), st.integers(0, 4), st.integers(0, 2)),
        st.tuples(st.just("detach"), st.integers(0, 3), st.just(0), st.just(0)),
        st.tuples(st.just("rebind"), st.integers(0, 3), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("handle"), st.integers(0, 4), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("unclaim"), st.integers(0, 3), st.just(0), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=120)
@given(changes=changes_strategy, limit=st.integers(0, 4))
def test_volumes_counted_where_something_changed_are_counted_right(
    changes: list[tuple[str, int, int, int]], limit: int
) -> None:
    """A count that missed a change would fill a node beyond its limit, or leave it half empty."""
    cluster = Cluster(list(ZONES))
    drivers = [{"name": "x", "nodeID": "n", "allocatable": {"count": limit}}]
    cluster.put("csi_node", *({"metadata": {"name": f"n{n}"}, "spec": {"drivers": drivers}} for n in range(3)))
    cluster.put("persistent_volume", *(_volume(f"v{n}", 1, (), handle=f"h{n}") for n in range(5)))
    cluster.put("persistent_volume_claim", *(_claim(f"c{n}", 1, f"v{n}") for n in range(5)))
    for number in range(4):
        cluster.add_class(number + 1, [f"c{number}"])
    cluster.add_class(5, ["c4"])
    plugin = node_volume_limits.NodeVolumeLimits(require_driver=True)
    for change in changes:
        _carry_out(cluster, change)
        table = interfaces.StatusTable()
        pod_class = cluster.snap.classes[5]
        said = plugin.filter(pod_class, cluster.snap, None, cluster.snap.nodes.live_slots(), table).index > 0
        assert said.tolist() == [_too_many(cluster.snap, slot, limit) for slot in range(3)], change


def test_nothing_of_attachments_that_are_gone_is_kept() -> None:
    """Each attachment has a name of its own: a filter would remember all that there ever were."""
    cluster = Cluster(list(ZONES))
    cluster.put("persistent_volume", _volume("v0", 1, (), handle="h0"))
    for number in range(20):
        _carry_out(cluster, ("attach", number, 0, 0))
        index = volumes_attachments.attachment_index_of(cluster.snap)
        assert index.counts("x")[0] == 1
        _carry_out(cluster, ("detach", number, 0, 0))
        assert volumes_attachments.attachment_index_of(cluster.snap) is index
        assert index.counts("x")[0] == 0
    assert isinstance(index, volumes_attachments.AttachmentIndex)
    kept = (index._attachments, index._attachments_at, index._attachments_of, index._volume_of_attachment)
    assert kept == ({}, {}, {}, {})


def _carry_out(cluster: Cluster, change: tuple[str, int, int, int]) -> None:
    what, first, second, third = change
    match what:
        case "place":
            cluster.place(first, second, third)
        case "attach":
            source = {"persistentVolumeName": f"v{second}"}
            spec = {"attacher": "x", "nodeName": f"n{third}", "source": source}
            cluster.put("volume_attachment", {"metadata": {"name": f"a{first}"}, "spec": spec})
        case "detach":
            cluster.remove("volume_attachment", "", f"a{first}")
        case "rebind":
            cluster.put("persistent_volume_claim", _claim(f"c{first}", 1, f"v{second}"))
        case "handle":
            cluster.put("persistent_volume", _volume(f"v{first}", 1, (), handle=f"h{second}"))
        case "unclaim":
            cluster.remove("persistent_volume_claim", "d", f"c{first}")


def _too_many(snap: snapshot.Snapshot, slot: int, limit: int) -> bool:
    """Whether a pod with claim c4 would be one volume too many, counted from nothing."""

    def handle(volume: str) -> str:
        return str(snap.objects.get("persistent_volume", "", volume).spec.persistent_volume_source.csi.volume_handle)

    def of_class(number: int) -> str:
        claim = snap.objects.get("persistent_volume_claim", "d", f"c{number - 1}")
        return "" if claim is None else handle(claim.spec.volume_name)

    rows = np.flatnonzero(snap.pods.slot[: snap.pods.size] == slot)
    by_pods = {of_class(number) for number in snap.pods.pod_class[rows].tolist()} - {""}
    attached = {
        handle(entry.spec.source.persistent_volume_name)
        for entry in snap.objects.all("volume_attachment")
        if entry.spec.node_name == f"n{slot}"
    }
    wanted = handle("v4")
    return wanted not in by_pods and len(by_pods | attached) + 1 > limit


@pytest.mark.parametrize(
    ("reported", "asked", "enough"),
    [
        ("1Gi", "1Gi", True),
        ("1.5", "1.2", True),
        ("1.2", "1.5", False),
    ],
)
def test_storage_capacity_is_compared_exactly(reported: str, asked: str, enough: bool) -> None:
    """kubernetes/kubernetes#142088: both were rounded up to whole bytes."""
    cluster = Cluster(["a"])
    cluster.put("csi_driver", {"metadata": {"name": "d"}, "spec": {"storageCapacity": True}})
    mode = {"provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.put("storage_class", {"metadata": {"name": "c"}, **mode})
    metadata = {"name": "s", "namespace": "d"}
    cluster.put(
        "csi_storage_capacity",
        {"metadata": metadata, "storageClassName": "c", "nodeTopology": {}, "capacity": reported},
    )
    claim = _claim("c0", 1)
    claim["spec"]["resources"]["requests"]["storage"] = asked
    cluster.put("persistent_volume_claim", claim)
    cluster.add_class(1, ["c0"])
    found = volumes_matching.match_volumes(
        volumes_matching.pod_claims(cluster.snap.classes[1], cluster.snap), cluster.snap
    )
    assert (found.dynamic[0].reported[0] != volumes_matching.NONE) == enough


def test_utilization_is_scored_in_integers_that_round_towards_zero() -> None:
    """Rounding otherwise would rank nodes of nearly equal use differently: 1 of 3 is 33 %, 3/70 down from 100."""
    cluster = Cluster(["a"])
    mode = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.put("storage_class", {"metadata": {"name": "c"}, **mode})
    cluster.put("persistent_volume", _volume("v", 3, ()))
    cluster.put("persistent_volume_claim", _claim("c0", 1))
    cluster.add_class(1, ["c0"])
    points = ((0, 0), (30, 10), (100, 0))
    args = {"shape": [{"utilization": utilization, "score": score} for utilization, score in points]}
    plugin = binding_score.VolumeBindingScore(binding_args.args_of(args, scoring=True))
    pod_class, slots = cluster.snap.classes[1], cluster.snap.nodes.live_slots()
    state = plugin.pre_score(pod_class, cluster.snap)
    assert plugin.score(pod_class, cluster.snap, state, slots).tolist() == [96]
    silent = binding_score.VolumeBindingScore(binding_args.args_of(args, scoring=False))
    assert silent.pre_score(pod_class, cluster.snap) is None
