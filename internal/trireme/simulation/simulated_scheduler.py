"""The scheduler of a simulation: evaluators in this process, writes in memory, and a clock that is moved by hand.

Tests: tests/unit/simulation/test_scenarios.py, tests/contract/test_simulate_process.py.
"""

import random
from collections.abc import Callable, Sequence

from trireme.cache import cluster_cache, object_waits
from trireme.config import gates, scheduler_configuration
from trireme.scheduling import (
    assembly,
    in_memory,
    ports,
    profile_roles,
    scheduler_parts,
    scheduler_ports,
    scheduler_settings,
)

# By how much the clock moves with a reading. Units: seconds.
_STEP = 1e-6


class SteppedClock:
    """A clock that is moved by hand, in Unix seconds, and a little with each reading: what is later has a later time.

    The queue orders pods by when their attempts ended, and by when they may be tried again.
    """

    def __init__(self, now: float) -> None:
        self.time = now

    def now(self) -> float:
        """The time, later than the time before."""
        self.time += _STEP
        return self.time


def assemble(
    cache: cluster_cache.ClusterCache,
    publish: Callable[[], int],
    evaluators: ports.Evaluators,
    effects: ports.Effects,
    *,
    profiles: Sequence[scheduler_configuration.CompletedProfile],
    features: gates.FeatureGates,
    clock: SteppedClock,
) -> scheduler_parts.Scheduling[in_memory.QueueCaller]:
    """The scheduler over this cache. `publish` brings what the evaluators see up to date; returns its generation."""
    return assembly.assemble(
        scheduler_settings.SchedulerSettings(
            profiles=profiles,
            features=features,
            roles=profile_roles.roles_of(profiles, features),
            scheduler_names=frozenset(profile.scheduler_name for profile in profiles),
        ),
        scheduler_ports.SchedulerPorts(
            cache=cache,
            waits=object_waits.ObjectWaits(),
            evaluation=scheduler_ports.EvaluationPorts(evaluators, publish, None, lambda: True, in_memory.BindingLog()),
            effects=effects,
            queue_plugins=in_memory.queue_plugins(),
            observer=in_memory.observer(),
            clocks=ports.Clocks(clock.now, clock.now, clock.now),
            randomness=random.Random(cache.generation).random,
        ),
    )
