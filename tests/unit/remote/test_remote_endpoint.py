"""Endpoint: which targets there may be, and over which channel calls go."""

import asyncio
from typing import Any

import pytest

from trireme.remote import remote_endpoint


class Connection:
    """A channel, which `renew` replaces if the test says so."""

    def __init__(self) -> None:
        self.replaces = False
        self.channel = Channel(0)
        self.heard: list[str] = []

    def renew(self) -> bool:
        if self.replaces:
            self.channel = Channel(self.channel.number + 1)
        return self.replaces

    async def drain(self) -> None:
        self.heard.append("drained")

    async def close(self) -> None:
        self.heard.append("closed")


class Channel:
    """Makes calls that say which channel they go over."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.made: list[str] = []

    def unary_unary(self, path: str, **_: object) -> object:
        self.made.append(path)
        return self.number, path

    def unary_stream(self, path: str, **_: object) -> object:
        self.made.append(f"stream {path}")
        return self.number, f"stream {path}"


class Dialer:
    """Opens one connection."""

    def __init__(self) -> None:
        self.connection = Connection()

    def open(self, target: str, options: object) -> Any:
        return self.connection


@pytest.mark.parametrize(
    "target",
    [
        "unix:/run/plugin.sock",
        "unix:x",
        "127.0.0.1:1",
        "plugin.default.svc:65535",
        "dns:plugin:1",
        "dns:///plugin:1",
        "dns://10.0.0.1/plugin:1",
        "[::1]:50051",
    ],
)
def test_a_target_may_be_a_socket_a_name_or_an_address(target: str) -> None:
    remote_endpoint.check_target(target, "endpoints[0]")


@pytest.mark.parametrize(
    "target", ["", "unix:", "plugin", "plugin:", "plugin:65536", "ipv4:1.2.3.4:5", "a:1:2", "::1:5"]
)
def test_another_target_is_refused_by_its_field(target: str) -> None:
    with pytest.raises(ValueError, match=r"^endpoints\[0\]: '.*' is neither host:port, dns:///name:port nor "):
        remote_endpoint.check_target(target, "endpoints[0]")


def test_calls_go_over_the_channel_that_there_is() -> None:
    """Of one that was replaced, calls would fail until the next restart."""
    dialer: Any = Dialer()
    endpoint, connection = remote_endpoint.Endpoint("a:1", dialer, 0), dialer.connection
    assert [endpoint.call("/Filter") for _ in range(2)] == [(0, "/Filter")] * 2
    assert endpoint.call("/Filter", streaming=True) == (0, "stream /Filter")
    assert connection.channel.made == ["/Filter", "stream /Filter"]
    endpoint.renew()
    assert endpoint.call("/Filter") == (0, "/Filter")
    assert len(connection.channel.made) == 2
    connection.replaces = True
    endpoint.renew()
    channel: Any = endpoint.channel
    assert (endpoint.call("/Filter"), channel.number) == ((1, "/Filter"), 1)


@pytest.mark.parametrize("most", [0, 2])
async def test_an_endpoint_is_idle_while_it_takes_another_call(most: int) -> None:
    dialer: Any = Dialer()
    endpoint = remote_endpoint.Endpoint("a:1", dialer, most)
    seen = [(endpoint.is_idle, endpoint.busy)]
    async with endpoint.turn():
        seen.append((endpoint.is_idle, endpoint.busy))
        async with endpoint.turn():
            seen.append((endpoint.is_idle, endpoint.busy))
    seen.append((endpoint.is_idle, endpoint.busy))
    assert seen == [(True, 0), (True, 1), (most == 0, 2), (True, 0)]


def test_a_long_text_of_a_plugin_is_cut_to_one_line() -> None:
    most = remote_endpoint.MAX_DETAIL
    assert remote_endpoint.one_line(" a\n  b ") == "a b"
    assert remote_endpoint.one_line("x" * most) == "x" * most
    assert remote_endpoint.one_line("x" * (most + 1)) == "x" * (most - 1) + "\N{HORIZONTAL ELLIPSIS}"


@pytest.mark.parametrize(("retires", "heard"), [(True, ["drained", "closed"]), (False, ["closed"])])
async def test_an_endpoint_that_is_gone_ends_its_calls_first_and_a_process_that_ends_does_not(
    retires: bool, heard: list[str]
) -> None:
    dialer: Any = Dialer()
    endpoint = remote_endpoint.Endpoint("a:1", dialer, 0)
    await (endpoint.retire() if retires else endpoint.close())
    assert dialer.connection.heard == heard


async def test_an_endpoint_whose_next_turn_is_taken_is_not_idle() -> None:
    dialer: Any = Dialer()
    endpoint = remote_endpoint.Endpoint("a:1", dialer, 1)
    idle: list[bool] = []

    async def take_turn() -> None:
        async with endpoint.turn():
            await asyncio.sleep(0)
            idle.append(endpoint.is_idle)
        idle.append(endpoint.is_idle)

    await asyncio.gather(*(take_turn() for _ in range(3)))
    assert idle == [False, False, False, False, False, True]
