"""What must hold of a configuration that is replaced while processes run.

It is put in force as a whole or not at all; no scheduling cycle begins by one and goes on by another; a replica answers
by the plugins and weights of the configuration that the call names; and at rest all frontends have that of their files.
"""

from __future__ import annotations

import contextvars
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from tests.simulation import simulated_plugin, simulated_process
from tests.simulation.pod_demands import is_reserved
from tests.simulation.simulated_configuration import DEFAULT_WEIGHTS, ConfigurationFiles
from tests.simulation.simulated_process import Process, State
from trireme.cache import cluster_cache
from trireme.filter import service as filter_service
from trireme.frontend import app, configuration_reloader, phase_settings, reconfiguration
from trireme.scheduling import profile_roles, scheduler, scheduler_settings
from trireme.score import service as score_service
from trireme.v1 import plugin_pb2, snapshot_pb2

# So many configurations are known by their hashes; each restart of a plugin is another one.
_KNOWN = 2000
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_FILTER, _SCORE = plugin_pb2.EXTENSION_POINT_FILTER, plugin_pb2.EXTENSION_POINT_SCORE

#: The cycle that a task is part of.
_CYCLE: contextvars.ContextVar[_Cycle | None] = contextvars.ContextVar("cycle", default=None)


@dataclasses.dataclass
class _Cycle:
    """A scheduling cycle, and the configurations by which it has called phases so far, as far as files decide them."""

    name: str
    running: bool = True
    configurations: list[bytes] = dataclasses.field(default_factory=list)


class ConfigurationChecks:
    """Observes all frontends and replicas. `violations` are in the order in which they happened."""

    def __init__(self, files: Mapping[str, ConfigurationFiles]) -> None:
        """`files` of the frontends, by the names of their processes."""
        self.violations: list[str] = []
        self._files = files
        self._known: dict[int, snapshot_pb2.Configuration] = {}
        # By the same hashes what of them files decide.
        self._of_files: dict[int, bytes] = {}
        self._apps: dict[int, app.App] = {}
        self._reloaders: dict[str, tuple[Process, Any]] = {}
        self.reloads = self.refusals = 0
        self._observe_settings()
        self._observe_cycles()
        self._observe_switches()
        self._observe_reloaders()
        for owner in (filter_service.FilterPhase, score_service.ScorePhase):
            self._observe_answers(owner)

    def add(self, built: app.App) -> None:
        """Observe this frontend."""
        self._apps[id(built.cluster.cache)] = built

    def of_cache(self, cache: cluster_cache.ClusterCache) -> snapshot_pb2.Configuration:
        """The configuration by which the frontend with this cache decides now."""
        return self._apps[id(cache)].context.settings.configuration

    def differences(self) -> list[str]:
        """The frontends that have not got what is in their files; nothing may be under way."""
        found = []
        for name, (process, reloader) in self._reloaders.items():
            if process.state is State.RUNNING:
                said = reloader.statistics()
                if said.is_refused or said.content_hash != reloader._files.hash_content():
                    found.append(f"{name} has not got the configuration of its files: {said.last_refusal}")
        return found

    def _violated(self, text: str) -> None:
        process = simulated_process.current()
        self.violations.append(f"{'' if process is None else process.name}: {text}")

    # Which configuration a hash stands for

    def _observe_settings(self) -> None:
        owner: Any = phase_settings.PhaseSettings
        init, replace, config_hash = owner.__init__, owner.replace, owner.config_hash

        def made(settings: Any, *arguments: Any) -> None:
            init(settings, *arguments)
            self._remember(settings)

        def replaced(settings: Any, configuration: snapshot_pb2.Configuration) -> bool:
            changed: bool = replace(settings, configuration)
            self._remember(settings)
            return changed

        def observed_hash(settings: Any) -> int:
            number: int = config_hash(settings)
            cycle = _CYCLE.get()
            if cycle is not None and cycle.running:
                self._on_call(cycle, self._of_files.get(number))
            return number

        owner.__init__, owner.replace, owner.config_hash = made, replaced, observed_hash

    def _remember(self, settings: Any) -> None:
        self._check_weights(settings.configuration)
        self._known[settings._hash] = settings.configuration
        self._of_files[settings._hash] = _by_files(settings.configuration)
        if len(self._known) > _KNOWN:
            oldest = next(iter(self._known))
            del self._known[oldest], self._of_files[oldest]

    def _check_weights(self, configuration: snapshot_pb2.Configuration) -> None:
        """Plugins that score have the weights that a file of the frontend has said, or those by default."""
        process = simulated_process.current()
        if process is None or process.name not in self._files:
            return
        for profile in configuration.profiles:
            name, found = profile.scheduler_name, weights_of(configuration, profile.scheduler_name)
            stated = (weights for said, weights in self._files[process.name].weights if said == name)
            if not any({**found, **DEFAULT_WEIGHTS, **weights} == found for weights in stated):
                self._violated(f"no file says that {name} has the weights {found}")

    def _on_call(self, cycle: _Cycle, said: bytes | None) -> None:
        """A cycle calls a phase by a configuration that these files decide."""
        if said is not None and said not in cycle.configurations:
            cycle.configurations.append(said)
            if len(cycle.configurations) > 1:
                self._violated(f"the cycle of {cycle.name} uses two configurations")

    # Cycles

    def _observe_cycles(self) -> None:
        owner: Any = scheduler.Scheduler
        run = owner.run_cycle

        async def run_cycle(running: Any, batch: Any) -> None:
            cycle = _Cycle(type(batch).__name__)
            told = _CYCLE.set(cycle)
            try:
                await run(running, batch)
            finally:
                cycle.running = False
                _CYCLE.reset(told)

        owner.run_cycle = run_cycle
        cache: Any = cluster_cache.ClusterCache
        assume = cache.assume

        def observed_assume(known: Any, key: str, uid: str, node_name: str, *more: Any, **named: Any) -> Any:
            self._on_assume(known, key, node_name)
            return assume(known, key, uid, node_name, *more, **named)

        cache.assume = observed_assume

    def _on_assume(self, cache: Any, key: str, node_name: str) -> None:
        """No pod is placed on a node that the second plugin refuses, where every profile has it and waits for it."""
        if id(cache) not in self._apps or not is_reserved(node_name):
            return
        plugin = second_plugin(self.of_cache(cache))
        if plugin is not None and plugin.failure_policy == snapshot_pb2.FAILURE_POLICY_FAIL:
            self._violated(f"pod {key} is placed on {node_name}, off which the second plugin keeps all pods")

    # Reloads

    def _observe_switches(self) -> None:
        owner: Any = reconfiguration.Reconfiguration
        apply, switch = owner.apply, owner._switch

        async def observed_apply(changes: Any, new: Any) -> None:
            before = _in_force(changes)
            try:
                await apply(changes, new)
            except Exception:
                self.refusals += 1
                self._compare("is refused, and something has changed", before, _in_force(changes))
                raise
            self.reloads += 1

        def observed_switch(changes: Any, completed: Any) -> Any:
            if changes._app.scheduling.scheduler.in_cycle:
                self._violated("the configuration is replaced during a cycle")
            said = switch(changes, completed)
            self._compare("is in force in part", _wanted(changes, completed), _in_force(changes))
            return said

        owner.apply, owner._switch = observed_apply, observed_switch

    def _compare(self, what: str, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        different = [name for name, value in wanted.items() if found[name] != value]
        if different:
            self._violated(f"a configuration {what}: {', '.join(different)}")

    def _observe_reloaders(self) -> None:
        owner: Any = configuration_reloader.ConfigurationReloader
        init = owner.__init__

        def made(reloader: Any, *arguments: Any, **named: Any) -> None:
            init(reloader, *arguments, **named)
            process = simulated_process.current()
            assert process is not None
            self._reloaders[process.name] = (process, reloader)

        owner.__init__ = made

    # Replicas

    def _observe_answers(self, owner: Any) -> None:
        original = owner._engine_when_synced

        async def engine_when_synced(service: Any, cycle: Any, context: Any) -> Any:
            engine = await original(service, cycle, context)
            wanted = self._known.get(cycle.config_hash)
            for profile in wanted.profiles if wanted is not None else ():
                if profile.scheduler_name == cycle.profile:
                    self._on_answer(engine.profiles.chains.get(cycle.profile), profile, wanted)
            return engine

        owner._engine_when_synced = engine_when_synced

    def _on_answer(self, chain: Any, profile: snapshot_pb2.Profile, wanted: snapshot_pb2.Configuration) -> None:
        """A replica answers by this chain, a call that names that configuration."""
        if chain is None:
            self._violated(f"a call about {profile.scheduler_name} is answered without its plugins")
        elif hasattr(chain, "weights"):
            weights = {each.name: each.weight for each in _set(profile, _SCORE)}
            if dict(chain.weights) != {name: weights.get(name) for name in chain.weights}:
                self._violated(f"a call is answered by weights {dict(chain.weights)}, not {weights}")
        else:
            remote = {each.name for each in wanted.remote_plugins} & set(_plugins(profile, _FILTER))
            if {each.name for each in chain.asynchronous} != remote:
                self._violated(f"a call is answered with {[each.name for each in chain.asynchronous]}, not {remote}")


def weights_of(configuration: snapshot_pb2.Configuration, profile: str) -> dict[str, int]:
    """The weights of the plugins that score for a profile; empty if there is no such profile."""
    found = next((each for each in configuration.profiles if each.scheduler_name == profile), None)
    return {} if found is None else {each.name: each.weight or 1 for each in _set(found, _SCORE)}


def second_plugin(configuration: snapshot_pb2.Configuration, profile: str = "") -> snapshot_pb2.RemotePlugin | None:
    """How the second plugin takes part in this profile, or in every profile; None: it does not.

    A configuration may state its address and no profile have it: the two files are not replaced at one time.
    """
    sets = [_plugins(each, _FILTER) for each in configuration.profiles if profile in ("", each.scheduler_name)]
    if not all(simulated_plugin.SECOND_NAME in names for names in sets):
        return None
    return next((each for each in configuration.remote_plugins if each.name == simulated_plugin.SECOND_NAME), None)


def _set(profile: snapshot_pb2.Profile, point: int) -> Any:
    return next((each.plugins for each in profile.plugin_sets if each.extension_point == point), ())


def _plugins(profile: snapshot_pb2.Profile, point: int) -> list[str]:
    return [each.name for each in _set(profile, point)]


def _by_files(configuration: snapshot_pb2.Configuration) -> bytes:
    """The configuration without the remote plugins' descriptions, which may change at any time."""
    said = snapshot_pb2.Configuration()
    said.CopyFrom(configuration)
    for plugin in said.remote_plugins:
        plugin.ClearField("info")
    return said.SerializeToString(deterministic=True)


def _in_force(changes: Any) -> dict[str, Any]:
    """What each part of a frontend has of the configuration."""
    built = changes._app
    context, scheduling = built.context, built.scheduling
    return {
        "what is reported": changes._current,
        "the phases' configuration": _by_files(context.settings.configuration),
        "roles": _texts(scheduling.roles),
        "membership": context.membership._completed,
        "updates of plugins": built.plugin_updates._completed,
        "the monitor": changes._monitor._completed,
        "the monitored plugins": [(plugin.config.name, plugin.config) for plugin in changes._monitor._plugins],
        "the size of batches": scheduling.limit.max_pods,
        "the delay of batches": scheduling.pacer.linger_seconds,
        "profiles": scheduling.handlers.pods.profiles,
    }


def _texts(roles: profile_roles.ProfileRoles) -> dict[str, str]:
    """The roles, as they can be compared: some are objects without equality, whose address means nothing."""
    return {field.name: _ADDRESS.sub("", str(getattr(roles, field.name))) for field in dataclasses.fields(roles)}


def _wanted(changes: Any, completed: Any) -> dict[str, Any]:
    """What each part of a frontend has to have, as far as the configuration alone decides it."""
    return {
        "what is reported": completed,
        "roles": _texts(scheduler_settings.of_configuration(completed).roles),
        "membership": completed,
        "updates of plugins": completed,
        "the monitor": completed,
        "the monitored plugins": [(plugin.name, plugin) for plugin in completed.trireme.remote_plugins],
        "the size of batches": completed.trireme.batch.max_pods,
        "the delay of batches": completed.trireme.batch.linger.seconds,
        "profiles": completed.scheduler_names,
    }
