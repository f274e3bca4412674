"""The kinds of objects that Filter and Score of VolumeBinding look at."""

from trireme.plugin_kit import volumes_claims, volumes_nodes

READS = (
    volumes_claims.CLAIM,
    volumes_claims.VOLUME,
    volumes_claims.STORAGE_CLASS,
    volumes_nodes.CSI_NODE,
    "csi_driver",
    "csi_storage_capacity",
)
