"""The collection follows lists and watches."""

from hypothesis import given
from hypothesis import strategies as st

from trireme_kube.client.informers import small_collection, watch
from trireme_kube.client.informers.watch import Event, EventKind


def _listing(*names: str) -> list[Event[str]]:
    listed = [Event(EventKind.LISTED, name) for name in names]
    return [Event(EventKind.LIST_START, None), *listed, Event(EventKind.LIST_END, None)]


def _key(obj: str) -> str:
    return obj.partition("=")[0]


def test_a_new_list_drops_what_it_does_not_bring() -> None:
    """If this fails, objects deleted while we were cut off stay in the collection forever."""
    changes: list[small_collection.Change[str]] = []
    collection = small_collection.SmallCollection(_key, changes.extend)
    collection.on_events(_listing("a=1", "b=1"))
    changes.clear()
    collection.on_events(_listing("b=2", "c=1"))
    assert changes == [("b", "b=1", "b=2"), ("c", None, "c=1"), ("a", "a=1", None)]
    assert dict(collection.by_key()) == {"b": "b=2", "c": "c=1"}


def test_a_list_that_starts_over_counts_from_its_new_start() -> None:
    """If this fails, objects of an abandoned list survive though the complete one does not have them."""
    collection = small_collection.SmallCollection(_key)
    collection.on_events([Event(EventKind.LIST_START, None), Event(EventKind.LISTED, "old=1")])
    assert collection.get("old") == "old=1"
    collection.on_events(_listing("new=1"))
    assert sorted(collection) == ["new=1"]


@given(
    st.lists(st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), st.sampled_from("abc"), st.integers(0, 9)))
)
def test_the_collection_equals_a_replay_of_its_events(events: list[tuple[str, str, int]]) -> None:
    """If this fails, the collection differs from a dictionary kept by hand, or its changes do not add up to it."""
    seen: dict[str, str] = {}

    def follow(changes: list[small_collection.Change[str]]) -> None:
        for key, _, new in changes:
            if new is None:
                seen.pop(key, None)
            else:
                seen[key] = new

    collection, expected = small_collection.SmallCollection(_key, follow), {}
    for kind, name, value in events:
        if kind == "DELETED":
            expected.pop(name, None)
        else:
            expected[name] = f"{name}={value}"
        collection.on_events([Event(watch.KINDS[kind], f"{name}={value}")])
    assert dict(collection.by_key()) == expected == seen
