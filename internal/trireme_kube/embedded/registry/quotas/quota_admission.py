"""Refuses writes that would use more than a quota allows, and charges those that it admits to the quota's status.

What is used is what the status says, which the controller of quotas corrects when objects go; a quota without a status
yet limits nothing, as in Kubernetes.

Source: k8s.io/apiserver, pkg/admission/plugin/resourcequota.

Tests: tests/unit/embedded/registry/test_quotas.py.
"""

from collections.abc import Callable, Iterable

from trireme_kube.embedded.api import api_errors, quantities
from trireme_kube.embedded.api.quantities import Amounts
from trireme_kube.embedded.api.resources import PODS, Object, Resource
from trireme_kube.embedded.registry.quotas import pod_usage
from trireme_kube.embedded.registry.quotas.evaluators import QUOTAS, Evaluator, evaluator_of
from trireme_kube.embedded.storage.store import Record, Store

# An update of these may use more than before.
_CHECKED_AT_UPDATE = frozenset({"pods", "persistentvolumeclaims", "services"})
Charge = tuple[Record, dict[str, str]]
"""A quota, and what is used of it after the write."""


class QuotaAdmission:
    """Checks writes by the quotas of their namespace."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        """`clock` returns seconds since the epoch."""
        self._store = store
        self._clock = clock

    def check_create(self, resource: Resource, obj: Object) -> list[Charge]:
        """The charges for a new object. Raises: ApiError 403."""
        return self._check(resource, obj, None)

    def check_update(self, resource: Resource, obj: Object, before: Object, subresource: str = "") -> list[Charge]:
        """The charges for what an object uses more than before. Raises: ApiError 403."""
        if resource.key not in _CHECKED_AT_UPDATE or subresource not in ("", "resize"):
            return []
        if resource is PODS and not subresource and pod_usage.has_deadline(obj) == pod_usage.has_deadline(before):
            return []
        return self._check(resource, obj, before)

    def charge(self, charges: Iterable[Charge]) -> None:
        """Write what is used into the status of the quotas."""
        for record, used in charges:
            quota = record.object
            status = {**quota["status"], "used": used}
            self._store.put(QUOTAS, {**quota, "metadata": dict(quota["metadata"]), "status": status})

    def _check(self, resource: Resource, obj: Object, before: Object | None) -> list[Charge]:
        """The charges for a write. Raises: ApiError 403."""
        evaluator = evaluator_of(resource) if self._store.count(QUOTAS) else None
        if evaluator is None:
            return []
        quotas = self._matching_quotas(resource, evaluator, obj)
        if not quotas:
            return []
        now = self._clock()
        usage: Amounts = evaluator.usage(obj, now)
        growth = usage
        if before is not None:
            previous = evaluator.usage(before, now)
            growth = {
                name: quantities.difference(one, previous.get(name, quantities.NONE)) for name, one in usage.items()
            }
        charges = []
        for record in quotas:
            known = before is not None and evaluator.matches(record.object, before)
            requested = {name: one for name, one in (growth if known else usage).items() if one.nanos}
            charge = _charge(resource, obj, record, requested)
            if charge is not None:
                charges.append(charge)
        return charges

    def _matching_quotas(self, resource: Resource, evaluator: Evaluator, obj: Object) -> list[Record]:
        """The quotas that limit something that the object uses. Raises: ApiError 403 if they cannot decide."""
        found = []
        for record in self._store.scan(QUOTAS, obj["metadata"]["namespace"]):
            status = record.object.get("status") or {}
            names = [name for name in status.get("hard") or () if evaluator.tracks(name)]
            if not names or not evaluator.matches(record.object, obj):
                continue
            missing = pod_usage.unstated(obj, names) if resource is PODS else ""
            if missing:
                raise _refusal(resource, obj, f"failed quota: {record.name}: {missing}")
            if any(name not in (status.get("used") or {}) for name in names):
                listed = ",".join(sorted(names))
                raise _refusal(resource, obj, f"status unknown for quota: {record.name}, resources: {listed}")
            found.append(record)
        return found


def _charge(resource: Resource, obj: Object, record: Record, usage: Amounts) -> Charge | None:
    """The charge to a quota for what a write uses more; None: it uses nothing of it. Raises: ApiError 403."""
    status = record.object["status"]
    hard, used = (quantities.parse_amounts(status.get(part)) for part in ("hard", "used"))
    requested = {name: one for name, one in usage.items() if name in hard}
    if not requested:
        return None
    after = quantities.total([used, requested])
    exceeded = [name for name in sorted(requested) if after[name].nanos > hard[name].nanos]
    if exceeded:
        texts = (",".join(f"{name}={part[name]}" for name in exceeded) for part in (requested, used, hard))
        why = "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(record.name, *texts)
        raise _refusal(resource, obj, why)
    return record, {name: str(amount) for name, amount in after.items()}


def _refusal(resource: Resource, obj: Object, why: str) -> api_errors.ApiError:
    return api_errors.forbidden(resource, obj["metadata"]["name"], why)
