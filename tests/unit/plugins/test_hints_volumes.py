"""Hints of VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone."""

from typing import Any

import pytest
from hint_answers import ERROR, QUEUE, SKIP, Hints, entry, on, pod

Json = dict[str, Any]


def _volume(**source: Any) -> Json:
    return {"name": "v", **source}


def _using(claim: str, name: str = "p", **more: Any) -> Json:
    return pod(name, volumes=[_volume(persistentVolumeClaim={"claimName": claim})], **more)


EPHEMERAL = pod(volumes=[_volume(ephemeral={})])
OF_Q = {"metadata": pod("q")["metadata"]}
DISK = pod(volumes=[_volume(gcePersistentDisk={"pdName": "d"})])
INLINE = pod(volumes=[_volume(awsElasticBlockStore={"volumeID": "vol-1"})])
AZURE_FILE = pod(volumes=[_volume(azureFile={"secretName": "s", "shareName": "s"})])


def _claim(name: str, namespace: str = "ns") -> Json:
    return entry("PersistentVolumeClaim", name, namespace, spec={})


# Which plugins count claims that were made for the pod.
CLAIM_EVENTS = [
    ("VolumeRestrictions", "Add", False),
    ("NodeVolumeLimits", "Add", True),
    ("VolumeBinding", "Add", True),
    ("VolumeBinding", "Update", True),
    ("VolumeZone", "Add", False),
    ("VolumeZone", "Update", False),
]


@pytest.mark.parametrize(("plugin", "action", "ephemeral"), CLAIM_EVENTS)
def test_claims(plugin: str, action: str, ephemeral: bool) -> None:
    """Else pods are tried for each claim in the cluster, or sleep when their own is there."""

    def said(waiting: Json, claim: Json) -> str:
        old = claim if action == "Update" else None
        return Hints(plugin).about(waiting, "PersistentVolumeClaim", action, old, claim)

    assert said(_using("c"), _claim("c")) == QUEUE
    assert said(_using("c"), _claim("d")) == SKIP
    assert said(_using("c"), _claim("c", "other")) == SKIP
    assert said(EPHEMERAL, _claim("p-v")) == (QUEUE if ephemeral else SKIP)


@pytest.mark.parametrize(
    ("waiting", "gone", "expected"),
    [
        pytest.param(_using("c"), on("n", _using("c", "q")), QUEUE, id="same-claim"),
        pytest.param(_using("c"), on("n", _using("d", "q")), SKIP, id="other-claim"),
        pytest.param(_using("c"), on("n", _using("c", "q", namespace="other")), SKIP, id="other-namespace"),
        pytest.param(DISK, on("n", pod("q", volumes=DISK["spec"]["volumes"])), QUEUE, id="same-disk"),
        pytest.param(
            DISK, on("n", pod("q", volumes=[_volume(gcePersistentDisk={"pdName": "e"})])), SKIP, id="other-disk"
        ),
        pytest.param(_using("c"), on("n", pod("q")), SKIP, id="no-volumes"),
        pytest.param(_using("q-v"), on("n", {**EPHEMERAL, **OF_Q}), SKIP, id="a-claim-that-was-made-for-it"),
        pytest.param(EPHEMERAL, on("n", _using("p-v", "q")), SKIP, id="a-claim-that-was-made-for-the-pod"),
    ],
)
def test_restrictions(waiting: Json, gone: Json, expected: str) -> None:
    """Else pods are tried when a pod ends that had none of their disks."""
    assert Hints("VolumeRestrictions").about(waiting, "AssignedPod", "Delete", gone) == expected


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        pytest.param(_using("c", "q"), QUEUE, id="claim"),
        pytest.param(EPHEMERAL, QUEUE, id="ephemeral"),
        pytest.param(INLINE, QUEUE, id="inline-that-a-driver-took-over"),
        pytest.param(pod("q", volumes=[_volume(csi={"driver": "d"})]), SKIP, id="inline-csi"),
        pytest.param(pod("q"), SKIP, id="none"),
    ],
)
def test_limits_and_pods_that_end(gone: Json, expected: str) -> None:
    """Else pods are tried when a pod ends that attached nothing."""
    assert Hints("NodeVolumeLimits").about(_using("c"), "AssignedPod", "Delete", on("n", gone)) == expected


@pytest.mark.parametrize(
    ("waiting", "attacher", "expected"),
    [
        pytest.param(_using("c"), "any", QUEUE, id="claim"),
        pytest.param(INLINE, "ebs.csi.aws.com", QUEUE, id="inline-of-the-driver"),
        pytest.param(INLINE, "pd.csi.storage.gke.io", SKIP, id="inline-of-another-driver"),
        pytest.param(AZURE_FILE, "file.csi.azure.com", QUEUE, id="inline-not-counted-but-migrated"),
        pytest.param(
            pod(volumes=[_volume(csi={"driver": "d"}), *INLINE["spec"]["volumes"]]),
            "ebs.csi.aws.com",
            QUEUE,
            id="the-second",
        ),
        pytest.param(EPHEMERAL, "any", SKIP, id="ephemeral"),
        pytest.param(pod(), "any", SKIP, id="no-volumes"),
        pytest.param(
            pod(volumes=[_volume(awsElasticBlockStore={"volumeID": "aws://"})]), "any", ERROR, id="cannot-be-told"
        ),
    ],
)
def test_limits_and_detached_volumes(waiting: Json, attacher: str, expected: str) -> None:
    """Else pods sleep while a node has taken off a volume, or wake for those of other drivers."""
    attachment = entry("VolumeAttachment", "a", spec={"attacher": attacher, "nodeName": "n", "source": {}})
    assert Hints("NodeVolumeLimits").about(waiting, "storage.k8s.io/VolumeAttachment", "Delete", attachment) == expected


def _csi_node(**counts: int | None) -> Json:
    drivers = [
        {"name": name, "nodeID": "n", **({} if count is None else {"allocatable": {"count": count}})}
        for name, count in counts.items()
    ]
    return entry("CSINode", "n", spec={"drivers": drivers})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(_csi_node(a=1), _csi_node(a=2), QUEUE, id="more"),
        pytest.param(_csi_node(a=2), _csi_node(a=1), SKIP, id="less"),
        pytest.param(_csi_node(a=1), _csi_node(a=1, b=1), QUEUE, id="another-driver"),
        pytest.param(_csi_node(a=1), _csi_node(a=1, b=None), SKIP, id="another-driver-without-a-count"),
        pytest.param(_csi_node(a=1), _csi_node(), SKIP, id="driver-gone"),
    ],
)
def test_limits_of_a_node(old: Json, new: Json, expected: str) -> None:
    """Else pods are tried at each change of a CSINode."""
    hints = Hints("NodeVolumeLimits")
    assert hints.about(_using("c"), "storage.k8s.io/CSINode", "Update", old, new) == expected
    assert hints.about(_using("c"), "storage.k8s.io/CSINode", "Add", None, new) == QUEUE


def _storage_class(mode: str = "Immediate", zone: str | None = None) -> Json:
    topologies = [] if zone is None else [{"matchLabelExpressions": [{"key": "zone", "values": [zone]}]}]
    return entry("StorageClass", "s", volumeBindingMode=mode, allowedTopologies=topologies, provisioner="p")


def _migrated(plugins: str) -> Json:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": plugins}
    return entry("CSINode", "n", metadata={"annotations": annotations}, spec={"drivers": []})


def _driver(capacity: bool | None, name: str = "d") -> Json:
    return entry("CSIDriver", name, spec={} if capacity is None else {"storageCapacity": capacity})


def _capacity(**sizes: str) -> Json:
    return entry("CSIStorageCapacity", "c", "ns", storageClassName="s", **sizes)


CSI = pod(volumes=[_volume(csi={"driver": "d"})])


@pytest.mark.parametrize(
    ("waiting", "kind", "old", "new", "expected"),
    [
        pytest.param(_using("c"), "StorageClass", None, _storage_class(), QUEUE, id="new-class"),
        pytest.param(_using("c"), "StorageClass", _storage_class(), _storage_class(zone="z"), QUEUE, id="topologies"),
        pytest.param(_using("c"), "StorageClass", _storage_class(), _storage_class("X"), SKIP, id="same-topologies"),
        pytest.param(_using("c"), "CSINode", None, _migrated("a"), QUEUE, id="new-csi-node"),
        pytest.param(_using("c"), "CSINode", _migrated("a"), _migrated("a,b"), QUEUE, id="migrated"),
        pytest.param(_using("c"), "CSINode", _migrated("a"), _migrated("a"), SKIP, id="not-migrated"),
        pytest.param(_using("c"), "CSINode", _csi_node(), _migrated(""), SKIP, id="says-that-none-is-migrated"),
        pytest.param(CSI, "CSIDriver", _driver(True), _driver(False), QUEUE, id="driver-says-no-capacity-more"),
        pytest.param(CSI, "CSIDriver", _driver(True), _driver(None), QUEUE, id="driver-is-silent-now"),
        pytest.param(CSI, "CSIDriver", _driver(False), _driver(True), SKIP, id="driver-says-capacity-now"),
        pytest.param(CSI, "CSIDriver", _driver(True, "e"), _driver(False, "e"), SKIP, id="another-driver"),
        pytest.param(_using("c"), "CSIDriver", _driver(True), _driver(False), SKIP, id="no-inline-volume"),
        pytest.param(_using("c"), "CSIStorageCapacity", None, _capacity(), QUEUE, id="new-capacity"),
        pytest.param(
            _using("c"), "CSIStorageCapacity", _capacity(capacity="1Gi"), _capacity(capacity="2Gi"), QUEUE, id="grew"
        ),
        pytest.param(
            _using("c"), "CSIStorageCapacity", _capacity(capacity="2Gi"), _capacity(capacity="1Gi"), SKIP, id="shrank"
        ),
        pytest.param(
            _using("c"),
            "CSIStorageCapacity",
            _capacity(capacity="1Gi", maximumVolumeSize="1Gi"),
            _capacity(capacity="9Gi", maximumVolumeSize="1Gi"),
            SKIP,
            id="the-largest-volume-counts",
        ),
        pytest.param(_using("c"), "CSIStorageCapacity", _capacity(), _capacity(capacity="1"), QUEUE, id="says-now"),
        pytest.param(_using("c"), "CSIStorageCapacity", _capacity(capacity="1"), _capacity(), SKIP, id="silent-now"),
    ],
)
def test_binding(waiting: Json, kind: str, old: Json | None, new: Json, expected: str) -> None:
    """Else pods are tried for changes of storage that make no volume possible."""
    action = "Add" if old is None else "Update"
    assert Hints("VolumeBinding").about(waiting, f"storage.k8s.io/{kind}", action, old, new) == expected


def _persistent(**labels: str) -> Json:
    return entry("PersistentVolume", "v", metadata={"labels": labels}, spec={})


def _zoned(zone: str, **more: str) -> Json:
    return _persistent(**{"topology.kubernetes.io/zone": zone}, **more)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, _persistent(), QUEUE, id="new"),
        pytest.param(_zoned("z1"), _zoned("z2"), QUEUE, id="another-zone"),
        pytest.param(_zoned("z1"), _zoned("z1__z2"), QUEUE, id="more-zones"),
        pytest.param(_zoned("z1"), _zoned("z1", color="red"), SKIP, id="another-label"),
    ],
)
def test_zones_of_volumes(old: Json | None, new: Json, expected: str) -> None:
    """Else pods are tried at each change of any volume."""
    action = "Add" if old is None else "Update"
    assert Hints("VolumeZone").about(_using("c"), "PersistentVolume", action, old, new) == expected


@pytest.mark.parametrize(("mode", "expected"), [("WaitForFirstConsumer", QUEUE), ("Immediate", SKIP)])
def test_zones_and_storage_classes(mode: str, expected: str) -> None:
    """Else a pod whose class came last sleeps on."""
    new = _storage_class(mode)
    assert Hints("VolumeZone").about(_using("c"), "storage.k8s.io/StorageClass", "Add", None, new) == expected
