"""Compares what filter and score have cached with the same computed from scratch, on a snapshot made anew.

Only for plugins that answer at once: a remote one would have to be called.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tests.simulation import simulated_process, snapshot_checks
from tests.simulation.placed_pods import PlacedPods
from tests.simulation.simulated_process import Process, State
from trireme.evaluation import plugin_timer
from trireme.evaluation.filtering import filter_chain, filter_evaluator
from trireme.evaluation.scoring import score_evaluator
from trireme.filter import service as filter_service
from trireme.framework import amounts, status
from trireme.frontend import app
from trireme.score import service as score_service
from trireme.snapshot import snapshot
from trireme.v1 import snapshot_pb2
from trireme_kube.embedded.storage.store import Store


class ColumnChecks:
    """The services of all replicas of filter and score."""

    def __init__(self, store: Store, placed: PlacedPods) -> None:
        self._store = store
        self._placed = placed
        # By process, and by name of the phase: a frontend's process may serve both.
        self._services: dict[tuple[str, str], tuple[Process, Any]] = {}
        for owner in (filter_service.FilterPhase, score_service.ScorePhase):
            self._observe(owner)

    def _observe(self, owner: Any) -> None:
        original = owner.__init__

        def made(service: Any, *arguments: Any, **named: Any) -> None:
            original(service, *arguments, **named)
            process = simulated_process.current()
            assert process is not None
            self._services[process.name, owner.__name__] = (process, service)

        owner.__init__ = made

    def services(self) -> Iterator[tuple[str, Any]]:
        """Those that run, each with the name of its process."""
        for (name, _), (process, service) in self._services.items():
            if process.state is State.RUNNING:
                yield name, service

    def differences(self, leader: app.App, process: Process) -> list[str]:
        """How the replicas that are in step differ from the leader's cluster. Nothing may be under way."""
        chunks = process.context.copy().run(leader.phases.publisher.full_sync)
        snapshots: dict[Any, snapshot.Snapshot] = {}
        found: list[str] = []
        for (name, _), (own, service) in self._services.items():
            if own.state is not State.RUNNING or not service._snap.synced:
                continue
            rules = service._snap.amount_rules
            fresh = snapshots.get(rules) or snapshots.setdefault(rules, _snapshot_of(chunks, rules))
            found += snapshot_checks.differences_from_store(fresh, self._store, self._placed)
            if service._snap.generation == fresh.generation:
                found += [f"{name}: {text}" for text in snapshot_checks.differences(service._snap, fresh)]
                is_filter = isinstance(service, filter_service.FilterPhase)
                compare = _filter_differences if is_filter else _score_differences
                found += [f"{name}: {text}" for text in own.context.copy().run(compare, service, fresh)]
            else:
                found.append(f"{name} is at generation {service._snap.generation} of {fresh.generation}")
        return found


def _snapshot_of(chunks: Iterable[bytes], rules: amounts.Rules) -> snapshot.Snapshot:
    """A snapshot made anew of what a leader sends."""
    fresh = snapshot.Snapshot()
    fresh.amount_rules = rules
    for chunk in chunks:
        fresh.apply(snapshot_pb2.SyncRequest.FromString(chunk).delta)
    return fresh


def _filter_differences(service: Any, fresh: snapshot.Snapshot) -> list[str]:
    found: list[str] = []
    timer = plugin_timer.PluginTimer()
    evaluator = service._engine.evaluator
    if evaluator._cache._incarnation != service._snap.incarnation:
        return []  # not called since the snapshot was replaced: what is cached is dropped by the next call
    chains = {
        profile: filter_chain.FilterChain(chain.synchronous, chain._not_for_resizes)
        for profile, chain in service.chains.items()
    }
    anew = filter_evaluator.FilterEvaluator(fresh, chains)
    for (profile, number), cached in list(evaluator._cache._columns.items()):
        pod_class, of_profile = service._snap.classes.get(number), evaluator._profiles[profile]
        known = {plugin.name for plugin in of_profile.chain.asynchronous} <= cached.plugins.keys()
        if pod_class is None or number not in fresh.classes or not known or cached.generation < 0:
            continue
        _finish(of_profile.preparation.prepare_in_tree(pod_class, cached))
        of_profile.filter.refresh(pod_class, cached, timer)
        computed = _finish(anew.evaluate(profile, fresh.classes[number]))
        if cached.refusal is None and computed.refusal is None:
            found += _compare_verdicts(number, cached, computed, fresh)
    return found


def _compare_verdicts(number: int, cached: Any, computed: Any, fresh: snapshot.Snapshot) -> Iterator[str]:
    slots = fresh.nodes.live_slots()
    for plugin, column in computed.plugins.items():
        if column.prefilter.skip or cached.plugins[plugin].prefilter.skip:
            continue
        indices = np.stack((cached.plugins[plugin].index[slots], column.index[slots]))
        # Few pairs of an old and a new status, for many slots each.
        for at in sorted(np.unique(indices, axis=1, return_index=True)[1].tolist()) if indices.any() else ():
            then, now = (_status(each, index) for each, index in zip((cached, computed), indices[:, at], strict=True))
            if now != then:
                name = fresh.nodes.names[slots[at]]
                yield f"class {number}, {plugin} on {name}: cached {then}, computed {now}"
                return


def _status(verdicts: Any, index: int) -> str:
    if not index:
        return "passes"
    found = verdicts.table.statuses[int(index) - 1]
    return f"{found.code.name}: {found.message}"


def _score_differences(service: Any, fresh: snapshot.Snapshot) -> list[str]:
    found: list[str] = []
    evaluator = service._engine.evaluator
    anew = score_evaluator.ScoreEvaluator(fresh, service.chains)
    for profile, number in list(evaluator._cache._columns):
        pod_class = service._snap.classes.get(number)
        if pod_class is None or number not in fresh.classes or service.chains[profile].asynchronous:
            continue
        cached = _finish(evaluator.evaluate(profile, pod_class))
        computed = _finish(anew.evaluate(profile, fresh.classes[number]))
        if not isinstance(cached, status.Status) and not isinstance(computed, status.Status):
            found += _compare_scores(number, cached.plugins, computed.plugins, fresh)
    return found


def _compare_scores(
    number: int, cached: Mapping[str, Any], computed: Mapping[str, Any], fresh: snapshot.Snapshot
) -> Iterator[str]:
    slots = fresh.nodes.live_slots()
    for plugin, column in computed.items():
        if column.silent or not column.raw.size or not cached[plugin].raw.size:
            continue
        differing = slots[column.raw[slots] != cached[plugin].raw[slots]]
        if differing.size:
            slot = differing[0]
            was, now = cached[plugin].raw[slot], column.raw[slot]
            yield f"class {number}, {plugin} on {fresh.nodes.names[slot]}: cached {was}, computed {now}"
            return


def _finish(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of what does not wait."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    work.close()
    raise RuntimeError(f"{work} waits")
