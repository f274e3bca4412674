"""The objects other than nodes and pods that plugins read: claims, volumes, services, budgets and others.

They include the frontend's assumptions. Each kind has its own generation, so that a plugin's cached result is dropped
only when a kind that it reads has changed. Objects of a kind are iterated in the order of their keys: a plugin's choice
among them must not depend on the replica's order of events.

Caches derived from many objects update only those that changed (`changed_since`).

Tests: tests/unit/snapshot/test_tables_against_models.py, tests/unit/snapshot/test_forks.py,
tests/unit/recording/test_full_state.py.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from trireme.v1 import snapshot_pb2

Key = tuple[str, str]  # namespace, name

# The log of changes includes deleted objects; it restarts when longer than this plus twice the existing objects.
_LOG_SLACK = 1024


class ObjectTable:
    """Objects by kind (the field's name in trireme.v1.ClusterObject.object) and key."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[Key, Any]] = {}
        self._ordered: dict[str, list[Any]] = {}
        # By kind and namespace; both are made where they are read.
        self._of_namespaces: dict[str, dict[str, list[Any]]] = {}
        self._generations: dict[str, int] = {}
        # By kind, the generation of each key's last change, oldest first; complete for changes after `_logged_from`.
        self._log: dict[str, dict[Key, int]] = {}
        self._logged_from: dict[str, int] = {}
        # By kind, the assumed objects, and the pod group that may share each assumption; empty for none.
        self._assumed: dict[str, dict[Key, str]] = {}
        # The kinds whose tables are those of a fork too, or of what was forked: copied before a change.
        self._shared: set[str] = set()

    def fork(self) -> "ObjectTable":
        """The same objects, which are not changed by changes of this table, nor these by it."""
        out = ObjectTable()
        out._kinds, out._log, out._assumed = self._kinds.copy(), self._log.copy(), self._assumed.copy()
        out._ordered, out._of_namespaces = self._ordered.copy(), self._of_namespaces.copy()
        out._generations = self._generations.copy()
        out._logged_from = self._logged_from.copy()
        self._shared = set(self._log)  # each kind that there has been
        out._shared = self._shared.copy()
        return out

    def _own_kind(self, kind: str) -> None:
        """Copy what is shared of the kind, before a change."""
        if kind in self._shared:
            self._shared.discard(kind)
            for of_kind in (self._kinds, self._log, self._assumed):
                if kind in of_kind:
                    of_kind[kind] = of_kind[kind].copy()  # type: ignore[assignment]

    def upsert(self, entry: snapshot_pb2.ClusterObject, generation: int) -> None:
        """Add or update an object."""
        kind = entry.WhichOneof("object")
        if kind is None:
            return
        value = getattr(entry, kind)
        key = (value.metadata.namespace, value.metadata.name)
        self._own_kind(kind)
        self._kinds.setdefault(kind, {})[key] = value
        if entry.assumed:
            self._assumed.setdefault(kind, {})[key] = entry.open_to_group
        elif kind in self._assumed:
            self._assumed[kind].pop(key, None)
        self._record_change(kind, key, generation)

    def remove(self, key: snapshot_pb2.ObjectKey, generation: int) -> None:
        """Remove an object."""
        self._own_kind(key.kind)
        self._kinds.get(key.kind, {}).pop((key.namespace, key.name), None)
        self._assumed.get(key.kind, {}).pop((key.namespace, key.name), None)
        self._record_change(key.kind, (key.namespace, key.name), generation)

    def get(self, kind: str, namespace: str, name: str) -> Any:
        """The object, or None."""
        return self._kinds.get(kind, {}).get((namespace, name))

    def is_assumed(self, kind: str, namespace: str, name: str) -> bool:
        """Whether the object is an assumption that the informer has not confirmed."""
        return (namespace, name) in self._assumed.get(kind, ())

    def sharing_group(self, kind: str, namespace: str, name: str) -> str:
        """The PodGroup whose pods may share the assumption about the object; empty for none."""
        return self._assumed.get(kind, {}).get((namespace, name), "")

    def all(self, kind: str) -> Iterator[Any]:
        """All objects of a kind, by namespace and name."""
        ordered = self._ordered.get(kind)
        if ordered is None:
            entries = self._kinds.get(kind, {})
            ordered = self._ordered[kind] = [entries[key] for key in sorted(entries)]
        return iter(ordered)

    def of_namespace(self, kind: str, namespace: str) -> Sequence[Any]:
        """The objects of a kind in the namespace, by name."""
        found = self._of_namespaces.get(kind)
        if found is None:
            found = self._of_namespaces[kind] = {}
            for each in self.all(kind):
                found.setdefault(each.metadata.namespace, []).append(each)
        return found.get(namespace, ())

    @property
    def count(self) -> int:
        """The number of objects of all kinds."""
        return sum(map(len, self._kinds.values()))

    def keys(self) -> Iterator[tuple[str, str, str]]:
        """Kind, namespace and name of all objects."""
        return ((kind, *key) for kind, entries in self._kinds.items() for key in entries)

    def entries(self) -> Iterator[snapshot_pb2.ClusterObject]:
        """All objects of all kinds as deltas bring them, assumptions marked."""
        for kind, values in self._kinds.items():
            assumed = self._assumed.get(kind, {})
            for key, value in values.items():
                yield snapshot_pb2.ClusterObject(
                    **{kind: value}, assumed=key in assumed, open_to_group=assumed.get(key, "")
                )

    def last_change(self, kind: str) -> int:
        """The generation of the kind's last change."""
        return self._generations.get(kind, 0)

    def changed_since(self, kind: str, generation: int) -> list[Key] | None:
        """Keys of the objects of a kind that were changed or removed after `generation`.

        None: the log does not reach back that far; check all objects.
        """
        if generation < self._logged_from.get(kind, 0):
            return None
        out = []
        for key, changed in reversed(self._log.get(kind, {}).items()):
            if changed <= generation:
                break
            out.append(key)
        return out

    def _record_change(self, kind: str, key: Key, generation: int) -> None:
        """Log the change, by which callers find what changed; a log that grew too long is dropped."""
        self._ordered.pop(kind, None)
        self._of_namespaces.pop(kind, None)
        self._generations[kind] = generation
        log = self._log.setdefault(kind, {})
        log.pop(key, None)
        log[key] = generation
        if len(log) > 2 * len(self._kinds.get(kind, ())) + _LOG_SLACK:
            log.clear()
            self._logged_from[kind] = generation
