"""Looks now and then whether the API server is of a version that this release knows, and whether its clock is ours.

Neither keeps pods from being scheduled: what a server lacks is off, and times of the scheduler are its own. So both are
warnings of /readyz, which the log has too. A clock that is wrong makes certificates look expired, or not valid yet.

Also change: docs/kubernetes-versions.md, docs/troubleshooting.md, docs/tutorials/replacing.md.

Tests: tests/unit/frontend/test_api_server_check.py.
"""

import asyncio
import contextlib
from collections.abc import Callable

from trireme_kube.client import server_info
from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable
from trireme_kube.componentbase import documents
from trireme_kube.componentbase.cli import versions

CHECK_SECONDS = 60.0
# Smaller differences harm nobody: certificates are renewed hours before their end.
TOLERATED_SECONDS = 5.0

_OLDEST = versions.OLDEST
# Kubernetes updates API servers before schedulers, by one minor version.
_NEWEST = (versions.BINARY.minor[0], versions.BINARY.minor[1] + 1)


class ApiServerCheck:
    """The last answer of the API server, and what is wrong with it."""

    def __init__(self, api: client.ApiClient, wall: Callable[[], float]) -> None:
        """`wall` returns Unix seconds."""
        self._api = api
        self._wall = wall
        self._info = server_info.ServerInfo("", None, None)

    @property
    def clock_ahead_seconds(self) -> float | None:
        """How far our clock is ahead of the API server's, None while that is not known."""
        return self._info.clock_ahead_seconds

    async def run(self) -> None:
        """Ask the API server again and again, until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Ask the API server; without an answer nothing changes, as informers and the election report that."""
        with contextlib.suppress(ApiError, ApiUnreachable):
            self._info = await server_info.fetch(self._api, self._wall)

    def clock_problem(self) -> str:
        """How the clocks differ and what to do; empty: they agree, or it is not known."""
        ahead = self._info.clock_ahead_seconds
        if ahead is None or abs(ahead) <= TOLERATED_SECONDS:
            return ""
        return (
            f"the clock of this host is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} that of the API "
            f"server: synchronize both hosts ({documents.CLOCKS_THAT_DIFFER})"
        )

    def version_problem(self) -> str:
        """Which version is not supported and what to do; empty: it is, or it is not known."""
        minor = self._info.minor
        if minor is None or _OLDEST <= minor <= _NEWEST:
            return ""
        supported = f"{_text(_OLDEST)} to {_text(_NEWEST)}"
        what = "upgrade the cluster" if minor < _OLDEST else "upgrade Trireme"
        return (
            f"the API server is of version {self._info.version}, and this release supports {supported}: {what} "
            f"({documents.CONTROL_PLANES})"
        )


def _text(minor: tuple[int, int]) -> str:
    return f"{minor[0]}.{minor[1]}"
