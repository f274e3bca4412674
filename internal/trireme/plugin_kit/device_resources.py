"""Resources that devices may stand for where a node has none of its own, and how many of these devices there are.

Also change: internal/trireme/framework/amounts.py, internal/trireme/frontend/serving/metrics_resources.py,
internal/trireme_kube/embedded/registry/quotas/pod_usage.py (names of extended resources).
"""

from typing import Final, Protocol

from trireme.framework import amounts
from trireme.snapshot import arrays, snapshot_view

#: Before the name of a device class: the resource that stands for the class's devices whatever it is called.
CLASS_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"


def may_come_from_devices(resource: str) -> bool:
    """Whether devices may stand for the resource."""
    return amounts.is_extended(resource) or resource.startswith(CLASS_RESOURCE_PREFIX)


class DeviceCounts(Protocol):
    """Counts the devices that stand for resources, as they are at the snapshot's generation.

    Implementers: trireme.plugins.dynamic_resources.device_counts.DeviceCounter.
    """

    def count(
        self, snap: snapshot_view.SnapshotView, resource: str, slots: arrays.SlotArray
    ) -> tuple[arrays.Int64Array, arrays.Int64Array]:
        """Devices that stand for the resource, and those of them that a claim holds. Shapes: both (slot,)."""
        ...
