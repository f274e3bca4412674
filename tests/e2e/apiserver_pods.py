"""Pods: their creation, lists, bindings, patches and deletion, with the namespace and the node for them."""

from __future__ import annotations

from tests.e2e.apiserver_requests import JSON_PATCH, MERGE, SPACE, STRATEGIC, WAIT, Step, pod

PODS: tuple[Step, ...] = (
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
)
