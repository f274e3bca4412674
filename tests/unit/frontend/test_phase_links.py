"""The links of all phases: who is there, who is gone, and what each of them is told."""

import asyncio
import types
from typing import Any

import pytest

from tests.helpers.virtual_time import on_virtual_time
from trireme.frontend.phase_clients import follower_replicas, phase_links
from trireme.rpc import dialing


class Link:
    """A link that notes what it is told."""

    def __init__(self, address: str, heard: list[str]) -> None:
        self.address = address
        self._heard = heard
        self.in_step = self.synced = self.streaming = False

    def restart(self) -> None:
        self._heard.append(f"restart {self.address}")

    async def drain(self) -> None:
        self._heard.append(f"drain {self.address}")

    async def close(self) -> None:
        self._heard.append(f"close {self.address}")


def replicas_of(*addresses: str) -> tuple[follower_replicas.FollowerReplicas, list[str]]:
    source: Any = types.SimpleNamespace()
    replicas = follower_replicas.FollowerReplicas("filter", source, dialing.Dialer(), 1.0, lambda: 0.0, lambda: None)
    heard: list[str] = []
    made: Any = {address: Link(address, heard) for address in addresses}
    replicas._links = made
    replicas._tasks = {address: replicas.supervisor.keep(address, _forever) for address in addresses}
    return replicas, heard


async def _forever() -> None:
    await asyncio.Event().wait()


@on_virtual_time
async def test_all_replicas_whose_addresses_are_gone_are_drained_and_closed() -> None:
    replicas, heard = replicas_of("a:1", "b:1", "c:1")
    replicas.set_endpoints(["b:1"])
    await asyncio.sleep(1)
    assert sorted(heard) == ["close a:1", "close c:1", "drain a:1", "drain c:1"]
    assert list(replicas._links) == ["b:1"]
    await replicas.close()
    assert "close b:1" in heard


@pytest.mark.parametrize("with_insight", [True, False])
@on_virtual_time
async def test_each_phase_is_told_of_another_configuration_and_closed(with_insight: bool) -> None:
    filters, heard_by_filter = replicas_of("f:1", "f:2")
    scores, heard_by_score = replicas_of("s:1", "s:2")
    explaining, heard_by_insight = replicas_of("i:1", "i:2")
    binder = types.SimpleNamespace(heard=[], available=False)
    binder.announce_again = lambda: binder.heard.append("announced")

    async def close() -> None:
        binder.heard.append("closed")

    binder.close = close
    insight: Any = types.SimpleNamespace(replicas=explaining) if with_insight else None
    as_binders: Any = binder
    links = phase_links.PhaseLinks(filters, scores, as_binders, insight)
    assert list(links.followers()) == ["filter", "score", *(["insight"] if with_insight else [])]
    assert (links.available(), links.missing()) == (False, ["filter", "score", "bind"])
    links.restart()
    assert heard_by_filter == ["restart f:1", "restart f:2"]
    assert heard_by_score == ["restart s:1", "restart s:2"]
    assert heard_by_insight == (["restart i:1", "restart i:2"] if with_insight else [])
    await links.close()
    assert "close s:2" in heard_by_score
    assert binder.heard == ["announced", "closed"]
