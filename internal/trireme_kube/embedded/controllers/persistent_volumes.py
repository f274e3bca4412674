"""Volumes and claims: matching, simulated provisioning, reclaiming, and the protection of volumes in use.

A claim whose class waits for its first consumer is left alone until the scheduler has chosen: it either names the claim
in a volume's claimRef or sets the claim's selected-node annotation, and this controller continues from there.
Provisioning is simulated for every class with a provisioner: a volume appears at once, in the zone of the chosen node.

Source: k8s.io/kubernetes, pkg/controller/volume.

Also change: internal/trireme/plugin_kit/volumes_objects.py (annotations of volumes).
Also change: internal/trireme/simulation/submission/claims.py, internal/trireme/plugin_kit/volumes_matching.py,
internal/trireme_kube/embedded/registry/admission.py (rules for claims without a class).
"""

from collections.abc import Callable

from trireme_kube.apimachinery import well_known_labels
from trireme_kube.embedded.api import pod_resources, quantities, selectors
from trireme_kube.embedded.api.resources import BY_KEY, NODES, PODS, Object
from trireme_kube.embedded.controllers.owner_index import is_active
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import DELETED, Event, Record

CLAIMS, VOLUMES = BY_KEY["persistentvolumeclaims"], BY_KEY["persistentvolumes"]
_CLASSES = BY_KEY["storageclasses.storage.k8s.io"]
CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"

Key = tuple[str, str]


def _annotations_of(obj: Object) -> Object:
    return obj["metadata"].get("annotations") or {}


def _phase_of(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase", ""))


def claim_names(pod: Object) -> list[str]:
    """Names of the claims that a pod uses."""
    volumes = pod["spec"].get("volumes") or ()
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if one.get("persistentVolumeClaim")]


def is_reserved_for(volume: Object, claim: Record) -> bool:
    """Whether a volume is meant for, or bound to, this claim."""
    reference = volume["spec"].get("claimRef")
    if not reference or (reference.get("namespace"), reference.get("name")) != claim.key:
        return False
    return reference.get("uid") in (None, "", claim.uid)


def satisfies_claim(volume: Object, claim: Object) -> bool:
    """Whether a free volume satisfies a claim's requests."""
    offered, requested = volume["spec"], claim["spec"]
    if offered.get("storageClassName", "") != (requested.get("storageClassName") or ""):
        return False
    if offered.get("volumeMode") != requested.get("volumeMode"):
        return False
    if not set(requested.get("accessModes") or ()) <= set(offered.get("accessModes") or ()):
        return False
    request = ((requested.get("resources") or {}).get("requests") or {}).get("storage", "0")
    if quantities.nanos((offered.get("capacity") or {}).get("storage", "0")) < quantities.nanos(request):
        return False
    selector = requested.get("selector")
    return selector is None or selectors.compile_label_selector(selector)(volume["metadata"].get("labels") or {})


class PersistentVolumeController:
    """Binds claims to volumes, provisions volumes for claims, and releases or deletes them."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._store = registry.store
        self._claims: WorkQueue[Key] = WorkQueue("claims", self._sync_claim, monotonic)
        self._volumes: WorkQueue[str] = WorkQueue("volumes", self._sync_volume, monotonic)
        self.queues = (self._claims, self._volumes)
        self._store.listen(CLAIMS, self._on_claim)
        self._store.listen(VOLUMES, self._on_volume)
        self._store.listen(PODS, self._on_pod)
        self._store.listen(_CLASSES, self._on_storage_class)

    def _on_claim(self, event: Event) -> None:
        """Queue a written claim, and the volume that it names."""
        self._claims.add(event.record.key)
        if volume := event.record.object["spec"].get("volumeName"):
            self._volumes.add(volume)

    def _on_volume(self, event: Event) -> None:
        """Queue a written volume and the claim that it names; one that names none may suit any unbound claim."""
        self._volumes.add(event.record.name)
        reference = event.record.object["spec"].get("claimRef")
        if reference:
            self._claims.add((reference.get("namespace", ""), reference.get("name", "")))
        elif event.type != DELETED:
            self._queue_unbound_claims()

    def _on_storage_class(self, event: Event) -> None:
        """Queue the unbound claims, which a new class may provision."""
        self._queue_unbound_claims()

    def _queue_unbound_claims(self) -> None:
        """Queue the unbound claims, which are few: a new volume or class may satisfy one."""
        for record in self._store.scan(CLAIMS):
            if _phase_of(record.object) == "Pending":
                self._claims.add(record.key)

    def _on_pod(self, event: Event) -> None:
        """Queue the claims of a pod that ended: one that is being deleted waits for its pods."""
        if event.type == DELETED or not is_active(event.record.object):
            for name in claim_names(event.record.object):
                self._claims.add((event.record.namespace, name))

    # Claims

    def _sync_claim(self, key: Key) -> None:
        """Bind a claim to a volume, provisioned if need be; release one that is being deleted and not in use."""
        claim = self._store.get(CLAIMS, *key)
        if claim is None:
            return
        if "deletionTimestamp" in claim.object["metadata"]:
            if not self._is_claim_in_use(claim):
                self._registry.remove_finalizer(CLAIMS, claim, CLAIM_PROTECTION)
        elif _phase_of(claim.object) != "Bound":
            volume = self._find_volume_for_claim(claim) or self._provision_volume(claim)
            if volume is not None:
                self._bind_claim(claim, volume)

    def _is_claim_in_use(self, claim: Record) -> bool:
        """Whether a pod that has not ended uses the claim."""
        return any(
            claim.name in claim_names(pod.object) and not pod_resources.has_ended(pod.object)
            for pod in self._store.scan(PODS, claim.namespace)
        )

    def _storage_class_of(self, claim: Record) -> Object | None:
        name = claim.object["spec"].get("storageClassName")
        record = self._store.get(_CLASSES, "", name) if name else None
        return record.object if record is not None else None

    def _find_volume_for_claim(self, claim: Record) -> Record | None:
        """The volume named by the claim, or the one that names it, or else the smallest matching one."""
        if name := claim.object["spec"].get("volumeName"):
            return self._store.get(VOLUMES, "", name)
        volumes = [one for one in self._store.scan(VOLUMES) if "deletionTimestamp" not in one.object["metadata"]]
        for volume in volumes:
            if is_reserved_for(volume.object, claim):
                return volume
        storage = self._storage_class_of(claim)
        if storage is not None and storage["volumeBindingMode"] == "WaitForFirstConsumer":
            return None
        free = [
            one
            for one in volumes
            if not one.object["spec"].get("claimRef") and satisfies_claim(one.object, claim.object)
        ]
        return min(free, key=lambda one: quantities.nanos(one.object["spec"]["capacity"]["storage"]), default=None)

    def _provision_volume(self, claim: Record) -> Record | None:
        """Create the volume for a claim; None if its class does not provision, or waits for the pod's node."""
        storage = self._storage_class_of(claim)
        if storage is None or storage["provisioner"] == _NO_PROVISIONER:
            return None
        node = _annotations_of(claim.object).get(SELECTED_NODE, "")
        if storage["volumeBindingMode"] == "WaitForFirstConsumer" and not node:
            return None
        name = f"pvc-{claim.uid}"
        if self._store.get(VOLUMES, "", name) is None:
            self._registry.create(VOLUMES, "", self._provisioned_volume_body(claim, storage, name, node))
        return self._store.get(VOLUMES, "", name)

    def _provisioned_volume_body(self, claim: Record, storage: Object, name: str, node: str) -> Object:
        """Make the volume that is provisioned for a claim; with a selected `node` only for that node's zone."""
        requested = claim.object["spec"]
        spec: Object = {
            "capacity": {"storage": ((requested.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")},
            "accessModes": requested["accessModes"],
            "volumeMode": requested["volumeMode"],
            "persistentVolumeReclaimPolicy": storage["reclaimPolicy"],
            "storageClassName": storage["metadata"]["name"],
            "csi": {"driver": storage["provisioner"], "volumeHandle": name},
            "claimRef": self._claim_reference(claim),
        }
        selected_node = self._store.get(NODES, "", node) if node else None
        zone = (
            (selected_node.object["metadata"].get("labels") or {}).get(well_known_labels.ZONE)
            if selected_node is not None
            else None
        )
        if zone:
            terms = [{"matchExpressions": [{"key": well_known_labels.ZONE, "operator": "In", "values": [zone]}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        return {"metadata": {"name": name, "annotations": {_PROVISIONED_BY: storage["provisioner"]}}, "spec": spec}

    @staticmethod
    def _claim_reference(claim: Record) -> Object:
        names = {"kind": CLAIMS.kind, "apiVersion": "v1", "namespace": claim.namespace, "name": claim.name}
        return {**names, "uid": claim.uid, "resourceVersion": str(claim.revision)}

    def _bind_claim(self, claim: Record, volume: Record) -> None:
        """Write both sides of the binding, the volume first, since readers of a bound claim look it up."""
        if volume.object["spec"].get("claimRef") and not is_reserved_for(volume.object, claim):
            return  # taken by another claim; this one stays as it is
        spec = volume.object["spec"]
        obj = {**volume.object, "metadata": dict(volume.object["metadata"])}
        if not spec.get("claimRef"):
            obj["metadata"]["annotations"] = {**_annotations_of(obj), _BOUND_BY_CONTROLLER: "yes"}
        if (spec.get("claimRef") or {}).get("uid") != claim.uid:
            obj["spec"] = {**spec, "claimRef": self._claim_reference(claim)}
        obj["status"] = self._volume_status(volume.object, "Bound")
        self._registry.store_update(VOLUMES, volume, obj)
        bound = {**claim.object, "metadata": dict(claim.object["metadata"])}
        annotations = {**_annotations_of(bound), _BIND_COMPLETED: "yes", _BOUND_BY_CONTROLLER: "yes"}
        if provisioner := _annotations_of(volume.object).get(_PROVISIONED_BY):
            annotations[_STORAGE_PROVISIONER] = provisioner
        bound["metadata"]["annotations"] = annotations
        bound["spec"] = {**claim.object["spec"], "volumeName": volume.name}
        capacity, modes = spec["capacity"], spec["accessModes"]
        bound["status"] = {**claim.object["status"], "phase": "Bound", "accessModes": modes, "capacity": capacity}
        self._registry.store_update(CLAIMS, claim, bound)

    # Volumes

    def _volume_status(self, volume: Object, phase: str) -> Object:
        """Return the volume's status with this phase, and the time if it is a change."""
        status = dict(volume.get("status") or {})
        if status.get("phase") != phase:
            status |= {"phase": phase, "lastPhaseTransitionTime": self._registry.clock_and_ids.now()}
        return status

    def _sync_volume(self, name: str) -> None:
        """Write a volume's phase, and delete it if its claim is gone and its policy says so."""
        volume = self._store.get(VOLUMES, "", name)
        if volume is None:
            return
        reference = volume.object["spec"].get("claimRef")
        claim = (
            self._store.get(CLAIMS, reference.get("namespace", ""), reference.get("name", "")) if reference else None
        )
        alive = claim is not None and is_reserved_for(volume.object, claim)
        if "deletionTimestamp" in volume.object["metadata"]:
            if not alive:
                self._registry.remove_finalizer(VOLUMES, volume, VOLUME_PROTECTION)
            return
        phase = _phase_of(volume.object)
        if reference and reference.get("uid") and not alive:
            phase = "Released"
        elif phase == "Pending":
            phase = "Available"
        status = self._volume_status(volume.object, phase)
        self._registry.update_fields(VOLUMES, volume, status=status)
        if phase == "Released" and volume.object["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            self._registry.delete(VOLUMES, "", name)
