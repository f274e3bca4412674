"""Whether the API server serves LeaseCandidates, which coordinated leader election needs.

The request is repeated until there is an answer (the server may be busy or unreachable, or forbid it): a frontend that
assumed LeaseCandidates would wait to be elected by a server that elects nobody. A server without them is checked again
every few minutes, as it may be upgraded. That they are served is final.

Tests: tests/contract/test_frontend_elector.py.
"""

import asyncio
import logging

from trireme_kube.client.informers import discovery, informer
from trireme_kube.client.leaderelection import lease_candidate
from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import FORBIDDEN, ApiError, ApiUnreachable, with_advice

log = logging.getLogger(__name__)

UNKNOWN_PAUSE_SECONDS = 5.0
ABSENT_PAUSE_SECONDS = 300.0


class CandidatesApi:
    """Checks whether the API server serves LeaseCandidates; `served` is set once it does."""

    def __init__(self, settings: client.ClientSettings) -> None:
        """It connects with `settings` for each question."""
        self._settings = settings
        self._answered = asyncio.Event()
        self.served = asyncio.Event()

    @property
    def absent(self) -> bool:
        """Whether they were not served when the server last said; False before it has."""
        return self._answered.is_set() and not self.served.is_set()

    async def wait_until_known(self) -> bool:
        """Return whether they are served, once the server has said so or the opposite."""
        await self._answered.wait()
        return self.served.is_set()

    async def run(self) -> None:
        """Ask until they are served."""
        while not self.served.is_set():
            pause = ABSENT_PAUSE_SECONDS
            try:
                if await self._are_served():
                    self.served.set()
                    pause = 0.0
                self._answered.set()
            except (ApiError, ApiUnreachable) as error:
                pause = UNKNOWN_PAUSE_SECONDS
                api, why = lease_candidate.CANDIDATES.api, with_advice(error)
                log.warning(
                    "whether the API server serves %s is unknown: %s; the request is sent again in %d s",
                    api,
                    why,
                    pause,
                )
            await asyncio.sleep(pause)

    async def _are_served(self) -> bool:
        """Ask discovery, or the collection itself if we may not read discovery.

        Raises: ApiError, ApiUnreachable: the server did not say.
        """
        async with await client.connect(self._settings) as connection:
            try:
                return await discovery.is_served(connection, lease_candidate.CANDIDATES)
            except ApiError as error:
                if error.status != FORBIDDEN:
                    raise
            try:
                await informer.fetch_newest_version(connection, lease_candidate.CANDIDATES, discovery.DEADLINE_SECONDS)
            except ApiError as error:
                if error.not_found:
                    return False
                raise
            return True
