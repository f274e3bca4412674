"""Resource claims of pods: made from templates, and released when their pods are done.

The scheduler allocates and reserves; this controller does what comes before and after. A claim that lost its last
consumer is deallocated at once, so that the next one may go elsewhere, and its protection against deletion ends.
Source: k8s.io/kubernetes, pkg/controller/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson

from trireme.embedded.controllers.children import Children
from trireme.embedded.reconciling import WorkQueue
from trireme.embedded.registry import Registry
from trireme.embedded.resources import BY_KEY, PODS
from trireme.embedded.store import DELETED, Event, Object, Record

CLAIMS, TEMPLATES = BY_KEY["resourceclaims.resource.k8s.io"], BY_KEY["resourceclaimtemplates.resource.k8s.io"]
FINALIZER = "resource.kubernetes.io/delete-protection"
_POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
_NAME_LIMIT = 57

Key = tuple[str, str]


def _is_done(pod: Object) -> bool:
    """Whether a pod will not run any more: it ended, or it is deleted and never had a node."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    return "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")


class DeviceClaims:
    """Makes and releases the resource claims of pods."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._store = registry.store
        self._generated = Children(self._store, CLAIMS)
        self._pods: WorkQueue[Key] = WorkQueue("pods with claims", self._sync_pod, monotonic)
        self._claims: WorkQueue[Key] = WorkQueue("resource claims", self._sync_claim, monotonic)
        self.queues = (self._pods, self._claims)
        self._store.listen(PODS, self._on_pod)
        self._store.listen(CLAIMS, self._on_claim)
        self._store.listen(TEMPLATES, self._on_template)

    def _on_pod(self, event: Event) -> None:
        pod = event.record.object
        if not pod["spec"].get("resourceClaims"):
            return
        if event.type == DELETED or _is_done(pod):
            for name in self._names(pod):
                self._claims.add((event.record.namespace, name))
        else:
            self._pods.add(event.record.key)

    def _on_claim(self, event: Event) -> None:
        if event.type != DELETED:
            self._claims.add(event.record.key)

    def _on_template(self, event: Event) -> None:
        """Pods may come before the template that they name."""
        for record in self._store.scan(PODS, event.record.namespace):
            if record.object["spec"].get("resourceClaims"):
                self._pods.add(record.key)

    @staticmethod
    def _names(pod: Object) -> list[str]:
        """The names of the claims that a pod uses, as far as they exist."""
        statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        made = [one["resourceClaimName"] for one in statuses if one.get("resourceClaimName")]
        named = [one["resourceClaimName"] for one in pod["spec"]["resourceClaims"] if one.get("resourceClaimName")]
        return [*made, *named]

    def _sync_pod(self, key: Key) -> None:
        """Makes the claims that a pod names templates for, and notes their names in its status."""
        record = self._store.get(PODS, *key)
        if record is None or _is_done(record.object) or "deletionTimestamp" in record.object["metadata"]:
            return
        status = record.object.get("status") or {}
        statuses = {one["name"]: one for one in status.get("resourceClaimStatuses") or ()}
        changed = False
        for wanted in record.object["spec"]["resourceClaims"]:
            name = wanted["name"]
            template = wanted.get("resourceClaimTemplateName")
            present = (statuses.get(name) or {}).get("resourceClaimName")
            if not template or (present and self._store.get(CLAIMS, record.namespace, present)):
                continue
            claim = self._made_for(record, name) or self._make(record, name, template)
            if claim is not None:
                statuses[name] = {"name": name, "resourceClaimName": claim.name}
                changed = True
        if changed:
            status = {**status, "resourceClaimStatuses": list(statuses.values())}
            obj = {**record.object, "metadata": dict(record.object["metadata"]), "status": status}
            self._registry.store_changed(PODS, record, obj)

    def _made_for(self, pod: Record, name: str) -> Record | None:
        """A claim made for the pod before its status could say so."""
        for claim in self._generated.of(pod.uid):
            if (claim.object["metadata"].get("annotations") or {}).get(_POD_CLAIM) == name:
                return claim
        return None

    def _make(self, pod: Record, name: str, template_name: str) -> Record | None:
        template = self._store.get(TEMPLATES, pod.namespace, template_name)
        if template is None:
            return None
        spec: Object = orjson.loads(orjson.dumps(template.object["spec"]))
        metadata = spec.get("metadata") or {}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
        own: Object = {
            "generateName": f"{pod.name}-{name}-"[:_NAME_LIMIT],
            "annotations": {**(metadata.get("annotations") or {}), _POD_CLAIM: name},
            "ownerReferences": [owner],
        }
        if metadata.get("labels"):
            own["labels"] = metadata["labels"]
        return self._registry.create(CLAIMS, pod.namespace, {"metadata": own, "spec": spec["spec"]})

    def _sync_claim(self, key: Key) -> None:
        """Releases what nobody uses any more."""
        record = self._store.get(CLAIMS, *key)
        if record is None:
            return
        status = record.object.get("status") or {}
        reserved = status.get("reservedFor") or []
        kept = [one for one in reserved if self._still_needs(record.namespace, one)]
        ending = "deletionTimestamp" in record.object["metadata"]
        if len(kept) < len(reserved) or (ending and not kept):
            record = self._release(record, kept)
        if not kept and not ending:
            self._delete_unneeded(record)

    def _still_needs(self, namespace: str, consumer: Object) -> bool:
        if consumer.get("apiGroup") or consumer.get("resource") != "pods":
            return True
        pod = self._store.get(PODS, namespace, consumer["name"])
        return pod is not None and pod.uid == consumer["uid"] and not _is_done(pod.object)

    def _release(self, record: Record, kept: list[Object]) -> Record:
        status = {key: value for key, value in (record.object.get("status") or {}).items() if key != "reservedFor"}
        metadata = dict(record.object["metadata"])
        finalizers = metadata.get("finalizers") or []
        if kept:
            status["reservedFor"] = kept
        elif FINALIZER in finalizers:
            status.pop("allocation", None)
            metadata["finalizers"] = [one for one in finalizers if one != FINALIZER]
            if not metadata["finalizers"]:
                del metadata["finalizers"]
        return self._registry.store_changed(CLAIMS, record, {**record.object, "metadata": metadata, "status": status})

    def _delete_unneeded(self, record: Record) -> None:
        """A claim made for a pod goes with the pod's work; the garbage collector would wait for the pod itself."""
        for owner in record.object["metadata"].get("ownerReferences") or ():
            pod = self._store.get(PODS, record.namespace, owner["name"]) if owner["kind"] == "Pod" else None
            if pod is not None and (pod.uid != owner["uid"] or _is_done(pod.object)):
                self._registry.delete(CLAIMS, *record.key)
                return
