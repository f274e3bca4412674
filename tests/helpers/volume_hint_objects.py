"""Pods with volumes, and objects of storage, for hints."""

from typing import Any

from tests.helpers.hint_answers import entry, pod

Json = dict[str, Any]


def volume(**source: Any) -> Json:
    """A pod's volume of this source."""
    return {"name": "v", **source}


def using(claim: str, name: str = "p", **more: Any) -> Json:
    """A pod that uses a claim."""
    return pod(name, volumes=[volume(persistentVolumeClaim={"claimName": claim})], **more)


EPHEMERAL = pod(volumes=[volume(ephemeral={})])
INLINE = pod(volumes=[volume(awsElasticBlockStore={"volumeID": "vol-1"})])


def csi_node(**counts: int | None) -> Json:
    """A CSINode with this many volumes by driver; None: the driver states no limit."""
    drivers = [
        {"name": name, "nodeID": "n", **({} if count is None else {"allocatable": {"count": count}})}
        for name, count in counts.items()
    ]
    return entry("CSINode", "n", spec={"drivers": drivers})


def storage_class(mode: str = "Immediate", zone: str | None = None) -> Json:
    """A StorageClass, perhaps for one zone."""
    topologies = [] if zone is None else [{"matchLabelExpressions": [{"key": "zone", "values": [zone]}]}]
    return entry("StorageClass", "s", volumeBindingMode=mode, allowedTopologies=topologies, provisioner="p")
