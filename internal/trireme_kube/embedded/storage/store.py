"""The object store: current objects, one revision counter, a bounded history, and listeners.

Everything else in the embedded cluster relies on three guarantees of this module. Objects are never changed in place: a
write stores a new dictionary, so a record stays valid for its revision and its serialised bytes can be shared by every
reader. Every write takes the next revision of one counter, as in etcd. And every write is reported to all listeners of
its resource before the call returns, in the order of revisions.

All calls are synchronous and belong to one event loop: between a read and a write without an `await` nothing else can
happen, so no locks are needed.
"""

import collections
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import orjson

from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.api.resources import Object, Resource

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


class Record:
    """One object at one revision, with its JSON, made once and shared."""

    __slots__ = ("_bytes", "name", "namespace", "object", "revision")

    def __init__(self, obj: Object, revision: int) -> None:
        metadata = obj["metadata"]
        self.object = obj
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.revision = revision
        self._bytes: bytes | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Namespace (empty for cluster-wide resources) and name."""
        return (self.namespace, self.name)

    @property
    def uid(self) -> str:
        """The object's uid."""
        uid: str = self.object["metadata"]["uid"]
        return uid

    def json(self) -> bytes:
        """The object as JSON."""
        if self._bytes is None:
            self._bytes = orjson.dumps(self.object)
        return self._bytes


class Event:
    """A write: its record, and the previous one. `before` is None for a create."""

    __slots__ = ("before", "record", "type")

    def __init__(self, kind: str, record: Record, before: Record | None) -> None:
        self.type = kind
        self.record = record
        self.before = before

    @property
    def revision(self) -> int:
        """The revision of the write; for a deletion that of the deletion, not of the object's last content."""
        return self.record.revision


Listener = Callable[[Event], None]


@dataclass(slots=True)
class _StoredResource:
    """The objects of one resource."""

    records: dict[tuple[str, str], Record] = field(default_factory=dict)
    ordered: list[tuple[str, str]] | None = None
    history: collections.deque[Event] = field(default_factory=collections.deque)
    dropped_until: int = 0
    """Revision of the newest event that is no longer in the history."""
    changed: int = 0
    listeners: list[Listener] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The store's contents in numbers."""

    revision: int
    objects: dict[str, int]
    """Number of objects by resource key, empty resources left out."""
    listeners: int


class Store:
    """All objects of a cluster by resource, with one revision for all writes, and listeners that hear of each."""

    def __init__(self, *, history: int = 10_000) -> None:
        """`history` bounds the events stored for each resource; a watch from before them gets a 410."""
        self._revision = 1
        self._history = history
        self._buckets: dict[Resource, _StoredResource] = {}
        self._uids: dict[str, tuple[Resource, tuple[str, str]]] = {}
        self._listeners_to_all: list[Callable[[Resource, Event], None]] = []

    @property
    def revision(self) -> int:
        """The revision of the last write."""
        return self._revision

    def _bucket_of(self, resource: Resource) -> _StoredResource:
        """The objects of a resource, made empty at the first call."""
        bucket = self._buckets.get(resource)
        if bucket is None:
            bucket = self._buckets[resource] = _StoredResource()
        return bucket

    def get(self, resource: Resource, namespace: str, name: str) -> Record | None:
        """The record, or None."""
        return self._bucket_of(resource).records.get((namespace, name))

    def by_uid(self, uid: str) -> tuple[Resource, Record] | None:
        """The live object of that uid, or None."""
        address = self._uids.get(uid)
        if address is None:
            return None
        resource, key = address
        return resource, self._bucket_of(resource).records[key]

    def scan(self, resource: Resource, namespace: str = "") -> list[Record]:
        """All records, or those of one namespace, ordered by namespace and name."""
        bucket = self._bucket_of(resource)
        if bucket.ordered is None:
            bucket.ordered = sorted(bucket.records)
        records = bucket.records
        if namespace:
            return [records[key] for key in bucket.ordered if key[0] == namespace]
        return [records[key] for key in bucket.ordered]

    def count(self, resource: Resource) -> int:
        """The number of objects."""
        return len(self._bucket_of(resource).records)

    def last_change(self, resource: Resource) -> int:
        """The revision of the last write to this resource."""
        return self._bucket_of(resource).changed

    def put(self, resource: Resource, obj: Object) -> Record:
        """Store `obj`, new or in place of the one with its name, under the next revision; report it to the listeners.

        The top level and the metadata of `obj` become the store's; the rest may be shared with earlier revisions.
        """
        bucket = self._bucket_of(resource)
        self._revision += 1
        obj["metadata"]["resourceVersion"] = str(self._revision)
        record = Record(obj, self._revision)
        before = bucket.records.get(record.key)
        bucket.records[record.key] = record
        if before is None:
            bucket.ordered = None
            self._uids[record.uid] = (resource, record.key)
        self._record_and_notify(resource, bucket, Event(ADDED if before is None else MODIFIED, record, before))
        if before is None and resource.limit and len(bucket.records) > resource.limit:
            self.remove(resource, *next(iter(bucket.records)))
        return record

    def remove(self, resource: Resource, namespace: str, name: str) -> Record:
        """Remove an existing object; return its last content under the deletion's revision."""
        bucket = self._bucket_of(resource)
        before = bucket.records.pop((namespace, name))
        bucket.ordered = None
        self._uids.pop(before.uid, None)
        self._revision += 1
        metadata = {**before.object["metadata"], "resourceVersion": str(self._revision)}
        record = Record({**before.object, "metadata": metadata}, self._revision)
        self._record_and_notify(resource, bucket, Event(DELETED, record, before))
        return record

    def _record_and_notify(self, resource: Resource, bucket: _StoredResource, event: Event) -> None:
        """Append the event to the history, which drops its oldest beyond the limit, and call the listeners."""
        bucket.changed = event.revision
        bucket.history.append(event)
        if len(bucket.history) > self._history:
            bucket.dropped_until = bucket.history.popleft().revision
        for listener in tuple(bucket.listeners):
            listener(event)
        for everything in self._listeners_to_all:
            everything(resource, event)

    def events_since(self, resource: Resource, revision: int) -> list[Event]:
        """Return the resource's events after `revision`. Raises: ApiError 410 if some of them have been dropped."""
        bucket = self._bucket_of(resource)
        if revision < bucket.dropped_until:
            raise api_errors.expired(f"too old resource version: {revision} ({bucket.dropped_until})")
        if not bucket.history or bucket.changed <= revision:
            return []
        newer: list[Event] = []
        for event in reversed(bucket.history):
            if event.revision <= revision:
                break
            newer.append(event)
        newer.reverse()
        return newer

    def compact(self, resources: Iterable[Resource] | None = None) -> None:
        """Drop the history: a watch from any earlier revision then gets a 410."""
        for resource in list(self._buckets) if resources is None else resources:
            bucket = self._bucket_of(resource)
            bucket.history.clear()
            bucket.dropped_until = self._revision

    def listen(self, resource: Resource, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every further event of the resource; return a function that ends that."""
        listeners = self._bucket_of(resource).listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def listen_to_all(self, listener: Callable[[Resource, Event], None]) -> None:
        """Call `listener` with every further event of any resource, after the resource's own listeners."""
        self._listeners_to_all.append(listener)

    def statistics(self) -> Statistics:
        """The store's contents in numbers."""
        return Statistics(
            revision=self._revision,
            objects={one.key: len(bucket.records) for one, bucket in self._buckets.items() if bucket.records},
            listeners=sum(len(bucket.listeners) for bucket in self._buckets.values()),
        )
