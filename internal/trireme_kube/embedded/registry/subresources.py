"""The subresources that are more than a view of the status: binding, eviction, scale, finalize.

Source: k8s.io/kubernetes, pkg/registry/core/pod/storage, and pkg/registry/apps/*/storage for scale.

Also change: internal/trireme_kube/embedded/api/resources.py, internal/trireme_kube/embedded/discovery/discovery.py,
internal/trireme_kube/embedded/endpoints/writes.py,
internal/trireme_kube/embedded/endpoints/server.py (subresources with rules of their own).

Tests: tests/unit/embedded/registry/test_registry.py, tests/unit/embedded/controllers/test_controllers.py.
"""

from typing import Any

from trireme_kube.embedded.api import api_errors, field_errors, selectors
from trireme_kube.embedded.api.resources import BY_KEY, PODS, Object, ScalePaths
from trireme_kube.embedded.registry.admission import copy_node_topology_labels
from trireme_kube.embedded.registry.registry import Registry, metadata_of
from trireme_kube.embedded.storage.store import Record

BUDGETS = BY_KEY["poddisruptionbudgets.policy"]
SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
# Evictions that the disruption controller has not seen yet, of one budget.
MAX_DISRUPTED_PODS = 2000
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def with_condition(conditions: list[Object] | None, condition: Object, now: str) -> list[Object]:
    """The conditions with one of that type set; its transition time changes only with the status."""
    condition = {"type": condition["type"], "status": condition["status"], "lastTransitionTime": now, **condition}
    result: list[Object] = []
    replaced = False
    for one in conditions or ():
        if one["type"] == condition["type"]:
            replaced = True
            if one.get("status") == condition["status"] and "lastTransitionTime" in one:
                condition["lastTransitionTime"] = one["lastTransitionTime"]
            result.append(condition)
        else:
            result.append(one)
    return result if replaced else [*result, condition]


def bind(registry: Registry, namespace: str, name: str, binding: Object, *, dry_run: bool = False) -> Object:
    """Assign a pod to the node of the Binding, unless it has one.

    Raises: ApiError 404; 409 if the pod is bound, terminating or gated, or not the one of the Binding.
    """
    metadata = metadata_of(binding)
    if metadata.get("name", name) != name:
        raise api_errors.bad_request("name in URL does not match name in Binding object")
    target = binding.get("target") or {}
    if target.get("kind") not in (None, "", "Node"):
        text = f'target.kind: Unsupported value: "{target["kind"]}": supported values: "<empty>", "Node"'
        raise api_errors.ApiError(500, "", text)
    node_name = target.get("name")
    if not node_name:
        raise api_errors.ApiError(500, "", "target.name: Required value")
    before = registry.get(PODS, namespace, name)
    _check_may_be_bound(before, metadata, name)
    pod = _pod_with_node(registry, before.object, node_name, metadata)
    if not dry_run:
        registry.store.put(PODS, pod)  # unchanged: assigning a pod is not a new generation of it
    return SUCCESS


def _check_may_be_bound(before: Record, metadata: Object, name: str) -> None:
    """Check that a pod may be bound: it is the one meant, has no node, is not going, and has no gates.

    Raises: ApiError 409.
    """
    pod = before.object
    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        expected, actual = metadata.get(field), pod["metadata"][field]
        if expected and expected != actual:
            raise api_errors.precondition_failed(PODS, before.key, label, expected, actual)
    why = ""
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise api_errors.conflict(PODS, name, why, "binding")


def _pod_with_node(registry: Registry, pod: Object, node_name: str, metadata: Object) -> Object:
    """Return the pod as bound to the node, with the Binding's labels and annotations."""
    own = dict(pod["metadata"])
    for part in ("annotations", "labels"):
        if metadata.get(part):
            own[part] = {**(own.get(part) or {}), **metadata[part]}
    copy_node_topology_labels(registry.store, own, node_name)
    status = {key: value for key, value in (pod.get("status") or {}).items() if key != "nominatedNodeName"}
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    status["conditions"] = with_condition(status.get("conditions"), scheduled, registry.clock_and_ids.now())
    return {**pod, "metadata": own, "spec": {**pod["spec"], "nodeName": node_name}, "status": status}


def evict(registry: Registry, namespace: str, name: str, eviction: Object, *, dry_run: bool = False) -> Object:
    """Delete a pod unless a disruption budget forbids it.

    Raises: ApiError 403 if too many evictions are not confirmed; 404; 409 if a precondition does not hold; 429 if the
        budget is used up or not yet computed; 500 if there are two.
    """
    if metadata_of(eviction).get("name", name) != name:
        raise api_errors.bad_request("name in URL does not match name in Eviction object")
    options = eviction.get("deleteOptions") or {}
    if dry_run:
        options = {**options, "dryRun": ["All"]}
    before = registry.get(PODS, namespace, name)
    registry.check_preconditions(PODS, before, options.get("preconditions") or {})
    pod = before.object
    phase = (pod.get("status") or {}).get("phase")
    if phase not in ("Succeeded", "Failed", "Pending") and "deletionTimestamp" not in pod["metadata"]:
        _use_disruption_budget(registry, before, dry_run=dry_run)
    if not dry_run:
        marked = _set_disruption_target(registry, before)
        if "resourceVersion" in (options.get("preconditions") or {}):
            version = marked.object["metadata"]["resourceVersion"]
            options = {**options, "preconditions": {**options["preconditions"], "resourceVersion": version}}
    registry.delete(PODS, namespace, name, options)
    return SUCCESS


def _set_disruption_target(registry: Registry, before: Record) -> Record:
    """Store the pod with the condition DisruptionTarget."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = dict(before.object.get("status") or {})
    status["conditions"] = with_condition(status.get("conditions"), condition, registry.clock_and_ids.now())
    return registry.update_fields(PODS, before, status=status)


def budgets_of(registry: Registry, namespace: str, labels: dict[str, str]) -> list[Record]:
    """The disruption budgets that select a pod with these labels."""
    budgets: list[Record] = []
    for record in registry.store.scan(BUDGETS, namespace):
        selector = (record.object.get("spec") or {}).get("selector")
        if selector is not None and selectors.compile_label_selector(selector)(labels):
            budgets.append(record)
    return budgets


def pod_ready(pod: Object) -> bool:
    """Whether the pod's Ready condition is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _use_disruption_budget(registry: Registry, before: Record, *, dry_run: bool) -> None:
    """Count the eviction against the pod's budget.

    Raises: ApiError 403 if too many are not confirmed, 429 if it allows none now, 500 if there are two budgets.
    """
    pod = before.object
    budgets = budgets_of(registry, before.namespace, pod["metadata"].get("labels") or {})
    if not budgets:
        return
    if len(budgets) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise api_errors.ApiError(500, "", text)
    record = budgets[0]
    budget, status = record.object, record.object.get("status") or {}
    if not pod_ready(pod) and _may_evict_unhealthy(budget):
        return
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        text = f"The disruption budget {record.name} is still being processed by the server."
        raise _budget_refusal(text, retry=10)
    if len(status.get("disruptedPods") or {}) > MAX_DISRUPTED_PODS:
        raise _unconfirmed_evictions(record.name)
    if status.get("disruptionsAllowed", 0) <= 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _budget_refusal(f"The disruption budget {record.name} needs {needs} healthy pods and has {has} currently")
    spent = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1}
    spent["disruptedPods"] = {**(status.get("disruptedPods") or {}), before.name: registry.clock_and_ids.now()}
    registry.update_fields(BUDGETS, record, status=spent, dry_run=dry_run)


def _may_evict_unhealthy(budget: Object) -> bool:
    """Whether a pod that is not ready may be evicted whatever the budget: by its policy, or as enough are healthy."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = int(status.get("desiredHealthy", 0))
    return int(status.get("currentHealthy", 0)) >= desired > 0


def _budget_refusal(text: str, retry: int = 0) -> api_errors.ApiError:
    """Return the 429 of an eviction; `retry`: after how many seconds to try again."""
    details: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    if retry:
        details["retryAfterSeconds"] = retry
    return api_errors.too_many_requests(_REFUSED, details)


def _unconfirmed_evictions(budget: str) -> api_errors.ApiError:
    why = "too many pending evictions not confirmed by PDB controller"
    text = f"The disruption budget {budget} does not allow evicting pods currently: {why}"
    details: dict[str, Any] = {"name": budget, "group": "policy", "kind": "poddisruptionbudget"}
    details["causes"] = [{"reason": "DisruptionBudget", "message": text}]
    message = (
        f'poddisruptionbudget.policy "{budget}" is forbidden: '
        "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
    )
    return api_errors.ApiError(403, "Forbidden", message, details)


def selector_text(selector: Object | None) -> str:
    """A label selector, or a plain map of labels, in the notation of query parameters."""
    if not selector:
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for one in selector.get("matchExpressions") or ():
        key, operator = one["key"], one["operator"]
        if operator == "Exists":
            parts.append(key)
        elif operator == "DoesNotExist":
            parts.append(f"!{key}")
        else:
            parts.append(f"{key} {operator.lower()} ({','.join(sorted(one.get('values') or ()))})")
    return ",".join(parts)


def _value_at_path(obj: Any, path: str) -> Any:
    """The value at a JSONPath without wildcards; None if there is none."""
    for part in path.strip(".").split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _with_value_at_path(obj: Any, parts: list[str], value: Any) -> Object:
    below = obj if isinstance(obj, dict) else {}
    return {**below, parts[0]: _with_value_at_path(below.get(parts[0]), parts[1:], value) if len(parts) > 1 else value}


def scale_of(obj: Object, paths: ScalePaths = ScalePaths()) -> Object:  # noqa: B008 (it is immutable)
    """The Scale of a workload or a custom resource."""
    metadata = obj["metadata"]
    metadata_fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = _value_at_path(obj, paths.replicas)
    selector = (
        _value_at_path(obj, paths.selector) or ""
        if paths.selector
        else selector_text((obj.get("spec") or {}).get("selector"))
    )
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in metadata_fields if key in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": _value_at_path(obj, paths.reported) or 0, "selector": selector},
    }


def rescale(obj: Object, scale: Object, paths: ScalePaths = ScalePaths()) -> Object:  # noqa: B008 (it is immutable)
    """The object with the Scale's number of replicas (and its resourceVersion, to be checked)."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        cause = field_errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise api_errors.invalid_object("autoscaling", "Scale", obj["metadata"]["name"], [cause])
    version = metadata_of(scale).get("resourceVersion") or obj["metadata"]["resourceVersion"]
    metadata = {**obj["metadata"], "resourceVersion": version}
    return {**_with_value_at_path(obj, paths.replicas.strip(".").split("."), replicas), "metadata": metadata}
