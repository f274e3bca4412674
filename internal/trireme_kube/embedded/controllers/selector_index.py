"""An index of objects with selectors by label, to find those that select an object without a full scan.

Also change: internal/trireme_kube/embedded/controllers/owner_index.py (who indexes owned and selected objects).

Tests: tests/unit/embedded/controllers/test_endpoints.py.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from trireme_kube.embedded.api import selectors
from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.storage.store import DELETED, Event, Store

Key = tuple[str, str]
"""Namespace and name."""
_Label = tuple[str, str, str]
"""Namespace, and key and value of a label; both empty for selectors without labels."""


@dataclass(slots=True)
class SelectorEntry:
    """An indexed object's selector."""

    selector: Object
    """A metav1.LabelSelector."""
    matches: selectors.LabelPredicate = field(init=False)

    def __post_init__(self) -> None:
        # An empty selector selects nothing, since a workload that owns every pod is never intended.
        empty = not self.selector.get("matchLabels") and not self.selector.get("matchExpressions")
        self.matches = (lambda labels: False) if empty else selectors.compile_label_selector(self.selector)

    def label(self, namespace: str) -> _Label:
        """The label under which the object is indexed."""
        labels = self.selector.get("matchLabels") or {}
        key = min(labels, default="")
        return (namespace, key, labels.get(key, ""))


class SelectorIndex:
    """Indexes the objects of one resource by their selectors."""

    def __init__(self, store: Store, resource: Resource, selector_of: Callable[[Object], Object]) -> None:
        """`selector_of` returns an object's selector; an empty one selects nothing."""
        self._selector_of = selector_of
        self._selectors: dict[Key, SelectorEntry] = {}
        self._by_label: dict[_Label, dict[Key, SelectorEntry]] = {}
        store.listen(resource, self._index_written_object)

    def __bool__(self) -> bool:
        return bool(self._selectors)

    def get(self, key: Key) -> SelectorEntry | None:
        """The entry of an object, or None."""
        return self._selectors.get(key)

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Key]:
        """Keys of the objects that select an object with these labels."""
        for label in ("", ""), *labels.items():
            for key, one in self._by_label.get((namespace, *label), {}).items():
                if one.matches(labels):
                    yield key

    def _index_written_object(self, event: Event) -> None:
        """Follow a write of an object: index it under its selector, if that has changed."""
        key, namespace = event.record.key, event.record.namespace
        old = self._selectors.get(key)
        selector = self._selector_of(event.record.object)
        if event.type != DELETED and old is not None and old.selector == selector:
            return
        if old is not None:
            label = old.label(namespace)
            keys = self._by_label[label]
            del keys[key], self._selectors[key]
            if not keys:
                del self._by_label[label]
        if event.type != DELETED:
            one = self._selectors[key] = SelectorEntry(selector)
            self._by_label.setdefault(one.label(namespace), {})[key] = one
