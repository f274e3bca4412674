"""Events in which the controllers report their actions on objects, as Kubernetes' controllers do.

An event that was recorded before, about the same object with the same text, is counted instead of stored again.

Source: k8s.io/client-go, tools/record.

Also change: internal/trireme_kube/client/events/event_recorder.py (the events of pods).

Tests: tests/unit/embedded/controllers/test_workloads.py.
"""

import collections

from trireme_kube.embedded.api.resources import EVENTS, NAMESPACES, Object
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.serializer import type_checking

# As many events as client-go remembers for counting.
_REMEMBERED = 4096
_Key = tuple[str, str, str, str]


class EventRecorder:
    """Records the events of one component."""

    def __init__(self, registry: Registry, component: str) -> None:
        self._registry = registry
        self._component = component
        self._names: collections.OrderedDict[_Key, str] = collections.OrderedDict()

    def normal(self, about: Object, reason: str, message: str) -> None:
        """Record a normal event."""
        self._create_or_count_event(about, "Normal", reason, message)

    def warning(self, about: Object, reason: str, message: str) -> None:
        """Record a warning."""
        self._create_or_count_event(about, "Warning", reason, message)

    def _create_or_count_event(self, about: Object, kind: str, reason: str, message: str) -> None:
        """Create an event, or count one more of the same; not in a namespace that is going."""
        metadata, store = about["metadata"], self._registry.store
        namespace = metadata.get("namespace") or "default"
        space = store.get(NAMESPACES, "", namespace)
        if space is None or "deletionTimestamp" in space.object["metadata"]:
            return
        now = self._registry.clock_and_ids.now()
        key = (metadata["uid"], kind, reason, message)
        name = self._names.get(key)
        before = store.get(EVENTS, namespace, name) if name is not None else None
        if before is not None:
            event = {**before.object, "metadata": dict(before.object["metadata"]), "lastTimestamp": now}
            event["count"] = before.object["count"] + 1
            store.put(EVENTS, event)
            return
        self._names[key] = name = f"{metadata['name']}.{self._registry.clock_and_ids.suffix(16)}"
        if len(self._names) > _REMEMBERED:
            self._names.popitem(last=False)
        reference = {"kind": about["kind"], "namespace": metadata.get("namespace"), "name": metadata["name"]}
        reference |= {"uid": metadata["uid"], "apiVersion": about["apiVersion"]}
        reference["resourceVersion"] = metadata.get("resourceVersion")
        body: Object = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {part: value for part, value in reference.items() if value},
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": kind,
            "reportingComponent": self._component,
        }
        self._registry.create(EVENTS, namespace, type_checking.conform_to_type(EVENTS, body, strict=True))
