"""The times in which shadow saw nothing new of the cluster: a watch failed, or the API server did not answer.

A watch over which nothing comes looks like that of a quiet cluster for up to 90 seconds, so the server is also read at
short intervals: a server that hangs answers none of these requests.

Also change: internal/trireme/config/leader_election.py (the deadline of a leader).
Also change: internal/trireme_kube/client/informers/list_prefetch.py (how long a silent watch may be alive).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from trireme_kube.client.informers import informer, resources
from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

log = logging.getLogger(__name__)

# How often the server is read, and how long it has for the answer: as long as a leader has for its Lease.
_PROBE_SECONDS = 5.0
_DEADLINE_SECONDS = 10.0
# So many kinds are named in the line of an interruption.
_NAMED = 2


class ServerProbe:
    """Reads one object of a collection now and then, and knows since when that has no answer."""

    def __init__(
        self,
        api: client.ApiClient,
        resource: resources.Resource,
        wall: Callable[[], float],
        *,
        deadline: float = _DEADLINE_SECONDS,
    ) -> None:
        """`wall` returns Unix seconds; `deadline` is in seconds."""
        self._api, self._resource, self._wall = api, resource, wall
        self._deadline = deadline
        #: Unix seconds of the first request without an answer; 0: the last one had an answer.
        self.silent_since = 0.0

    async def run(self) -> NoReturn:
        """Read until cancelled."""
        while True:
            await self.probe()
            await asyncio.sleep(_PROBE_SECONDS)

    async def probe(self) -> None:
        """Read once. An error that the server answers with is an answer."""
        began = self._wall()
        try:
            async with asyncio.timeout(self._deadline):
                await informer.fetch_newest_version(self._api, self._resource, self._deadline)
        except (ApiUnreachable, TimeoutError):
            self.silent_since = self.silent_since or began
            return
        except ApiError as error:
            log.debug("probe of the API server: %s", error)
        self.silent_since = 0.0


class Interruptions:
    """The interruption that lasts, if one does, and how many there were. Units: Unix seconds."""

    def __init__(self) -> None:
        self._since = 0.0  # 0: nothing is interrupted
        self._reason = ""
        self._last = 0.0, 0.0  # from and to when the last one was that is over
        self._count, self._seconds = 0, 0.0

    def update(self, problems: Mapping[str, str], silent_since: float, now: float) -> None:
        """Take the state of this moment: the last error of each kind whose watch fails, and the probe's silence."""
        if silent_since or problems:
            self._reason = _reason(problems, is_silent=bool(silent_since))
            began = silent_since or now
            if not self._since:
                log.warning("%s; it is tried again", self._reason)
            self._since = min(self._since or began, began)
        elif self._since:
            self._last = self._since, now
            self._count, self._seconds = self._count + 1, self._seconds + now - self._since
            self._since = 0.0
            log.info("the cluster is seen again")

    def lines(self, now: float) -> list[str]:
        """A line about what lasts, and one about what is over."""
        out = []
        if self._since:
            out.append(f"since {_moment(self._since)} UTC ({now - self._since:.0f} s) {self._reason}")
        if self._count:
            began, ended = self._last
            out.append(
                f"interrupted so far: {self._count} times, {self._seconds:.0f} s in all; the last time from "
                f"{_moment(began)} to {_moment(ended)} UTC"
            )
        return out


def _reason(problems: Mapping[str, str], *, is_silent: bool) -> str:
    """What is interrupted, and by which error; kinds beyond the first ones are a number."""
    silent = "the API server does not answer, so what is shown is from that time" if is_silent else ""
    if not problems:
        return silent
    names = list(problems)
    others = len(names) - _NAMED
    text = ", ".join(names[:_NAMED]) + (f" and {others} other kinds" if others > 0 else "")
    watches = f"the watch of {text} is interrupted, so what is shown of them is from that time: {problems[names[0]]}"
    return f"{silent}; {watches}" if silent else watches


def _moment(at: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(at))
