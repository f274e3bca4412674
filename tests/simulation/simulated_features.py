"""What a run has beside the usual: some of it is left out by each seed, so that what is rare meets.

A remote plugin of a profile, for one, keeps the scheduler from placing pods ahead of time in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Collection
from typing import Any

from trireme.insight import process as insight_process
from trireme.insight import service
from trireme.phases import phase_process
from trireme.phases.process_flags import ProcessFlags
from trireme_kube.componentbase import supervision

#: By name, in how many of the runs each feature is: remote plugins in the profiles, insight, groups in one zone, and
#: pods that come alone and are like those before.
SHARES = {"plugins": 0.6, "insight": 0.5, "zones": 0.5, "repeats": 0.5}
# How often pods are like those before.
REPEATS = 0.6

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
