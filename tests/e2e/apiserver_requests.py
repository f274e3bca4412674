"""What the requests that both API servers have to answer alike consist of; `apiserver_*.py` has them by subject."""

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
    """One request; the label names it in the test's report."""

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
