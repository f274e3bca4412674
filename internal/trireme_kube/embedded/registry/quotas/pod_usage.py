"""What a pod uses of quotas, and which scopes of quotas it is in.

Source: k8s.io/kubernetes, pkg/quota/v1/evaluator/core/pods.go, and k8s.io/component-helpers, resource/helpers.go.

Also change: internal/trireme/framework/pod_conditions.py (conditions of pods).
Also change: internal/trireme/framework/amounts.py, internal/trireme/frontend/serving/metrics_resources.py,
internal/trireme/plugin_kit/device_resources.py (names of extended resources).
Also change: internal/trireme_kube/embedded/validation/quota_validation.py (resources of quotas).

Tests: tests/unit/embedded/registry/test_quotas.py.
"""

from collections.abc import Callable, Iterable, Mapping

from trireme_kube.apimachinery.quantity import Quantity
from trireme_kube.embedded.api import pod_resources, quantities
from trireme_kube.embedded.api.quantities import Amounts
from trireme_kube.embedded.api.resources import Object
from trireme_kube.embedded.api.timestamps import parse_timestamp

COUNT = "count/pods"
_NAMES = frozenset(
    {
        COUNT,
        "pods",
        *("cpu", "memory", "ephemeral-storage"),
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in ("cpu", "memory", "ephemeral-storage")),
    }
)
# A quota of one of these refuses pods with a container that does not state the amount.
_STATED = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_NATIVE = "kubernetes.io/"
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
_POD_LEVEL = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"
_ResourcesOf = Callable[[Object, Object], Mapping[str, object] | None]


def tracks(name: str) -> bool:
    """Whether pods use what a quota limits by this name."""
    if name in _NAMES or name.startswith((_HUGE_PAGES, f"requests.{_HUGE_PAGES}")):
        return True
    return name.startswith("requests.") and (_is_extended(name) or name.startswith(f"requests.{_DEVICE_CLASS}"))


def _is_extended(name: str) -> bool:
    """Whether a resource is of a domain other than Kubernetes' own."""
    return "/" in name and _NATIVE not in name


def usage(pod: Object, now: float) -> dict[str, Quantity]:
    """What a pod uses: of computing resources nothing once it has ended, or should have long ago."""
    used = {COUNT: quantities.ONE}
    if not pod_resources.has_ended(pod) and now <= overdue_at(pod):
        used |= _usage_by_quota_names(_requests(pod), _limits(pod))
    return used


def overdue_at(pod: Object) -> float:
    """When a pod that is being deleted stops counting, though its kubelet has not confirmed its end."""
    metadata = pod["metadata"]
    grace = metadata.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in metadata or grace is None:
        return float("inf")
    return parse_timestamp(metadata["deletionTimestamp"]) + float(grace)


def _usage_by_quota_names(requests: Amounts, limits: Amounts) -> dict[str, Quantity]:
    """Requests and limits by the names that they have in quotas."""
    used = {"pods": quantities.ONE}
    for name, amount in requests.items():
        native = name in ("cpu", "memory", "ephemeral-storage") or name.startswith(_HUGE_PAGES)
        if native:
            used[name] = amount
        if native or _is_extended(name) or name.startswith(_DEVICE_CLASS):
            used[f"requests.{name}"] = amount
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    return used


def _requests(pod: Object) -> dict[str, Quantity]:
    """What a pod requests, with its overhead; while it is resized the larger of what it has and what it is to get."""
    spec_requests = sum_of_containers(pod, lambda container, status: _part(container, "requests"))
    allocated = sum_of_containers(pod, _allocated_requests(pod))
    actual = sum_of_containers(pod, _actual(pod, "requests"))
    requests = quantities.largest(
        [allocated, actual] if _resize_infeasible(pod) else [spec_requests, allocated, actual]
    )
    requests |= _pod_level(pod, "requests")
    return quantities.total([requests, quantities.parse_amounts(pod["spec"].get("overhead"))])


def _limits(pod: Object) -> dict[str, Quantity]:
    """The limits of a pod; its overhead counts where it has a limit."""
    spec_limits = sum_of_containers(pod, lambda container, status: _part(container, "limits"))
    actual = sum_of_containers(pod, _actual(pod, "limits"))
    limits = quantities.largest([actual] if _resize_infeasible(pod) else [spec_limits, actual])
    limits |= _pod_level(pod, "limits")
    overhead = quantities.parse_amounts(pod["spec"].get("overhead"))
    return quantities.total(
        [limits, {name: one for name, one in overhead.items() if name in limits and limits[name].nanos}]
    )


def _part(container: Object, part: str) -> Mapping[str, object] | None:
    found: Mapping[str, object] | None = (container.get("resources") or {}).get(part)
    return found


def _resize_infeasible(pod: Object) -> bool:
    """Whether the kubelet has refused the pod's resize, so that its spec says what it will not get."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    pending = next((one for one in conditions if one["type"] == "PodResizePending"), None)
    return pending is not None and pending.get("reason") == "Infeasible"


def _allocated_requests(pod: Object) -> _ResourcesOf:
    """The requests that the kubelet has reserved for a container."""
    infeasible = _resize_infeasible(pod)

    def resources_of(container: Object, status: Object) -> Mapping[str, object] | None:
        if (allocated := status.get("allocatedResources")) is not None:
            result: Mapping[str, object] = allocated
            return result
        return None if infeasible else _part(container, "requests")

    return resources_of


def _actual(pod: Object, part: str) -> _ResourcesOf:
    """The requests or limits with which a container runs."""
    allocated = _allocated_requests(pod)
    infeasible = _resize_infeasible(pod)

    def resources_of(container: Object, status: Object) -> Mapping[str, object] | None:
        if (found := _part(status, part)) is not None:
            return found
        if part == "requests":
            return allocated(container, status)
        return None if infeasible else _part(container, part)

    return resources_of


def sum_of_containers(pod: Object, resources_of: _ResourcesOf) -> dict[str, Quantity]:
    """What all containers need: together, and no less than each init container beside those that run on."""
    spec, status = pod["spec"], pod.get("status") or {}
    statuses = {
        one["name"]: one for part in ("initContainerStatuses", "containerStatuses") for one in status.get(part) or ()
    }

    def amounts_of(container: Object) -> dict[str, Quantity]:
        return quantities.parse_amounts(resources_of(container, statuses.get(container.get("name", ""), {})))

    result = quantities.total(amounts_of(one) for one in spec.get("containers") or ())
    running_on: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        amounts = amounts_of(container)
        beside = quantities.total([amounts, running_on])
        if container.get("restartPolicy") == "Always":
            result = quantities.total([result, amounts])
            running_on = beside = quantities.total([running_on, amounts])
        starting = quantities.largest([starting, beside])
    return quantities.largest([result, starting])


def _pod_level(pod: Object, part: str) -> dict[str, Quantity]:
    """The requests or limits that a pod states for all its containers together, which replace theirs."""
    stated = quantities.parse_amounts((pod["spec"].get("resources") or {}).get(part))
    return {name: one for name, one in stated.items() if _is_pod_level(name)}


def _is_pod_level(name: str) -> bool:
    return name in _POD_LEVEL or name.startswith(_HUGE_PAGES)


def unstated(pod: Object, names: Iterable[str]) -> str:
    """What a pod's containers have to state for quotas of these names, as the API server says it; empty: nothing."""
    if any(_pod_level(pod, part) for part in ("requests", "limits")):
        return ""
    missing: dict[str, set[str]] = {}
    for container in pod_resources.containers(pod["spec"]):
        parts = (quantities.parse_amounts(_part(container, part)) for part in ("requests", "limits"))
        for name in _STATED.intersection(names) - _usage_by_quota_names(*parts).keys():
            missing.setdefault(name, set()).add(container["name"])
    texts = [f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(missing.items())]
    return f"must specify {'; '.join(texts)}" if texts else ""


# Scopes


def has_deadline(pod: Object) -> bool:
    """Whether a pod is in the scope Terminating: it may run for a limited time."""
    deadline = pod["spec"].get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def is_in_scope(pod: Object, scope: str) -> bool:
    """Whether a pod is in a scope other than PriorityClass."""
    if scope in ("Terminating", "NotTerminating"):
        return has_deadline(pod) == (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        qos = (pod.get("status") or {}).get("qosClass") or pod_resources.qos_class(pod["spec"])
        return (qos == "BestEffort") == (scope == "BestEffort")
    return scope == "CrossNamespacePodAffinity" and _names_other_namespaces(pod)


def _names_other_namespaces(pod: Object) -> bool:
    """Whether an affinity of the pod may be to pods of other namespaces."""
    affinity = pod["spec"].get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        required = terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred = terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        for term in (*required, *(one["podAffinityTerm"] for one in preferred)):
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False
