"""The store's three promises: immutable records, one revision counter, ordered and bounded events."""

from __future__ import annotations

import dataclasses

import pytest

from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.api.resources import BY_KEY, PODS, Object
from trireme_kube.embedded.storage.store import ADDED, DELETED, MODIFIED, Event, Store

CONFIG_MAPS = BY_KEY["configmaps"]


def obj(name: str, namespace: str = "default", **fields: object) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}, **fields}


def test_every_write_takes_the_next_revision() -> None:
    """Clients compare revisions across resources; gaps or repeats would make them miss events."""
    store = Store()
    first = store.put(PODS, obj("a"))
    second = store.put(CONFIG_MAPS, obj("b"))
    gone = store.remove(PODS, "default", "a")
    assert (second.revision, gone.revision) == (first.revision + 1, first.revision + 2)
    assert gone.object["metadata"]["resourceVersion"] == str(gone.revision)


def test_a_record_stays_true_after_later_writes() -> None:
    """Pages, watches and caches hold records; a write that changed them would change history."""
    store = Store()
    first = store.put(PODS, obj("a", data=1))
    before = first.json()
    store.put(PODS, obj("a", data=2))
    store.remove(PODS, "default", "a")
    assert first.json() == before
    assert first.object["data"] == 1


def test_listeners_get_each_write_once_and_in_order() -> None:
    """Controllers and watches are driven by these calls alone."""
    store = Store()
    heard: list[Event] = []
    stop = store.listen(PODS, heard.append)
    store.put(PODS, obj("a"))
    store.put(PODS, obj("a", data=2))
    store.put(CONFIG_MAPS, obj("other"))
    store.remove(PODS, "default", "a")
    stop()
    store.put(PODS, obj("b"))
    assert [event.type for event in heard] == [ADDED, MODIFIED, DELETED]
    assert [event.before is None for event in heard] == [True, False, False]
    assert [event.revision for event in heard] == sorted(event.revision for event in heard)


def test_events_since_a_revision() -> None:
    """A watch that resumes must get exactly what it has not seen."""
    store = Store()
    revisions = [store.put(PODS, obj(f"p{index}")).revision for index in range(5)]
    assert [event.revision for event in store.events_since(PODS, revisions[2])] == revisions[3:]
    assert store.events_since(PODS, revisions[4]) == []


def test_bounded_history_reports_expired_revisions() -> None:
    """A client that asks for what is forgotten must be told to list again, not be given half."""
    store = Store(history=3)
    revisions = [store.put(PODS, obj(f"p{index}")).revision for index in range(6)]
    assert len(store.events_since(PODS, revisions[2])) == 3
    with pytest.raises(ApiError) as refusal:
        store.events_since(PODS, revisions[1])
    assert (refusal.value.code, refusal.value.reason) == (410, "Expired")


def test_compaction_forgets_everything_before_now() -> None:
    """Tests force a relist with it; a watch from the present must still work."""
    store = Store()
    old = store.put(PODS, obj("a")).revision
    store.put(PODS, obj("b"))
    store.compact()
    with pytest.raises(ApiError):
        store.events_since(PODS, old)
    assert store.events_since(PODS, store.revision) == []


def test_scan_is_ordered_and_by_namespace() -> None:
    """Lists come ordered by namespace and name, as from etcd; pages rely on it."""
    store = Store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a", "y")):
        store.put(PODS, obj(name, namespace))
    assert [record.key for record in store.scan(PODS)] == [("a", "y"), ("a", "z"), ("b", "x")]
    assert [record.name for record in store.scan(PODS, "a")] == ["y", "z"]


def test_the_oldest_go_beyond_a_resources_limit() -> None:
    """Events would fill the memory of a long run otherwise."""
    store = Store()
    limited = dataclasses.replace(BY_KEY["events"], limit=2)
    for index in range(4):
        store.put(limited, obj(f"e{index}"))
    assert [record.name for record in store.scan(limited)] == ["e2", "e3"]


def test_lookup_by_uid_follows_the_object() -> None:
    """Garbage collection asks whether an owner of that very uid lives."""
    store = Store()
    store.put(PODS, obj("a"))
    found = store.by_uid("default-a")
    assert found is not None
    assert found[1].name == "a"
    store.remove(PODS, "default", "a")
    assert store.by_uid("default-a") is None


def test_statistics_count_objects_and_listeners() -> None:
    """The status line of `trireme up` shows them."""
    store = Store()
    store.put(PODS, obj("a"))
    stop = store.listen(PODS, lambda event: None)
    assert store.statistics().objects == {"pods": 1}
    assert store.statistics().listeners == 1
    stop()
    assert store.statistics().listeners == 0
