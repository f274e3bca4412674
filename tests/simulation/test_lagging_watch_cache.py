"""The simulated watch cache that lags answers lists as the API's rules for versions allow."""

import random
from typing import Any

import orjson
import pytest

from tests.simulation.lagging_watch_cache import LaggingWatchCache
from trireme_kube.embedded.api.resources import BY_KEY, NAMESPACES
from trireme_kube.embedded.clock_and_ids import ClockAndIds
from trireme_kube.embedded.endpoints import reads
from trireme_kube.embedded.endpoints.request_info import RequestInfo
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import Store

CONFIG_MAPS = BY_KEY["configmaps"]
_LIST = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


def _lines(reader: reads.ReadHandler, version: int) -> list[Any]:
    target = RequestInfo(CONFIG_MAPS, "default")
    request = reader.watch(target, {**_LIST, "resourceVersion": str(version)}, reads.ResponseForm(), 60.0)
    request.watcher.stop()
    return [orjson.loads(line) for line in b"".join(request.watcher._pieces).splitlines()]


@pytest.mark.parametrize("seed", range(8))
def test_a_list_from_the_past_and_what_follows_are_the_present(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation's API server loses objects, and clients are blamed for it."""
    monkeypatch.setattr(reads.ReadHandler, "watch", reads.ReadHandler.watch)  # restored after the test
    store = Store()
    registry = Registry(store, ClockAndIds(random=random.Random(seed)))
    cache = LaggingWatchCache(store, random.Random(seed))
    cache.lags = True
    registry.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    for number in range(3):
        registry.create(CONFIG_MAPS, "default", {"metadata": {"name": f"old-{number}"}})
    seen = store.revision
    registry.create(CONFIG_MAPS, "default", {"metadata": {"name": "new"}})
    registry.delete(CONFIG_MAPS, "default", "old-1", {})
    lines = _lines(reads.ReadHandler(store, lambda: 0.0, watch_buffer=100), seen)
    (end,) = (number for number, line in enumerate(lines) if line["type"] == "BOOKMARK")
    assert int(lines[end]["object"]["metadata"]["resourceVersion"]) >= seen
    names: set[str] = set()
    for line in lines[:end] + lines[end + 1 :]:
        name = line["object"]["metadata"]["name"]
        (names.discard if line["type"] == "DELETED" else names.add)(name)
    assert names == {"old-0", "old-2", "new"}
