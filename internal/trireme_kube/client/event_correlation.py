"""What keeps core/v1 events from flooding the server: similar ones become one, and too many of them none.

Pure. Events of one kind about one object that differ by their message alone are told apart up to the ninth message;
from the tenth on they share one event, whose message is the last one's. Whoever has told of an object 25 times may do
so once every five minutes from then on. Events of events.k8s.io/v1 have neither: client-go makes series of them and no
more.
Source: client-go tools/record EventCorrelator.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import NamedTuple, TypeVar

from trireme_kube.client.event_series import SeriesKey
from trireme_kube.client.ratelimit import TokenBucket

MAX_ENTRIES = 4096
MAX_MESSAGES = 10
SIMILAR_SECONDS = 600.0
SPAM_BURST = 25
SPAM_QPS = 1 / 300
COMBINED = "(combined from similar events): "

Entry = TypeVar("Entry")


class Correlated(NamedTuple):
    """Under which key an event is counted, and with which message."""

    key: SeriesKey
    message: str


@dataclasses.dataclass(slots=True)
class _Similar:
    messages: dict[str, None]
    last_seen: float


class Correlator:
    """Remembers what was told last, of the most recent objects. Times are on any monotonic clock."""

    def __init__(self, limit: int = MAX_ENTRIES) -> None:
        self._limit = limit
        self._similar: OrderedDict[SeriesKey, _Similar] = OrderedDict()
        self._buckets: OrderedDict[SeriesKey, TokenBucket] = OrderedDict()

    def aggregate(self, key: SeriesKey, now: float) -> Correlated:
        """The event itself, or the one that stands for all that are like it."""
        # An object is the same after a change.
        key = key._replace(regarding=key.regarding._replace(resource_version=""))
        shared = key._replace(message="")
        similar = self._similar.get(shared)
        if similar is None or now - similar.last_seen > SIMILAR_SECONDS:
            similar = _Similar({}, now)
        similar.messages[key.message] = None
        similar.last_seen = now
        self._keep(self._similar, shared, similar)
        if len(similar.messages) < MAX_MESSAGES:
            return Correlated(key, key.message)
        similar.messages.popitem()
        return Correlated(shared, COMBINED + key.message)

    def is_spam(self, key: SeriesKey, now: float) -> bool:
        """Whether too much was told of the object."""
        about = key._replace(reason="", action="", message="", regarding=key.regarding._replace(resource_version=""))
        bucket = self._buckets.get(about) or TokenBucket(SPAM_QPS, SPAM_BURST)
        self._keep(self._buckets, about, bucket)
        if bucket.take(now) == 0:
            return False
        bucket.give_back()
        return True

    def _keep(self, entries: OrderedDict[SeriesKey, Entry], key: SeriesKey, entry: Entry) -> None:
        entries[key] = entry
        entries.move_to_end(key)
        if len(entries) > self._limit:
            entries.popitem(last=False)
