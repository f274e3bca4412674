"""What plugins read is in the cache before they are called, also if an attempt to read it was given up."""

import asyncio
from typing import Any
from unittest import mock

import pytest

from trireme.frontend import plugin_updates
from trireme.v1 import plugin_pb2


class _Informer:
    """An informer whose first list does not come."""

    def __init__(self) -> None:
        self.lists = 0
        self.request_json = mock.Mock()

    async def relist(self) -> None:
        self.lists += 1
        if self.lists == 1:
            await asyncio.Event().wait()


class _PodReads:
    """Plugins read more once, and the same from then on."""

    def __init__(self) -> None:
        self._extended = False

    def extend(self, *_: Any) -> bool:
        extended, self._extended = self._extended, True
        return not extended


@pytest.mark.parametrize("kind", ["pods", "nodes"])
async def test_a_list_that_was_given_up_is_made_at_the_next_attempt(kind: str) -> None:
    informer = _Informer()
    nodes = mock.Mock(enabled=kind == "pods")
    reads = _PodReads() if kind == "pods" else mock.Mock(extend=lambda *_: False)
    unused = dict.fromkeys(
        ("completed", "membership", "settings", "leader", "answers", "links", "streams", "queue"),
        mock.Mock(),
    )
    updates = plugin_updates.PluginUpdates(
        registry=mock.Mock(),
        reads=reads,
        nodes=nodes,
        pod_informer=informer,
        node_informer=informer,
        **unused,
    )
    infos = {"P": plugin_pb2.PluginInfo(node_data=plugin_pb2.NODE_DATA_JSON)}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await updates.read_more(infos)
    await updates.read_more(infos)
    await updates.read_more(infos)
    assert informer.lists == 2
