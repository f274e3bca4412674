"""How much a pod requests, and how much a node has: the resource arithmetic of kube-scheduler v1.38.

Sums are made exactly and rounded up once, as kube-scheduler adds Quantities before it converts them. Units of all
results: cpu in millicores, everything else in the resource's own unit.

Source: k8s.io/component-helpers/resource, pkg/scheduler/framework (NodeInfo).

Also change: examples/score-phase-go/cluster.go (how pods' requests are counted).
Also change: internal/trireme/frontend/serving/metrics_resources.py,
internal/trireme_kube/embedded/registry/quotas/pod_usage.py,
internal/trireme/plugin_kit/device_resources.py (names of extended resources).

Tests: tests/unit/framework/test_amounts.py, tests/unit/plugins/test_node_resources_fit.py,
tests/conformance/test_quantities_of_go.py.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from trireme.framework import pod_conditions, selectors
from trireme.v1 import core_pb2, meta_pb2
from trireme_kube.apimachinery import quantity

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
HUGE_PAGES = "hugepages-"

# What scoring assumes for a container without a request; filtering assumes nothing.
_SCORING_DEFAULTS: Mapping[str, int] = {
    CPU: quantity.parse_quantity("100m").nanos,
    MEMORY: quantity.parse_quantity("200Mi").nanos,
}

_NANO = 10**9
_MILLI = 10**6
_INT64_MAX = 2**63 - 1

Features = Mapping[str, bool]
Quantities = Mapping[str, meta_pb2.Quantity]
Nanos = dict[str, int]
Picker = Callable[[core_pb2.Container], Nanos]


@dataclass(frozen=True, slots=True)
class Rules:
    """What feature gates decide about the arithmetic.

    `pod_level`: pod-level requests count (gate PodLevelResources). `pod_level_status`: so do its status's
    (gate InPlacePodLevelResourcesVerticalScaling). `claims`: so do the devices of its claims that stand for
    resources of the node (gate DRANodeAllocatableResources).
    """

    pod_level: bool = True
    pod_level_status: bool = True
    claims: bool = False


DEFAULT_RULES = Rules()


def rules_of(features: Features) -> Rules:
    """The rules with these feature gates; a gate that is not named has its default."""
    return Rules(
        pod_level=features.get("PodLevelResources", True),
        pod_level_status=features.get("InPlacePodLevelResourcesVerticalScaling", True),
        claims=features.get("DRANodeAllocatableResources", False),
    )


@dataclass(frozen=True, slots=True)
class PodAmounts:
    """The resources that one pod (or class) counts with: to filter, to score, and on its node."""

    filtering: Mapping[str, int]
    placed: Mapping[str, int]
    placed_nonzero: tuple[int, int]
    scoring: Mapping[str, int]
    scoring_nonzero: tuple[int, int]
    compared: Mapping[str, int]


# The prefix of a quota's names for resources; a name that begins with it is no resource of a pod.
_QUOTA_PREFIX = "requests."


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """An extended resource: a qualified name outside kubernetes.io that is not a quota's, but might become one."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith(_QUOTA_PREFIX):
        return False
    return selectors.valid_key(_QUOTA_PREFIX + name)


def is_scalar(name: str) -> bool:
    """A resource that the scheduler counts beside cpu, memory and ephemeral storage."""
    return (
        is_extended(name)
        or name.startswith((HUGE_PAGES, "attachable-volumes-"))
        or ("/" in name and "kubernetes.io/" in name)
    )


def node_allocatable(allocatable: Quantities) -> dict[str, int]:
    """What the node has to give, `pods` among it."""
    nanos = nanos_of(allocatable)
    out = {name: _in_whole_units(name, amount) for name, amount in nanos.items() if _is_counted_resource(name)}
    if PODS in nanos:
        out[PODS] = _in_whole_units(PODS, nanos[PODS])
    return out


def pod_amounts(pod: core_pb2.Pod, rules: Rules = DEFAULT_RULES) -> PodAmounts:
    """Compute all amounts of the pod, as the different plugins count them.

    Raises: ValueError for a quantity that cannot be read.
    """
    if not pod.spec.resources.requests and not pod.status.ByteSize():
        return _amounts_of_containers(pod)
    stated = {name: amount for name, amount in pod.spec.resources.requests.items() if is_pod_level(name)}
    pod_level = stated if rules.pod_level else {}
    spec = _requested_total(pod, pod_level, {})
    placed = _placed_total(pod, {}, rules)
    as_scored = replace(rules, claims=False)
    scoring = placed if as_scored == rules else _placed_total(pod, {}, as_scored)
    defaults = {name: n for name, n in _SCORING_DEFAULTS.items() if not pod_level or name not in placed}
    whole = _amounts_in_whole_units(placed)
    compared = whole
    if (stated and not rules.pod_level) or (rules.claims and pod.status.node_allocatable_resource_claim_statuses):
        compared = _amounts_in_whole_units(exact_requests(pod, rules))
    return PodAmounts(
        filtering=_amounts_in_whole_units(spec),
        placed=whole,
        placed_nonzero=_cpu_and_memory(_placed_total(pod, defaults, rules) if defaults else placed),
        scoring=_amounts_in_whole_units(scoring),
        scoring_nonzero=_cpu_and_memory(_placed_total(pod, _SCORING_DEFAULTS, as_scored)),
        compared=compared,
    )


def exact_requests(pod: core_pb2.Pod, rules: Rules = DEFAULT_RULES) -> Nanos:
    """What a pod holds, as its updates are compared: every resource, in nanos.

    Raises: ValueError for a quantity that cannot be read.
    """
    return _placed_total(pod, {}, replace(rules, pod_level=True, claims=False))


def _amounts_of_containers(pod: core_pb2.Pod) -> PodAmounts:
    """`pod_amounts` of most pods: where only containers request something, it counts alike for all."""
    spec = pod.spec
    # The sums of one container need no adding up: most pods have one, and each new class is counted.
    if len(spec.containers) == 1 and not spec.init_containers and not spec.overhead:
        total = nanos_of(spec.containers[0].resources.requests)
        total_nonzero = {**_SCORING_DEFAULTS, **total}
    else:
        total = _requested_total(pod, {}, {})
        total_nonzero = _requested_total(pod, {}, _SCORING_DEFAULTS)
    whole, nonzero = _amounts_in_whole_units(total), _cpu_and_memory(total_nonzero)
    return PodAmounts(whole, whole, nonzero, whole, nonzero, whole)


def amounts_with_claims(pod: core_pb2.Pod, rules: Rules) -> dict[str, int]:
    """What the pod needs of a node, including the claims in its status."""
    pod_level = {name: amount for name, amount in pod.spec.resources.requests.items() if is_pod_level(name)}
    total = aggregate_requests(pod)
    total.update(nanos_of(pod_level if rules.pod_level else {}))
    return _amounts_in_whole_units(_sum_of_amounts([total, nanos_of(pod.spec.overhead)]))


def aggregate_requests(pod: core_pb2.Pod) -> Nanos:
    """What the pod's containers and the claims in its status need together, without pod-level requests."""
    claims = _claims_in(pod.status)
    return _total_of_containers(pod, lambda container: nanos_of(container.resources.requests), {}, claims)


def aggregate_limits(pod: core_pb2.Pod) -> Nanos:
    """The limits of the pod's containers together, with the claims in its status."""
    claims = _claims_in(pod.status)
    return _total_of_containers(pod, lambda container: nanos_of(container.resources.limits), {}, claims)


@dataclass(frozen=True, slots=True)
class _ClaimAmounts:
    """What the devices of a pod's claims take of the node: as long as the pod is there, and while a container runs."""

    of_pod: Nanos
    of_containers: Mapping[str, Nanos]


_NO_CLAIMS = _ClaimAmounts({}, {})


def _claims_in(status: core_pb2.PodStatus) -> _ClaimAmounts:
    """What devices of claims stand for, and cost in addition, according to the pod's status."""
    parts: list[Nanos] = []
    of_containers: dict[str, Nanos] = {}
    for claim in status.node_allocatable_resource_claim_statuses:
        parts += [{each.name: _nanos_of_quantity(each.quantity)} for each in claim.mapping if each.HasField("quantity")]
        parts += [{each.name: _nanos_of_quantity(each.per_pod)} for each in claim.overhead if each.HasField("per_pod")]
        overhead = _sum_of_amounts(
            {each.name: _nanos_of_quantity(each.per_container)}
            for each in claim.overhead
            if each.HasField("per_container")
        )
        for name in claim.containers:
            of_containers[name] = _sum_of_amounts([of_containers.get(name, {}), overhead])
    return _ClaimAmounts(_sum_of_amounts(parts), of_containers)


def container_claim_amounts(status: core_pb2.PodStatus, container: str) -> Nanos:
    """The same for the claims of one container: what is counted for each container counts once."""
    parts: list[Nanos] = []
    for claim in status.node_allocatable_resource_claim_statuses:
        if container in claim.containers:
            parts += [
                {each.name: _nanos_of_quantity(each.quantity)} for each in claim.mapping if each.HasField("quantity")
            ]
            parts += [
                {each.name: _nanos_of_quantity(each.per_pod) + _nanos_of_quantity(each.per_container)}
                for each in claim.overhead
            ]
    return _sum_of_amounts(parts)


def _requested_total(pod: core_pb2.Pod, pod_level: Quantities, defaults: Mapping[str, int]) -> Nanos:
    """What the pod requests: its containers, overridden by pod-level requests, and its overhead."""
    total = _total_of_containers(pod, lambda container: nanos_of(container.resources.requests), defaults)
    total.update(nanos_of(pod_level))
    return _sum_of_amounts([total, nanos_of(pod.spec.overhead)])


def _placed_total(pod: core_pb2.Pod, defaults: Mapping[str, int], rules: Rules) -> Nanos:
    """What a pod on a node holds: the maximum of its requests, its allocated resources, and the resources in force.

    These three differ while a pod is resized. Each picker gives one of them of a container: one that the kubelet has
    not reported is taken from the one before it. The requests do not count where the node cannot fulfil a resize.
    """
    status = pod.status
    statuses = {entry.name: entry for entry in (*status.init_container_statuses, *status.container_statuses)}
    infeasible = _resize_infeasible(pod)
    claims = _claims_in(status) if rules.claims else _NO_CLAIMS

    def requests_of_container(container: core_pb2.Container) -> Nanos:
        """The container's requests; nothing if a resize to them is infeasible."""
        return {} if infeasible else nanos_of(container.resources.requests)

    def allocated_to_container(container: core_pb2.Container) -> Nanos:
        """What the kubelet has allocated to the container; until it says so, its requests."""
        entry = statuses.get(container.name)
        if entry is None or not entry.allocated_resources:
            return requests_of_container(container)
        return nanos_of(entry.allocated_resources)

    def in_force_for_container(container: core_pb2.Container) -> Nanos:
        """The container's resources in force; until the kubelet reports them, the allocated ones."""
        entry = statuses.get(container.name)
        if entry is None or not entry.resources.requests:
            return allocated_to_container(container)
        return nanos_of(entry.resources.requests)

    def total_by_picker(picker: Picker) -> Nanos:
        """All containers together by one picker, with the pod's claims unless the kubelet counts these already."""
        # The kubelet reports the resources in force with the claims, but not those that it has allocated.
        counted = _NO_CLAIMS if picker is in_force_for_container else claims
        return _total_of_containers(pod, picker, defaults, counted)

    pickers: list[Picker] = [] if infeasible else [requests_of_container]
    of_pod = rules.pod_level_status and status.allocated_resources and status.HasField("resources")
    if of_pod and status.resources.requests:
        totals = [total_by_picker(picker) for picker in pickers]
        totals += [nanos_of(status.allocated_resources), nanos_of(status.resources.requests)]
    elif statuses or infeasible:
        totals = [total_by_picker(picker) for picker in (*pickers, allocated_to_container, in_force_for_container)]
    else:
        totals = [total_by_picker(picker) for picker in pickers]
    total = _maximum_of_amounts(totals)
    if rules.pod_level:
        total.update(_pod_level_of_placed_pod(pod, infeasible, rules))
    return _sum_of_amounts([total, nanos_of(pod.spec.overhead)])


def _pod_level_of_placed_pod(pod: core_pb2.Pod, infeasible: bool, rules: Rules) -> Nanos:
    """Pod-level requests of a pod on a node, which replace the sums over its containers."""
    requests = nanos_of(pod.spec.resources.requests)
    if not any(map(is_pod_level, requests)):
        return {}
    if rules.pod_level_status and pod.status.HasField("resources"):
        stated = [] if infeasible else [requests]
        requests = _maximum_of_amounts(
            [*stated, nanos_of(pod.status.resources.requests), nanos_of(pod.status.allocated_resources)]
        )
    return {name: n for name, n in requests.items() if is_pod_level(name)}


def _resize_infeasible(pod: core_pb2.Pod) -> bool:
    """Whether the kubelet says that the node can never fulfil the pod's resize."""
    return (
        next((c.reason for c in pod.status.conditions if c.type == pod_conditions.RESIZE_PENDING), "")
        == pod_conditions.INFEASIBLE
    )


def _total_of_containers(
    pod: core_pb2.Pod, pick: Picker, defaults: Mapping[str, int], claims: _ClaimAmounts = _NO_CLAIMS
) -> Nanos:
    """Containers together, or the most that the init containers need in turn beside the sidecars started before.

    `claims` of a container count while it runs, those of the pod in any case.
    """

    def amounts_with_defaults(container: core_pb2.Container) -> Nanos:
        """What one container counts with, after defaults and with its claims."""
        own, of_claims = {**defaults, **pick(container)}, claims.of_containers.get(container.name)
        return own if of_claims is None else _sum_of_amounts([own, of_claims])

    total = _sum_of_amounts(amounts_with_defaults(container) for container in pod.spec.containers)
    sidecars: Nanos = {}
    peaks: list[Nanos] = []
    for container in pod.spec.init_containers:
        own = amounts_with_defaults(container)
        if container.restart_policy == "Always":
            total = _sum_of_amounts([total, own])
            sidecars = _sum_of_amounts([sidecars, own])
            peaks.append(sidecars)
        else:
            peaks.append(_sum_of_amounts([own, sidecars]))
    most = _maximum_of_amounts([total, *peaks])
    return _sum_of_amounts([most, claims.of_pod]) if claims.of_pod else most


def _nanos_of_quantity(amount: meta_pb2.Quantity) -> int:
    """The quantity in billionths, exactly; 0 if it is empty."""
    return quantity.parse_quantity(amount.string).nanos if amount.string else 0


def nanos_of(quantities: Quantities) -> Nanos:
    """The amounts by resource, exactly."""
    return {name: _nanos_of_quantity(amount) for name, amount in quantities.items()}


def _sum_of_amounts(parts: Iterable[Nanos]) -> Nanos:
    """The sums by resource."""
    out: Nanos = {}
    for part in parts:
        for name, amount in part.items():
            out[name] = out.get(name, 0) + amount
    return out


def _maximum_of_amounts(parts: Iterable[Nanos]) -> Nanos:
    """The largest amount of each resource."""
    out: Nanos = {}
    for part in parts:
        for name, amount in part.items():
            if name not in out or out[name] < amount:
                out[name] = amount
    return out


def is_pod_level(name: str) -> bool:
    """Whether pod-level requests may name the resource."""
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES)


def _is_counted_resource(name: str) -> bool:
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)


def _in_whole_units(name: str, nanos: int) -> int:
    """The amount in the scheduler's unit of the resource, rounded up; at most what 64 bits hold."""
    unit = _MILLI if name == CPU else _NANO
    return min(-(-nanos // unit), _INT64_MAX)


def _amounts_in_whole_units(total: Nanos) -> dict[str, int]:
    """The counted resources in the scheduler's units."""
    return {name: _in_whole_units(name, amount) for name, amount in total.items() if _is_counted_resource(name)}


def _cpu_and_memory(total: Nanos) -> tuple[int, int]:
    """The amounts of cpu and memory, in the scheduler's units."""
    return _in_whole_units(CPU, total.get(CPU, 0)), _in_whole_units(MEMORY, total.get(MEMORY, 0))


def quantity_text(name: str, amount: int) -> str:
    """An amount of a resource as Kubernetes writes quantities, e.g. `1500m`, `4Gi`. Units: those of this module."""
    binary = name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(HUGE_PAGES)
    form = quantity.Format.BINARY_SI if binary else quantity.Format.DECIMAL_SI
    return str(quantity.Quantity(amount * (_MILLI if name == CPU else _NANO), form))
