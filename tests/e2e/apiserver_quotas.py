"""Resource quotas and the resize of pods: what is counted, refused and invalid, in namespaces of their own."""

from __future__ import annotations

from typing import Any

from tests.e2e.apiserver_requests import MERGE, STRATEGIC, TABLE, WAIT, Step

Object = dict[str, Any]
_COMPUTE, _SCOPED = "/api/v1/namespaces/compute", "/api/v1/namespaces/scoped"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def _quota(space: str, name: str, hard: Object, **spec: Any) -> Step:
    body = {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    return Step(f"quotas: {name}", "POST", f"{space}/resourcequotas", body)


def _status(space: str, name: str, hard: Object, used: Object) -> Step:
    until = {"hard": hard, "used": used}
    return Step(f"quotas: status of {name}", "GET", f"{space}/resourcequotas/{name}", None, WAIT, until)


def _pod(name: str, requests: Object | None = None, limits: Object | None = None, **spec: Any) -> Object:
    resources = {part: amounts for part, amounts in (("requests", requests), ("limits", limits)) if amounts}
    container = {"name": "c", "image": "nginx", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def _create(space: str, label: str, body: Object) -> Step:
    return Step(f"quotas: pod {label}", "POST", f"{space}/pods", body)


def _until(code: int, space: str, body: Object) -> Step:
    """Until admission knows what the controller has written, which it reads from a cache."""
    label = f"quotas: until a pod gets {code}"
    return Step(label, "POST", f"{space}/pods?dryRun=All", body, WAIT, code)


def _resize(label: str, body: Object, kind: str = STRATEGIC) -> Step:
    return Step(f"quotas: resize {label}", "PATCH", f"{_COMPUTE}/pods/a/resize", body, kind)


def _amounts(**resources: Object) -> Object:
    return {"spec": {"containers": [{"name": "c", "resources": resources}]}}


_HARD: Object = {"pods": "2", "cpu": "1", "requests.memory": "1Gi", "limits.memory": "2Gi", "count/pods": "5"}
_USED_BY_A: Object = {"pods": "1", "cpu": "600m", "requests.memory": "512Mi", "limits.memory": "1Gi", "count/pods": "1"}
_A = _pod("a", {"cpu": "0.6", "memory": "512Mi"}, {"memory": "1024Mi"})
_SMALL = _pod("z", {"cpu": "1m", "memory": "1Mi"}, {"memory": "2Mi"})
_LARGE = _pod("z", {"cpu": "7", "memory": "1Mi"}, {"memory": "2Mi"})
_HIGH = {"scopeName": "PriorityClass", "operator": "In", "values": ["quota-high"]}

_OF_COMPUTE: tuple[Step, ...] = (
    Step("quotas: namespace", "POST", "/api/v1/namespaces", {"metadata": {"name": "compute"}}),
    Step("quotas: account", "GET", f"{_COMPUTE}/serviceaccounts/default", None, WAIT),
    _quota(_COMPUTE, "q", {**_HARD, "requests.memory": "1024Mi"}),
    _status(_COMPUTE, "q", _HARD, dict.fromkeys(_HARD, "0")),
    _until(403, _COMPUTE, _LARGE),
    _create(_COMPUTE, "without amounts", _pod("z", initContainers=[{"name": "i", "image": "i"}])),
    _create(_COMPUTE, "with some amounts", _pod("z", {"cpu": "1"})),
    _create(_COMPUTE, "too large", _LARGE),
    _create(_COMPUTE, "too large in two ways", _pod("z", {"cpu": "1100m", "memory": "1Mi"}, {"memory": "2049Mi"})),
    _create(_COMPUTE, "a", _A),
    Step("quotas: used", "GET", f"{_COMPUTE}/resourcequotas/q"),
    Step("quotas: table", "GET", f"{_COMPUTE}/resourcequotas/q", None, TABLE),
    _create(_COMPUTE, "beside a", _pod("z", {"cpu": "0.5", "memory": "513Mi"}, {"memory": "1025Mi"})),
    Step("quotas: dry run", "POST", f"{_COMPUTE}/pods?dryRun=All", _SMALL),
    Step("quotas: used after a dry run", "GET", f"{_COMPUTE}/resourcequotas/q"),
    _resize("beyond the quota", _amounts(requests={"cpu": "1100m"})),
    _resize("within the quota", _amounts(requests={"cpu": "900m"})),
    Step("quotas: used after a resize", "GET", f"{_COMPUTE}/resourcequotas/q"),
    _resize("that removes", _amounts(requests={"cpu": None})),
    _resize("of something else", _amounts(requests={"ephemeral-storage": "1Gi"})),
    _resize("that guarantees", _amounts(requests={"memory": "1Gi"}, limits={"cpu": "900m"})),
    _resize("of another container", {"spec": {"containers": [{"name": "d", "image": "i"}]}}, MERGE),
    _resize("with another image", {"spec": {"containers": [{"name": "c", "image": "other"}]}}),
    Step("quotas: resize as an update", "PATCH", f"{_COMPUTE}/pods/a", _amounts(requests={"cpu": "950m"}), STRATEGIC),
    Step("quotas: delete a", "DELETE", f"{_COMPUTE}/pods/a"),
    _status(_COMPUTE, "q", _HARD, dict.fromkeys(_HARD, "0")),
    Step("quotas: raise", "PATCH", f"{_COMPUTE}/resourcequotas/q", {"spec": {"hard": {"cpu": "8"}}}, MERGE),
    _status(_COMPUTE, "q", {**_HARD, "cpu": "8"}, dict.fromkeys(_HARD, "0")),
    _until(201, _COMPUTE, _LARGE),
    _create(_COMPUTE, "that fits now", _LARGE),
    Step("quotas: delete q", "DELETE", f"{_COMPUTE}/resourcequotas/q"),
)  # fmt: skip

_OF_SCOPES: tuple[Step, ...] = (
    Step("quotas: scoped namespace", "POST", "/api/v1/namespaces", {"metadata": {"name": "scoped"}}),
    Step("quotas: scoped account", "GET", f"{_SCOPED}/serviceaccounts/default", None, WAIT),
    Step("quotas: class", "POST", _CLASSES, {"metadata": {"name": "quota-high"}, "value": 7}),
    _quota(_SCOPED, "high", {"pods": "0"}, scopeSelector={"matchExpressions": [_HIGH]}),
    _quota(_SCOPED, "timed", {"pods": "1", "limits.cpu": "1"}, scopes=["Terminating", "NotBestEffort"]),
    _quota(_SCOPED, "best", {"pods": "1"}, scopes=["BestEffort", "NotTerminating"]),
    _quota(
        _SCOPED,
        "objects",
        {
            "count/deployments.apps": "0",
            "services.nodeports": "1",
            "persistentvolumeclaims": "2",
            "requests.storage": "3Gi",
            "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
            "requests.example.com/gpu": "1",
        },
    ),
    _status(_SCOPED, "high", {"pods": "0"}, {"pods": "0"}),
    _status(_SCOPED, "timed", {"pods": "1", "limits.cpu": "1"}, {"pods": "0", "limits.cpu": "0"}),
    _status(_SCOPED, "best", {"pods": "1"}, {"pods": "0"}),
    _until(403, _SCOPED, _pod("z", {"cpu": "1"}, priorityClassName="quota-high")),
    _until(403, _SCOPED, _pod("z", limits={"cpu": "2"}, activeDeadlineSeconds=5)),
    _until(403, _SCOPED, _pod("z", limits={"example.com/gpu": "2", "cpu": "1"})),
    _create(_SCOPED, "of the class", _pod("z", {"cpu": "1"}, priorityClassName="quota-high")),
    _create(_SCOPED, "of another class", _pod("o", {"cpu": "1"}, priorityClassName="system-node-critical")),
    _create(_SCOPED, "with a deadline", _pod("z", limits={"cpu": "2"}, activeDeadlineSeconds=5)),
    _create(_SCOPED, "with a deadline and no limit", _pod("z", {"cpu": "2"}, activeDeadlineSeconds=5)),
    _create(_SCOPED, "without amounts", _pod("b")),
    _create(_SCOPED, "without amounts again", _pod("z")),
    _create(_SCOPED, "with too many devices", _pod("z", limits={"example.com/gpu": "2", "cpu": "1"})),
    Step("quotas: used by classes", "GET", f"{_SCOPED}/resourcequotas/best"),
    *(
        Step(
            f"quotas: claim {name}",
            "POST",
            f"{_SCOPED}/persistentvolumeclaims",
            {
                "metadata": {"name": name},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": storage_class,
                    "resources": {"requests": {"storage": storage}},
                },
            },
        )
        for name, storage_class, storage in (("c", "gold", "1Gi"), ("d", "gold", "1Mi"), ("e", "tin", "3Gi"))
    ),
    Step(
        "quotas: deployment",
        "POST",
        "/apis/apps/v1/namespaces/scoped/deployments",
        {
            "metadata": {"name": "d"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": _pod("z")["spec"]},
            },
        },
    ),
    Step(
        "quotas: service",
        "POST",
        f"{_SCOPED}/services",
        {
            "metadata": {"name": "s"},
            "spec": {"type": "NodePort", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]},
        },
    ),
    Step("quotas: used by objects", "GET", f"{_SCOPED}/resourcequotas/objects"),
    Step("quotas: scopes changed", "PATCH", f"{_SCOPED}/resourcequotas/best", {"spec": {"scopes": None}}, MERGE),
)


def _selector(*requirements: Object) -> Object:
    return {"matchExpressions": list(requirements)}


def _require(scope: str, operator: str, *values: str) -> Object:
    return {"scopeName": scope, "operator": operator, **({"values": list(values)} if values else {})}


_MISTAKES: tuple[Object, ...] = (
    {"hard": {"foo": "1"}},
    {"hard": {"a b": "1"}},
    {"hard": {"storage": "1"}},
    {"hard": {"pods": "-1"}},
    {"hard": {"pods": "0.5"}},
    {"hard": {"count/pods": "1500m"}},
    {"hard": {"pods": "x"}},
    {"hard": {"pods": 1}, "scopes": ["Foo"]},
    {"hard": {"cpu": 1}, "scopes": ["BestEffort"]},
    {"hard": {"pods": 1}, "scopes": ["Terminating", "NotTerminating"]},
    {"hard": {"pods": 1}, "scopes": ["VolumeAttributesClass"]},
    {"hard": {"pods": 1}, "scopeSelector": _selector(_require("Foo", "Exists"))},
    {"hard": {"pods": 1}, "scopeSelector": _selector(_require("PriorityClass", "In"))},
    {"hard": {"pods": 1}, "scopeSelector": _selector(_require("PriorityClass", "Exists", "a"))},
    {"hard": {"pods": 1}, "scopeSelector": _selector(_require("PriorityClass", "Is", "a"))},
    {"hard": {"pods": 1}, "scopeSelector": _selector(_require("BestEffort", "DoesNotExist"))},
    {"hard": {"cpu": 1}, "scopeSelector": _selector(_require("BestEffort", "Exists"))},
    {
        "hard": {"pods": 1},
        "scopeSelector": _selector(_require("BestEffort", "Exists"), _require("NotBestEffort", "Exists")),
    },
)

QUOTAS: tuple[Step, ...] = (
    *_OF_COMPUTE,
    *_OF_SCOPES,
    *(
        Step(
            f"quotas: mistake {number}",
            "POST",
            "/api/v1/namespaces/default/resourcequotas",
            {"metadata": {"name": "wrong"}, "spec": spec},
        )
        for number, spec in enumerate(_MISTAKES)
    ),
)
