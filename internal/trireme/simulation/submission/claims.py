"""The claims of submitted pods, as the controllers of volumes and of devices make and bind them.

Also change: internal/trireme/plugin_kit/volumes_matching.py, internal/trireme_kube/embedded/registry/admission.py,
internal/trireme_kube/embedded/controllers/persistent_volumes.py (rules for claims without a class).

Tests: tests/unit/insight/simulations/test_verdicts.py.
"""

import copy
from collections.abc import Mapping
from typing import Any

from trireme.framework import label_selectors
from trireme.plugin_kit import volumes_index, volumes_objects
from trireme.simulation import manifests, simulation
from trireme.simulation.submission import workload_pods
from trireme.v1 import core_pb2, storage_pb2

Json = dict[str, Any]

_VOLUME_CLAIM = "persistent_volume_claim"
_VOLUME = "persistent_volume"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_FILESYSTEM = "Filesystem"
_PLACELESS = "kubernetes.io/no-provisioner"


def add_volume_claim(sim: simulation.Simulation, raw: Json, *, own: bool = False) -> str:
    """Add a PersistentVolumeClaim, with the default class where it names none; one that is there stays if it is `own`.

    Returns what to know about it, in words; empty: nothing. Raises: ManifestError.
    """
    metadata = raw["metadata"]
    present = sim.cache.get_object(_VOLUME_CLAIM, metadata["namespace"], metadata["name"])
    if own and present is not None:
        return ""
    if present is not None and volumes_objects.fully_bound(present.persistent_volume_claim):
        return ""
    raw = {**raw, "metadata": {**metadata, "uid": f"simulated-{metadata['namespace']}-{metadata['name']}"}}
    if raw["spec"].get("storageClassName") is None and (default := _default_class(sim)):
        raw["spec"] = {**raw["spec"], "storageClassName": default}
    _, claim = manifests.read_object(raw)
    note = _bind_at_once(sim, claim)
    sim.set_object(_VOLUME_CLAIM, claim)
    return note


def _default_class(sim: simulation.Simulation) -> str:
    """The name of the default storage class; empty: there is none."""
    sim.publish()
    found = sim.snap.objects.all("storage_class")
    names = (each.metadata.name for each in found if each.metadata.annotations.get(_DEFAULT_CLASS) == "true")
    return min(names, default="")


def _bind_at_once(sim: simulation.Simulation, claim: core_pb2.PersistentVolumeClaim) -> str:
    """Bind the claim, if its class does not wait for pods, to the smallest volume that suits or to one that is made.

    Raises: ManifestError.
    """
    name = volumes_objects.storage_class_of_claim(claim)
    entry = sim.cache.get_object("storage_class", "", name)
    of_class = None if entry is None else entry.storage_class
    if of_class is not None and of_class.volume_binding_mode == volumes_objects.WAIT_FOR_FIRST_CONSUMER:
        return ""
    if volumes_objects.fully_bound(claim):
        return ""
    shown = f"{claim.metadata.namespace}/{claim.metadata.name}"
    volume, note = _smallest_volume(sim, claim), ""
    if volume is None:
        if of_class is None or of_class.provisioner == _PLACELESS:
            missing = f"no volume suits it, and none is made: {f'class {name}' if name else 'it has no class'}"
            return f"claim {shown} stays unbound: {missing}{' is not there' if name and of_class is None else ''}"
        volume = _made_volume(claim, of_class)
        where = f"where class {name} allows" if of_class.allowed_topologies else "where all nodes reach it"
        note = f"claim {shown} is bound at once, to a volume that is taken to be made {where}"
    volume.spec.claim_ref.namespace, volume.spec.claim_ref.name = claim.metadata.namespace, claim.metadata.name
    volume.spec.claim_ref.uid = claim.metadata.uid
    volume.status.phase = "Bound"
    claim.spec.volume_name, claim.status.phase = volume.metadata.name, "Bound"
    claim.metadata.annotations[volumes_objects.BIND_COMPLETED] = "yes"
    sim.set_object(_VOLUME, volume)
    return note


def _smallest_volume(
    sim: simulation.Simulation, claim: core_pb2.PersistentVolumeClaim
) -> core_pb2.PersistentVolume | None:
    """The volume that the controller binds: the named one, or the smallest that suits. Raises: ManifestError."""
    sim.publish()
    if claim.spec.volume_name:
        entry = sim.cache.get_object(_VOLUME, "", claim.spec.volume_name)
        return None if entry is None else _copy(entry.persistent_volume)
    size = volumes_objects.storage_size(claim.spec.resources.requests)
    try:
        selector = label_selectors.parse(claim.spec.selector)
    except label_selectors.InvalidSelectorError as error:
        raise manifests.ManifestError(f"spec.selector: {error}") from error
    index = volumes_index.volume_index_of(sim.snap)
    for volume in index.available_volumes(volumes_objects.storage_class_of_claim(claim), size.nanos if size else 0):
        if (
            volume.mode == (claim.spec.volume_mode or _FILESYSTEM)
            and volume.attributes_class == claim.spec.volume_attributes_class_name
            and frozenset(claim.spec.access_modes) <= volume.access_modes
            and (selector.empty or selector.matches(volume.volume.metadata.labels))
        ):
            return _copy(volume.volume)
    return None


def _copy(volume: core_pb2.PersistentVolume) -> core_pb2.PersistentVolume:
    out = core_pb2.PersistentVolume()
    out.CopyFrom(volume)
    return out


def _made_volume(
    claim: core_pb2.PersistentVolumeClaim, of_class: storage_pb2.StorageClass
) -> core_pb2.PersistentVolume:
    """The volume that the class makes for the claim, reached from where the class allows."""
    out = core_pb2.PersistentVolume()
    out.metadata.name = f"simulated-{claim.metadata.namespace}-{claim.metadata.name}"
    out.spec.storage_class_name = of_class.metadata.name
    out.spec.access_modes.extend(claim.spec.access_modes)
    for resource, amount in claim.spec.resources.requests.items():
        out.spec.capacity[resource].CopyFrom(amount)
    for term in of_class.allowed_topologies:
        made = out.spec.node_affinity.required.node_selector_terms.add()
        for each in term.match_label_expressions:
            made.match_expressions.add(key=each.key, operator="In", values=each.values)
    return out


def add_ephemeral_claims(sim: simulation.Simulation, pod: Json, name: str, uid: str) -> list[str]:
    """Make the claims of the pod's ephemeral volumes; returns what to know about them. Raises: ManifestError."""
    notes = []
    for volume in pod["spec"].get("volumes") or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template:
            claim = workload_pods.volume_claim(
                f"{name}-{volume['name']}", pod["metadata"]["namespace"], template["spec"]
            )
            claim["metadata"]["ownerReferences"] = [_pod_reference(name, uid)]
            notes.append(add_volume_claim(sim, claim, own=True))
    return [note for note in notes if note]


def add_device_claims(
    sim: simulation.Simulation, pod: Json, name: str, uid: str, templates: Mapping[tuple[str, str], Json]
) -> dict[str, str]:
    """Make the pod's ResourceClaims of their templates, by namespace and name; returns their names by the pod's own.

    Raises: ManifestError: a template is not there.
    """
    made, namespace = {}, pod["metadata"]["namespace"]
    for number, stated in enumerate(pod["spec"].get("resourceClaims") or ()):
        wanted = stated.get("resourceClaimTemplateName")
        if not wanted:
            continue
        template = templates.get((namespace, wanted))
        if template is None:
            where = f"spec.resourceClaims[{number}].resourceClaimTemplateName"
            text = f"there is no ResourceClaimTemplate {wanted} among the documents, and insight does not know those of"
            raise manifests.ManifestError(f"{where}: {text} the cluster: submit it together with the pods")
        claim = f"{name}-{stated['name']}"
        metadata = {"name": claim, "namespace": namespace, "uid": f"simulated-{namespace}-{claim}"}
        raw = {
            "apiVersion": template["apiVersion"],
            "kind": "ResourceClaim",
            "metadata": {**metadata, "ownerReferences": [_pod_reference(name, uid)]},
            "spec": copy.deepcopy(template["spec"]["spec"]),
        }
        kind, entry = manifests.read_object(raw)
        sim.set_object(kind.field, entry)
        made[stated["name"]] = claim
    return made


def _pod_reference(name: str, uid: str) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
