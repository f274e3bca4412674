"""Decides how an event is written: as a new object, as a patch that makes it a series, or only as a count in memory.

Pure. Repeated events (same type, action, reason, reporter, and the same object at the same resourceVersion) form a
series: the second writes a patch with count 2, later ones only increment the count. A series is written again every
30 minutes, and dropped after a last write once no event has come for 6 minutes. The message is not part of the key, so
a series keeps its first one. A `Scheduled` event never repeats (a pod is bound once at one version) and bypasses this.
Source: client-go tools/events. Unlike there, memory is bounded: beyond the limit the oldest series is dropped.
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

FINISH_SECONDS = 6 * 60.0
REFRESH_SECONDS = 30 * 60.0
MAX_SERIES = 20_000


class ObjectReference(NamedTuple):
    """The object that an event is about."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str
    resource_version: str

    def as_json(self) -> dict[str, str]:
        """The reference as the API spells it, without empty fields."""
        fields = {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "apiVersion": self.api_version,
            "resourceVersion": self.resource_version,
        }
        return {key: value for key, value in fields.items() if value}


def pod_reference(namespace: str, name: str, uid: str, resource_version: str) -> ObjectReference:
    """The reference to a pod."""
    return ObjectReference("Pod", namespace, name, uid, "v1", resource_version)


class SeriesKey(NamedTuple):
    """What makes two events the same."""

    type: str
    action: str
    reason: str
    controller: str
    regarding: ObjectReference
    message: str = ""  # part of the key only for core/v1 events


@dataclasses.dataclass(slots=True)
class Series:
    """The first event of a key and the count of all. Times are on the recorder's monotonic clock."""

    name: str
    namespace: str
    body: Mapping[str, Any]
    last_seen: float
    last_seen_text: str
    count: int = 1


class SeriesCache:
    """The active series."""

    def __init__(self, limit: int = MAX_SERIES) -> None:
        self._limit = limit
        self._series: OrderedDict[SeriesKey, Series] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    def count_if_repeated(self, key: SeriesKey, now: float, time_text: str) -> Series | None:
        """Count the event in its key's series, and return that; None if it is the first of its key."""
        series = self._series.get(key)
        if series is None:
            return None
        series.count += 1
        series.last_seen = now
        series.last_seen_text = time_text
        return series

    def begin(self, key: SeriesKey, series: Series) -> None:
        """Start a series with the first event of its key."""
        self._series[key] = series
        if len(self._series) > self._limit:
            self._series.popitem(last=False)

    def repeating(self) -> list[Series]:
        """Return the series with more than one event, to be written again every REFRESH_SECONDS."""
        return [series for series in self._series.values() if series.count > 1]

    def drop_finished(self, now: float) -> Iterator[Series]:
        """Drop series without an event for FINISH_SECONDS; yield those whose last count must be written."""
        silent = [key for key, series in self._series.items() if series.last_seen < now - FINISH_SECONDS]
        for key in silent:
            series = self._series.pop(key)
            if series.count > 1:
                yield series
