"""What pods of the load need beside room on a node: groups, devices and volumes, and a disruption budget."""

from __future__ import annotations

import random

from tests.simulation.pod_demands import DEVICE_RESOURCE, GUARDED, device_claims_of, group_of, volume_claims_of
from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.api.resources import BY_KEY, PODS, Object, Resource
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import DELETED, Event

GROUPS = BY_KEY["podgroups.scheduling.k8s.io"]
DEVICE_CLAIMS = BY_KEY["resourceclaims.resource.k8s.io"]
VOLUME_CLAIMS = BY_KEY["persistentvolumeclaims"]
CSI_NODES = BY_KEY["csinodes.storage.k8s.io"]
_SLICES = BY_KEY["resourceslices.resource.k8s.io"]
NAMESPACE = "default"
ZONE = "topology.kubernetes.io/zone"
# The driver and class of devices, and the driver of volumes with their class.
DEVICES, VOLUMES, VOLUME_CLASS = "device.example.com", "volume.example.com", "disk"
DEVICES_OF_A_NODE = 2
VOLUMES_OF_A_NODE = 2


class Workloads:
    """Makes the objects that pods need, and removes them when no pod needs them any more."""

    def __init__(self, registry: Registry, pick: random.Random) -> None:
        self._registry = registry
        self._store = registry.store
        self._pick = pick
        self._number = 0
        # Objects that pods used that are gone.
        self._left: dict[tuple[Resource, str], None] = {}
        self._store.listen(PODS, self._on_pod)

    # What every cluster and every node has

    def prepare(self) -> None:
        """Create the classes and the budget."""
        selectors = [{"cel": {"expression": f'device.driver == "{DEVICES}"'}}]
        device_class = {"selectors": selectors, "extendedResourceName": DEVICE_RESOURCE}
        self._create("deviceclasses.resource.k8s.io", "", DEVICES, {"spec": device_class})
        storage = {"provisioner": VOLUMES, "volumeBindingMode": "WaitForFirstConsumer"}
        self._create("storageclasses.storage.k8s.io", "", VOLUME_CLASS, storage)
        protected = {"selector": {"matchLabels": {GUARDED: "yes"}}, "maxUnavailable": 0}
        self._create("poddisruptionbudgets.policy", NAMESPACE, "guard", {"spec": protected})

    def equip(self, node: str) -> None:
        """Give a node devices, and a limit of volumes."""
        spec: Object = {
            "driver": DEVICES,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": [{"name": f"device-{number}"} for number in range(DEVICES_OF_A_NODE)],
        }
        self._create(_SLICES.key, "", node, {"spec": spec})
        driver = {"name": VOLUMES, "nodeID": node, "topologyKeys": [], "allocatable": {"count": VOLUMES_OF_A_NODE}}
        self._create(CSI_NODES.key, "", node, {"spec": {"drivers": [driver]}})

    def strip(self, node: str) -> None:
        """Remove what a node had."""
        self._registry.delete(_SLICES, "", node, {})
        self._registry.delete(CSI_NODES, "", node, {})

    def _create(self, key: str, namespace: str, name: str, body: Object) -> None:
        self._registry.create(BY_KEY[key], namespace, {"metadata": {"name": name}, **body})

    # What pods need

    def group(self, size: int, pod: Object) -> str:
        """Create a group of so many pods like this, most of which have to go together; returns its name."""
        self._number += 1
        name = f"group-{self._number}"
        self._create(GROUPS.key, NAMESPACE, name, {"spec": self._group_spec(size, pod)})
        return name

    def _group_spec(self, size: int, pod: Object) -> Object:
        minimum = max(size - self._pick.choice((0, 0, 1)), 1)
        spec: Object = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        if "priorityClassName" in pod["spec"]:  # the same for all, and for the group
            spec["priorityClassName"] = pod["spec"]["priorityClassName"]
        return spec

    def device_claim(self) -> str:
        """Create a claim for one or two devices; returns its name."""
        self._number += 1
        name = f"devices-{self._number}"
        exactly = {"deviceClassName": DEVICES, "count": self._pick.choice((1, 1, 2))}
        spec = {"devices": {"requests": [{"name": "some", "exactly": exactly}]}}
        self._create(DEVICE_CLAIMS.key, NAMESPACE, name, {"spec": spec})
        return name

    def volume_claim(self) -> str:
        """Create a claim for a volume; returns its name."""
        self._number += 1
        name = f"volume-{self._number}"
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": VOLUME_CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        self._create(VOLUME_CLAIMS.key, NAMESPACE, name, {"spec": spec})
        return name

    # When pods are gone

    def _on_pod(self, event: Event) -> None:
        if event.type == DELETED:
            self._left.update(dict.fromkeys(_used_by(event.record.object)))

    def tidy(self) -> None:
        """Delete what no pod needs any more."""
        if not self._left:
            return
        used = {each for record in self._store.scan(PODS) for each in _used_by(record.object)}
        for resource, name in [each for each in self._left if each not in used]:
            try:
                self._registry.delete(resource, NAMESPACE, name, {})
            except api_errors.ApiError:
                continue
        self._left.clear()


class ZonedWorkloads(Workloads):
    """Groups, some of which have to be in one zone."""

    def _group_spec(self, size: int, pod: Object) -> Object:
        spec = super()._group_spec(size, pod)
        if self._pick.random() < 0.5:
            spec["schedulingConstraints"] = {"topology": [{"key": ZONE}]}
        return spec


def _used_by(pod: Object) -> list[tuple[Resource, str]]:
    """The objects that a pod needs."""
    group = group_of(pod)
    return [
        *([(GROUPS, group)] if group else []),
        *((DEVICE_CLAIMS, name) for name in device_claims_of(pod)),
        *((VOLUME_CLAIMS, name) for name in volume_claims_of(pod)),
    ]
