"""Aggregation and spam filtering of core/v1 events.

Pure. Events about one object that differ by their message alone stay separate up to the ninth message; from the tenth
on they share one event, which carries the latest message. After 25 events about an object, a source may send one every
five minutes. events.k8s.io/v1 has neither rule: client-go only makes series of those events.
Source: client-go tools/record EventCorrelator.
"""

import dataclasses
from collections import OrderedDict
from typing import NamedTuple, TypeVar

from trireme_kube.client.events.event_series import SeriesKey
from trireme_kube.client.rest.ratelimit import TokenBucket

MAX_ENTRIES = 4096
MAX_MESSAGES = 10
SIMILAR_SECONDS = 600.0
SPAM_BURST = 25
SPAM_QPS = 1 / 300
COMBINED = "(combined from similar events): "

Entry = TypeVar("Entry")


class CorrelatedEvent(NamedTuple):
    """The key under which an event is counted, and its message."""

    key: SeriesKey
    message: str


@dataclasses.dataclass(slots=True)
class _RecentMessages:
    """The messages of similar events seen lately."""

    messages: dict[str, None]
    last_seen: float


class Correlator:
    """Remembers the latest events of the most recent objects. Times are on any monotonic clock."""

    def __init__(self, limit: int = MAX_ENTRIES) -> None:
        self._limit = limit
        self._similar: OrderedDict[SeriesKey, _RecentMessages] = OrderedDict()
        self._buckets: OrderedDict[SeriesKey, TokenBucket] = OrderedDict()

    def aggregate(self, key: SeriesKey, now: float) -> CorrelatedEvent:
        """Return the event itself, or the one that aggregates all similar ones."""
        # Events about different versions of an object are similar.
        key = key._replace(regarding=key.regarding._replace(resource_version=""))
        shared = key._replace(message="")
        similar = self._similar.get(shared)
        if similar is None or now - similar.last_seen > SIMILAR_SECONDS:
            similar = _RecentMessages({}, now)
        similar.messages[key.message] = None
        similar.last_seen = now
        self._store_as_latest(self._similar, shared, similar)
        if len(similar.messages) < MAX_MESSAGES:
            return CorrelatedEvent(key, key.message)
        similar.messages.popitem()
        return CorrelatedEvent(shared, COMBINED + key.message)

    def is_spam(self, key: SeriesKey, now: float) -> bool:
        """Whether the source has sent too many events about the object."""
        about = key._replace(reason="", action="", message="", regarding=key.regarding._replace(resource_version=""))
        bucket = self._buckets.get(about) or TokenBucket(SPAM_QPS, SPAM_BURST)
        self._store_as_latest(self._buckets, about, bucket)
        if bucket.take(now) == 0:
            return False
        bucket.give_back()
        return True

    def _store_as_latest(self, entries: OrderedDict[SeriesKey, Entry], key: SeriesKey, entry: Entry) -> None:
        """Store the entry as the most recent one, and drop the oldest beyond the limit."""
        entries[key] = entry
        entries.move_to_end(key)
        if len(entries) > self._limit:
            entries.popitem(last=False)
