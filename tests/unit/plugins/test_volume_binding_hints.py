"""What wakes pods that VolumeBinding refused."""

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, entry, pod
from tests.helpers.volume_hint_objects import EPHEMERAL, Json, csi_node, storage_class, using, volume
from trireme.framework import feature_gates


def _migrated(plugins: str) -> Json:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": plugins}
    return entry("CSINode", "n", metadata={"annotations": annotations}, spec={"drivers": []})


def _driver(capacity: bool | None, name: str = "d") -> Json:
    return entry("CSIDriver", name, spec={} if capacity is None else {"storageCapacity": capacity})


def _capacity(**sizes: str) -> Json:
    return entry("CSIStorageCapacity", "c", "ns", storageClassName="s", **sizes)


SILENT = entry("StorageClass", "s", volumeBindingMode="Immediate", provisioner="p")
ALLOWS_NOTHING = {**SILENT, "allowedTopologies": [{}]}
CSI = pod(volumes=[volume(csi={"driver": "d"})])


@pytest.mark.parametrize(
    ("waiting", "kind", "old", "new", "expected"),
    [
        pytest.param(using("c"), "StorageClass", None, storage_class(), QUEUE, id="new-class"),
        pytest.param(using("c"), "StorageClass", storage_class(), storage_class(zone="z"), QUEUE, id="topologies"),
        pytest.param(using("c"), "StorageClass", storage_class(), storage_class("X"), SKIP, id="same-topologies"),
        pytest.param(using("c"), "StorageClass", storage_class(), ALLOWS_NOTHING, QUEUE, id="topologies-of-no-node"),
        pytest.param(using("c"), "StorageClass", SILENT, storage_class(), SKIP, id="no-topologies-are-empty-ones"),
        pytest.param(using("c"), "CSINode", None, _migrated("a"), QUEUE, id="new-csi-node"),
        pytest.param(using("c"), "CSINode", _migrated("a"), _migrated("a,b"), QUEUE, id="migrated"),
        pytest.param(using("c"), "CSINode", _migrated("a"), _migrated("a"), SKIP, id="not-migrated"),
        pytest.param(using("c"), "CSINode", csi_node(), _migrated(""), SKIP, id="says-that-none-is-migrated"),
        pytest.param(CSI, "CSIDriver", _driver(True), _driver(False), QUEUE, id="driver-says-no-capacity-more"),
        pytest.param(CSI, "CSIDriver", _driver(True), _driver(None), QUEUE, id="driver-is-silent-now"),
        pytest.param(CSI, "CSIDriver", _driver(False), _driver(True), SKIP, id="driver-says-capacity-now"),
        pytest.param(CSI, "CSIDriver", _driver(True, "e"), _driver(False, "e"), SKIP, id="another-driver"),
        pytest.param(using("c"), "CSIDriver", _driver(True), _driver(False), SKIP, id="no-inline-volume"),
        pytest.param(using("c"), "CSIStorageCapacity", None, _capacity(), QUEUE, id="new-capacity"),
        pytest.param(
            using("c"), "CSIStorageCapacity", _capacity(capacity="1Gi"), _capacity(capacity="2Gi"), QUEUE, id="grew"
        ),
        pytest.param(
            using("c"), "CSIStorageCapacity", _capacity(capacity="2Gi"), _capacity(capacity="1Gi"), SKIP, id="shrank"
        ),
        pytest.param(
            using("c"),
            "CSIStorageCapacity",
            _capacity(capacity="1Gi", maximumVolumeSize="1Gi"),
            _capacity(capacity="9Gi", maximumVolumeSize="1Gi"),
            SKIP,
            id="the-largest-volume-counts",
        ),
        pytest.param(
            using("c"), "CSIStorageCapacity", _capacity(capacity="1.2"), _capacity(capacity="1.5"), QUEUE, id="exact"
        ),
        pytest.param(using("c"), "CSIStorageCapacity", _capacity(), _capacity(capacity="1"), QUEUE, id="says-now"),
        pytest.param(using("c"), "CSIStorageCapacity", _capacity(capacity="1"), _capacity(), SKIP, id="silent-now"),
    ],
)
def test_binding(waiting: Json, kind: str, old: Json | None, new: Json, expected: str) -> None:
    """Only storage changes that make a volume possible wake the pod."""
    action = "Add" if old is None else "Update"
    assert Hints("VolumeBinding").about(waiting, f"storage.k8s.io/{kind}", action, old, new) == expected


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(using("c"), _driver(True), _driver(False), QUEUE, id="no-capacity-more"),
        pytest.param(using("c"), _driver(True), _driver(None), QUEUE, id="silent-now"),
        pytest.param(using("c"), _driver(True), None, QUEUE, id="gone"),
        pytest.param(EPHEMERAL, _driver(True), None, QUEUE, id="claim-made-for-the-pod"),
        pytest.param(using("c"), _driver(True), _driver(True), SKIP, id="as-before"),
        pytest.param(using("c"), _driver(False), None, SKIP, id="gone-and-reported-none"),
        pytest.param(CSI, _driver(True), _driver(False), SKIP, id="no-claim"),
    ],
)
def test_a_driver_that_limits_no_claims_any_more_wakes_their_pods(
    waiting: Json, old: Json, new: Json | None, expected: str
) -> None:
    """kube-scheduler wakes pods with inline volumes of the driver, whose capacity does not count."""
    hints = Hints("VolumeBinding", features={feature_gates.CORRECTED: True})
    action = "Update" if new else "Delete"
    assert hints.about(waiting, "storage.k8s.io/CSIDriver", action, old, new) == expected
