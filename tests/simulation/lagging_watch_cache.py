"""A watch cache that lags, as that of one of several API servers does: it answers a list from the past.

A client that names the version that it has seen (`resourceVersionMatch=NotOlderThan`) may be answered as of any version
since; what happened after that follows as events. Requests without a version are answered as of now.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from trireme_kube.embedded.api.resources import stored_as
from trireme_kube.embedded.endpoints import reads
from trireme_kube.embedded.storage.store import ADDED, Record, Store
from trireme_kube.embedded.storage.watcher import watch_line


class LaggingWatchCache:
    """Answers streaming lists of all API servers, while it `lags`."""

    def __init__(self, store: Store, pick: random.Random) -> None:
        self._store = store
        self._pick = pick
        self.lags = False
        original = reads.ReadHandler.watch

        def watch(reader: Any, target: Any, query: Mapping[str, str], *others: Any) -> Any:
            version = self._version_of_answer(target, query)
            if version is None:
                return original(reader, target, query, *others)
            later = {name: value for name, value in query.items() if name not in _OF_A_LIST}
            request = original(reader, target, {**later, "resourceVersion": str(version)}, *others)
            self._prepend_list(request.watcher, target.resource, version)
            return request

        reads.ReadHandler.watch = watch

    def _version_of_answer(self, target: Any, query: Mapping[str, str]) -> int | None:
        """The version to answer as of; None: the newest, or it is no list."""
        seen = int(query.get("resourceVersion") or 0)
        newest = self._store.revision
        if not self.lags or query.get("sendInitialEvents") != "true" or not 0 < seen < newest:
            return None
        version = self._pick.randint(seen, newest)
        # Nothing older is known of a collection whose history is gone.
        return version if version >= self._store._bucket_of(stored_as(target.resource)).dropped_until else None

    def _prepend_list(self, watcher: Any, resource: Any, version: int) -> None:
        """Let the watcher begin with the objects as of the version."""
        records: dict[tuple[str, str], Record] = {each.key: each for each in self._store.scan(stored_as(resource))}
        for event in reversed(self._store.events_since(stored_as(resource), version)):
            if event.before is None:
                records.pop(event.record.key, None)
            else:
                records[event.record.key] = event.before
        lines = [
            watch_line(ADDED, record.json() if watcher._render is None else watcher._render(record))
            for _, record in sorted(records.items())
            if watcher._namespace in ("", record.namespace)
            and (watcher._matches is None or watcher._matches(record.object))
        ]
        watcher._pieces[:0] = [*lines, reads.bookmark(resource, version, initial_end=True)]
        watcher._wake.set()


_OF_A_LIST = ("sendInitialEvents", "resourceVersionMatch", "resourceVersion")
