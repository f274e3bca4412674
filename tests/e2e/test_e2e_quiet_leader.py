"""A leader that has nothing to schedule while a large cluster changes, and then gets a pod."""

import asyncio
import time
from typing import Any

import pytest

from tests.e2e import clusters
from tests.e2e.installation import pod

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]

NODES = 2000
IMAGES_PER_NODE = 50
QUIET_SECONDS = 3.0
BOUND_SECONDS = 1.0


def _images(number: int) -> list[dict[str, Any]]:
    """What a kubelet reports: some 9 KB a node, so that all of it exceeds what one message may have."""
    return [
        {
            "names": [
                f"registry.example.com/team/application-{(number + step) % 300}@sha256:{(number + step) % 300:064x}",
                f"registry.example.com/team/application-{(number + step) % 300}:v1.{step}",
            ],
            "sizeBytes": 100 << 20,
        }
        for step in range(IMAGES_PER_NODE)
    ]


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_a_pod_after_a_quiet_time_is_bound_within_a_second(cluster: clusters.OpenCluster) -> None:
    """If this fails, the first pod after a quiet time waits until replicas have all that they missed.

    Where that is too much for one message, it waits forever.
    """
    async with cluster(nodes=NODES, cpu="4") as here:
        await here.start()
        names = enumerate([node["metadata"]["name"] for node in await here.nodes()])

        async def report() -> None:
            for number, name in names:
                await here.request(
                    "PATCH",
                    f"/api/v1/nodes/{name}/status",
                    {"status": {"images": _images(number)}},
                    "application/merge-patch+json",
                )

        await asyncio.gather(*(report() for _ in range(8)))
        await asyncio.sleep(QUIET_SECONDS)
        began = time.monotonic()
        await here.create_pods([pod("late")])
        await here.bound(1, seconds=30)
        assert time.monotonic() - began < BOUND_SECONDS
