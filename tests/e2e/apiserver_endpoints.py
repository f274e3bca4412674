"""Methods, server-side apply, tables, reviews, pages of lists, watches, and the deletion of a namespace."""

from __future__ import annotations

from tests.e2e.apiserver_requests import APPLY, CLASSES, SPACE, TABLE, WATCH, Step, pod

ENDPOINTS: tuple[Step, ...] = (
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
