"""The paths of what was recorded: `/v1/recorded/MILLISECONDS/` stands in place of `/v1/` in the path of a page.

Also change: console/src/moment.ts, console/src/api.ts (the moment in the address).
Also change: docs/console.md.
Also change: tools/bench/recorded_console_times.py (the paths).

Tests: tests/unit/insight/http_api/test_recorded_folder.py.
"""

import re

RECORDING = "/v1/recording"
"""From when to when there are moments."""
MOMENTS = "/v1/recorded/"

_AT_MOMENT = re.compile(rf"{MOMENTS}([0-9]{{1,16}})/(.+)")


def is_here(path: str) -> bool:
    """Whether the path, without its query, is one of these."""
    return path == RECORDING or path.startswith(MOMENTS)


def split(path: str) -> tuple[int, str] | None:
    """The moment in milliseconds since 1970, and the path of the page; None: there is no moment in the path."""
    found = _AT_MOMENT.fullmatch(path)
    return None if found is None else (int(found[1]), f"/v1/{found[2]}")
