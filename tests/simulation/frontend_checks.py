"""What the frontends must know once everything is at rest: the cluster as the API server has it, each pod once."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import simulated_process
from simulated_process import Process, State

from trireme.frontend import app
from trireme.frontend.phase_clients import local_phases
from trireme.frontend.serving import frontend_state, status_report
from trireme_kube.embedded.api.resources import NODES, PODS
from trireme_kube.embedded.storage.store import Store


class FrontendChecks:
    """The assembled frontends of all processes, compared with the API server's store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._built: dict[str, tuple[Process, app.App]] = {}
        self._own_phases = local_phases.LocalPhases({}, {})
        _observe_builds(self._on_built)

    def _on_built(self, built: app.App) -> None:
        process = simulated_process.current()
        assert process is not None
        self._built[process.name] = (process, built)

    def differences(self) -> list[str]:
        """How the frontends that run differ from the API server. Nothing may be under way."""
        found = []
        leaders = 0
        for name, (process, built) in self._built.items():
            if process.state is State.RUNNING and built.synced:
                leaders += built.context.leader.leading
                found.extend(f"{name}: {text}" for text in self._differences(built))
        return found or ([] if leaders == 1 else [f"{leaders} frontends lead"])

    def _differences(self, built: app.App) -> list[str]:
        cache = built.cluster.cache
        pods = [record.object for record in self._store.scan(PODS)]
        bound = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
        found = [
            *_compare("nodes", set(cache.node_names()), {record.name for record in self._store.scan(NODES)}),
            *_compare("bound pods", {(pod.uid, pod.node_name) for pod in cache.pods()}, set(bound.items())),
            *(f"pod {pod.key} is assumed" for pod in cache.pods() if pod.assumed),
        ]
        if built.context.leader.leading:
            report = status_report.status(frontend_state.state_of_app(built, self._own_phases))
            named = collections.Counter(pod["uid"] for pod in report["pending"])
            pending = {pod["metadata"]["uid"] for pod in pods} - bound.keys()
            found.extend(_compare("pending pods", set(named), pending))
            found.extend(f"status names pod {uid} {count} times" for uid, count in named.items() if count > 1)
        return found


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
