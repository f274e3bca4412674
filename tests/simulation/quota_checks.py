"""What must hold of resource quotas: pods never use more, and once everything is at rest their status is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.simulation.pod_demands import is_done, requests_of
from trireme_kube.embedded.api.resources import PODS, Object, Resource
from trireme_kube.embedded.api.timestamps import parse_timestamp
from trireme_kube.embedded.registry.quotas.evaluators import QUOTAS
from trireme_kube.embedded.storage.store import Event, Store

_MIB = {"Mi": 1, "Gi": 1024}


class QuotaChecks:
    """Follows the writes. `violations` are in the order in which they happened; `wall_clock` is the API server's."""

    def __init__(self, store: Store, wall_clock: Callable[[], float]) -> None:
        self._store = store
        self._wall_clock = wall_clock
        self.violations: list[str] = []
        store.listen_to_all(self._on_write)

    def _on_write(self, resource: Resource, event: Event) -> None:
        if resource is not PODS:
            return
        try:
            for quota in self._quotas(event.record.namespace):
                limits, used = _amounts(quota["spec"]["hard"]), self._used(quota)
                for name, limit in limits.items():
                    if used[name] > limit:
                        text = f"with pod {event.record.name} quota {quota['metadata']['name']} is exceeded"
                        self.violations.append(f"{text}: {used[name]} of {limit} {name}")
        except Exception as error:  # to the API server it would be an error of its own, which its clients see
            self.violations.append(f"the check of {event.record.name} failed: {error!r}")

    def differences(self) -> list[str]:
        """The quotas whose status is not what there is; long after the last change there are none."""
        found = []
        for quota in self._quotas(""):
            status, name = quota["status"], quota["metadata"]["name"]
            if status.get("hard") != quota["spec"]["hard"]:
                found.append(f"quota {name} does not say what there may be")
            elif _amounts(status["used"]) != (used := self._used(quota)):
                found.append(f"quota {name} says {status['used']} is used, and it is {used}")
        return found

    def _quotas(self, namespace: str) -> list[Object]:
        return [record.object for record in self._store.scan(QUOTAS, namespace)]

    def _used(self, quota: Object) -> Mapping[str, int]:
        """What the pods of the namespace use of what a quota limits: CPUs in thousandths, and MiB."""
        now = self._wall_clock()
        used = dict.fromkeys(quota["spec"]["hard"], 0)
        for record in self._store.scan(PODS, quota["metadata"]["namespace"]):
            pod = record.object
            if _is_in_scope(pod, quota["spec"]):
                uses = _uses_of(pod, now)
                for name in used:
                    used[name] += uses[name]
        return used


def _uses_of(pod: Object, now: float) -> Mapping[str, int]:
    """What a pod uses of all that quotas limit; of one that has ended only the object counts."""
    counts = not is_done(pod) and not _is_overdue(pod, now)
    cpu, memory, *_ = requests_of(pod) if counts else (0, 0)
    return {"count/pods": 1, "pods": int(counts), "cpu": cpu, "requests.cpu": cpu, "requests.memory": memory}


def _is_overdue(pod: Object, now: float) -> bool:
    """Whether it should have ended a grace period ago: nobody there may end it any more."""
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata:
        return False
    return now > parse_timestamp(metadata["deletionTimestamp"]) + float(metadata["deletionGracePeriodSeconds"])


def _is_in_scope(pod: Object, spec: Object) -> bool:
    if "Terminating" in spec.get("scopes", ()) and "activeDeadlineSeconds" not in pod["spec"]:
        return False
    classes = [each["values"] for each in spec.get("scopeSelector", {}).get("matchExpressions", ())]
    return all(pod["spec"].get("priorityClassName") in names for names in classes)


def _amounts(quantities: Mapping[str, str]) -> dict[str, int]:
    """CPUs in thousandths, and MiB."""
    return {name: _amount(name, text) for name, text in quantities.items()}


def _amount(name: str, text: str) -> int:
    if name.endswith("memory"):
        return int(text[:-2]) * _MIB[text[-2:]] if text != "0" else 0
    if name.endswith("cpu"):
        return int(text[:-1]) if text.endswith("m") else int(text) * 1000
    return int(text)
