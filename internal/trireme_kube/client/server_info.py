"""What an API server says about itself and about the time: its version, and how far our clock is from its clock.

Every user may read `/version`, and every answer of an API server has the time, in whole seconds, in its header `Date`.

Tests: tests/unit/client/test_server_info.py.
"""

import dataclasses
import email.utils
import re
from collections.abc import Callable

from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiError

DEADLINE_SECONDS = 10.0

# Longer numbers are no versions, and Python converts only so many digits.
_MINOR = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?!\d)", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class ServerInfo:
    """One answer. `version` is empty and `minor` None if the server does not say; so is `clock_ahead_seconds`."""

    version: str
    minor: tuple[int, int] | None
    #: How far our clock is ahead of the server's (negative: behind), at least; 0: they may be the same.
    clock_ahead_seconds: float | None


async def fetch(api: client.ApiClient, wall: Callable[[], float]) -> ServerInfo:
    """Ask the server; `wall` returns Unix seconds. Raises: ApiError, ApiUnreachable."""
    sent = wall()
    response = await api.get("/version", deadline=DEADLINE_SECONDS)
    received = wall()
    try:
        document = response.json()
    except ApiError:
        document = None
    text = document.get("gitVersion") if isinstance(document, dict) else None
    version = text if isinstance(text, str) else ""
    found = _MINOR.match(version)
    minor = None if found is None else (int(found[1]), int(found[2]))
    return ServerInfo(version, minor, clock_ahead(response.headers.get("Date", ""), sent, received))


def clock_ahead(date: str, sent: float, received: float) -> float | None:
    """How far our clock is ahead of the one that wrote `date` between these two times of ours; None: no date.

    The server wrote it after `sent` and before `received`, at any time of that second: what that leaves open counts as
    no difference.
    """
    try:
        theirs = email.utils.parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None  # no date, or one that no clock has
    if received < theirs:
        return received - theirs
    return max(sent - (theirs + 1.0), 0.0)
