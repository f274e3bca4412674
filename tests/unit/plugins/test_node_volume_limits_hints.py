"""What wakes pods that NodeVolumeLimits refused."""

import pytest

from tests.helpers.hint_answers import ERROR, QUEUE, SKIP, Hints, entry, on, pod
from tests.helpers.volume_hint_objects import EPHEMERAL, INLINE, Json, csi_node, using, volume

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
