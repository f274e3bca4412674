"""Requests with several mistakes each: every one of them is named at once, in the API server's words."""

from __future__ import annotations

from typing import Any

from tests.e2e.apiserver_requests import APPS, BATCH, MERGE, POLICY, SPACE, STORAGE, STRATEGIC, Step, pod

Object = dict[str, Any]


def _pods(name: str, **spec: Any) -> Step:
    return Step(f"mistakes: {name}", "POST", f"{SPACE}/pods", pod("q", **spec))


def _workload(name: str, plural: str, spec: Object) -> Step:
    return Step(f"mistakes: {name}", "POST", f"{APPS}/{plural}", {"metadata": {"name": "Q_"}, "spec": spec})


_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
_SELECTOR = {"matchLabels": {"a": "b"}}
_NETWORK = "/apis/networking.k8s.io/v1"


def _rolling(**numbers: Any) -> Object:
    spec = {"strategy": {"rollingUpdate": numbers}, "selector": _SELECTOR, "template": _TEMPLATE}
    return {"metadata": {"name": "q"}, "spec": spec}


_OF_KINDS: tuple[tuple[str, Object], ...] = tuple(
    (path, {"metadata": {"name": "q"}, **body})
    for path, body in (
        (f"{APPS}/deployments", _rolling(maxSurge="x")),
        (f"{APPS}/deployments", _rolling(maxSurge=0, maxUnavailable=0)),
        (
            f"{APPS}/deployments",
            {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Foo"}]}, "template": _TEMPLATE}},
        ),
        (
            f"{APPS}/statefulsets",
            {
                "spec": {
                    "podManagementPolicy": "Foo",
                    "updateStrategy": {"type": "Foo"},
                    "selector": _SELECTOR,
                    "template": _TEMPLATE,
                }
            },
        ),
        (
            f"{APPS}/daemonsets",
            {"spec": {"updateStrategy": {"type": "Foo"}, "selector": _SELECTOR, "template": _TEMPLATE}},
        ),
        (f"{POLICY}/poddisruptionbudgets", {"spec": {"minAvailable": "x%", "selector": {}}}),
        (f"{POLICY}/poddisruptionbudgets", {"spec": {"minAvailable": -1, "unhealthyPodEvictionPolicy": "Foo"}}),
        (f"{SPACE}/replicationcontrollers", {}),
        (
            f"{SPACE}/replicationcontrollers",
            {"spec": {"replicas": -1, "selector": {"a": "c"}, "template": _TEMPLATE}},
        ),
        (f"{STORAGE}/storageclasses", {}),
        (f"{STORAGE}/storageclasses", {"provisioner": "p", "reclaimPolicy": "Foo", "volumeBindingMode": "Bar"}),
        ("/api/v1/persistentvolumes", {}),
        (
            "/api/v1/persistentvolumes",
            {
                "spec": {
                    "capacity": {"storage": "-1"},
                    "accessModes": ["Foo"],
                    "hostPath": {"path": "/x"},
                    "persistentVolumeReclaimPolicy": "Foo",
                }
            },
        ),
        (
            "/api/v1/persistentvolumes",
            {
                "spec": {
                    "capacity": {"storage": "1Gi", "cpu": "1"},
                    "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"],
                    "hostPath": {"path": "/x"},
                    "persistentVolumeReclaimPolicy": "Retain",
                }
            },
        ),
        (
            f"{SPACE}/persistentvolumeclaims",
            {
                "metadata": {"name": "q"},
                "spec": {
                    "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        ),
        (f"{_NETWORK}/namespaces/space/ingresses", {}),
        (
            f"{_NETWORK}/namespaces/space/ingresses",
            {
                "spec": {
                    "rules": [
                        {"host": "A_B", "http": {"paths": [{"path": "x", "backend": {"service": {"name": "s"}}}]}}
                    ]
                }
            },
        ),
        (f"{_NETWORK}/ingressclasses", {}),
        ("/apis/node.k8s.io/v1/runtimeclasses", {}),
        ("/apis/node.k8s.io/v1/runtimeclasses", {"handler": "A_B"}),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", {}),
        (f"{SPACE}/configmaps", {"metadata": {"name": "q", "creationTimestamp": "yesterday"}}),
        (f"{BATCH}/cronjobs", {}),
        (
            f"{BATCH}/cronjobs",
            {
                "spec": {
                    "schedule": "* * *",
                    "timeZone": "Mars/Olympus",
                    "concurrencyPolicy": "Maybe",
                    "startingDeadlineSeconds": -1,
                    "successfulJobsHistoryLimit": -1,
                    "jobTemplate": {"spec": {"template": _TEMPLATE}},
                }
            },
        ),
    )
)
MISTAKES: tuple[Step, ...] = (
    _pods("no containers", containers=[], restartPolicy="Foo", tolerations=[{"key": "a", "effect": "Foo"}]),
    _pods(
        "in containers",
        containers=[
            {"name": "C", "image": "", "imagePullPolicy": "Foo", "ports": [{"containerPort": 0, "protocol": "X"}]},
            {"name": "d", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1", "memory": "-1"}}},
            {"name": "d", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        ],
        initContainers=[{"name": "d", "image": "i"}],
    ),
    _pods("in the policies", dnsPolicy="Foo", restartPolicy="Bar", terminationGracePeriodSeconds=-5, nodeName="A_B"),
    _pods("in the volumes", volumes=[{"name": "V"}, {"name": "w", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]),
    Step(
        "mistakes: in the metadata",
        "POST",
        f"{SPACE}/configmaps",
        {"metadata": {"name": "Bad_", "labels": {"a b": "c d"}, "annotations": {"a b": "c"}}},
    ),
    _workload("in a deployment", "deployments", {"replicas": -1, "template": {"spec": {"containers": []}}}),
    _workload(
        "in a rolling update",
        "deployments",
        {
            "selector": {"matchLabels": {"a": "c"}},
            "strategy": {"type": "Foo"},
            "minReadySeconds": -1,
            "revisionHistoryLimit": -1,
            "template": {**_TEMPLATE, "spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}},
        },
    ),
    Step(
        "mistakes: in a job",
        "POST",
        f"{BATCH}/jobs",
        {
            "metadata": {"name": "q"},
            "spec": {
                "parallelism": -1,
                "completions": -2,
                "backoffLimit": -3,
                "template": {"spec": {"containers": []}},
            },
        },
    ),
    Step(
        "mistakes: in a service",
        "POST",
        f"{SPACE}/services",
        {
            "metadata": {"name": "q"},
            "spec": {"type": "Foo", "ports": [{"port": 0}, {"port": 99999, "protocol": "X"}], "selector": {"a b": "c"}},
        },
    ),
    Step(
        "mistakes: in a claim",
        "POST",
        f"{SPACE}/persistentvolumeclaims",
        {"metadata": {"name": "q"}, "spec": {"accessModes": ["Foo"], "resources": {"requests": {"storage": "-1"}}}},
    ),
    Step(
        "mistakes: in a node",
        "POST",
        "/api/v1/nodes",
        {
            "metadata": {"name": "q"},
            "spec": {"taints": [{"key": "", "effect": "Foo"}, {"key": "a"}]},
        },
    ),
    Step(
        "mistakes: selector to change",
        "POST",
        f"{APPS}/deployments",
        {
            "metadata": {"name": "fixed"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE},
        },
    ),
    Step(
        "mistakes: selector changed",
        "PATCH",
        f"{APPS}/deployments/fixed",
        {"spec": {"replicas": -1, "selector": {"matchLabels": {"a": "c"}}}},
        MERGE,
    ),
    Step(
        "mistakes: no merge key",
        "PATCH",
        f"{APPS}/deployments/fixed",
        {"spec": {"template": {"spec": {"containers": [{"image": "x", "tty": True, "ports": [{"hostPort": 1}]}]}}}},
        STRATEGIC,
    ),
    Step("mistakes: grace period", "DELETE", f"{SPACE}/pods/nobody?gracePeriodSeconds=soon"),
    *(Step(f"mistakes: {path} {number}", "POST", path, body) for number, (path, body) in enumerate(_OF_KINDS)),
)
