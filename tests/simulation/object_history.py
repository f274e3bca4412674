"""The versions of each object that a scheduler may have in its cache, by resourceVersion."""

from __future__ import annotations

import collections

from trireme.cache import object_kinds
from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.storage.store import DELETED, Event, Store

# Kind, namespace and name.
Key = tuple[str, str, str]

_KINDS = frozenset({"Pod", "Node", *(kind.watched.kind for kind in object_kinds.KINDS)})
# The versions of an object that are kept, and of how many objects that were deleted: a watch may lag.
_VERSIONS, _DELETED = 32, 2000


class ObjectHistory:
    """Follows the writes of what schedulers read."""

    def __init__(self, store: Store) -> None:
        self._versions: dict[Key, dict[str, Object]] = {}
        self._deleted: collections.deque[Key] = collections.deque()
        store.listen_to_all(self._on_write)

    def _on_write(self, resource: Resource, event: Event) -> None:
        if resource.kind not in _KINDS:
            return
        record = event.record
        key = (resource.kind, record.namespace, record.name)
        if event.type == DELETED:
            self._deleted.append(key)
            if len(self._deleted) > _DELETED:
                self._versions.pop(self._deleted.popleft(), None)
            return
        versions = self._versions.setdefault(key, {})
        versions[record.object["metadata"]["resourceVersion"]] = record.object
        if len(versions) > _VERSIONS:
            del versions[next(iter(versions))]

    def get(self, key: Key, version: str) -> Object:
        """The object at this resourceVersion. Raises: LookupError, if it is not known any more."""
        return self._versions[key][version]

    def latest(self, key: Key) -> Object:
        """The object as it was last written. Raises: LookupError."""
        versions = self._versions[key]
        return versions[next(reversed(versions))]
