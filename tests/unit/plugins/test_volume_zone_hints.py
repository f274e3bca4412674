"""What wakes pods that VolumeZone refused."""

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, entry
from tests.helpers.volume_hint_objects import Json, storage_class, using


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
    """Only changes of its own volumes wake the pod."""
    action = "Add" if old is None else "Update"
    assert Hints("VolumeZone").about(using("c"), "PersistentVolume", action, old, new) == expected


@pytest.mark.parametrize(("mode", "expected"), [("WaitForFirstConsumer", QUEUE), ("Immediate", SKIP)])
def test_zones_and_storage_classes(mode: str, expected: str) -> None:
    """Storage classes of its claims wake the pod."""
    new = storage_class(mode)
    assert Hints("VolumeZone").about(using("c"), "storage.k8s.io/StorageClass", "Add", None, new) == expected
