"""What wakes pods that VolumeRestrictions refused."""

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, on, pod
from tests.helpers.volume_hint_objects import EPHEMERAL, Json, using, volume

OF_Q = {"metadata": pod("q")["metadata"]}
DISK = pod(volumes=[volume(gcePersistentDisk={"pdName": "d"})])


@pytest.mark.parametrize(
    ("waiting", "gone", "expected"),
    [
        pytest.param(using("c"), on("n", using("c", "q")), QUEUE, id="same-claim"),
        pytest.param(using("c"), on("n", using("d", "q")), SKIP, id="other-claim"),
        pytest.param(using("c"), on("n", using("c", "q", namespace="other")), SKIP, id="other-namespace"),
        pytest.param(DISK, on("n", pod("q", volumes=DISK["spec"]["volumes"])), QUEUE, id="same-disk"),
        pytest.param(
            DISK, on("n", pod("q", volumes=[volume(gcePersistentDisk={"pdName": "e"})])), SKIP, id="other-disk"
        ),
        pytest.param(using("c"), on("n", pod("q")), SKIP, id="no-volumes"),
        pytest.param(using("q-v"), on("n", {**EPHEMERAL, **OF_Q}), SKIP, id="a-claim-that-was-made-for-it"),
        pytest.param(EPHEMERAL, on("n", using("p-v", "q")), SKIP, id="a-claim-that-was-made-for-the-pod"),
    ],
)
def test_restrictions(waiting: Json, gone: Json, expected: str) -> None:
    """Only the end of a pod with one of its disks wakes the pod."""
    assert Hints("VolumeRestrictions").about(waiting, "AssignedPod", "Delete", gone) == expected
