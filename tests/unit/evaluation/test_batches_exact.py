"""Batches end as one-by-one cycles, whatever the pods ask for: every default filter, and classes that take turns.

What spreads, attracts and keeps apart has tests of its own (`test_score_placement_domains`); here it meets host ports,
resources, volumes and their limits, disks, images and nodes that pods would rather have, and answers that were made
ahead of a class's turn and only brought up to date when it came.
"""

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.helpers import domain_cluster

Json = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GPU = "example.com/gpu"
DRIVER = "csi.example.com"
APPS = ("red", "blue")
FILTERS = (
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeDeclaredFeatures",
)
# Claims by name: access mode, and the zone that the volume is in.
CLAIMS = {
    "shared": ("ReadWriteMany", ""),
    "once": ("ReadWriteOnce", "a"),
    "pod": ("ReadWriteOncePod", ""),
    "other": ("ReadWriteMany", ""),
}


@st.composite
def nodes(draw: st.DrawFn) -> list[Json]:
    """Some nodes, of different sizes."""
    out = []
    for number in range(draw(st.integers(2, 7))):
        labels = {
            HOST: f"n{number}",
            ZONE: draw(st.sampled_from(("a", "b"))),
            "disk": draw(st.sampled_from(("x", "y"))),
        }
        out.append(
            domain_cluster.node(
                f"n{number}",
                labels,
                cpu=draw(st.sampled_from((1, 2, 4))),
                pods=draw(st.sampled_from((2, 4, 20))),
                amounts={GPU: str(draw(st.sampled_from((0, 1, 3))))},
                images=["app:v1"] if draw(st.booleans()) else [],
                taints=draw(st.lists(st.just(("t", "1", "PreferNoSchedule")), max_size=1)),
            )
        )
    return out


def _limits(number: int, count: int) -> Json:
    drivers = [{"name": DRIVER, "nodeID": f"n{number}", "allocatable": {"count": count}}]
    return {"kind": "CSINode", "metadata": {"name": f"n{number}", "uid": f"n{number}"}, "spec": {"drivers": drivers}}


def _volumes() -> list[Json]:
    out: list[Json] = []
    for name, (mode, zone) in CLAIMS.items():
        volume = {
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "accessModes": [mode],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": name, "uid": name},
        }
        if zone:
            expression = {"key": ZONE, "operator": "In", "values": [zone]}
            volume["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        metadata = {"name": name, "uid": name, "resourceVersion": "1"}
        out.append({"kind": "PersistentVolume", "metadata": metadata, "spec": volume})
        bound = {"pv.kubernetes.io/bind-completed": "yes"}
        claim = {"accessModes": [mode], "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
        out.append(
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {**metadata, "namespace": "default", "annotations": bound},
                "spec": claim,
                "status": {"phase": "Bound"},
            }
        )
    return out


def _volume(name: str) -> Json:
    if name.startswith("disk"):
        return {"name": "v", "gcePersistentDisk": {"pdName": name[:5], "readOnly": name.endswith("ro")}}
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


_WISHES: tuple[Json, ...] = (
    {},
    {"nodeSelector": {"disk": "x"}},
    {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["y"]}]}},
    ]}}},
    {"tolerations": [{"operator": "Exists"}]},
    {"topologySpreadConstraints": [domain_cluster.spread(ZONE, True, {"app": "red"})]},
    {"topologySpreadConstraints": [domain_cluster.spread(HOST, False, {"app": "blue"}, 2)]},
    {"affinity": domain_cluster.affinity([domain_cluster.term(ZONE, {"app": "red"})])},
    {"affinity": domain_cluster.affinity((), [domain_cluster.term(HOST, {"app": "blue"})])},
    {"affinity": domain_cluster.affinity(rather_near=[(30, domain_cluster.term(ZONE, {"app": "blue"}))])},
)  # fmt: skip


@st.composite
def pods(draw: st.DrawFn) -> Json:
    """A pod of some class."""
    requests = draw(
        st.sampled_from(
            (
                {},
                {"cpu": "200m", "memory": "64Mi"},
                {"cpu": "1", "memory": "2Gi"},
                {"memory": "5Gi"},
                {"cpu": "100m", GPU: "1"},
            )
        )
    )
    wishes = {**draw(st.sampled_from(_WISHES))}
    volume = draw(st.sampled_from(("", "", *CLAIMS, "disk1", "disk1-ro")))
    if volume:
        wishes["volumes"] = [_volume(volume)]
    pod = domain_cluster.pod({"app": draw(st.sampled_from(APPS))}, requests=requests, **wishes)
    port = draw(st.sampled_from((0, 0, 0, 80, 81)))
    if port:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]
    return pod


@st.composite
def situations(draw: st.DrawFn) -> Json:
    """Nodes, pods that are there, and classes that take turns."""
    some_nodes = draw(nodes())
    classes = draw(st.lists(pods(), min_size=1, max_size=3))
    there = draw(st.lists(st.tuples(pods(), st.integers(0, len(some_nodes) - 1)), max_size=4))
    limits = draw(st.lists(st.integers(0, 3), min_size=len(some_nodes), max_size=len(some_nodes)))
    rounds = draw(st.lists(st.tuples(st.integers(0, len(classes) - 1), st.integers(1, 10)), min_size=1, max_size=5))
    return {"nodes": some_nodes, "there": there, "classes": classes, "rounds": rounds, "limits": limits}


def _cluster(situation: Json) -> domain_cluster.Cluster:
    cluster = domain_cluster.Cluster(filters=FILTERS)
    for node in situation["nodes"]:
        cluster.add_node(node)
    for number, count in enumerate(situation["limits"]):
        # A node that says nothing of its driver has no limit.
        if count:
            cluster.add_object(_limits(number, count))
    for entry in _volumes():
        cluster.add_object(entry)
    for pod, number in situation["there"]:
        cluster.place(pod, f"n{number}")
    return cluster


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(situations())
def test_batches_equal_single_cycles_with_prepared_classes(situation: Json) -> None:
    """A batch that ends elsewhere than one-by-one scheduling gives a port, a slot or a disk twice, or scores amiss."""
    classes, rounds = situation["classes"], situation["rounds"]
    alone = _cluster(situation)
    one_by_one = [alone.schedule(classes[number], count, 1) for number, count in rounds]
    alone.close()
    batched = _cluster(situation)
    together = []
    for turn, (number, count) in enumerate(rounds):
        for later, _ in rounds[turn + 1 :]:
            batched.prepare(classes[later])
        together.append(batched.schedule_by_patches(classes[number], count))
    batched.close()
    note(f"one by one: {one_by_one}")
    assert [Counter(hosts) for hosts in together] == [Counter(hosts) for hosts in one_by_one]
    assert together == one_by_one
