"""The version and the clock of an API server, from one answer."""

import asyncio
from typing import Any

import pytest

from trireme_kube.client import server_info
from trireme_kube.client.rest import client

NOON = "Mon, 30 Nov 2026 12:00:00 GMT"
AT_NOON = 1796040000.0


@pytest.mark.parametrize(
    ("date", "sent", "received", "ahead"),
    [
        (NOON, AT_NOON, AT_NOON + 0.2, 0.0),
        (NOON, AT_NOON + 0.9, AT_NOON + 1.5, 0.0),
        (NOON, AT_NOON - 3.0, AT_NOON + 30.0, 0.0),
        (NOON, AT_NOON + 61.0, AT_NOON + 62.0, 60.0),
        (NOON, AT_NOON - 61.0, AT_NOON - 60.0, -60.0),
        ("", AT_NOON, AT_NOON, None),
        ("yesterday", AT_NOON, AT_NOON, None),
        ("Mon, 30 Nov 99999999999 12:00:00 GMT", AT_NOON, AT_NOON, None),
    ],
    ids=["same", "within its second", "a slow answer says nothing", "ahead", "behind", "no date", "no time", "no year"],
)
def test_clocks_differ_by_what_neither_rounding_nor_the_way_explains(
    date: str, sent: float, received: float, ahead: float | None
) -> None:
    """If this fails, a slow API server looks like a wrong clock."""
    assert server_info.clock_ahead(date, sent, received) == ahead


@pytest.mark.parametrize(
    ("body", "version", "minor"),
    [
        (b'{"gitVersion": "v1.37.2"}', "v1.37.2", (1, 37)),
        (b'{"gitVersion": "v1.38.0-beta.0+k3s1"}', "v1.38.0-beta.0+k3s1", (1, 38)),
        (b'{"gitVersion": "unknown"}', "unknown", None),
        (b'{"gitVersion": 5}', "", None),
        (b'{"gitVersion": "v1.%s"}' % (b"9" * 5000), f"v1.{'9' * 5000}", None),
        (b"[]", "", None),
        (b"<html>", "", None),
    ],
)
def test_the_version_is_read_if_there_is_one(body: bytes, version: str, minor: tuple[int, int] | None) -> None:
    class Api:
        async def get(self, path: str, deadline: float) -> client.ApiResponse:
            """As ApiClient.get."""
            return client.ApiResponse(200, {"Date": NOON}, body)

    api: Any = Api()
    found = asyncio.run(server_info.fetch(api, lambda: AT_NOON + 31.0))
    assert found == server_info.ServerInfo(version, minor, 30.0)
