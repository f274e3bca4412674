"""What is prepared for a pod and not used is undone.

Whenever a leader begins a scheduling cycle, nothing is assumed or nominated for what is not there any more. Once
everything is at rest, nothing is in flight: no frontend or replica of bind remembers anything of an attempt, a binding
or a preemption, and the API server has neither a reservation for a pod without a node nor the refusal of a pod with
one. What a former leader has reserved may stay: as with kube-scheduler, its pod has the devices once it fits where they
are, or the next refusal frees them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.simulation import simulated_process
from tests.simulation.observed_calls import observe
from tests.simulation.placed_pods import PlacedPods
from tests.simulation.pod_demands import devices_of, is_terminating
from tests.simulation.simulated_process import Process, State
from tests.simulation.simulated_workloads import DEVICE_CLAIMS, VOLUME_CLAIMS
from trireme.bind import service as bind_service
from trireme.cache.pod_projection import TERMINATING
from trireme.frontend import app
from trireme.scheduling import scheduler
from trireme_kube.embedded.api.resources import LEASES, NODES, PODS, Object, Resource
from trireme_kube.embedded.storage.store import DELETED, Event, Store

# A request of a leader that has lost the Lease may come so late. Units: seconds.
SUCCESSION_SECONDS = 60.0
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
# What has to be empty at rest, by the names that lead to it from an assembled frontend.
_OF_FRONTENDS = (
    "scheduling.waiting._pods",
    "scheduling.binding._in_pre_bind._cancelled",
    "scheduling.binding._pre_binding._addresses",
    "scheduling.binding._pre_binding._awaited",
    "scheduling.preemptions._evictions",
    "scheduling.preemptions.under_way._preemptions",
    "scheduling.queue.held_preemptors",
    "scheduling.queue._in_flight_events._cursors",
    "cluster.cache._assumed_objects._assumed",
    "cluster.cache._assumed",
)
_OF_BIND = ("_in_flight", "_pre_binder._jobs", "_actor._last", "_actor._tasks")


class LeftoverChecks:
    """Observes the cycles of all frontends. `violations` are in the order in which they happened."""

    def __init__(self, store: Store, placed: PlacedPods, now: Callable[[], float]) -> None:
        self._store = store
        self._placed = placed
        self.violations: list[str] = []
        self._frontends: dict[str, tuple[Process, app.App]] = {}
        self._binds: dict[str, tuple[Process, Any]] = {}
        self._now = now
        # Who holds the Lease and from when on nobody else writes any more, and by claim and user ("": of its devices)
        # who it was when the claim got them, "" before that moment.
        self._leader, self._alone_from = "", 0.0
        self._given: dict[str, dict[str, str]] = {}
        store.listen_to_all(self._on_write)
        observe(bind_service.BindPhase, "__init__", self._on_bind_made)
        observe(scheduler.Scheduler, "run_cycle", self._on_cycle)

    def add(self, built: app.App) -> None:
        """Observe this frontend."""
        process = simulated_process.current()
        assert process is not None
        self._frontends[process.name] = (process, built)

    def _on_write(self, resource: Resource, event: Event) -> None:
        """A write at the API server."""
        if resource is LEASES and event.record.name == "kube-scheduler":
            holder = event.record.object["spec"].get("holderIdentity") or ""
            if holder != self._leader:
                self._leader, self._alone_from = holder, self._now() + SUCCESSION_SECONDS
        elif resource is DEVICE_CLAIMS:
            before = self._given.pop(event.record.uid, {})
            given = {} if event.type == DELETED else _given(event.record.object)
            if given:
                leader = self._leader if self._now() >= self._alone_from else ""
                self._given[event.record.uid] = {each: before.get(each, leader) for each in given}

    def _on_bind_made(self, service: Any, *_: Any, **__: Any) -> None:
        process = simulated_process.current()
        assert process is not None
        self._binds[process.name] = (process, service)

    def _on_cycle(self, running: Any, batch: Any) -> None:
        """Between two attempts, whatever is assumed or nominated is so for a pod, and on a node, that there is."""
        for _, built in self._frontends.values():
            if built.scheduling.scheduler is running:
                self.violations.extend(between_cycles(built.cluster.cache))

    def differences(self) -> list[str]:
        """What is left over, once everything is at rest."""
        found = list(self._in_store())
        for name, (process, built) in self._frontends.items():
            if process.state is State.RUNNING and built.synced:
                found.extend(f"{name}: {text}" for text in self._of_frontend(built))
        for name, (process, service) in self._binds.items():
            if process.state is State.RUNNING:
                found.extend(f"{name}: {text}" for text in _not_empty(service, _OF_BIND))
        return found

    def _in_store(self) -> Iterator[str]:
        """Claims are reserved, and volumes have a node, only for pods that have one."""
        for record in self._store.scan(DEVICE_CLAIMS):
            given = _given(record.object)
            own = [uid for uid, leader in self._given.get(record.uid, {}).items() if leader == self._leader]
            for uid in own:
                if uid and uid not in self._placed.node_of:
                    yield f"claim {record.name} is reserved for pod {given[uid]}, which has no node"
            if "" in own and len(given) == 1 and not is_terminating(record.object):
                yield f"claim {record.name} has devices, and nobody uses it"
        for record in self._store.scan(VOLUME_CLAIMS):
            annotations = record.object["metadata"].get("annotations") or {}
            if _SELECTED_NODE in annotations and not record.object["spec"].get("volumeName"):
                yield f"claim {record.name} has no volume, and {annotations[_SELECTED_NODE]} was selected for it"
        for record in self._store.scan(PODS):
            node = _nomination(record.object)
            if node and self._store.get(NODES, "", node) is None:
                yield f"pod {record.name} is nominated to {node}, which is gone"
            if record.object["spec"].get("nodeName") and _is_said_to_be_unscheduled(record.object):
                yield f"pod {record.name} has a node, and its condition says that it has none"

    def _of_frontend(self, built: app.App) -> Iterator[str]:
        yield from _not_empty(built, _OF_FRONTENDS)
        if built.scheduling.binding.binding_count:
            yield f"{built.scheduling.binding.binding_count} pods are in the binding cycle"
        for pod in built.cluster.cache.pods():
            if pod.evicting and not pod.flags & TERMINATING:
                yield f"pod {pod.key} counts as evicted, and nobody evicts it"
        nominator = built.scheduling.queue.nominator
        for uid, node in nominator._node_of.items():
            if self._store.get(NODES, "", node) is None:
                yield f"pod {nominator._by_node[node][uid].key} is nominated to {node}, which is gone"


def between_cycles(cache: Any) -> Iterator[str]:
    """What a frontend's cache assumes and nominates for pods, and on nodes, that it does not know."""
    for key, assumption in cache._assumed_objects._assumed.items():
        for uid in assumption.users:
            if cache.pod(uid) is None:
                yield f"{'/'.join(filter(None, key))} is assumed for a pod that is on no node"
    for uid, nomination in cache._nominations.items():
        node, _ = cache._pod_nominations.get(uid, ("", None))
        if not node or cache.slot_of(node) != nomination.slot:
            yield f"pod {nomination.pod.name} is nominated to the slot of another node than {node!r}"


def _not_empty(root: Any, paths: tuple[str, ...]) -> Iterator[str]:
    for path in paths:
        found = root
        for name in path.split("."):
            found = getattr(found, name)
        if len(found):
            yield f"{path} has {len(found)} entries"


def _given(claim: Object) -> dict[str, str]:
    """The names of the pods that a claim is reserved for, by UID; with an empty UID, if it has devices."""
    users = (claim.get("status") or {}).get("reservedFor") or ()
    return {**({"": ""} if devices_of(claim) else {}), **{user["uid"]: user["name"] for user in users}}


def _nomination(pod: Object) -> str:
    """The node that a pending pod is nominated to."""
    return "" if pod["spec"].get("nodeName") else str((pod.get("status") or {}).get("nominatedNodeName") or "")


def _is_said_to_be_unscheduled(pod: Object) -> bool:
    """Whether the pod's status has the condition of an attempt that failed."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)
