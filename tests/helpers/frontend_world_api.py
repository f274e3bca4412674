"""The API server of a frontend's world: pods and nodes, and two lists of what ever happened to them."""

import copy
from typing import Any

from trireme.v1 import bind_pb2, cycle_pb2
from trireme_kube.client.informers.watch import EventKind

Json = dict[str, Any]

PROFILE = "default-scheduler"


class Api:
    """The truth: pods and nodes, and what happened to them."""

    def __init__(self) -> None:
        self.version = 0
        self.pods: dict[str, Json] = {}  # by name
        self.nodes: dict[str, Json] = {}
        self.log: dict[str, list[tuple[EventKind, Json]]] = {"pods": [], "nodes": []}
        self._uids = 0

    def add_pod(self, name: str, cpu: int, priority: int, *, gated: bool = False, group: str = "") -> None:
        """A user creates a pod, perhaps one of a group."""
        self._uids += 1
        self.pods[name] = {
            "metadata": {"namespace": "ns", "name": name, "uid": f"{name}-{self._uids}"},
            "spec": {
                "schedulerName": PROFILE,
                "priority": priority,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}],
                **({"schedulingGates": [{"name": "later"}]} if gated else {}),
                **({"schedulingGroup": {"podGroupName": group}} if group else {}),
            },
            "status": {},
        }
        self.record("pods", EventKind.ADDED, self.pods[name])

    def put_node(self, name: str, cpu: int) -> None:
        """A node comes, or has other resources."""
        known = name in self.nodes
        allocatable = {"cpu": str(cpu), "memory": "1Gi", "pods": "9"}
        self.nodes[name] = {"metadata": {"name": name, "uid": name}, "status": {"allocatable": allocatable}}
        self.record("nodes", EventKind.MODIFIED if known else EventKind.ADDED, self.nodes[name])

    def remove(self, resource: str, name: str) -> None:
        """The object is gone."""
        self.record(resource, EventKind.DELETED, self.stored(resource).pop(name))

    def stored(self, resource: str) -> dict[str, Json]:
        """The objects of a resource by name."""
        return self.pods if resource == "pods" else self.nodes

    def record(self, resource: str, kind: EventKind, raw: Json) -> None:
        """Append an event to the log of its watch."""
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.log[resource].append((kind, copy.deepcopy(raw)))

    def pod(self, identity: cycle_pb2.PodIdentity) -> Json | None:
        """The pod, if it is still this one."""
        raw = self.pods.get(identity.name)
        return raw if raw is not None and raw["metadata"]["uid"] == identity.uid else None

    def bind(self, item: bind_pb2.BindItem) -> str:
        """Bind the pod; answers why not, empty where it is bound."""
        raw = self.pod(item.pod)
        if raw is None:
            return "not found"
        node = raw["spec"].get("nodeName", "")
        if node == item.node_name:
            return ""
        if node or raw["metadata"].get("deletionTimestamp"):
            return f"is on {node}" if node else "is being deleted"
        raw["spec"]["nodeName"] = item.node_name
        raw["status"].pop("nominatedNodeName", None)
        self.record("pods", EventKind.MODIFIED, raw)
        return ""

    def terminate(self, raw: Json) -> None:
        """The pod is given time to stop."""
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.record("pods", EventKind.MODIFIED, raw)

    def apply(self, action: bind_pb2.Action) -> str:
        """Carry out an action; answers why not."""
        raw = self.pod(action.pod)
        if raw is None:
            return "" if action.HasField("evict") or action.HasField("set_group_condition") else "not found"
        if action.HasField("evict"):
            if "deletionTimestamp" not in raw["metadata"]:
                condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
                raw["status"]["conditions"] = [condition]
                self.terminate(raw)
            return ""
        before = copy.deepcopy(raw["status"])
        if action.HasField("set_condition"):
            wanted = action.set_condition
            condition = {"type": "PodScheduled", "status": "False", "reason": wanted.condition.reason}
            raw["status"]["conditions"] = [{**condition, "message": wanted.condition.message}]
            if wanted.HasField("nominated_node_name"):
                raw["status"]["nominatedNodeName"] = wanted.nominated_node_name
        elif action.HasField("nominate"):
            raw["status"]["nominatedNodeName"] = action.nominate.node_name
        else:
            raw["status"].pop("nominatedNodeName", None)
        if raw["status"] != before:
            self.record("pods", EventKind.MODIFIED, raw)
        return ""
