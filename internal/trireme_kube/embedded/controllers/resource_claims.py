"""Resource claims of pods and of their groups: made from templates, and released when their pods are done.

The scheduler allocates and reserves; this controller does what comes before and after. A claim that lost its last
consumer is deallocated at once, so that the next one may be allocated elsewhere, and its finalizer is removed.

If a PodGroup has a claim with the same name and template, the claim is the group's: one claim is made for all of its
pods, and the group is its consumer until it is deleted, whatever becomes of the pods. So a pod waits for its group.

Source: k8s.io/kubernetes, pkg/controller/resourceclaim.

Tests: tests/unit/embedded/controllers/test_controllers.py.
"""

from collections.abc import Callable

import orjson

from trireme_kube.embedded.api import pod_resources
from trireme_kube.embedded.api.resources import BY_KEY, PODS, Object, Resource
from trireme_kube.embedded.controllers.owner_index import OwnerIndex
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import DELETED, Event, Record

CLAIMS, TEMPLATES = BY_KEY["resourceclaims.resource.k8s.io"], BY_KEY["resourceclaimtemplates.resource.k8s.io"]
GROUPS = BY_KEY["podgroups.scheduling.k8s.io"]
FINALIZER = "resource.kubernetes.io/delete-protection"
_POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
_NAME_LIMIT = 57

Key = tuple[str, str]


def _will_not_run(pod: Object) -> bool:
    """Whether a pod will not run any more: it ended, or it is deleted and never had a node."""
    if pod_resources.has_ended(pod):
        return True
    return "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")


def _group_has_claim(group: Object, name: str, template: str) -> bool:
    pod_claims = group["spec"].get("resourceClaims") or ()
    return any((one["name"], one.get("resourceClaimTemplateName")) == (name, template) for one in pod_claims)


class ResourceClaimController:
    """Makes and releases the resource claims of pods and their groups."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._store = registry.store
        self._generated = OwnerIndex(self._store, CLAIMS)
        self._pods: WorkQueue[Key] = WorkQueue("pods with claims", self._sync_pod, monotonic)
        self._claims: WorkQueue[Key] = WorkQueue("resource claims", self._sync_claim, monotonic)
        # Missing groups that pods with claims name.
        self._awaited: set[Key] = set()
        self._groups: WorkQueue[Key] = WorkQueue("pod groups with claims", self._sync_group, monotonic)
        self.queues = (self._groups, self._pods, self._claims)
        self._store.listen(GROUPS, self._on_group)
        self._store.listen(PODS, self._on_pod)
        self._store.listen(CLAIMS, self._on_claim)
        self._store.listen(TEMPLATES, self._on_template)

    def _on_pod(self, event: Event) -> None:
        """Queue the pod, to make its claims; of a pod that will not run any more its claims, to release them."""
        pod = event.record.object
        if event.type == DELETED or _will_not_run(pod):
            for name in self._claim_names(pod):
                self._claims.add((event.record.namespace, name))
        elif pod["spec"].get("resourceClaims"):
            self._pods.add(event.record.key)

    def _on_group(self, event: Event) -> None:
        """Queue the group, to make its claims; of a deleted one its claims, to release them."""
        key, group = event.record.key, event.record.object
        if event.type == DELETED:
            for name in self._claim_names(group):
                self._claims.add((event.record.namespace, name))
        elif key in self._awaited or group["spec"].get("resourceClaims"):
            self._awaited.discard(key)
            self._groups.add(key)

    def _on_claim(self, event: Event) -> None:
        """Queue the claim, to release it; of a deleted one the pod or group it was made for, to make it anew."""
        if event.type != DELETED:
            self._claims.add(event.record.key)
            return
        for owner in event.record.object["metadata"].get("ownerReferences") or ():
            if owner["kind"] == "Pod":
                self._pods.add((event.record.namespace, owner["name"]))
            elif owner["kind"] == "PodGroup":
                self._groups.add((event.record.namespace, owner["name"]))

    def _on_template(self, event: Event) -> None:
        """Queue the pods and groups of the namespace: they may exist before the template that they name."""
        for record in self._store.scan(GROUPS, event.record.namespace):
            if record.object["spec"].get("resourceClaims"):
                self._groups.add(record.key)
        for record in self._store.scan(PODS, event.record.namespace):
            if record.object["spec"].get("resourceClaims"):
                self._pods.add(record.key)

    @staticmethod
    def _claim_names(user: Object) -> list[str]:
        """The names of the existing claims that a pod or group uses."""
        status = user.get("status") or {}
        statuses = [*(status.get("resourceClaimStatuses") or ()), status.get("extendedResourceClaimStatus") or {}]
        made = [one["resourceClaimName"] for one in statuses if one.get("resourceClaimName")]
        pod_claims = user["spec"].get("resourceClaims") or ()
        named = [one["resourceClaimName"] for one in pod_claims if one.get("resourceClaimName")]
        return [*made, *named]

    def _sync_pod(self, key: Key) -> None:
        """Make the claims for a pod's templates, and record their names in its status."""
        record = self._store.get(PODS, *key)
        if record is None or _will_not_run(record.object) or "deletionTimestamp" in record.object["metadata"]:
            return
        group = (record.object["spec"].get("schedulingGroup") or {}).get("podGroupName")
        there = self._store.get(GROUPS, record.namespace, group) if group else None
        if group and there is None:
            self._awaited.add((record.namespace, group))
        else:
            self._make_claims(PODS, record, there)

    def _sync_group(self, key: Key) -> None:
        """Make the claims for a group's templates, and queue its pods."""
        record = self._store.get(GROUPS, *key)
        if record is None or "deletionTimestamp" in record.object["metadata"]:
            return
        self._make_claims(GROUPS, record, None)
        for pod in self._store.scan(PODS, record.namespace):
            group = pod.object["spec"].get("schedulingGroup") or {}
            if group.get("podGroupName") == record.name and pod.object["spec"].get("resourceClaims"):
                self._pods.add(pod.key)

    def _make_claims(self, resource: Resource, record: Record, group: Record | None) -> None:
        """Make a claim for each template of the pod or group, and record the names in its status.

        A claim that was made before and is not in the status yet is adopted. `group`: the group of the pod, None for a
        group; a claim that is the group's own is only referred to, and waited for.
        """
        status = record.object.get("status") or {}
        statuses = {one["name"]: one for one in status.get("resourceClaimStatuses") or ()}
        changed = False
        for pod_claim in record.object["spec"].get("resourceClaims") or ():
            name = pod_claim["name"]
            template = pod_claim.get("resourceClaimTemplateName")
            present = (statuses.get(name) or {}).get("resourceClaimName")
            if not template or (present and self._store.get(CLAIMS, record.namespace, present)):
                continue
            if group is not None and _group_has_claim(group.object, name, template):
                claim = self._claim_made_for(group, name)
            else:
                claim = self._claim_made_for(record, name) or self._create_claim(record, name, template)
            if claim is not None:
                statuses[name] = {"name": name, "resourceClaimName": claim.name}
                changed = True
        if changed:
            status = {**status, "resourceClaimStatuses": list(statuses.values())}
            self._registry.update_fields(resource, record, status=status)

    def _claim_made_for(self, user: Record, name: str) -> Record | None:
        """A claim made for the pod or group, even if its status does not have it yet."""
        for claim in self._generated.of(user.uid):
            if (claim.object["metadata"].get("annotations") or {}).get(_POD_CLAIM) == name:
                return claim
        return None

    def _create_claim(self, user: Record, name: str, template_name: str) -> Record | None:
        """Create the claim of a pod or group from its template; None: there is no such template (yet)."""
        template = self._store.get(TEMPLATES, user.namespace, template_name)
        if template is None:
            return None
        spec: Object = orjson.loads(orjson.dumps(template.object["spec"]))
        metadata = spec.get("metadata") or {}
        api, kind = user.object["apiVersion"], user.object["kind"]
        owner = {"apiVersion": api, "kind": kind, "name": user.name, "uid": user.uid, "controller": True}
        own: Object = {
            "generateName": f"{user.name}-{name}-"[:_NAME_LIMIT],
            "annotations": {**(metadata.get("annotations") or {}), _POD_CLAIM: name},
            "ownerReferences": [owner],
        }
        if metadata.get("labels"):
            own["labels"] = metadata["labels"]
        return self._registry.create(CLAIMS, user.namespace, {"metadata": own, "spec": spec["spec"]})

    def _sync_claim(self, key: Key) -> None:
        """Release a claim without consumers."""
        record = self._store.get(CLAIMS, *key)
        if record is None:
            return
        status = record.object.get("status") or {}
        reserved = status.get("reservedFor") or []
        remaining = [one for one in reserved if self._may_still_use_claim(record.namespace, one)]
        ending = "deletionTimestamp" in record.object["metadata"]
        if len(remaining) < len(reserved) or (ending and not remaining):
            record = self._keep_remaining_consumers(record, remaining)
        if not remaining and not ending:
            self._delete_claim_of_done_pod(record)

    def _may_still_use_claim(self, namespace: str, consumer: Object) -> bool:
        """Whether a user of a claim still exists and may run; one of an unknown kind is left alone."""
        kind = (consumer.get("apiGroup", ""), consumer.get("resource"))
        if kind == ("scheduling.k8s.io", "podgroups"):
            group = self._store.get(GROUPS, namespace, consumer["name"])
            return group is not None and group.uid == consumer["uid"]
        if kind != ("", "pods"):
            return True
        pod = self._store.get(PODS, namespace, consumer["name"])
        return pod is not None and pod.uid == consumer["uid"] and not _will_not_run(pod.object)

    def _keep_remaining_consumers(self, record: Record, remaining: list[Object]) -> Record:
        """Store the claim with the remaining users; without any it loses its allocation and finalizer."""
        status = {key: value for key, value in (record.object.get("status") or {}).items() if key != "reservedFor"}
        metadata = dict(record.object["metadata"])
        finalizers = metadata.get("finalizers") or []
        if remaining:
            status["reservedFor"] = remaining
        elif FINALIZER in finalizers:
            status.pop("allocation", None)
            metadata["finalizers"] = [one for one in finalizers if one != FINALIZER]
            if not metadata["finalizers"]:
                del metadata["finalizers"]
        return self._registry.store_update(CLAIMS, record, {**record.object, "metadata": metadata, "status": status})

    def _delete_claim_of_done_pod(self, record: Record) -> None:
        """Delete a pod's claim once the pod is done; the garbage collector would wait for the pod's deletion."""
        for owner in record.object["metadata"].get("ownerReferences") or ():
            pod = self._store.get(PODS, record.namespace, owner["name"]) if owner["kind"] == "Pod" else None
            if pod is not None and (pod.uid != owner["uid"] or _will_not_run(pod.object)):
                self._registry.delete(CLAIMS, *record.key)
                return
