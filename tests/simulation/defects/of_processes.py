"""Defects of clocks, elections, configurations, and of what a frontend learns from the API server."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from tests.simulation.defects import mutations
from tests.simulation.defects.registry import defect


@defect("compact", "drop_watches", "cut", "lag", found_by="a cache differs from the API server at rest")
def expired_watch_goes_on() -> None:
    """A watch whose version has expired goes on from the newest instead of listing again."""
    from trireme_kube.client.informers.listwatch import State
    from trireme_kube.client.rest.errors import ApiError

    def failed(original: Any, self: Any, error: Any) -> Any:
        if isinstance(error, ApiError) and error.expired and self.state is State.WATCHING:
            self._version_text = ""
            return []
        return original(self, error)

    mutations.replace("ListWatch.failed", failed)


@defect("delete_lease", "pause_leader", seed=4, found_by="a holder that renews its Lease loses it")
def lease_taken_back() -> None:
    """A leader whose Lease another one holds takes it back and goes on."""
    from trireme_kube.client.leaderelection.election import Phase

    def decide(original: Any, self: Any, now: float, lease: Any) -> Any:
        if self.phase is Phase.LEADING and lease.holder:
            lease = dataclasses.replace(lease, holder=self._settings.identity)
        return original(self, now, lease)

    mutations.replace("Election._decide_on_lease_read", decide)


@defect("late_watches", seed=141, found_by="a leader does not know what was bound before it led")
def no_catching_up() -> None:
    """A new leader schedules before it has seen what the former one wrote."""

    async def catch_up(original: Any, self: Any) -> None:
        pass

    mutations.replace("LeadershipRunner._catch_up", catch_up)


@defect("drop_watches", "compact", "kill", found_by="pods stay pending that fit")
def relist_forgets_deletions() -> None:
    """After a watch was lost, what was deleted meanwhile stays in the cache."""

    def on_list_marker(original: Any, self: Any, kind: Any, name: str, known: Any, remove: Any) -> None:
        original(self, kind, name, known, lambda gone: None)

    mutations.replace("RelistTracker.on_list_marker", on_list_marker)


@defect("reload_configuration", "disturb_plugin", load="busy", found_by="the configuration is replaced during a cycle")
def reload_in_a_cycle() -> None:
    """A configuration is put in force though a scheduling cycle is under way."""

    def between_cycles(original: Any, self: Any) -> Any:
        return contextlib.nullcontext()

    mutations.replace("Scheduler.between_cycles", between_cycles)


@defect("reload_configuration", load="light", found_by="a configuration is in force in part")
def reload_in_part() -> None:
    """A reload leaves out which profiles and plugins the scheduling cycle knows."""
    mutations.drop_calls("Scheduling.configure", "roles.replace")


@defect("step_wall_clock", "pause_leader", nodes=6, load="light", found_by="a holder that renews its Lease loses it")
def wall_clock_in_the_election() -> None:
    """The election's clock is the wall clock.

    A candidate whose clock is set forward takes a Lease that is being renewed.
    """
    from trireme_kube.componentbase import clocks

    def init(original: Any, *arguments: Any, **named: Any) -> None:
        original(*arguments, **{**named, "clock": clocks.wall})

    mutations.replace("LeaseElector.__init__", init)


@defect("step_wall_clock", "disturb_plugin", found_by="status says what is not so")
def wall_clock_in_the_queue() -> None:
    """The queue's clock is the wall clock: who backs off while it is set back does so for an hour."""
    from trireme_kube.componentbase import clocks

    def steady(original: Any) -> float:
        return clocks.wall()

    mutations.replace("clocks.steady", steady)
