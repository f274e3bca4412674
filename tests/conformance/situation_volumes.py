"""The storage of random situations: classes, volumes, claims, what nodes can attach, and pods that use it.

Volumes and claims are drawn to fit each other more often than not: bound pairs, loose volumes that a claim may take,
claims to be provisioned, and a few that point at nothing.
"""

import random
from typing import Any

Json = dict[str, Any]

DRIVERS = ("a.csi.example.com", "b.csi.example.com", "ebs.csi.aws.com")
MODES = ("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod")
SIZES = ("1Gi", "5Gi", "10Gi", "20Gi", "50Gi", "1.5Gi")
_CLASSES: tuple[tuple[str, str, str], ...] = (
    ("now", "a.csi.example.com", "Immediate"),
    ("later", "a.csi.example.com", "WaitForFirstConsumer"),
    ("later-b", "b.csi.example.com", "WaitForFirstConsumer"),
    ("static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    ("intree", "kubernetes.io/aws-ebs", "WaitForFirstConsumer"),
)
_ZONE = "topology.kubernetes.io/zone"
_HOST = "kubernetes.io/hostname"


def add(draw: random.Random, case: Json, limits: bool) -> None:
    """Add storage to a case, and volumes to its pods."""
    _Storage(draw, case, limits).add()


class _Storage:
    def __init__(self, draw: random.Random, case: Json, limits: bool) -> None:
        self._draw = draw
        self._case = case
        self._limits = limits
        self._nodes = [node["metadata"]["name"] for node in case["nodes"]]
        self._claims: list[Json] = []
        self._volumes: list[Json] = []
        self._shared: list[str] = []

    def add(self) -> None:
        """All of it."""
        draw, case = self._draw, self._case
        case["storageClasses"] = [self._class(*one) for one in _CLASSES if self._often(0.95)]
        for number in range(draw.choice((0, 1, 3, 6))):
            self._volumes.append(self._volume(f"loose{number}", None))
        for pod in case["pods"]:
            if self._often(0.5 if self._limits else 0.25):
                self._use(pod, placed=True)
        self._use(case["pod"], placed=False)
        for pod in case.get("nominated", ()):
            if self._often(0.5):
                self._use(pod, placed=False)
        case["persistentVolumeClaims"] = self._claims
        case["persistentVolumes"] = self._volumes
        case["csiDrivers"] = [self._driver(name) for name in DRIVERS if self._often(0.7)]
        if self._limits or self._often(0.3):
            case["csiNodes"] = [self._csi_node(name) for name in self._nodes if self._often(0.9)]
        if self._limits:
            case["volumeAttachments"] = [self._attachment(f"va{number}") for number in range(draw.choice((0, 2, 5)))]
        if not self._limits and self._often(0.6):
            case["csiStorageCapacities"] = self._capacities()

    def _often(self, chance: float) -> bool:
        return self._draw.random() < chance

    def _class(self, name: str, provisioner: str, mode: str) -> Json:
        out = _object("storage.k8s.io/v1", "StorageClass", {"name": name})
        out |= {"provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Delete"}
        if self._often(0.25):
            zones = self._draw.sample(("za", "zb", "zc"), self._draw.choice((1, 2)))
            out["allowedTopologies"] = [{"matchLabelExpressions": [{"key": _ZONE, "values": zones}]}]
        return out

    def _volume(self, name: str, claim: Json | None) -> Json:
        draw = self._draw
        spec: Json = {
            "capacity": {"storage": draw.choice(SIZES)},
            "accessModes": [draw.choice(MODES)],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": draw.choice(("now", "later", "static", "static", "")),
        }
        metadata: Json = {"name": name, "labels": {}}
        source = draw.random()
        if source < 0.6:
            spec["csi"] = {"driver": draw.choice(DRIVERS), "volumeHandle": f"h-{draw.choice((name, 'shared'))}"}
        elif source < 0.75:
            spec["awsElasticBlockStore"] = {"volumeID": f"vol-{name}"}
        elif source < 0.85:
            spec["gcePersistentDisk"] = {"pdName": f"pd-{name}"}
        else:
            spec["local"] = {"path": "/d"}
        if "local" in spec or self._often(0.3):
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [self._term()]}}
        if self._often(0.25):
            metadata["labels"][_ZONE] = draw.choice(("za", "zb", "za__zb", "zc"))
        if self._often(0.1):
            metadata["labels"]["topology.kubernetes.io/region"] = draw.choice(("r1", "r2"))
        if self._often(0.1):
            spec["volumeMode"] = draw.choice(("Block", "Filesystem"))
        phase = "Available"
        if claim is not None:
            phase = "Bound"
            metadata_of = claim["metadata"]
            spec["storageClassName"] = claim["spec"].get("storageClassName", "")
            spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": metadata_of["namespace"]}
            spec["claimRef"] |= {"name": metadata_of["name"], "uid": metadata_of["uid"]}
            if self._often(0.05):
                spec["claimRef"]["uid"] = "somebody-else"
        return _object("v1", "PersistentVolume", metadata, spec=spec, status={"phase": phase})

    def _term(self) -> Json:
        draw = self._draw
        if self._often(0.6):
            values = draw.sample(self._nodes, min(len(self._nodes), draw.choice((1, 2, 3))))
            return {"matchExpressions": [{"key": _HOST, "operator": "In", "values": values}]}
        return {"matchExpressions": [{"key": _ZONE, "operator": draw.choice(("In", "NotIn")), "values": ["za", "zb"]}]}

    def _use(self, pod: Json, placed: bool) -> None:
        volumes = [self._pod_volume(f"v{number}", pod, placed) for number in range(self._draw.choice((1, 1, 2, 3)))]
        pod["spec"]["volumes"] = volumes

    def _pod_volume(self, name: str, pod: Json, placed: bool) -> Json:
        draw = self._draw
        chance = draw.random()
        if chance < 0.05:
            return {"name": name, "emptyDir": {}}
        if chance < 0.2:
            return {"name": name, **self._inline()}
        if chance < 0.3:
            return {"name": name, "ephemeral": self._ephemeral(name, pod, placed)}
        if chance < 0.4 and self._shared:
            return {"name": name, "persistentVolumeClaim": {"claimName": draw.choice(self._shared)}}
        claim_name = f"c-{pod['metadata']['name']}-{name}"
        if not self._often(0.04):
            self._claim(claim_name, pod["metadata"]["namespace"], bound=placed or self._often(0.4))
            if pod["metadata"]["namespace"] == "default":
                self._shared.append(claim_name)
        return {"name": name, "persistentVolumeClaim": {"claimName": claim_name, "readOnly": self._often(0.1)}}

    def _inline(self) -> Json:
        draw = self._draw
        disk = draw.choice(("d1", "d2", "d3"))
        choices: tuple[Json, ...] = (
            {"gcePersistentDisk": {"pdName": disk, "readOnly": self._often(0.5)}},
            {"awsElasticBlockStore": {"volumeID": disk}},
            {"azureDisk": {"diskName": disk, "diskURI": f"/subscriptions/s/disks/{disk}"}},
            {"iscsi": {"targetPortal": "10.0.0.1", "iqn": f"iqn.{disk}", "lun": 0, "readOnly": self._often(0.5)}},
            {"rbd": {"monitors": ["m1", disk], "image": "i", "pool": "p", "readOnly": self._often(0.5)}},
            {"csi": {"driver": draw.choice(DRIVERS)}},
            {"hostPath": {"path": "/x"}},
        )
        return draw.choice(choices)

    def _ephemeral(self, name: str, pod: Json, placed: bool) -> Json:
        draw = self._draw
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": draw.choice(("later", "later-b")),
        }
        if not self._often(0.1):
            claim = self._claim(f"{pod['metadata']['name']}-{name}", pod["metadata"]["namespace"], bound=placed)
            if not self._often(0.05):
                owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
                owner |= {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
                claim["metadata"]["ownerReferences"] = [owner]
        return {"volumeClaimTemplate": {"spec": spec}}

    def _claim(self, name: str, namespace: str, bound: bool) -> Json:
        draw = self._draw
        metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": {}}
        spec: Json = {
            "accessModes": [draw.choice(MODES)],
            "resources": {"requests": {"storage": draw.choice(SIZES)}},
            "storageClassName": draw.choice(("now", "later", "later", "later-b", "static", "static", "intree", "none")),
        }
        if bound:
            spec["storageClassName"] = draw.choice(("now", "later", "intree"))
        if self._often(0.05):
            del spec["storageClassName"]
        if self._often(0.1):
            spec["volumeMode"] = draw.choice(("Block", "Filesystem"))
        if self._often(0.1):
            spec["selector"] = {"matchLabels": {_ZONE: "za"}}
        claim = _object("v1", "PersistentVolumeClaim", metadata, spec=spec, status={"phase": "Pending"})
        if bound:
            spec["volumeName"] = f"pv-{name}"
            if not self._often(0.05):
                metadata["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
            if not self._often(0.05):
                self._volumes.append(self._volume(f"pv-{name}", claim))
            claim["status"]["phase"] = "Bound"
        elif self._often(0.1):
            metadata["annotations"]["volume.kubernetes.io/selected-node"] = draw.choice(self._nodes)
        if self._often(0.03):
            metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/f"]}
        if self._often(0.03):
            claim["status"]["phase"] = "Lost"
        self._claims.append(claim)
        return claim

    def _driver(self, name: str) -> Json:
        spec: Json = {"attachRequired": self._often(0.75), "storageCapacity": self._often(0.6)}
        if self._often(0.3):
            spec["preventPodSchedulingIfMissing"] = self._often(0.7)
        return _object("storage.k8s.io/v1", "CSIDriver", {"name": name}, spec=spec)

    def _csi_node(self, name: str) -> Json:
        drivers: list[Json] = []
        for driver in DRIVERS:
            if self._often(0.85):
                one: Json = {"name": driver, "nodeID": name, "topologyKeys": [_HOST]}
                if self._often(0.85):
                    one["allocatable"] = {"count": self._draw.choice((0, 1, 1, 2, 4))}
                drivers.append(one)
        metadata: Json = {"name": name}
        if self._often(0.5):
            migrated = self._draw.choice(("kubernetes.io/aws-ebs", "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"))
            metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
        return _object("storage.k8s.io/v1", "CSINode", metadata, spec={"drivers": drivers})

    def _attachment(self, name: str) -> Json:
        volumes = [volume["metadata"]["name"] for volume in self._volumes] or ["pv-nobody"]
        source = {"persistentVolumeName": self._draw.choice(volumes)}
        spec = {"attacher": self._draw.choice(DRIVERS), "nodeName": self._draw.choice(self._nodes), "source": source}
        return _object("storage.k8s.io/v1", "VolumeAttachment", {"name": name}, spec=spec, status={"attached": True})

    def _capacities(self) -> list[Json]:
        draw = self._draw
        out = []
        for number in range(draw.choice((2, 5, 12))):
            metadata = {"name": f"cap{number}", "namespace": "kube-system", "uid": f"cap{number}"}
            topology: Json = draw.choice(
                (
                    {"matchLabels": {_HOST: draw.choice(self._nodes)}},
                    {"matchLabels": {_ZONE: draw.choice(("za", "zb", "zc"))}},
                    {"matchExpressions": [{"key": _ZONE, "operator": "In", "values": ["za", "zb"]}]},
                    {},
                )
            )
            entry = _object("storage.k8s.io/v1", "CSIStorageCapacity", metadata, nodeTopology=topology)
            entry["storageClassName"] = draw.choice(("later", "later-b"))
            if self._often(0.9):
                entry["capacity"] = draw.choice(("0", "3Gi", "10Gi", "100Gi", "1Ti"))
            if self._often(0.2):
                entry["maximumVolumeSize"] = draw.choice(("4Gi", "15Gi"))
            out.append(entry)
        return out


def _object(version: str, kind: str, metadata: Json, **parts: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}
