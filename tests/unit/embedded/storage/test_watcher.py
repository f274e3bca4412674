"""One watch: what its client gets, as what, and when it is cut off."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.helpers.embedded_harness import create, make_registry, pod
from trireme_kube.embedded.api import selectors
from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.api.resources import PODS
from trireme_kube.embedded.endpoints import patches
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import bind
from trireme_kube.embedded.storage.watcher import Watcher


@pytest.fixture
def registry() -> Registry:
    return make_registry()


async def events(watcher: Watcher) -> list[tuple[str, str]]:
    """Type and name of the events that are waiting."""
    taken = await watcher.take_lines(0)
    lines = [orjson.loads(line) for line in (taken or b"").splitlines()]
    return [(line["type"], line["object"]["metadata"]["name"]) for line in lines]


def label(registry: Registry, name: str, labels: dict[str, Any]) -> None:
    change = {"metadata": {"labels": labels}}
    registry.edit_object(PODS, "default", name, lambda obj: patches.apply_merge_patch(obj, change))


async def test_from_now_on(registry: Registry) -> None:
    """A watch after a list gets the list's successors and nothing else."""
    create(registry, "pods", pod("old"))
    watcher = Watcher(registry.store, PODS)
    watcher.start(since=registry.store.revision)
    create(registry, "pods", pod("new"))
    assert await events(watcher) == [("ADDED", "new")]
    watcher.stop()
    create(registry, "pods", pod("later"))
    assert await events(watcher) == []


async def test_present_objects_first(registry: Registry) -> None:
    """Without a version a watch begins with what there is."""
    create(registry, "pods", pod("b"))
    create(registry, "pods", pod("a"))
    watcher = Watcher(registry.store, PODS)
    watcher.start(since=None)
    assert await events(watcher) == [("ADDED", "a"), ("ADDED", "b")]


async def test_resuming_misses_nothing(registry: Registry) -> None:
    """After a dropped connection the client comes back with the last version that it saw."""
    seen = registry.store.revision
    create(registry, "pods", pod("a"))
    registry.delete(PODS, "default", "a")
    watcher = Watcher(registry.store, PODS)
    watcher.start(since=seen)
    assert [kind for kind, _ in await events(watcher)] == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_version_that_is_too_old(registry: Registry) -> None:
    """The client must list again then."""
    seen = registry.store.revision
    create(registry, "pods", pod("a"))
    registry.store.compact()
    watcher = Watcher(registry.store, PODS)
    with pytest.raises(ApiError) as refusal:
        watcher.start(since=seen)
    assert refusal.value.code == 410


async def test_objects_enter_and_leave_a_selector(registry: Registry) -> None:
    """A watch of pods without a node sees a bound pod as deleted, with the binding's version."""
    unassigned = selectors.predicate(PODS, "", "spec.nodeName=")
    watcher = Watcher(registry.store, PODS, matches=unassigned)
    watcher.start(since=registry.store.revision)
    create(registry, "pods", pod("p"))
    bind(registry, "default", "p", {"target": {"name": "n"}})
    first, second = [orjson.loads(line) for line in (await watcher.take_lines(0) or b"").splitlines()]
    assert (first["type"], second["type"]) == ("ADDED", "DELETED")
    assert "nodeName" not in second["object"]["spec"]
    assert second["object"]["metadata"]["resourceVersion"] == str(registry.store.revision)


@pytest.mark.parametrize(
    ("labels", "seen"),
    [
        pytest.param([{"a": "1"}], ["ADDED"], id="enters"),
        pytest.param([{"b": "1"}], [], id="stays out"),
        pytest.param([{"a": "1"}, {"b": "2"}], ["ADDED", "MODIFIED"], id="changes within"),
        pytest.param([{"a": "1"}, {"a": None}], ["ADDED", "DELETED"], id="leaves"),
        pytest.param([{"a": "1"}, {"a": None}, {"a": "1"}], ["ADDED", "DELETED", "ADDED"], id="comes back"),
    ],
)
async def test_transitions_of_a_label_selector(registry: Registry, labels: list[Any], seen: list[str]) -> None:
    """A cache that follows a selector must hold exactly what matches."""
    create(registry, "pods", pod("p"))
    watcher = Watcher(registry.store, PODS, matches=selectors.predicate(PODS, "a=1", ""))
    watcher.start(since=registry.store.revision)
    for one in labels:
        label(registry, "p", one)
    assert [kind for kind, _ in await events(watcher)] == seen


async def test_other_namespaces_are_not_seen(registry: Registry) -> None:
    """A namespaced watch must not show others' objects."""
    watcher = Watcher(registry.store, PODS, namespace="kube-node-lease")
    watcher.start(since=registry.store.revision)
    create(registry, "pods", pod("p"))
    create(registry, "pods", pod("q", namespace="kube-node-lease"), "kube-node-lease")
    assert await events(watcher) == [("ADDED", "q")]


async def test_a_client_that_falls_behind_is_cut_off(registry: Registry) -> None:
    """The buffer is bounded; the client has to come back, as with the real server."""
    watcher = Watcher(registry.store, PODS, limit=3)
    watcher.start(since=registry.store.revision)
    for index in range(5):
        create(registry, "pods", pod(f"p{index}"))
    assert watcher.ended
    assert await watcher.take_lines(0) is None


async def test_initial_objects_do_not_count_as_falling_behind(registry: Registry) -> None:
    """A cluster larger than the buffer must be watchable."""
    for index in range(5):
        create(registry, "pods", pod(f"p{index}"))
    watcher = Watcher(registry.store, PODS, limit=3)
    watcher.start(since=None)
    create(registry, "pods", pod("new"))
    assert len(await events(watcher)) == 6


async def test_waiting_ends_with_time_or_with_the_watch(registry: Registry) -> None:
    """The server sends bookmarks when time passes, and closes when the watch ends."""
    watcher = Watcher(registry.store, PODS)
    watcher.start(since=registry.store.revision)
    assert await watcher.take_lines(0) == b""
    watcher.send_line(b"bookmark\n")
    watcher.end()
    assert await watcher.take_lines(0) == b"bookmark\n"
    assert await watcher.take_lines(0) is None
