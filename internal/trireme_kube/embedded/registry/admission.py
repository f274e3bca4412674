"""Admission: what the API server adds to an object, or refuses, because of *other* objects.

Priority from priority classes, the service account, the token volume, the tolerations of failing nodes, the taint of a
new node, the default storage class: the admission plugins that are on by default and that a scheduler's or a client's
behaviour depends on. Defaults that need nothing but the object itself are in `defaults`; quotas are in `quotas`.

Also change: internal/trireme/simulation/submission/claims.py, internal/trireme/plugin_kit/volumes_matching.py,
internal/trireme_kube/embedded/controllers/persistent_volumes.py (rules for claims without a class).

Tests: tests/unit/embedded/registry/test_registry.py.
"""

from collections.abc import Callable, Mapping

from trireme_kube.apimachinery import well_known_labels
from trireme_kube.embedded.api import api_errors, field_errors, quantities
from trireme_kube.embedded.api.custom_resource_definitions import CLEANUP, DEFINITIONS
from trireme_kube.embedded.api.resources import BY_KEY, NAMESPACES, NODES, SERVICE_ACCOUNTS, Object, Resource
from trireme_kube.embedded.clock_and_ids import ClockAndIds
from trireme_kube.embedded.registry import pod_defaults
from trireme_kube.embedded.storage.store import Store

PRIORITY_CLASSES = BY_KEY["priorityclasses.scheduling.k8s.io"]
_RUNTIME_CLASSES = BY_KEY["runtimeclasses.node.k8s.io"]
_STORAGE_CLASSES = BY_KEY["storageclasses.storage.k8s.io"]
_ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
# Namespaces that every cluster needs. The namespace of the nodes' Leases is created again instead.
_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_TOPOLOGY = (well_known_labels.ZONE, well_known_labels.REGION)


class Admission:
    """Admits creations: checks and completes what depends on other objects (accounts, priority classes, namespaces)."""

    def __init__(self, store: Store, clock_and_ids: ClockAndIds) -> None:
        self._store = store
        self._clock_and_ids = clock_and_ids
        self._steps: dict[str, Callable[[Resource, Object], None]] = {
            "pods": self._admit_pod,
            "nodes": self._admit_node,
            "persistentvolumeclaims": self._admit_volume_claim,
            "persistentvolumes": self._admit_persistent_volume,
            "podgroups.scheduling.k8s.io": self._set_priority,
            "compositepodgroups.scheduling.k8s.io": self._set_priority,
            "services": self._admit_service,
            "resourceclaims.resource.k8s.io": self._check_admin_access,
            "resourceclaimtemplates.resource.k8s.io": self._check_admin_access,
            "jobs.batch": self._admit_job,
            "certificatesigningrequests.certificates.k8s.io": self._admit_signing_request,
            DEFINITIONS.key: self._admit_custom_resource_definition,
        }
        self._addresses = 0

    def check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Refuse new content for a namespace that is missing or terminating."""
        record = self._store.get(NAMESPACES, "", namespace)
        if record is None:
            raise api_errors.not_found(NAMESPACES, namespace)
        if "deletionTimestamp" in record.object["metadata"] and resource.key != "events":
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            error = api_errors.forbidden(resource, name, why)
            cause = {"reason": "NamespaceTerminating", "field": "metadata.namespace"}
            cause["message"] = f"namespace {namespace} is being terminated"
            error.details = {**(error.details or {}), "causes": [cause]}
            raise error

    @staticmethod
    def check_deletion(resource: Resource, name: str) -> None:
        """Refuse to delete what every cluster needs."""
        if resource is NAMESPACES and name in _IMMORTAL:
            raise api_errors.forbidden(resource, name, "this namespace may not be deleted")

    def admit(self, resource: Resource, obj: Object) -> None:
        """Complete an object that is about to be created, in place, or raise ApiError 403."""
        step = self._steps.get(resource.key)
        if step is not None:
            step(resource, obj)

    def _admit_pod(self, resource: Resource, pod: Object) -> None:
        """Complete a pod by its service account, priority class and, if it has one, its node's topology."""
        spec = pod["spec"]
        self._set_service_account(resource, pod)
        pod_defaults.default_tolerations(spec)
        self._apply_runtime_class(resource, pod)
        self._set_priority(resource, pod)
        if node_name := spec.get("nodeName"):
            copy_node_topology_labels(self._store, pod["metadata"], node_name)

    def _check_overhead(self, resource: Resource, pod: Object, defined: Mapping[str, object] | None) -> None:
        """Check that a pod states no other overhead than its runtime class. Raises: ApiError: 403."""
        stated = pod["spec"].get("overhead")
        if not stated or (defined and quantities.parse_amounts(stated) == quantities.parse_amounts(defined)):
            return
        why = (
            "Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            if defined
            else "Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )
        raise api_errors.forbidden(resource, pod["metadata"].get("name", ""), f"pod rejected: {why}")

    def _apply_runtime_class(self, resource: Resource, pod: Object) -> None:
        """Add the overhead, node selector and tolerations of the pod's runtime class.

        Raises:
            ApiError: 403: there is no such class, or the pod contradicts it.
        """
        spec, pod_name = pod["spec"], pod["metadata"].get("name", "")
        name = spec.get("runtimeClassName")
        if not name:
            self._check_overhead(resource, pod, None)
            return
        record = self._store.get(_RUNTIME_CLASSES, "", name)
        if record is None:
            raise api_errors.forbidden(resource, pod_name, f'pod rejected: RuntimeClass "{name}" not found')
        overhead = (record.object.get("overhead") or {}).get("podFixed")
        self._check_overhead(resource, pod, overhead)
        if overhead:
            spec["overhead"] = dict(overhead)
        scheduling, selector = record.object.get("scheduling") or {}, spec.get("nodeSelector") or {}
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.get(key, value) != value:
                why = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                raise api_errors.forbidden(resource, pod_name, f"{why}pod.spec.nodeSelector[{key}] = {selector[key]}")
            selector = spec["nodeSelector"] = {**selector, key: value}
        tolerations = spec.get("tolerations") or []
        if added := [one for one in scheduling.get("tolerations") or () if one not in tolerations]:
            spec["tolerations"] = [*tolerations, *added]

    def _set_service_account(self, resource: Resource, pod: Object) -> None:
        """Set a pod's service account, by default `default`, and mount its token.

        Raises:
            ApiError: 403: there is no such account.
        """
        spec, metadata = pod["spec"], pod["metadata"]
        namespace = metadata["namespace"]
        account_name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = account_name
        account = self._store.get(SERVICE_ACCOUNTS, namespace, account_name)
        if account is None:
            missing = f'serviceaccount "{account_name}" not found'
            why = f"error looking up service account {namespace}/{account_name}: {missing}"
            raise api_errors.forbidden(resource, metadata.get("name", ""), why)
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.object.get("automountServiceAccountToken", True)
        if automount:
            pod_defaults.mount_token(spec, self._clock_and_ids.suffix())
        if not spec.get("imagePullSecrets") and account.object.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account.object["imagePullSecrets"]

    def _set_priority(self, resource: Resource, obj: Object) -> None:
        """Set priority and preemption policy by the priority class. Raises: ApiError 403 if others are stated."""
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        class_name, value, policy = self._priority_class_of(resource, spec.get("priorityClassName", ""), name)
        if class_name:
            spec["priorityClassName"] = class_name
        for field, what, computed in (
            ("priority", "integer value of priority", value),
            ("preemptionPolicy", "string value of PreemptionPolicy", policy),
        ):
            if spec.get(field) not in (None, computed):
                why = f"the {what} ({spec[field]}) must not be provided in pod spec; "
                why += f"priority admission controller computed {computed} from the given PriorityClass name"
                raise api_errors.forbidden(resource, name, why)
            spec[field] = computed

    def _priority_class_of(self, resource: Resource, class_name: str, name: str) -> tuple[str, int, str]:
        """Name, value and preemption policy of the pod's priority class."""
        if class_name:
            record = self._store.get(PRIORITY_CLASSES, "", class_name)
            if record is None:
                why = f"no PriorityClass with name {class_name} was found"
                raise api_errors.forbidden(resource, name, why)
            return class_name, record.object["value"], record.object["preemptionPolicy"]
        defaults = [one.object for one in self._store.scan(PRIORITY_CLASSES) if one.object.get("globalDefault")]
        if defaults:
            lowest = min(defaults, key=lambda one: int(one["value"]))
            return lowest["metadata"]["name"], lowest["value"], lowest["preemptionPolicy"]
        return "", 0, "PreemptLowerPriority"

    def _admit_node(self, resource: Resource, node: Object) -> None:
        """A node starts tainted as not ready, until its Ready condition says otherwise."""
        taints = node["spec"].get("taints") or []
        if all((one.get("key"), one.get("effect")) != (pod_defaults.NOT_READY, "NoSchedule") for one in taints):
            node["spec"]["taints"] = [*taints, {"key": pod_defaults.NOT_READY, "effect": "NoSchedule"}]

    def _admit_persistent_volume(self, resource: Resource, volume: Object) -> None:
        _add_finalizer(volume, "kubernetes.io/pv-protection")

    def _admit_volume_claim(self, resource: Resource, claim: Object) -> None:
        """Give a claim its finalizer and, if it names no storage class, the newest default one."""
        _add_finalizer(claim, "kubernetes.io/pvc-protection")
        if claim["spec"].get("storageClassName") is not None:
            return
        marked = [
            one.object["metadata"]
            for one in self._store.scan(_STORAGE_CLASSES)
            if (one.object["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
        ]
        if marked:
            newest = max(marked, key=lambda one: (one["creationTimestamp"], one["name"]))
            claim["spec"]["storageClassName"] = newest["name"]

    def _admit_service(self, resource: Resource, service: Object) -> None:
        """Give a Service a cluster IP, except an ExternalName."""
        spec = service["spec"]
        if spec["type"] != "ExternalName" and not spec.get("clusterIP"):
            self._addresses += 1
            spec["clusterIP"] = f"10.96.{self._addresses // 250 % 256}.{self._addresses % 250 + 1}"
        if spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])

    def _check_admin_access(self, resource: Resource, obj: Object) -> None:
        """Refuse admin access to devices in a namespace without the label for it. Raises: ApiError 422."""
        namespace = self._store.get(NAMESPACES, "", obj["metadata"]["namespace"])
        if namespace is not None and (namespace.object["metadata"].get("labels") or {}).get(_ADMIN_ACCESS) == "true":
            return
        path, spec = "spec", obj.get("spec") or {}
        if resource.plural == "resourceclaimtemplates":
            path, spec = "spec.spec", spec.get("spec") or {}
        text = f"admin access to devices requires the `{_ADMIN_ACCESS}: true` label on the containing namespace"
        causes = [
            field_errors.forbidden(f"{path}.devices.requests[{index}].adminAccess", text)
            for index, request in enumerate((spec.get("devices") or {}).get("requests") or ())
            if (request.get("exactly") or {}).get("adminAccess")
        ]
        if causes:
            raise api_errors.invalid_object(resource.group, resource.kind, obj["metadata"].get("name", ""), causes)

    def _admit_signing_request(self, resource: Resource, request: Object) -> None:
        """The requesting user is set by the server: here always the same one."""
        request["spec"] |= {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}

    def _admit_custom_resource_definition(self, resource: Resource, definition: Object) -> None:
        _add_finalizer(definition, CLEANUP)

    def _admit_job(self, resource: Resource, job: Object) -> None:
        """A Job selects its pods by its uid, unless it has a selector of its own."""
        if job["spec"].get("manualSelector"):
            return
        uid, name = job["metadata"]["uid"], job["metadata"]["name"]
        template = job["spec"]["template"].setdefault("metadata", {})
        prefix = "batch.kubernetes.io/"
        labels = {prefix + "controller-uid": uid, prefix + "job-name": name, "controller-uid": uid, "job-name": name}
        template["labels"] = {**(template.get("labels") or {}), **labels}
        job["metadata"]["labels"] = {**(job["metadata"].get("labels") or {}), **labels}
        job["spec"]["selector"] = {"matchLabels": {prefix + "controller-uid": uid}}


def _add_finalizer(obj: Object, finalizer: str) -> None:
    """Add a finalizer, in place, unless the object has it."""
    finalizers = obj["metadata"].get("finalizers") or []
    if finalizer not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, finalizer]


def copy_node_topology_labels(store: Store, metadata: Object, node_name: str) -> None:
    """Add the node's zone and region labels to a pod that was assigned to it, in place."""
    node = store.get(NODES, "", node_name)
    if node is None:
        return
    labels = node.object["metadata"].get("labels") or {}
    topology = {key: labels[key] for key in _TOPOLOGY if key in labels}
    if topology:
        metadata["labels"] = {**(metadata.get("labels") or {}), **topology}
