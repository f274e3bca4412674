"""Rarities for random situations: fields that are valid, or nearly, and that hardly anybody sets so.

`situation_oddities` has what few clusters have; this has what few *objects* have: nodes with nothing to give, requests
under names that are almost resources, limits without requests, names and labels beyond ASCII, addresses in several
notations, lists with nothing in them, statuses of containers that are not there. Each is put into a situation that is
drawn already, where it has a place.
"""

import random
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_NAMES = (
    *("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-", "hugepages-1Gi", "pods", "storage", "foo"),
    *("example.com/gpu", "example.com/", "kubernetes.io/batteries", "requests.example.com/gpu", "x.kubernetes.io/y"),
    *("attachable-volumes-aws-ebs", "attachable-volumes-csi-a.csi.example.com", "requests.cpu", "a/b/c", "/gpu", "CPU"),
)
_FEW = ("0", "1", "2", "1m", "3Gi", "100Mi", "1500m", "1Ki", "1e3")
_WORDS = ("grün", "中文", "a b", "x" * 70, "", "-", "ok", "\u00fc.\u00e9")
_ADDRESSES = (
    *("0.0.0.0", "", "127.0.0.1", "127.0.0.2", "10.0.0.1", "010.0.0.1", "::", "::1", "0:0:0:0:0:0:0:0"),
    *("fe80::1", "FE80::1", "::ffff:10.0.0.1", "localhost", "10.0.0.1 "),
)
# In-tree volumes, the drivers that they were moved to, and how CSINodes call the plugins that they were.
_MOVED: tuple[tuple[Json, str, str], ...] = (
    ({"awsElasticBlockStore": {"volumeID": "aws://za/vol-@"}}, "ebs.csi.aws.com", "kubernetes.io/aws-ebs"),
    ({"awsElasticBlockStore": {"volumeID": "vol-@", "partition": 2}}, "ebs.csi.aws.com", "kubernetes.io/aws-ebs"),
    ({"gcePersistentDisk": {"pdName": "pd-@"}}, "pd.csi.storage.gke.io", "kubernetes.io/gce-pd"),
    ({"azureDisk": {"diskName": "@", "diskURI": "/s/@"}}, "disk.csi.azure.com", "kubernetes.io/azure-disk"),
    ({"cinder": {"volumeID": "cinder-@"}}, "cinder.csi.openstack.org", "kubernetes.io/cinder"),
    ({"vsphereVolume": {"volumePath": "[s] @"}}, "csi.vsphere.vmware.com", "kubernetes.io/vsphere-volume"),
    ({"portworxVolume": {"volumeID": "px-@"}}, "pxd.portworx.com", "kubernetes.io/portworx-volume"),
    ({"azureFile": {"secretName": "s", "shareName": "@"}}, "file.csi.azure.com", "kubernetes.io/azure-file"),
)


def add(draw: random.Random, case: Json) -> None:
    """Put some rarities where they can be."""
    for entry in (*case["nodes"], *_pods(case)):
        entry.setdefault("spec", {})
        entry.setdefault("status", {})
    for pod in _pods(case):
        pod["metadata"].setdefault("namespace", "default")
    for change in draw.sample(_CHANGES, draw.choice((1, 2, 3, 5))):
        change(draw, case)


def _pods(case: Json) -> list[Json]:
    return [*case["pods"], *case.get("nominated", ()), *[case["pod"]] * 3]


def _some(draw: random.Random, entries: list[Json]) -> list[Json]:
    return draw.sample(entries, min(len(entries), draw.choice((1, 2, 4))))


def _amounts(draw: random.Random, most: int = 3) -> Json:
    return {name: draw.choice(_FEW) for name in draw.sample(_NAMES, draw.randint(1, most))}


def _nothing_to_give(draw: random.Random, case: Json) -> None:
    for node in _some(draw, case["nodes"]):
        allocatable = node["status"].setdefault("allocatable", {})
        for name in draw.sample(("cpu", "memory", "pods", "ephemeral-storage", "example.com/gpu"), 2):
            allocatable[name] = draw.choice(("0", "0", "-0", "1m", "1n", "1"))
        if draw.random() < 0.3:
            node["status"]["allocatable"] = {}


def _nearly_resources(draw: random.Random, case: Json) -> None:
    for node in _some(draw, case["nodes"]):
        node["status"].setdefault("allocatable", {}).update(_amounts(draw, 6))
    for pod in _some(draw, _pods(case)):
        container = draw.choice(pod["spec"]["containers"])
        container.setdefault("resources", {}).setdefault("requests", {}).update(_amounts(draw))


def _only_limits(draw: random.Random, case: Json) -> None:
    for pod in _some(draw, _pods(case)):
        container = draw.choice([*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())])
        container["resources"] = {"limits": _amounts(draw)}
        if draw.random() < 0.3:
            pod["spec"]["resources"] = {"limits": {"cpu": "2", "memory": "1Gi"}}


def _whole_pods(draw: random.Random, case: Json) -> None:
    """Requests of the pod as a whole, below and above those of its containers, with overhead."""
    for pod in _some(draw, _pods(case)):
        names = draw.sample(("cpu", "memory", "hugepages-2Mi", "example.com/gpu", "ephemeral-storage"), 2)
        pod["spec"]["resources"] = {"requests": {name: draw.choice(_FEW) for name in names}}
        if draw.random() < 0.3:
            pod["spec"]["resources"] = draw.choice(({}, {"requests": {}}, {"requests": {"cpu": "0"}}))
        if draw.random() < 0.5:
            pod["spec"]["overhead"] = _amounts(draw)


def _helpers(draw: random.Random, case: Json) -> None:
    """Init containers of both kinds, in any order."""
    for pod in _some(draw, _pods(case)):
        containers = []
        for number in range(draw.choice((1, 2, 4))):
            container: Json = {"name": f"h{number}", "image": "x", "resources": {"requests": _amounts(draw)}}
            if draw.random() < 0.6:
                container["restartPolicy"] = draw.choice(("Always", "Always", "Never", "OnFailure"))
            containers.append(container)
        pod["spec"]["initContainers"] = containers


def _resizes(draw: random.Random, case: Json) -> None:
    """The kubelet's status of containers, some of which are not there."""
    for pod in _some(draw, _pods(case)):
        for field, of in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
            said, names = [], [one["name"] for one in pod["spec"].get(of, ())]
            for name in draw.sample([*names, "gone"], draw.randint(0, len(names))):
                one: Json = {"name": name, "ready": True, "restartCount": 0, "image": "", "imageID": ""}
                if draw.random() < 0.7:
                    one["allocatedResources"] = _amounts(draw)
                if draw.random() < 0.7:
                    one["resources"] = draw.choice(({}, {"requests": _amounts(draw)}, {"limits": {"cpu": "7"}}))
                said.append(one)
            pod["status"][field] = said
        if draw.random() < 0.5:
            kind = draw.choice(("PodResizePending", "PodResizeInProgress"))
            condition = {"type": kind, "status": draw.choice(("True", "False"))}
            condition["reason"] = draw.choice(("Infeasible", "Deferred", "Error", ""))
            pod["status"].setdefault("conditions", []).append(condition)
        if draw.random() < 0.4:
            pod["status"]["resources"] = {"requests": _amounts(draw)}
        if draw.random() < 0.4:
            pod["status"]["allocatedResources"] = _amounts(draw)


def _words(draw: random.Random, case: Json) -> None:
    """Labels and taints beyond ASCII and beyond what labels may be."""
    for entry in (*_some(draw, case["nodes"]), *_some(draw, _pods(case))):
        key = draw.choice((_ZONE, "disk", "app", "ключ", "rack", ""))
        entry["metadata"].setdefault("labels", {})[key] = draw.choice(_WORDS)
    spec = case["pod"]["spec"]
    if draw.random() < 0.5:
        spec["nodeSelector"] = {draw.choice((_ZONE, "disk", "ключ", "a.io/")): draw.choice(_WORDS)}
    if draw.random() < 0.5:
        taint = {"key": draw.choice(("ключ", "", "a b")), "value": draw.choice(_WORDS), "effect": "NoSchedule"}
        draw.choice(case["nodes"])["spec"].setdefault("taints", []).append(taint)
        if draw.random() < 0.5:
            toleration = {"key": taint["key"], "value": taint["value"], "operator": draw.choice(("", "Equal"))}
            spec.setdefault("tolerations", []).append(toleration)


def _tolerations(draw: random.Random, case: Json) -> None:
    choices: tuple[Json, ...] = (
        {},
        {"operator": "Exists", "value": "a"},
        {"key": "gpu"},
        {"key": "gpu", "operator": "Exists", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
        {"value": "a"},
        {"operator": "Exists", "effect": "NoSchedule"},
        {"key": "gpu", "operator": "exists"},
    )
    effects = ("NoSchedule", "NoExecute", "PreferNoSchedule", "", "Other")
    for node in _some(draw, case["nodes"]):
        taint = {"key": draw.choice(("gpu", "flaky")), "effect": draw.choice(effects)}
        if draw.random() < 0.5:
            taint |= {"value": draw.choice(("a", "b")), "timeAdded": "2026-01-01T00:00:00Z"}
        node["spec"].setdefault("taints", []).extend([taint] * draw.choice((1, 1, 2)))
    for pod in _some(draw, _pods(case)):
        pod["spec"]["tolerations"] = [dict(draw.choice(choices)) for _ in range(draw.choice((1, 2, 3)))]


def _addresses(draw: random.Random, case: Json) -> None:
    for pod in _some(draw, _pods(case)):
        fields = ("containers", "containers", "initContainers")
        containers = pod["spec"].get(draw.choice(fields)) or pod["spec"]["containers"] or [{"name": "c"}]
        ports = []
        for _ in range(draw.choice((1, 2, 3))):
            port: Json = {"containerPort": 80, "hostPort": draw.choice((80, 80, 443, 0, 65535))}
            if draw.random() < 0.8:
                port["hostIP"] = draw.choice(_ADDRESSES)
            if draw.random() < 0.6:
                port["protocol"] = draw.choice(("TCP", "UDP", "SCTP", "", "tcp"))
            ports.append(port)
        draw.choice(containers)["ports"] = ports
        if draw.random() < 0.2:
            pod["spec"]["hostNetwork"] = True


def _node_names(draw: random.Random, case: Json) -> None:
    """Terms that name nodes, and nodes that are not there."""
    names = [node["metadata"]["name"] for node in case["nodes"]]
    terms = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        fields = []
        for _ in range(draw.choice((1, 1, 2))):
            known = draw.choice((*names, "gone", "N00", "n00.example.com", "ü", "", "n00 "))
            field: Json = {"key": "metadata.name", "operator": draw.choice(("In", "In", "In", "NotIn"))}
            if draw.random() < 0.9:
                field["values"] = draw.choice(([known], [known], [known], [known, known], [known, "x"]))
            fields.append(field)
        term: Json = {"matchFields": fields}
        if draw.random() < 0.3:
            term["matchExpressions"] = [{"key": _ZONE, "operator": "Exists"}]
        terms.append(draw.choice((term, term, term, term, {})))
    affinity = case["pod"]["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    if draw.random() < 0.8:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    else:
        weighted = [{"weight": draw.choice((1, 50, 100)), "preference": term} for term in terms]
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = weighted


def _empty(draw: random.Random, case: Json) -> None:
    """Fields that are there and say nothing."""
    for pod in _some(draw, _pods(case)):
        spec = pod["spec"]
        affinity: Json = draw.choice(
            (
                {},
                {"nodeAffinity": {}},
                {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
                {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
                {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": _ZONE}]}},
                {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": _HOST}]}},
                {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "nobody", "labelSelector": {}, "namespaceSelector": {}}
                        ]
                    }
                },
            )
        )
        spec["affinity"] = {**spec.get("affinity", {}), **affinity}
        if draw.random() < 0.3:
            spec |= {"nodeSelector": {}, "tolerations": [], "volumes": [], "topologySpreadConstraints": []}
        if draw.random() < 0.2:
            spec["schedulingGates"] = draw.choice(([], [{"name": "example.com/wait"}]))


def _missing_topology(draw: random.Random, case: Json) -> None:
    constraints = []
    for key in draw.sample(("nobody", _ZONE, _HOST, "rack", "sparse"), draw.choice((1, 2, 3))):
        constraint: Json = {"topologyKey": key, "maxSkew": draw.choice((1, 2, 2**31 - 1))}
        constraint["whenUnsatisfiable"] = draw.choice(("DoNotSchedule", "ScheduleAnyway"))
        if draw.random() < 0.8:
            constraint["labelSelector"] = draw.choice(({}, {"matchLabels": {"app": "web"}}, {"matchLabels": {}}))
        if draw.random() < 0.3 and constraint["whenUnsatisfiable"] == "DoNotSchedule":
            constraint["minDomains"] = draw.choice((1, 2, 100))
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if draw.random() < 0.4:
                constraint[field] = draw.choice(("Honor", "Ignore"))
        if draw.random() < 0.3 and "labelSelector" in constraint:
            constraint["matchLabelKeys"] = draw.sample(("app", "tier", "nobody"), 2)
        constraints.append(constraint)
    case["pod"]["spec"]["topologySpreadConstraints"] = constraints
    for node in _some(draw, case["nodes"]):
        node["metadata"].setdefault("labels", {})["sparse"] = draw.choice(("", "a", "b"))


def _equals(draw: random.Random, case: Json) -> None:
    """Who waits for a node is as important as the pod to place, or the pod itself was nominated."""
    pod = case["pod"]
    if draw.random() < 0.5:
        pod["spec"]["priority"] = draw.choice((0, 10, 100))
    for other in _some(draw, case["pods"]):
        moved = {**other, "status": {"phase": "Pending"}, "spec": {**other["spec"]}}
        node = moved["spec"].pop("nodeName")
        moved["status"]["nominatedNodeName"] = draw.choice((node, "gone"))
        priority = pod["spec"].get("priority", 0) + draw.choice((0, 0, 0, 1, -1))
        moved["spec"]["priority"] = priority
        moved["metadata"] = {**other["metadata"], "name": f"w-{other['metadata']['name']}"}
        moved["metadata"]["uid"] = moved["metadata"]["name"]
        moved["metadata"].pop("deletionTimestamp", None)
        case.setdefault("nominated", []).append(moved)
    names = [one["metadata"]["name"] for one in case["nominated"]] if "nominated" in case else []
    if len(names) != len(set(names)):
        case["nominated"] = list({one["metadata"]["name"]: one for one in case["nominated"]}.values())


def _images(draw: random.Random, case: Json) -> None:
    """Images under many names; each name has one size wherever it is."""
    stock = [
        {"names": ["r.io/a:v1", "r.io/a@sha256:" + "1" * 64, "mirror/a:v1", "a"], "sizeBytes": 400 << 20},
        {"names": ["docker.io/library/b:latest", "b:latest"], "sizeBytes": 2 << 30},
        {"names": ["r.io:5000/c:v1"], "sizeBytes": 5 << 40},
        {"names": [], "sizeBytes": 7 << 20},
        {"names": ["d:latest", "d"], "sizeBytes": -5},
    ]
    wanted = ("r.io/a:v1", "mirror/a:v1", "a", "b", "b:latest", "r.io:5000/c", "r.io:5000/c:v1", "d", "", "R.IO/a:v1")
    for node in _some(draw, case["nodes"]):
        node["status"]["images"] = draw.sample(stock, draw.randint(1, len(stock)))
    for container in (*case["pod"]["spec"]["containers"], *case["pod"]["spec"].get("initContainers", ())):
        container["image"] = draw.choice((*wanted, f"r.io/a@sha256:{'1' * 64}"))


def _moved_volumes(draw: random.Random, case: Json) -> None:
    """In-tree volumes, in pods and behind claims, counted for the drivers that they were moved to."""
    kinds = draw.sample(_MOVED, 2)
    volumes, claims = case.setdefault("persistentVolumes", []), case.setdefault("persistentVolumeClaims", [])
    for number, pod in enumerate(_some(draw, _pods(case)[:-2])):
        source, _, _ = draw.choice(kinds)
        name = draw.choice(("one", "two", f"of{number}"))
        filled = {
            kind: {key: text.replace("@", name) if isinstance(text, str) else text for key, text in inner.items()}
            for kind, inner in source.items()
        }
        if draw.random() < 0.5:
            volume = {"name": f"moved{number}", **filled}
        else:
            claim, namespace = f"moved{number}", pod["metadata"]["namespace"]
            metadata: Json = {"name": claim, "namespace": namespace, "uid": f"uid-{claim}"}
            metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            bound = {**asked, "volumeName": f"pv-{claim}", "storageClassName": "now"}
            spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **filled}
            spec["claimRef"] = {"name": claim, "namespace": namespace, "uid": f"uid-{claim}"}
            claims.append(_object("v1", "PersistentVolumeClaim", metadata, bound, {"phase": "Bound"}))
            volumes.append(_object("v1", "PersistentVolume", {"name": f"pv-{claim}"}, spec, {"phase": "Bound"}))
            volume = {"name": f"moved{number}", "persistentVolumeClaim": {"claimName": claim}}
        pod["spec"].setdefault("volumes", []).append(volume)
    known = {one["metadata"]["name"] for one in case.get("csiNodes", ())}
    for node in case["nodes"]:
        name = node["metadata"]["name"]
        if name in known or draw.random() < 0.2:
            continue
        drivers: list[Json] = []
        for driver in sorted({driver for _, driver, _ in kinds}):
            count = draw.choice(({"allocatable": {"count": draw.choice((0, 1, 2))}}, {"allocatable": {}}, {}))
            drivers.append({"name": driver, "nodeID": name, "topologyKeys": [], **count})
        plugins = ",".join(sorted({plugin for _, _, plugin in kinds}))
        notes = draw.choice(({"storage.alpha.kubernetes.io/migrated-plugins": plugins}, {}))
        metadata = {"name": name, "annotations": notes}
        case.setdefault("csiNodes", []).append(_object("storage.k8s.io/v1", "CSINode", metadata, {"drivers": drivers}))
    for field in ("persistentVolumes", "persistentVolumeClaims"):
        if not case[field]:
            del case[field]


def _object(version: str, kind: str, metadata: Json, spec: Json, status: Json | None = None) -> Json:
    made = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    return made if status is None else {**made, "status": status}


_CHANGES: tuple[Callable[[random.Random, Json], None], ...] = (
    _nothing_to_give,
    _nearly_resources,
    _only_limits,
    _whole_pods,
    _helpers,
    _resizes,
    _words,
    _tolerations,
    _addresses,
    _node_names,
    _empty,
    _missing_topology,
    _equals,
    _images,
    _moved_volumes,
)
