"""Which objects of one kind select others by their labels: found by a label, without a search through all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from trireme_kube.embedded import selection
from trireme_kube.embedded.resources import Resource
from trireme_kube.embedded.store import DELETED, Event, Object, Store

Key = tuple[str, str]
"""Namespace and name."""
_Label = tuple[str, str, str]
"""Namespace, and key and value of a label; both empty for selectors without labels."""


@dataclass(slots=True)
class Selecting:
    """What is known of an object with a selector."""

    selector: Object
    """A metav1.LabelSelector."""
    matches: selection.LabelPredicate = field(init=False)

    def __post_init__(self) -> None:
        # An empty selector selects nothing: a workload that took every pod would be no use to anybody.
        empty = not self.selector.get("matchLabels") and not self.selector.get("matchExpressions")
        self.matches = (lambda labels: False) if empty else selection.compile_selector(self.selector)

    def label(self, namespace: str) -> _Label:
        """Under which the object is found."""
        labels = self.selector.get("matchLabels") or {}
        key = min(labels, default="")
        return (namespace, key, labels.get(key, ""))


class SelectorIndex:
    """The objects of one resource by what they select."""

    def __init__(self, store: Store, resource: Resource, selector_of: Callable[[Object], Object]) -> None:
        """`selector_of` answers an object's selector, the empty one where it selects nothing."""
        self._selector_of = selector_of
        self._selectors: dict[Key, Selecting] = {}
        self._by_label: dict[_Label, dict[Key, Selecting]] = {}
        store.listen(resource, self._on_event)

    def __bool__(self) -> bool:
        return bool(self._selectors)

    def get(self, key: Key) -> Selecting | None:
        """What is known of an object."""
        return self._selectors.get(key)

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Key]:
        """Keys of the objects that select something with these labels."""
        for label in ("", ""), *labels.items():
            for key, one in self._by_label.get((namespace, *label), {}).items():
                if one.matches(labels):
                    yield key

    def _on_event(self, event: Event) -> None:
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
            one = self._selectors[key] = Selecting(selector)
            self._by_label.setdefault(one.label(namespace), {})[key] = one
