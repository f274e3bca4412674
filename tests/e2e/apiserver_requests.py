"""The requests that both API servers have to answer alike, in order: each builds on what those before it left.

Kept apart from the test as data; a step is one request, and its label names it in the test's report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE, WAIT, WATCH = "table", "wait", "watch"

SPACE = "/api/v1/namespaces/space"
APPS = "/apis/apps/v1/namespaces/space"
BATCH = "/apis/batch/v1/namespaces/space"
POLICY = "/apis/policy/v1/namespaces/space"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/space/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/space/events"
STORAGE = "/apis/storage.k8s.io/v1"
DEVICES = "/apis/resource.k8s.io/v1"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@dataclass(frozen=True)
class Step:
    """One request."""

    label: str
    method: str
    path: str
    body: Any = None
    kind: str = JSON
    """The content type of the body, or TABLE, WAIT or WATCH."""
    until: Any = 200
    """Of WAIT: the code that the request has to get, or the status that the object has to have."""


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod of one container."""
    container = {"name": "c", "image": "nginx"}
    metadata = {"name": name, "labels": {"app": "x"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


STEPS: tuple[Step, ...] = (
    Step("ns", "POST", "/api/v1/namespaces", {"metadata": {"name": "space"}}),
    Step("ns get", "GET", SPACE),
    Step(
        "node",
        "POST",
        "/api/v1/nodes",
        {
            "metadata": {
                "name": "n1",
                "labels": {"topology.kubernetes.io/zone": "z1", "a": "b"},
                "annotations": {"trireme.dev/kubelet": "none"},
            },
            "status": {"capacity": {"cpu": 4, "memory": "4096Mi", "pods": 10}},
        },
    ),
    Step("service account", "GET", f"{SPACE}/serviceaccounts/default", None, WAIT),
    Step("pod", "POST", f"{SPACE}/pods", pod("p1")),
    Step("pod dup", "POST", f"{SPACE}/pods", pod("p1")),
    Step(
        "pod full",
        "POST",
        f"{SPACE}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "g-", "name": "p2"},
            "spec": {
                "initContainers": [{"name": "i", "image": "a:1"}],
                "containers": [
                    {
                        "name": "c",
                        "image": "nginx:1.2",
                        "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}, "requests": {"cpu": "0.1"}},
                        "ports": [{"containerPort": 80}],
                        "livenessProbe": {"httpGet": {"port": 80}},
                        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    },
                    {"name": "d", "image": "x@sha256:0000000000000000000000000000000000000000000000000000000000000000"},
                ],
                "volumes": [
                    {"name": "e"},
                    {"name": "s", "secret": {"secretName": "s"}},
                    {"name": "h", "hostPath": {"path": "/x"}},
                    {"name": "cm", "configMap": {"name": "s"}},
                ],
                "nodeSelector": {"a": "b"},
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "z",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"a": "b"}},
                        "matchLabelKeys": ["app"],
                    }
                ],
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "k", "labelSelector": {"matchLabels": {"app": "x"}}}
                        ]
                    },
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 3,
                                "preference": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
                            }
                        ]
                    },
                },
                "tolerations": [{"key": "q", "operator": "Exists"}],
                "hostNetwork": True,
            },
        },
    ),
    Step("pod gated", "POST", f"{SPACE}/pods", pod("p3", schedulingGates=[{"name": "g"}])),
    Step("pod prio missing", "POST", f"{SPACE}/pods", pod("p4", priorityClassName="nope")),
    Step("pod prio", "POST", f"{SPACE}/pods", pod("p5", priorityClassName="system-node-critical")),
    Step("pod prio int", "POST", f"{SPACE}/pods", pod("p6", priority=7)),
    Step("pod sa missing", "POST", f"{SPACE}/pods", pod("p7", serviceAccountName="nope")),
    Step("pod no containers", "POST", f"{SPACE}/pods", {"metadata": {"name": "q"}, "spec": {"containers": []}}),
    Step("pod no spec", "POST", f"{SPACE}/pods", {"metadata": {"name": "q"}}),
    Step("pod bad name", "POST", f"{SPACE}/pods", pod("Bad_Name")),
    Step("pod no name", "POST", f"{SPACE}/pods", {"spec": {"containers": [{"name": "c", "image": "i"}]}}),
    Step(
        "pod bad container",
        "POST",
        f"{SPACE}/pods",
        {"metadata": {"name": "q"}, "spec": {"containers": [{"image": "i"}, {"name": "b"}]}},
    ),
    Step(
        "pod bad quantity",
        "POST",
        f"{SPACE}/pods",
        {
            "metadata": {"name": "q"},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "abc"}}}]},
        },
    ),
    Step(
        "pod negative quantity",
        "POST",
        f"{SPACE}/pods",
        {
            "metadata": {"name": "q"},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "-1"}}}]},
        },
    ),
    Step(
        "pod req>limit",
        "POST",
        f"{SPACE}/pods",
        {
            "metadata": {"name": "q"},
            "spec": {
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
                ]
            },
        },
    ),
    Step(
        "pod dup container",
        "POST",
        f"{SPACE}/pods",
        {"metadata": {"name": "q"}, "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}},
    ),
    Step("pod bad restart", "POST", f"{SPACE}/pods", pod("q", restartPolicy="Foo")),
    Step(
        "pod bad toleration",
        "POST",
        f"{SPACE}/pods",
        pod("q", tolerations=[{"key": "a", "operator": "Exists", "effect": "Foo"}]),
    ),
    Step(
        "pod bad label",
        "POST",
        f"{SPACE}/pods",
        {"metadata": {"name": "q", "labels": {"a": "b c"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    ),
    Step(
        "pod type error",
        "POST",
        f"{SPACE}/pods",
        {"metadata": {"name": "q"}, "spec": {"containers": [{"name": "c", "image": True}]}},
    ),
    Step(
        "pod strict",
        "POST",
        f"{SPACE}/pods?fieldValidation=Strict",
        {"metadata": {"name": "q"}, "spec": {"foo": 1, "containers": [{"name": "c", "image": "i"}]}},
    ),
    Step(
        "pod unknown dropped",
        "POST",
        f"{SPACE}/pods?dryRun=All",
        {"metadata": {"name": "q"}, "spec": {"foo": 1, "containers": [{"name": "c", "image": "i"}]}},
    ),
    Step(
        "pod wrong ns",
        "POST",
        f"{SPACE}/pods",
        {"metadata": {"name": "q", "namespace": "other"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    ),
    Step("pod missing ns", "POST", "/api/v1/namespaces/nope/pods", pod("q")),
    Step("pod wrong kind", "POST", f"{SPACE}/pods", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "q"}}),
    Step("pod wrong version", "POST", f"{SPACE}/pods", {"apiVersion": "v2", "kind": "Pod", "metadata": {"name": "q"}}),
    Step(
        "pod rv on create",
        "POST",
        f"{SPACE}/pods",
        {"metadata": {"name": "q", "resourceVersion": "5"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    ),
    Step("pod garbage", "POST", f"{SPACE}/pods", b"{nope"),
    Step("get missing", "GET", f"{SPACE}/pods/nope"),
    Step("get missing crd", "GET", "/apis/foo.bar/v1/x"),
    Step("get missing res", "GET", "/api/v1/foos"),
    Step("list bad field", "GET", f"{SPACE}/pods?fieldSelector=spec.foo%3D1"),
    Step("list bad label", "GET", f"{SPACE}/pods?labelSelector=a%3D%3D%3Db"),
    Step(
        "list field",
        "GET",
        f"{SPACE}/pods?fieldSelector=spec.nodeName%3D,spec.schedulerName%3Ddefault-scheduler,status.phase%3DPending&labelSelector=app%20in%20(x,y),!zzz",
    ),
    Step("list future rv", "GET", f"{SPACE}/pods?resourceVersion=99999999"),
    Step(
        "bind wrong uid",
        "POST",
        f"{SPACE}/pods/p1/binding",
        {"metadata": {"name": "p1", "uid": "nope"}, "target": {"kind": "Node", "name": "n1"}},
    ),
    Step(
        "bind gated",
        "POST",
        f"{SPACE}/pods/p3/binding",
        {"metadata": {"name": "p3"}, "target": {"kind": "Node", "name": "n1"}},
    ),
    Step(
        "bind no target", "POST", f"{SPACE}/pods/p1/binding", {"metadata": {"name": "p1"}, "target": {"kind": "Node"}}
    ),
    Step(
        "bind missing",
        "POST",
        f"{SPACE}/pods/nope/binding",
        {"metadata": {"name": "nope"}, "target": {"kind": "Node", "name": "n1"}},
    ),
    Step(
        "nominate",
        "PATCH",
        f"{SPACE}/pods/p1/status",
        {
            "status": {
                "nominatedNodeName": "n1",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}],
            }
        },
        STRATEGIC,
    ),
    Step(
        "bind",
        "POST",
        f"{SPACE}/pods/p1/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "n1"}},
    ),
    Step(
        "bind again",
        "POST",
        f"{SPACE}/pods/p1/binding",
        {"metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "n2"}},
    ),
    Step("bound", "GET", f"{SPACE}/pods/p1"),
    Step("patch label", "PATCH", f"{SPACE}/pods/p1", {"metadata": {"labels": {"z": "y", "app": None}}}, MERGE),
    Step("patch nodeName", "PATCH", f"{SPACE}/pods/p1", {"spec": {"nodeName": "n2"}}, MERGE),
    Step(
        "patch image", "PATCH", f"{SPACE}/pods/p1", {"spec": {"containers": [{"name": "c", "image": "new"}]}}, STRATEGIC
    ),
    Step("patch tol", "PATCH", f"{SPACE}/pods/p1", {"spec": {"tolerations": []}}, MERGE),
    Step("patch uid", "PATCH", f"{SPACE}/pods/p1", {"metadata": {"uid": "x"}}, MERGE),
    Step("patch name", "PATCH", f"{SPACE}/pods/p1", {"metadata": {"name": "x"}}, MERGE),
    Step("patch rv", "PATCH", f"{SPACE}/pods/p1", {"metadata": {"resourceVersion": "1", "labels": {"r": "v"}}}, MERGE),
    Step(
        "patch json",
        "PATCH",
        f"{SPACE}/pods/p1",
        [
            {"op": "add", "path": "/metadata/labels/j", "value": "p"},
            {"op": "test", "path": "/metadata/labels/z", "value": "y"},
            {"op": "remove", "path": "/metadata/labels/z"},
        ],
        JSON_PATCH,
    ),
    Step(
        "patch json fail",
        "PATCH",
        f"{SPACE}/pods/p1",
        [{"op": "test", "path": "/metadata/labels/z", "value": "no"}],
        JSON_PATCH,
    ),
    Step(
        "patch json missing",
        "PATCH",
        f"{SPACE}/pods/p1",
        [{"op": "remove", "path": "/metadata/labels/nope"}],
        JSON_PATCH,
    ),
    Step("patch bad type", "PATCH", f"{SPACE}/pods/p1", {}),
    Step("patch missing", "PATCH", f"{SPACE}/pods/nope", {}, MERGE),
    Step("patch noop", "PATCH", f"{SPACE}/pods/p1", {"metadata": {"labels": {"j": "p"}}}, MERGE),
    Step(
        "status patch",
        "PATCH",
        f"{SPACE}/pods/p1/status",
        {"status": {"phase": "Running", "podIP": "1.2.3.4", "conditions": [{"type": "Ready", "status": "True"}]}},
        STRATEGIC,
    ),
    Step("ungate", "PATCH", f"{SPACE}/pods/p3", {"spec": {"schedulingGates": None}}, MERGE),
    Step("gate again", "PATCH", f"{SPACE}/pods/p3", {"spec": {"schedulingGates": [{"name": "q"}]}}, MERGE),
    Step("delete bad uid", "DELETE", f"{SPACE}/pods/p1", {"preconditions": {"uid": "x"}}),
    Step("delete graceful", "DELETE", f"{SPACE}/pods/p1"),
    Step("delete unbound", "DELETE", f"{SPACE}/pods/p2"),
    Step("delete force", "DELETE", f"{SPACE}/pods/p1?gracePeriodSeconds=0"),
    Step("delete missing", "DELETE", f"{SPACE}/pods/p1"),
    Step("delete collection", "DELETE", f"{SPACE}/pods?labelSelector=app%3Dx"),
    Step("list empty", "GET", f"{SPACE}/pods"),
    Step("node get", "GET", "/api/v1/nodes/n1"),
    Step("node taint bad", "PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [{"key": "a", "effect": "Foo"}]}}, MERGE),
    Step("node labels", "PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"a": None, "c": "d"}}}, STRATEGIC),
    Step(
        "node status",
        "PATCH",
        "/api/v1/nodes/n1/status",
        {"status": {"conditions": [{"type": "Foo", "status": "True"}], "allocatable": {"cpu": "3500m"}}},
        STRATEGIC,
    ),
    Step(
        "lease put",
        "PUT",
        f"{LEASES}/l",
        {
            "metadata": {"name": "l"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
        },
    ),
    Step("lease put no rv", "PUT", f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "b"}}),
    Step(
        "lease put old rv",
        "PUT",
        f"{LEASES}/l",
        {"metadata": {"name": "l", "resourceVersion": "1"}, "spec": {"holderIdentity": "b"}},
    ),
    Step("put name mismatch", "PUT", f"{LEASES}/l", {"metadata": {"name": "other"}, "spec": {}}),
    Step("put uid mismatch", "PUT", f"{SPACE}/configmaps/cm", {"metadata": {"name": "cm", "uid": "x"}}),
    Step("cm", "POST", f"{SPACE}/configmaps", {"metadata": {"name": "cm"}, "data": {"a": "b"}}),
    Step("cm uid mismatch", "PUT", f"{SPACE}/configmaps/cm", {"metadata": {"name": "cm", "uid": "x"}}),
    Step("cm put", "PUT", f"{SPACE}/configmaps/cm", {"metadata": {"name": "cm"}, "data": {"a": "c"}}),
    Step("cm delete", "DELETE", f"{SPACE}/configmaps/cm"),
    Step("cm finalizer", "POST", f"{SPACE}/configmaps", {"metadata": {"name": "cm", "finalizers": ["x.y/z"]}}),
    Step("cm fin delete", "DELETE", f"{SPACE}/configmaps/cm"),
    Step("cm fin add", "PATCH", f"{SPACE}/configmaps/cm", {"metadata": {"finalizers": ["x.y/z", "q.r/s"]}}, MERGE),
    Step("cm fin remove", "PATCH", f"{SPACE}/configmaps/cm", {"metadata": {"finalizers": None}}, MERGE),
    Step("cm gone", "GET", f"{SPACE}/configmaps/cm"),
    Step(
        "event",
        "POST",
        f"{SPACE}/events",
        {
            "metadata": {"name": "e1"},
            "involvedObject": {"kind": "Pod", "namespace": "space", "name": "p1"},
            "reason": "R",
            "message": "m",
            "source": {"component": "c"},
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "count": 1,
            "type": "Normal",
        },
    ),
    Step(
        "event v1",
        "POST",
        EVENTS,
        {
            "metadata": {"name": "e2"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "t",
            "reportingInstance": "t",
            "action": "Binding",
            "reason": "Scheduled",
            "regarding": {"kind": "Pod", "namespace": "space", "name": "p9"},
            "note": "ok",
            "type": "Normal",
        },
    ),
    Step("event as core", "GET", f"{SPACE}/events/e2"),
    Step("event as v1", "GET", f"{EVENTS}/e1"),
    Step(
        "event patch",
        "PATCH",
        f"{EVENTS}/e2",
        {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}},
        STRATEGIC,
    ),
    Step("event list", "GET", f"{SPACE}/events?fieldSelector=involvedObject.name%3Dp9"),
    Step(
        "deploy",
        "POST",
        f"{APPS}/deployments",
        {
            "metadata": {"name": "w"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            },
        },
    ),
    Step(
        "deploy bad sel",
        "POST",
        f"{APPS}/deployments",
        {
            "metadata": {"name": "w2"},
            "spec": {
                "selector": {"matchLabels": {"a": "c"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            },
        },
    ),
    Step(
        "deploy no sel",
        "POST",
        f"{APPS}/deployments",
        {
            "metadata": {"name": "w2"},
            "spec": {
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            },
        },
    ),
    Step("deploy empty", "POST", f"{APPS}/deployments", {"metadata": {"name": "w2"}}),
    Step("scale get", "GET", f"{APPS}/deployments/w/scale"),
    Step("scale neg", "PATCH", f"{APPS}/deployments/w/scale", {"spec": {"replicas": -1}}, MERGE),
    Step(
        "job",
        "POST",
        f"{BATCH}/jobs",
        {
            "metadata": {"name": "j"},
            "spec": {
                "suspend": True,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
            },
        },
    ),
    Step(
        "job always",
        "POST",
        f"{BATCH}/jobs",
        {"metadata": {"name": "j2"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}},
    ),
    Step(
        "sts",
        "POST",
        f"{APPS}/statefulsets",
        {
            "metadata": {"name": "s"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "d"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
                    }
                ],
            },
        },
    ),
    Step(
        "ds",
        "POST",
        f"{APPS}/daemonsets",
        {
            "metadata": {"name": "s"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"nodeSelector": {"no": "where"}, "containers": [{"name": "c", "image": "i"}]},
                },
            },
        },
    ),
    Step(
        "svc",
        "POST",
        f"{SPACE}/services",
        {"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}},
    ),
    Step(
        "svc headless",
        "POST",
        f"{SPACE}/services",
        {"metadata": {"name": "s2"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}},
    ),
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
    Step("method", "DELETE", f"{SPACE}/pods/x/status"),
    Step("method2", "POST", f"{SPACE}/pods/x", {}),
    Step("method3", "PUT", f"{SPACE}/pods", {}),
    Step(
        "apply",
        "PATCH",
        f"{SPACE}/configmaps/ap?fieldManager=m1",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ap"}, "data": {"a": "1", "b": "2"}},
        APPLY,
    ),
    Step(
        "apply2",
        "PATCH",
        f"{SPACE}/configmaps/ap?fieldManager=m1",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ap"}, "data": {"a": "1"}},
        APPLY,
    ),
    Step(
        "apply conflict",
        "PATCH",
        f"{SPACE}/configmaps/ap?fieldManager=m2",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ap"}, "data": {"a": "3"}},
        APPLY,
    ),
    Step(
        "apply force",
        "PATCH",
        f"{SPACE}/configmaps/ap?fieldManager=m2&force=true",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ap"}, "data": {"a": "3"}},
        APPLY,
    ),
    Step(
        "apply no manager",
        "PATCH",
        f"{SPACE}/configmaps/ap",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ap"}, "data": {"a": "3"}},
        APPLY,
    ),
    Step(
        "evict missing",
        "POST",
        f"{SPACE}/pods/x/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}},
    ),
    Step("table", "GET", f"{SPACE}/configmaps/ap", None, TABLE),
    Step("bad dry", "POST", f"{SPACE}/pods?dryRun=foo", pod("q")),
    Step(
        "review",
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    ),
    Step("limit list", "GET", f"{CLASSES}?limit=1"),
    Step("bad continue", "GET", f"{CLASSES}?limit=1&continue=xx"),
    Step("watch old", "GET", "/api/v1/pods?watch=1&resourceVersion=1&timeoutSeconds=1", None, WATCH),
    Step(
        "watch initial",
        "GET",
        f"{SPACE}/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dap",
        None,
        WATCH,
    ),
    Step("watch bad initial", "GET", f"{SPACE}/configmaps?watch=1&sendInitialEvents=true&timeoutSeconds=1"),
    Step("ns cm", "POST", f"{SPACE}/configmaps", {"metadata": {"name": "last", "finalizers": ["x.y/z"]}}),
    Step("ns delete", "DELETE", SPACE),
    Step("in terminating", "POST", f"{SPACE}/pods", pod("z")),
)
