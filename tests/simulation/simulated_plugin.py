"""Remote plugins of the simulated cluster: each keeps pods off some nodes, and may be slow, silent or wrong.

Nobody else knows which nodes these are, so a pod on one of them shows that the plugin was bypassed. The second one is
only called where the configuration has it.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.simulation.pod_demands import is_closed, is_reserved
from trireme import sdk
from trireme.rpc import grpc_server, listen_flags
from trireme.sdk import plugin_server

NAME, SECOND_NAME = "ClosedNodes", "ReservedNodes"
# How late a slow answer is, at most; the frontends wait for two seconds. Units: seconds.
_LATE_SECONDS = 4.0


class Conduct(enum.Enum):
    """How the plugin answers."""

    SOUND = "sound"
    SLOW = "slow"
    SILENT = "silent"
    WRONG = "wrong"


class RemotePlugin:
    """Refuses some nodes: which ones follows from their names."""

    NAME = ""
    REASON = ""

    def __init__(self, pick: random.Random, version: str) -> None:
        """Another `version` is another description, which the scheduler takes as a change of its configuration."""
        self.info = sdk.Info(
            self.NAME,
            version=version,
            depends_on=sdk.Dependency.NODE,
            node_data=sdk.NodeData.NAMES,
            pod_fields=("metadata.namespace",),
            events=(sdk.Event("Node", "Add"),),
        )
        self.conduct = Conduct.SOUND
        self._pick = pick

    def configure(self, configuration: sdk.Configuration) -> None:
        """Take no arguments. Raises: InvalidArguments."""
        if configuration.args:
            raise sdk.InvalidArguments({f"args.{name}": "there are none" for name in configuration.args})

    def refuses(self, node: str) -> bool:
        """Whether it keeps pods off the node."""
        raise NotImplementedError

    async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        """Refuse some."""
        match self.conduct:
            case Conduct.SLOW:
                await asyncio.sleep(self._pick.uniform(0, _LATE_SECONDS))
            case Conduct.SILENT:
                await asyncio.sleep(3600.0)
            case Conduct.WRONG if self._pick.random() < 0.5:
                raise RuntimeError("the plugin is out of order")
            case Conduct.WRONG:
                return [None] * (len(nodes) - 1)
        return [sdk.unresolvable(self.REASON) if self.refuses(node.name) else None for node in nodes]


class ClosedNodes(RemotePlugin):
    """Refuses the closed nodes."""

    NAME, REASON = NAME, "node(s) were closed"

    def refuses(self, node: str) -> bool:
        """Whether it keeps pods off the node."""
        return is_closed(node)


class ReservedNodes(RemotePlugin):
    """Refuses the reserved nodes, and says itself whether a new node helps a pod that it refused."""

    NAME, REASON = SECOND_NAME, "node(s) were reserved"

    def refuses(self, node: str) -> bool:
        """Whether it keeps pods off the node."""
        return is_reserved(node)

    async def queueing_hint(self, pod: Any, event: Any, old: Any, new: Any) -> bool:
        """Another node helps unless it is reserved."""
        return not self.refuses(new["metadata"]["name"])


async def run(plugin: RemotePlugin, listener: listen_flags.Listener) -> int:
    """Serve the plugin until SIGTERM."""

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[Sequence[grpc_server.Service]]:
        yield plugin_server.services(plugin)

    return await grpc_server.serve_until_stopped(listener, lifespan)
