"""A remote plugin of the simulated cluster: it keeps pods off some nodes, and may be slow, silent or wrong.

Nobody else knows which nodes these are, so a pod on one of them shows that the plugin was bypassed.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pod_demands import is_closed

from trireme import sdk
from trireme.rpc import grpc_server, listen_flags
from trireme.sdk import serving

NAME = "ClosedNodes"
# How late a slow answer is, at most; the frontends wait for two seconds. Units: seconds.
_LATE_SECONDS = 4.0


class Conduct(enum.Enum):
    """How the plugin answers."""

    SOUND = "sound"
    SLOW = "slow"
    SILENT = "silent"
    WRONG = "wrong"


class ClosedNodes:
    """Refuses the closed nodes."""

    def __init__(self, pick: random.Random, version: str) -> None:
        """Another `version` is another description, which the scheduler takes as a change of its configuration."""
        self.info = sdk.Info(
            NAME,
            version=version,
            depends_on=sdk.Dependency.NODE,
            node_data=sdk.NodeData.NAMES,
            pod_fields=("metadata.namespace",),
            events=(sdk.Event("Node", "Add"),),
        )
        self.conduct = Conduct.SOUND
        self._pick = pick

    async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        """Refuse the closed ones."""
        match self.conduct:
            case Conduct.SLOW:
                await asyncio.sleep(self._pick.uniform(0, _LATE_SECONDS))
            case Conduct.SILENT:
                await asyncio.sleep(3600.0)
            case Conduct.WRONG if self._pick.random() < 0.5:
                raise RuntimeError("the plugin is out of order")
            case Conduct.WRONG:
                return [None] * (len(nodes) - 1)
        return [sdk.unresolvable("node(s) were closed") if is_closed(node.name) else None for node in nodes]


async def run(plugin: ClosedNodes, host: str, port: int) -> int:
    """Serve the plugin until SIGTERM."""

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[Sequence[grpc_server.Service]]:
        yield serving.services(plugin)

    return await grpc_server.serve_until_stopped(listen_flags.make_listener(f"{host}:{port}"), lifespan)
