"""What the frontends must know once everything is at rest: the cluster as the API server has it, each pod once."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from tests.simulation import simulated_process
from tests.simulation.column_checks import ColumnChecks
from tests.simulation.kept_state import containers_of_what_is_gone
from tests.simulation.pending_checks import wrong_entries
from tests.simulation.placed_pods import PlacedPods
from tests.simulation.pod_demands import group_of, is_done, is_terminating
from tests.simulation.simulated_process import Process, State
from trireme.frontend import app
from trireme.frontend.phase_clients import local_phases
from trireme.frontend.serving import frontend_state, scheduler_status
from trireme_kube.embedded.api.resources import NODES, PODS, Object
from trireme_kube.embedded.storage.store import DELETED, Event, Store

# So many of the UIDs, keys and names of pods and nodes that are gone are looked for.
_GONE = 10_000
# All pending pods are named.
_MAX_PENDING = 100_000


class FrontendChecks:
    """The assembled frontends of all processes, compared with the API server's store."""

    def __init__(self, store: Store, placed: PlacedPods, on_built: Callable[[app.App], None]) -> None:
        """`on_built` gets each frontend that is assembled."""
        self._store = store
        self._placed = placed
        self._pass_on = on_built
        self._gone: dict[str, None] = {}
        for resource in (PODS, NODES):
            store.listen(resource, self._on_write)
        self._built: dict[str, tuple[Process, app.App]] = {}
        self._columns = ColumnChecks(store, placed)
        self._own_phases = local_phases.LocalPhases({}, {})
        _observe_builds(self._on_built)

    def _on_built(self, built: app.App) -> None:
        process = simulated_process.current()
        assert process is not None
        self._built[process.name] = (process, built)
        self._pass_on(built)

    def _on_write(self, event: Event) -> None:
        """Nothing has the name of something that is gone."""
        if event.type == DELETED:
            record = event.record
            self._gone[record.uid] = self._gone["/".join(filter(None, record.key))] = None
            while len(self._gone) > _GONE:
                del self._gone[next(iter(self._gone))]

    def differences(self) -> list[str]:
        """How the frontends that run differ from the API server. Nothing may be under way."""
        found = []
        leaders = 0
        running = [(name, each) for name, (process, each) in self._built.items() if process.state is State.RUNNING]
        for name, built in running:
            if built.synced:
                leaders += built.context.leader.leading
                found.extend(f"{name}: {text}" for text in self._differences(built))
        if found or leaders != 1:
            return found or [f"{leaders} frontends lead"]
        # What takes longest comes last: most calms are not at rest yet when it is first looked.
        for name, each in (*self._columns.services(), *((name, built) for name, built in running if built.synced)):
            kept = containers_of_what_is_gone(each, self._gone.keys())
            found.extend(f"{name}: {text}" for text in kept)
        if found:
            return found
        return next(
            self._columns.differences(built, process)
            for process, built in self._built.values()
            if process.state is State.RUNNING and built.context.leader.leading
        )

    def _differences(self, built: app.App) -> list[str]:
        cache = built.cluster.cache
        # Schedulers do not read those that have ended.
        pods = [record.object for record in self._store.scan(PODS) if not is_done(record.object)]
        bound = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
        found = [
            *_compare("nodes", set(cache.node_names()), {record.name for record in self._store.scan(NODES)}),
            *_compare("bound pods", {(pod.uid, pod.node_name) for pod in cache.pods()}, set(bound.items())),
            *(f"pod {pod.key} is assumed" for pod in cache.pods() if pod.assumed),
        ]
        if built.context.leader.leading:
            report = scheduler_status.status(frontend_state.state_of_app(built, self._own_phases), _MAX_PENDING)
            named = collections.Counter(pod.pod.name for pod in report.pending)
            pending = {pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")}
            found.extend(_compare("pending pods", set(named), pending))
            found.extend(f"status names pod {name} {count} times" for name, count in named.items() if count > 1)
            found.extend(f"pod {name} has no condition" for name in _without_condition(pods))
            found.extend(wrong_entries(self._store, self._placed, report.pending))
        return found


def _without_condition(pods: list[Object]) -> list[str]:
    """The pending pods without a reason for their users; what a group waits for is its own condition."""
    return [
        pod["metadata"]["name"]
        for pod in pods
        if not pod["spec"].get("nodeName")
        and not group_of(pod)
        and not is_terminating(pod)
        and all(each["type"] != "PodScheduled" for each in pod["status"].get("conditions") or ())
    ]


def _compare(what: str, known: set[Any], true: set[Any]) -> list[str]:
    if known == true:
        return []
    return [f"{what}: {sorted(known - true)[:3]} are known and do not exist, {sorted(true - known)[:3]} are not known"]


def _observe_builds(observe: Callable[[app.App], None]) -> None:
    """Have `observe` called with each frontend that is assembled."""
    original = app.build

    def build(*arguments: Any, **named: Any) -> app.App:
        built = original(*arguments, **named)
        observe(built)
        return built

    app.build = build
