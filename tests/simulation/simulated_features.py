"""What a run has beside the usual: some of it is left out by each seed, so that what is rare meets.

A remote plugin of a profile, for one, keeps the scheduler from placing pods ahead of time in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Collection
from typing import Any

from tests.simulation.simulated_cluster import Cluster
from trireme.insight import process as insight_process
from trireme.insight import service
from trireme.phases import phase_process
from trireme.phases.process_flags import ProcessFlags
from trireme_kube.componentbase import supervision

#: By name, in how many of the runs each feature is: remote plugins in the profiles, insight, groups in one zone, pods
#: that come alone and are like those before, another number of replicas than usual, few writes a second, and filter and
#: score in the frontends' own processes.
SHARES = {
    "plugins": 0.6,
    "insight": 0.5,
    "zones": 0.5,
    "repeats": 0.5,
    "replicas": 0.4,
    "rates": 0.3,
    "in-process": 0.3,
}
# How often pods are like those before.
REPEATS = 0.6

#: The usual numbers of replicas of filter, score and bind, and the range of others.
REPLICAS, COUNTS = (2, 2, 2), (1, 2, 3)

#: The flags of replicas of bind that may send few requests to the API server.
RATES_FLAGS = ("--kube-api-qps=8", "--kube-api-burst=4")

#: The flags of frontends that know of groups in one zone.
ZONES_FLAGS = ("--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",)


def drawn(seed: int) -> tuple[str, ...]:
    """The features of the run of a seed."""
    pick = random.Random(f"features {seed}")
    return tuple(name for name, share in SHARES.items() if pick.random() < share)


def checked(names: Collection[str]) -> frozenset[str]:
    """These features. Raises: ValueError for one that there is not."""
    unknown = set(names) - SHARES.keys()
    if unknown:
        raise ValueError(f"{sorted(unknown)} are not among {sorted(SHARES)}")
    return frozenset(names)


def replicas(seed: int) -> tuple[int, ...]:
    """How many replicas of filter, score and bind a run of the seed has, if that is drawn."""
    pick = random.Random(f"replicas {seed}")
    return tuple(pick.choice(COUNTS) for _ in REPLICAS)


def build(cluster: Cluster, frontends: int, features: Collection[str], seed: int) -> None:
    """Define the processes of a cluster with these features."""
    plugins = "plugins" in features
    filters, scores, binds = replicas(seed) if "replicas" in features else REPLICAS
    if "in-process" in features:
        filters = scores = 0
    cluster.build(
        frontends,
        filters,
        scores,
        binds,
        insight=insight() if "insight" in features else None,
        second_plugin=plugins,
        plugins=plugins,
        flags_of_bind=RATES_FLAGS if "rates" in features else (),
    )


@dataclasses.dataclass(frozen=True)
class NoFlags:
    """The flags of an insight without any."""


def insight() -> phase_process.Phase[Any]:
    """Insight for the frontends alone."""

    @contextlib.asynccontextmanager
    async def serve(
        served: service.InsightService, process: ProcessFlags, own: NoFlags, supervisor: supervision.Supervisor
    ) -> AsyncIterator[None]:
        yield

    return dataclasses.replace(
        insight_process.INSIGHT, extension=phase_process.Extension(NoFlags, lambda own: (), serve)
    )
