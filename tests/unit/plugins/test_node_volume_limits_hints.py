"""What wakes pods that NodeVolumeLimits refused."""

import pytest

from tests.helpers.hint_answers import ERROR, QUEUE, SKIP, Hints, entry, on, pod
from tests.helpers.volume_hint_objects import EPHEMERAL, INLINE, Json, csi_node, using, volume
from trireme.framework import feature_gates

AZURE_FILE = pod(volumes=[volume(azureFile={"secretName": "s", "shareName": "s"})])


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        pytest.param(using("c", "q"), QUEUE, id="claim"),
        pytest.param(EPHEMERAL, QUEUE, id="ephemeral"),
        pytest.param(INLINE, QUEUE, id="inline-that-a-driver-took-over"),
        pytest.param(pod("q", volumes=[volume(csi={"driver": "d"})]), SKIP, id="inline-csi"),
        pytest.param(pod("q"), SKIP, id="none"),
    ],
)
def test_limits_and_pods_that_end(gone: Json, expected: str) -> None:
    """Only a pod with attached volumes wakes the pod."""
    assert Hints("NodeVolumeLimits").about(using("c"), "AssignedPod", "Delete", on("n", gone)) == expected


@pytest.mark.parametrize(
    ("waiting", "attacher", "expected"),
    [
        pytest.param(using("c"), "any", QUEUE, id="claim"),
        pytest.param(INLINE, "ebs.csi.aws.com", QUEUE, id="inline-of-the-driver"),
        pytest.param(INLINE, "pd.csi.storage.gke.io", SKIP, id="inline-of-another-driver"),
        pytest.param(AZURE_FILE, "file.csi.azure.com", QUEUE, id="inline-not-counted-but-migrated"),
        pytest.param(
            pod(volumes=[volume(csi={"driver": "d"}), *INLINE["spec"]["volumes"]]),
            "ebs.csi.aws.com",
            QUEUE,
            id="the-second",
        ),
        pytest.param(
            pod(volumes=[*AZURE_FILE["spec"]["volumes"], *INLINE["spec"]["volumes"]]),
            "ebs.csi.aws.com",
            QUEUE,
            id="the-second-that-was-migrated",
        ),
        pytest.param(EPHEMERAL, "any", SKIP, id="ephemeral"),
        pytest.param(pod(), "any", SKIP, id="no-volumes"),
        pytest.param(
            pod(volumes=[volume(awsElasticBlockStore={"volumeID": "aws://"})]), "any", ERROR, id="cannot-be-told"
        ),
    ],
)
def test_limits_and_detached_volumes(waiting: Json, attacher: str, expected: str) -> None:
    """Only detached volumes of the pod's own drivers wake it."""
    attachment = entry("VolumeAttachment", "a", spec={"attacher": attacher, "nodeName": "n", "source": {}})
    assert Hints("NodeVolumeLimits").about(waiting, "storage.k8s.io/VolumeAttachment", "Delete", attachment) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(csi_node(a=1), csi_node(a=2), QUEUE, id="more"),
        pytest.param(csi_node(a=2), csi_node(a=1), SKIP, id="less"),
        pytest.param(csi_node(a=1), csi_node(a=1, b=1), QUEUE, id="another-driver"),
        pytest.param(csi_node(a=1), csi_node(a=1, b=None), SKIP, id="another-driver-without-a-count"),
        pytest.param(csi_node(a=1), csi_node(), SKIP, id="driver-gone"),
    ],
)
def test_limits_of_a_node(old: Json, new: Json, expected: str) -> None:
    """Only a higher limit of a wanted driver wakes the pod."""
    hints = Hints("NodeVolumeLimits")
    assert hints.about(using("c"), "storage.k8s.io/CSINode", "Update", old, new) == expected
    assert hints.about(using("c"), "storage.k8s.io/CSINode", "Add", None, new) == QUEUE


CORRECTED = {feature_gates.CORRECTED: True}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(csi_node(a=1), csi_node(a=None), QUEUE, id="without-a-limit-now"),
        pytest.param(csi_node(a=1), csi_node(), QUEUE, id="limited-driver-gone"),
        pytest.param(csi_node(a=1), None, QUEUE, id="gone"),
        pytest.param(csi_node(), csi_node(a=None), QUEUE, id="driver-without-a-limit-came"),
        pytest.param(csi_node(), csi_node(a=1), QUEUE, id="driver-with-a-limit-came"),
        pytest.param(csi_node(a=1), csi_node(a=2), QUEUE, id="more"),
        pytest.param(csi_node(a=1, b=1), csi_node(a=1, b=2), QUEUE, id="more-of-one-of-two"),
        pytest.param(csi_node(a=2), csi_node(a=1), SKIP, id="less"),
        pytest.param(csi_node(a=None), csi_node(a=1), SKIP, id="limited-now"),
        pytest.param(csi_node(a=None), csi_node(), SKIP, id="unlimited-driver-gone"),
        pytest.param(csi_node(a=None), None, SKIP, id="gone-without-limits"),
    ],
)
def test_a_limit_that_is_gone_and_a_driver_that_came_wake_pods(old: Json, new: Json | None, expected: str) -> None:
    """They waited for the flush: kube-scheduler takes a driver without a limit for one that takes no volume."""
    action = "Update" if new else "Delete"
    hints = Hints("NodeVolumeLimits", features=CORRECTED)
    assert hints.about(using("c"), "storage.k8s.io/CSINode", action, old, new) == expected


def _driver(demanded: bool | None) -> Json:
    return entry("CSIDriver", "d", spec={} if demanded is None else {"preventPodSchedulingIfMissing": demanded})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(_driver(True), _driver(False), QUEUE, id="not-demanded"),
        pytest.param(_driver(True), _driver(None), QUEUE, id="silent"),
        pytest.param(_driver(True), None, QUEUE, id="gone"),
        pytest.param(_driver(True), _driver(True), SKIP, id="as-before"),
        pytest.param(_driver(None), _driver(True), SKIP, id="demanded-now"),
        pytest.param(_driver(None), None, SKIP, id="gone-and-was-not-demanded"),
    ],
)
def test_a_driver_that_may_be_missing_now_wakes_pods(old: Json, new: Json | None, expected: str) -> None:
    """kube-scheduler registers no event of drivers: the flush helped."""
    action, event = "Update" if new else "Delete", "storage.k8s.io/CSIDriver"
    assert Hints("NodeVolumeLimits", features=CORRECTED).about(using("c"), event, action, old, new) == expected
    assert Hints("NodeVolumeLimits").about(using("c"), event, action, old, new) == ""


def test_a_volume_that_is_detached_wakes_pods_with_ephemeral_ones() -> None:
    """kube-scheduler passes over volumes whose claims are made for the pod."""
    attachment = entry("VolumeAttachment", "a", spec={"attacher": "any", "nodeName": "n", "source": {}})
    hints = Hints("NodeVolumeLimits", features=CORRECTED)
    assert hints.about(EPHEMERAL, "storage.k8s.io/VolumeAttachment", "Delete", attachment) == QUEUE
    for other in (pod(), pod(volumes=[volume(csi={"driver": "d"})])):
        assert hints.about(other, "storage.k8s.io/VolumeAttachment", "Delete", attachment) == SKIP
