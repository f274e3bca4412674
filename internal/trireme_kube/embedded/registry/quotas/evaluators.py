"""What objects of each kind use of a quota, and whether a quota's scopes include them.

Source: k8s.io/kubernetes, pkg/quota/v1/evaluator/core, and k8s.io/apiserver, pkg/quota/v1.

Tests: tests/unit/embedded/registry/test_quotas.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

from trireme_kube.apimachinery.quantity import NANOS_PER_UNIT, Quantity
from trireme_kube.embedded.api import quantities
from trireme_kube.embedded.api.resources import BY_KEY, Object, Resource
from trireme_kube.embedded.registry.quotas import pod_usage

QUOTAS = BY_KEY["resourcequotas"]
# Counted by these names, too, as before there was `count/`.
_ALIASES = frozenset({"configmaps", "replicationcontrollers", "resourcequotas", "secrets"})
_NOT_COUNTED = frozenset({"events"})
_SERVICES = ("count/services", "services", "services.nodeports", "services.loadbalancers")
_CLAIMS = ("persistentvolumeclaims", "requests.storage")
_OF_STORAGE_CLASS = ".storageclass.storage.k8s.io/"


@dataclass(frozen=True, slots=True)
class Evaluator:
    """How one kind of object counts."""

    tracks: Callable[[str], bool]
    """Whether the objects use what a quota limits by this name."""
    usage: Callable[[Object, float], dict[str, Quantity]]
    """What an object uses at a time, in seconds since the epoch."""
    is_in_scope: Callable[[Object, Object], bool] = lambda selector, obj: False
    """Whether a requirement of a scope selector includes the object."""

    def matches(self, quota: Object, obj: Object) -> bool:
        """Whether all scopes of a quota include the object."""
        return all(self.is_in_scope(selector, obj) for selector in _scope_selectors(quota))


def _scope_selectors(quota: Object) -> list[Object]:
    """The scopes of a quota, as requirements."""
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return scopes + list((spec.get("scopeSelector") or {}).get("matchExpressions") or ())


def _selects(selector: Object, names: set[str]) -> bool:
    """Whether a requirement about classes selects an object that has these; as label selectors do if it has none."""
    values = set(selector.get("values") or ())
    match selector.get("operator"):
        case "Exists":
            return bool(names)
        case "DoesNotExist":
            return not names
        case "In":
            return bool(names & values)
        case "NotIn":
            return not names or bool(names - values)
    return False


def _pod_is_in_scope(selector: Object, pod: Object) -> bool:
    """Whether a requirement includes a pod; only that of priority classes has values."""
    scope = selector["scopeName"]
    if scope == "PriorityClass":
        name = pod["spec"].get("priorityClassName")
        return _selects(selector, {name} if name else set())
    return pod_usage.is_in_scope(pod, scope)


def _service_usage(service: Object, now: float) -> dict[str, Quantity]:
    """A Service uses node ports, and perhaps a load balancer."""
    spec = service.get("spec") or {}
    ports, kind = spec.get("ports") or (), spec.get("type")
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(bool(port.get("nodePort")) for port in ports)
    else:
        node_ports = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    numbers = (1, 1, node_ports, int(kind == "LoadBalancer"))
    return {name: Quantity(number * NANOS_PER_UNIT) for name, number in zip(_SERVICES, numbers, strict=True)}


def _claim_usage(claim: Object, now: float) -> dict[str, Quantity]:
    """A claim for a volume uses storage, in general and of its class."""
    spec, metadata = claim.get("spec") or {}, claim["metadata"]
    used = {"persistentvolumeclaims": quantities.ONE}
    requested = quantities.parse_amounts((spec.get("resources") or {}).get("requests")).get("storage")
    if requested is not None:
        reserved = quantities.parse_amounts((claim.get("status") or {}).get("allocatedResources"))
        largest = quantities.largest([{"storage": requested}, reserved])["storage"]
        used["requests.storage"] = quantities.whole_units(largest)
    annotated = (metadata.get("annotations") or {}).get("volume.beta.kubernetes.io/storage-class")
    if storage_class := annotated or spec.get("storageClassName"):
        used |= {f"{storage_class}{_OF_STORAGE_CLASS}{name}": amount for name, amount in used.items()}
    return {"count/persistentvolumeclaims": quantities.ONE, **used}


def _tracks_claims(name: str) -> bool:
    return name in ("count/persistentvolumeclaims", *_CLAIMS) or name.endswith(
        tuple(_OF_STORAGE_CLASS + one for one in _CLAIMS)
    )


def _claim_is_in_scope(selector: Object, claim: Object) -> bool:
    """Whether a requirement includes a claim: by the attributes classes that its volume has, or is to get."""
    if selector["scopeName"] != "VolumeAttributesClass":
        return False
    status = claim.get("status") or {}
    names = {
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    return _selects(selector, {name for name in names if name})


_SPECIAL = {
    "pods": Evaluator(pod_usage.tracks, pod_usage.usage, _pod_is_in_scope),
    "services": Evaluator(lambda name: name in _SERVICES, _service_usage),
    "persistentvolumeclaims": Evaluator(_tracks_claims, _claim_usage, _claim_is_in_scope),
}


def evaluator_of(resource: Resource) -> Evaluator | None:
    """How objects of this resource count; None: they never do."""
    if not resource.namespaced or resource.key in _NOT_COUNTED:
        return None
    special = _SPECIAL.get(resource.key)
    if special is not None:
        return special
    names = (f"count/{resource.key}", *([resource.key] if resource.key in _ALIASES else ()))
    return Evaluator(names.__contains__, lambda obj, now: dict.fromkeys(names, quantities.ONE))
