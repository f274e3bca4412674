"""Small random clusters, where some pods are removed and others added: over an overlay or in truth."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.plugin_api import interfaces
from trireme.registry import filter_plugins
from trireme.snapshot import overlay, pods, snapshot_view
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2, storage_pb2
from trireme_kube.apimachinery import decode

Json = dict[str, Any]

ZONE, HOST = "zone", "host"
GPU = "example.com/gpu"
DRIVER = "driver"
# The claims that only one pod may use at a time, and those of volumes with a limit for each node.
EXCLUSIVE, ATTACHED = ("alone-1", "alone-2"), ("disk-1", "disk-2", "disk-3")
# The class whose pods are filtered.
WANTED = 99

# The plugins whose verdicts follow from the pods.
PLUGINS = (
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "InterPodAffinity",
)


@dataclass(frozen=True, slots=True)
class Change:
    """A cluster and its change.

    Pods are class, node and whether they are being deleted; `removed` are places in `placed`, `restored` those of
    them that come back.
    """

    nodes: tuple[Json, ...]
    limits: tuple[int, ...]
    classes: dict[int, core_pb2.Pod]
    placed: tuple[tuple[int, int, bool], ...]
    removed: tuple[int, ...]
    restored: frozenset[int]
    added: tuple[tuple[int, int], ...]

    @property
    def gone(self) -> list[int]:
        """The places of the pods that are removed and do not come back."""
        return [place for place in self.removed if place not in self.restored]


def _term(key: str, app: str) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


KEYS, APPS = st.sampled_from((ZONE, HOST)), st.sampled_from("ab")


@st.composite
def _spreads(draw: st.DrawFn) -> Json:
    selector: Json = draw(st.sampled_from(({"matchLabels": {"app": "a"}}, {"matchLabels": {"app": "b"}}, {})))
    out = {
        "topologyKey": draw(KEYS),
        "maxSkew": draw(st.integers(1, 2)),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    return out | ({"minDomains": draw(st.integers(2, 4))} if draw(st.integers(0, 3)) == 0 else {})


@st.composite
def pods_of_all_kinds(draw: st.DrawFn) -> core_pb2.Pod:
    """Pods that any of the plugins may refuse."""

    def some(what: st.SearchStrategy[Any], most: int = 1) -> list[Any]:
        return draw(st.lists(what, max_size=most)) if draw(st.booleans()) else []

    requests = {"cpu": str(draw(st.integers(1, 2)))} | ({GPU: "1"} if draw(st.integers(0, 3)) == 0 else {})
    ports = [
        {"containerPort": 1, "hostPort": port, "hostIP": address}
        for port, address in some(st.tuples(st.sampled_from((80, 81)), st.sampled_from(("", "10.0.0.1"))))
    ]
    claims = some(st.sampled_from((*EXCLUSIVE, *ATTACHED)), 2)
    volumes: list[Json] = [
        {"name": f"claim-{place}", "persistentVolumeClaim": {"claimName": name}} for place, name in enumerate(claims)
    ]
    for place, (name, read_only) in enumerate(some(st.tuples(st.sampled_from("xy"), st.booleans()))):
        volumes.append({"name": f"pd-{place}", "gcePersistentDisk": {"pdName": name, "readOnly": read_only}})
    terms = st.builds(_term, KEYS, APPS)
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity: Json = {}
    if near := some(terms):
        affinity["podAffinity"] = {required: near}
    if far := some(terms):
        affinity["podAntiAffinity"] = {required: far}
    container = {"name": "main", "resources": {"requests": requests}, "ports": ports}
    spec = {
        "containers": [container],
        "volumes": volumes,
        "affinity": affinity,
        "topologySpreadConstraints": some(_spreads(), 2),
    }
    return pod_of(spec, labels={"app": draw(APPS)})


@st.composite
def pods_with_ports(draw: st.DrawFn) -> core_pb2.Pod:
    """Pods with one of few host ports."""
    address = draw(st.sampled_from(("", "10.0.0.1")))
    ports = [{"containerPort": 1, "hostPort": draw(st.sampled_from((80, 80, 81))), "hostIP": address}]
    return pod_of({"containers": [{"name": "main", "ports": ports}]})


@st.composite
def pods_with_exclusive_claims(draw: st.DrawFn) -> core_pb2.Pod:
    """Pods with claims that only one pod may use at a time."""
    names = draw(st.lists(st.sampled_from(EXCLUSIVE), min_size=1, max_size=2))
    volumes = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": name}} for at, name in enumerate(names)]
    return pod_of({"volumes": volumes})


@st.composite
def pods_that_spread_from_all(draw: st.DrawFn) -> core_pb2.Pod:
    """Pods with a constraint whose selector is empty."""
    skew = draw(st.integers(1, 2))
    constraint = {"topologyKey": HOST, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    return pod_of({"topologySpreadConstraints": [constraint]})


@st.composite
def changes(draw: st.DrawFn, kind: st.SearchStrategy[core_pb2.Pod] | None = None) -> Change:
    """A cluster and its change. Many pods of one kind are on few nodes, which all have a host name."""
    nodes = []
    pods_drawn = pods_of_all_kinds() if kind is None else kind
    for number in range(draw(st.integers(1, 5 if kind is None else 2))):
        labels = {HOST: f"n{number}"} if kind is not None or draw(st.integers(0, 5)) else {}
        if draw(st.integers(0, 5)):
            labels[ZONE] = draw(st.sampled_from("xyz"))
        size = {"cpu": str(draw(st.integers(2, 6))), GPU: "2", "pods": str(draw(st.integers(2, 6)))}
        nodes.append({"labels": labels, "allocatable": size})
    classes = {number: draw(pods_drawn) for number in range(1, draw(st.integers(1, 4 if kind is None else 2)) + 1)}
    classes[WANTED] = draw(pods_drawn)
    which, where = st.sampled_from(sorted(classes)), st.integers(0, len(nodes) - 1)
    least = 0 if kind is None else 1
    placed = draw(st.lists(st.tuples(which, where, st.booleans()), min_size=4 * least, max_size=8))
    places = st.lists(st.sampled_from(range(len(placed))), min_size=least, unique=True) if placed else st.just([])
    removed = draw(places)
    restored = draw(st.sets(st.sampled_from(removed))) if removed else set()
    added = draw(st.lists(st.tuples(which, where), max_size=4))
    limits = tuple(draw(st.integers(1, 2)) for _ in nodes)
    return Change(tuple(nodes), limits, classes, tuple(placed), tuple(removed), frozenset(restored), tuple(added))


def build(change: Change, placed: list[tuple[int, int, bool]]) -> SnapshotBuilder:
    """The cluster with these pods, in this order of rows."""
    builder = SnapshotBuilder()
    for number, node in enumerate(change.nodes):
        builder.set_node(f"n{number}", **node)
    for pod_class, pod in change.classes.items():
        builder.add_class(pod_class, pod)
    builder.apply(objects=list(_objects(change)))
    for pod_class, at, terminating in placed:
        builder.place(pod_class, f"n{at}", flags=pods.TERMINATING if terminating else 0)
    return builder


def before(change: Change) -> SnapshotBuilder:
    """The cluster before the change."""
    return build(change, list(change.placed))


def after(change: Change) -> SnapshotBuilder:
    """The cluster after the change."""
    gone = change.gone
    left = [pod for place, pod in enumerate(change.placed) if place not in gone]
    return build(change, [*left, *((pod_class, node, False) for pod_class, node in change.added)])


def apply(change: Change, over: overlay.SnapshotOverlay) -> None:
    """Make the change over an overlay of the cluster before it; a pod's row is its place."""
    over.remove(np.array(change.removed, dtype=np.intp))
    for place in sorted(change.restored):
        over.restore(np.array([place], dtype=np.intp))
    added = np.array(change.added, dtype=np.int32).reshape(-1, 2)
    over.add(added[:, 0], added[:, 1])


def verdicts(seen: snapshot_view.SnapshotView, name: str) -> Any:
    """What the plugin answers for the wanted class: PreFilter's decision, or refusal and capacity of each slot."""
    plugin = filter_plugins.make_filter_plugin(name, b"{}", {})
    assert plugin is not None
    table = interfaces.StatusTable()
    wanted, slots = seen.classes[WANTED], seen.nodes.live_slots()
    prefilter = plugin.pre_filter(wanted, seen, table)
    if prefilter.status is not None:
        return prefilter.status
    if prefilter.skip:
        return passing(slots.size)
    found = plugin.filter(wanted, seen, prefilter.state, slots, table)
    refusals = [table.statuses[number - 1].messages if number else () for number in found.index.tolist()]
    capacity = [interfaces.UNLIMITED] * slots.size if found.capacity is None else found.capacity.tolist()
    domain_refused = [False] * slots.size if found.domain_refused is None else found.domain_refused.tolist()
    # Nobody reads the capacity of a node that is refused.
    rows = zip(refusals, capacity, domain_refused, strict=True)
    return [(text, 0 if text else room, lift) for text, room, lift in rows]


def passing(size: int) -> list[tuple[tuple[str, ...], int, bool]]:
    """As verdicts, where all slots pass and take any number."""
    return [((), interfaces.UNLIMITED, False)] * size


def _objects(change: Change) -> Any:
    yield from claims_and_volumes()
    for number, limit in enumerate(change.limits):
        yield csi_node(f"n{number}", limit)


def claims_and_volumes() -> Any:
    """The claims of the pods, and their volumes."""
    for name in EXCLUSIVE:
        yield _object("persistent_volume_claim", core_pb2.PersistentVolumeClaim, name, _claim("ReadWriteOncePod"))
    for name in ATTACHED:
        spec = _claim("ReadWriteMany") | {"volumeName": f"pv-{name}"}
        yield _object("persistent_volume_claim", core_pb2.PersistentVolumeClaim, name, spec)
        source = {"csi": {"driver": DRIVER, "volumeHandle": name}}
        yield _object("persistent_volume", core_pb2.PersistentVolume, f"pv-{name}", source, namespace="")


def csi_node(name: str, limit: int) -> snapshot_pb2.ClusterObject:
    """How many volumes the node can attach."""
    spec = {"drivers": [{"name": DRIVER, "nodeID": "x", "allocatable": {"count": limit}}]}
    return _object("csi_node", storage_pb2.CSINode, name, spec, namespace="")


def _claim(mode: str) -> Json:
    return {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}


def _object(kind: str, message: Any, name: str, spec: Json, namespace: str = "default") -> snapshot_pb2.ClusterObject:
    value = decode.decode({"metadata": {"name": name, "namespace": namespace}, "spec": spec}, message)
    return snapshot_pb2.ClusterObject(**{kind: value})


def change_at_random(builder: SnapshotBuilder, draw: random.Random) -> None:
    """A delta of any kind, new labels, taints, images and resources among them."""
    snap = builder.snap
    kind = draw.choice(("node", "node", "node gone", "pod", "pod gone", "class", "object", "object gone", "nomination"))
    if kind == "node":
        name = draw.choice([*snap.nodes.slot_of_name, "new"])
        labels = {ZONE: draw.choice("xyzw"), HOST: draw.choice((name, "other"))}
        taints = [(draw.choice("tu"), "1", "NoSchedule")] if draw.random() < 0.5 else []
        size = {"cpu": str(draw.randint(1, 9)), "pods": "20", f"example.com/{draw.choice('pq')}": "1"}
        images = {draw.choice(("a:1", "b:1", "c:1")): draw.randint(1, 3)}
        builder.set_node(name, labels=labels, taints=taints, allocatable=size, images=images, features=["f"])
    elif kind == "node gone" and len(snap.nodes.slot_of_name) > 1:
        empty = [name for name, slot in snap.nodes.slot_of_name.items() if not snap.nodes.pod_count[slot]]
        if empty:
            builder.remove_node(draw.choice(empty))
    elif kind == "pod":
        builder.place(draw.choice(list(snap.classes)), draw.choice(list(snap.nodes.slot_of_name)))
    elif kind == "pod gone":
        rows = np.flatnonzero(snap.pods.slot[: snap.pods.size] >= 0).tolist()
        if rows:
            builder.remove(draw.choice(rows))
    elif kind == "class":
        builder.add_class(max(snap.classes) + 1, pod_of(requesting(cpu="1", **{"example.com/r": "1"})))
    elif kind == "object":
        fields = {"metadata": {"name": draw.choice(EXCLUSIVE), "namespace": "default"}}
        claim = decode.decode(fields, core_pb2.PersistentVolumeClaim)
        builder.apply(objects=[snapshot_pb2.ClusterObject(persistent_volume_claim=claim)])
    elif kind == "object gone":
        key = snapshot_pb2.ObjectKey(kind="persistent_volume", name=f"pv-{draw.choice(ATTACHED)}")
        builder.apply(removed_objects=[key])
    else:
        identity = cycle_pb2.PodIdentity(uid=draw.choice("uv"))
        slot = draw.choice(list(snap.nodes.slot_of_name.values()))
        builder.apply(nominations=[snapshot_pb2.Nomination(pod=identity, pod_class=WANTED, slot=slot)])
