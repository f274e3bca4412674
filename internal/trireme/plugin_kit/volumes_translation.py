"""In-tree volume sources as the CSI drivers that took them over: driver, handle and topology.

Some cloud volumes have a source of their own in the API, from before CSI. All of them are served by CSI drivers now, so
limits are counted under the driver's name, and a volume's zone is matched against the driver's topology label on nodes
that say that they have migrated.
Source: k8s.io/csi-translation-lib.

Tests: tests/conformance/test_decisions.py.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib import parse

from trireme.v1 import core_pb2
from trireme_kube.apimachinery import well_known_labels

ZONE_DELIMITER = "__"

_EBS_VOLUME = re.compile(r"vol-[^/]*")


class TranslationError(Exception):
    """The source has no equivalent in the driver's terms."""


@dataclass(frozen=True, slots=True)
class InTreeVolumeKind:
    """One kind of in-tree volume.

    `migrated`: the scheduler treats it as its driver's. `topology_key` is the driver's zone label, empty where zones
    are not translated.
    """

    plugin: str
    driver: str
    field: str
    migrated: bool
    topology_key: str
    # Both raise TranslationError.
    volume_handle: Callable[[core_pb2.PersistentVolume], str]
    inline_handle: Callable[[Any], str]


def _ebs_handle_of_id(volume_id: str) -> str:
    """The handle of an EBS volume's id, which may be a URL. Raises: TranslationError."""
    if not volume_id.startswith("aws://"):
        return volume_id
    path = parse.urlsplit(volume_id).path.strip("/")
    if _EBS_VOLUME.fullmatch(path) is None:
        raise TranslationError(f"Invalid format for AWS volume ({volume_id})")
    return path


def _ebs_handle_of_volume(volume: core_pb2.PersistentVolume) -> str:
    """The handle of an EBS volume. Raises: TranslationError."""
    return _ebs_handle_of_inline(volume.spec.persistent_volume_source.aws_elastic_block_store)


def _ebs_handle_of_inline(source: core_pb2.AWSElasticBlockStoreVolumeSource) -> str:
    """The handle of a pod's own EBS volume. Raises: TranslationError."""
    try:
        return _ebs_handle_of_id(source.volume_id)
    except TranslationError as error:
        raise TranslationError(f"failed to translate Kubernetes ID to EBS Volume ID {error}") from error


def _gce_handle_of_volume(volume: core_pb2.PersistentVolume) -> str:
    """The handle of a GCE disk, zonal or regional by its zone label. Raises: TranslationError."""
    name = volume.spec.persistent_volume_source.gce_persistent_disk.pd_name
    zones = (
        volume.metadata.labels.get(well_known_labels.BETA_ZONE)
        or volume.metadata.labels.get(well_known_labels.ZONE, "")
    ).split(ZONE_DELIMITER)
    if len(zones) > 1:
        return f"projects/UNSPECIFIED/regions/{_common_gce_region(zones)}/disks/{name}"
    return f"projects/UNSPECIFIED/zones/{zones[0] or 'UNSPECIFIED'}/disks/{name}"


def _common_gce_region(zones: Sequence[str]) -> str:
    """The region of these zones. Raises: TranslationError if it is not the same of all."""
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            wrong = f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            raise TranslationError(f"failed to get region from zones: {wrong}")
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{listed}]"
        )
    return regions.pop()


def _gce_handle_of_inline(source: core_pb2.GCEPersistentDiskVolumeSource) -> str:
    """The handle of a pod's own GCE disk, whose zone is not known."""
    return f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{source.pd_name}"


def _azure_handle_of_volume(volume: core_pb2.PersistentVolume) -> str:
    """The handle of an Azure disk. Raises: TranslationError if it is not a managed one."""
    return _azure_handle_of_inline(volume.spec.persistent_volume_source.azure_disk)


def _azure_handle_of_inline(source: core_pb2.AzureDiskVolumeSource) -> str:
    """The handle of a pod's own Azure disk. Raises: TranslationError if it is not a managed one."""
    if source.HasField("kind") and source.kind.lower() != "managed":
        raise TranslationError(f"kind({source.kind}) is not supported in csi migration")
    return source.disk_uri


def _refuse_unmigrated_kind(source: object) -> str:
    """Raise TranslationError: volumes of this kind are not treated as their driver's."""
    raise TranslationError("this kind of volume is not migrated")


_KINDS = (
    InTreeVolumeKind(
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        "aws_elastic_block_store",
        True,
        "topology.ebs.csi.aws.com/zone",
        _ebs_handle_of_volume,
        _ebs_handle_of_inline,
    ),
    InTreeVolumeKind(
        "kubernetes.io/gce-pd",
        "pd.csi.storage.gke.io",
        "gce_persistent_disk",
        True,
        "topology.gke.io/zone",
        _gce_handle_of_volume,
        _gce_handle_of_inline,
    ),
    InTreeVolumeKind(
        "kubernetes.io/azure-disk",
        "disk.csi.azure.com",
        "azure_disk",
        True,
        "",
        _azure_handle_of_volume,
        _azure_handle_of_inline,
    ),
    InTreeVolumeKind(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "cinder",
        True,
        "topology.cinder.csi.openstack.org/zone",
        lambda volume: volume.spec.persistent_volume_source.cinder.volume_id,
        lambda source: str(source.volume_id),
    ),
    InTreeVolumeKind(
        "kubernetes.io/portworx-volume",
        "pxd.portworx.com",
        "portworx_volume",
        True,
        "",
        lambda volume: volume.spec.persistent_volume_source.portworx_volume.volume_id,
        lambda source: str(source.volume_id),
    ),
    InTreeVolumeKind(
        "kubernetes.io/azure-file",
        "file.csi.azure.com",
        "azure_file",
        False,
        "",
        _refuse_unmigrated_kind,
        _refuse_unmigrated_kind,
    ),
    InTreeVolumeKind(
        "kubernetes.io/vsphere-volume",
        "csi.vsphere.vmware.com",
        "vsphere_volume",
        False,
        "",
        _refuse_unmigrated_kind,
        _refuse_unmigrated_kind,
    ),
)

_BY_PLUGIN: Mapping[str, InTreeVolumeKind] = {kind.plugin: kind for kind in _KINDS}


def in_tree_kind_of_provisioner(name: str) -> InTreeVolumeKind | None:
    """The in-tree plugin of this name."""
    return _BY_PLUGIN.get(name)


def in_tree_kind_of_volume(volume: core_pb2.PersistentVolume) -> InTreeVolumeKind | None:
    """The kind of in-tree source that the volume has; None: none that a driver took over."""
    return _in_tree_kind_of(volume.spec.persistent_volume_source)


def in_tree_kind_of_inline(source: core_pb2.VolumeSource) -> InTreeVolumeKind | None:
    """The kind of in-tree source that a pod's own volume has; None: none that a driver took over."""
    return _in_tree_kind_of(source)


def _in_tree_kind_of(source: core_pb2.VolumeSource | core_pb2.PersistentVolumeSource) -> InTreeVolumeKind | None:
    """The kind of in-tree source that is set; None: none."""
    stated = {field.name for field, _ in source.ListFields()}
    return next((kind for kind in _KINDS if kind.field in stated), None)


def translated_affinity(
    kind: InTreeVolumeKind, volume: core_pb2.PersistentVolume
) -> core_pb2.VolumeNodeAffinity | None:
    """Return the in-tree volume's node affinity by the driver's topology; None: it may be on any node.

    Zone labels of the volume count where it states no affinity to a zone. Raises: TranslationError.
    """
    kind.volume_handle(volume)
    stated = volume.spec.node_affinity if volume.spec.HasField("node_affinity") else None
    if not kind.topology_key:
        return stated
    affinity = core_pb2.VolumeNodeAffinity()
    if stated is not None:
        affinity.CopyFrom(stated)
    zone, region = _zone_and_region_label_keys(volume)
    if _has_requirement_on_label(affinity, zone):
        _rename_label_in_terms(affinity, zone, kind.topology_key)
    elif zone in volume.metadata.labels:
        _require_zones(affinity, kind.topology_key, volume.metadata.labels[zone].split(ZONE_DELIMITER))
    if region == well_known_labels.BETA_REGION and _has_requirement_on_label(affinity, region):
        _rename_label_in_terms(affinity, region, well_known_labels.REGION)
    return affinity if affinity.HasField("required") else None


def _zone_and_region_label_keys(volume: core_pb2.PersistentVolume) -> tuple[str, str]:
    """Which generation of the zone and region labels the volume uses."""
    keys = {
        expression.key
        for term in volume.spec.node_affinity.required.node_selector_terms
        for expression in term.match_expressions
    }
    for known in (keys, volume.metadata.labels):
        if well_known_labels.ZONE in known:
            return well_known_labels.ZONE, well_known_labels.REGION
        if well_known_labels.BETA_ZONE in known:
            return well_known_labels.BETA_ZONE, well_known_labels.BETA_REGION
    return well_known_labels.ZONE, well_known_labels.REGION


def _has_requirement_on_label(affinity: core_pb2.VolumeNodeAffinity, key: str) -> bool:
    """Whether some term of the affinity names values of this label."""
    return any(
        expression.key == key and expression.values
        for term in affinity.required.node_selector_terms
        for expression in term.match_expressions
    )


def _rename_label_in_terms(affinity: core_pb2.VolumeNodeAffinity, old: str, new: str) -> None:
    for term in affinity.required.node_selector_terms:
        for expression in term.match_expressions:
            if expression.key == old:
                expression.key = new


def _require_zones(affinity: core_pb2.VolumeNodeAffinity, key: str, zones: Sequence[str]) -> None:
    """Add to each term that the label has one of these zones; without terms they become one."""
    named = sorted({zone.strip() for zone in zones} - {""})
    if not named:
        return
    if not affinity.required.node_selector_terms:
        affinity.required.node_selector_terms.add()
    for term in affinity.required.node_selector_terms:
        term.match_expressions.add(key=key, operator="In", values=named)
