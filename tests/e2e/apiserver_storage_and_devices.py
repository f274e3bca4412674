"""Claims, volumes and storage classes, priority classes, disruption budgets, and devices."""

from __future__ import annotations

from tests.e2e.apiserver_requests import CLASSES, DEVICES, POLICY, SPACE, STORAGE, Step

STORAGE_AND_DEVICES: tuple[Step, ...] = (
    Step(
        "pvc",
        "POST",
        f"{SPACE}/persistentvolumeclaims",
        {
            "metadata": {"name": "c"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    ),
    Step("pvc bad", "POST", f"{SPACE}/persistentvolumeclaims", {"metadata": {"name": "c2"}, "spec": {}}),
    Step(
        "pv",
        "POST",
        "/api/v1/persistentvolumes",
        {
            "metadata": {"name": "v"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany"],
                "hostPath": {"path": "/x"},
                "storageClassName": "x",
            },
        },
    ),
    Step("sc", "POST", f"{STORAGE}/storageclasses", {"metadata": {"name": "x"}, "provisioner": "p"}),
    Step("csidriver", "POST", f"{STORAGE}/csidrivers", {"metadata": {"name": "x.y"}, "spec": {}}),
    Step(
        "csinode",
        "POST",
        f"{STORAGE}/csinodes",
        {
            "metadata": {"name": "n1"},
            "spec": {"drivers": [{"name": "x.y", "nodeID": "a", "allocatable": {"count": 3}}]},
        },
    ),
    Step(
        "csicap",
        "POST",
        f"{STORAGE}/namespaces/space/csistoragecapacities",
        {"metadata": {"name": "q"}, "storageClassName": "x", "capacity": "1024Mi"},
    ),
    Step("pc", "POST", CLASSES, {"metadata": {"name": "high"}, "value": 100}),
    Step("pc too high", "POST", CLASSES, {"metadata": {"name": "high2"}, "value": 2000000000}),
    Step(
        "pdb",
        "POST",
        f"{POLICY}/poddisruptionbudgets",
        {"metadata": {"name": "p"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"no": "pods"}}}},
    ),
    Step(
        "pdb put no rv",
        "PUT",
        f"{POLICY}/poddisruptionbudgets/p",
        {"metadata": {"name": "p"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"no": "pods"}}}},
    ),
    Step(
        "dc",
        "POST",
        f"{DEVICES}/deviceclasses",
        {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}},
    ),
    Step(
        "rc",
        "POST",
        f"{DEVICES}/namespaces/space/resourceclaims",
        {
            "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        },
    ),
    Step(
        "rct",
        "POST",
        f"{DEVICES}/namespaces/space/resourceclaimtemplates",
        {
            "metadata": {"name": "c"},
            "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
        },
    ),
    Step(
        "slice",
        "POST",
        f"{DEVICES}/resourceslices",
        {
            "metadata": {"name": "s1"},
            "spec": {
                "driver": "d.x",
                "nodeName": "n1",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "space", "attributes": {"a": {"int": 1}}}],
            },
        },
    ),
    Step(
        "va",
        "POST",
        f"{STORAGE}/volumeattachments",
        {
            "metadata": {"name": "va"},
            "spec": {"attacher": "a", "nodeName": "n1", "source": {"persistentVolumeName": "v"}},
        },
    ),
    Step("secret", "POST", f"{SPACE}/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}}),
)
