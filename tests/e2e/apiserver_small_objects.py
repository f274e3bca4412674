"""A node, leases, config maps with finalizers, and events in both of their groups."""

from __future__ import annotations

from tests.e2e.apiserver_requests import EVENTS, LEASES, MERGE, SPACE, STRATEGIC, Step

SMALL_OBJECTS: tuple[Step, ...] = (
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
)
