"""GET: one object, a list (whole or in pages), and a watch.

A list in pages is consistent: later pages show the objects as of the first page's version. Since records never change,
that costs a list of references, stored for the most recent such lists only; an older continuation gets a 410 with a
token for continuing from the present state, as in the API server after a compaction.

Also change: internal/trireme_kube/client/informers/watch.py (the annotation of the last initial event).

Tests: tests/unit/embedded/endpoints/test_reads.py, tests/contract/test_shadow_run.py.
"""

import base64
import binascii
import bisect
import collections
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson

from trireme_kube.embedded.api import api_errors, field_errors, selectors
from trireme_kube.embedded.api.resources import Object, Resource, stored_as
from trireme_kube.embedded.endpoints import conversion
from trireme_kube.embedded.endpoints.request_info import RequestInfo
from trireme_kube.embedded.printers import tables
from trireme_kube.embedded.storage.store import Record, Store
from trireme_kube.embedded.storage.watcher import Render, Watcher, watch_line

_MAX_PAGES = 32
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)

Key = tuple[str, str]
_PageKey = tuple[Resource, str, str, str, int]


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """The form of objects in a response."""

    table: bool = False
    metadata_only: bool = False
    include: str = "Metadata"
    """How much of each object a table's rows carry: None, Metadata or Object."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A valid request for a watch."""

    watcher: Watcher
    timeout: float
    bookmarks: bool


def _number_parameter(query: Mapping[str, str], name: str) -> int | None:
    """Return a query parameter as a number, None if it is not given. Raises: ApiError 400."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise api_errors.bad_request(f'invalid {name} "{text}": must be a non-negative integer')
    return number


def is_true(text: str | None) -> bool:
    """A boolean query parameter."""
    return text is not None and text.lower() in ("1", "true", "t", "")


def metadata_only(record: Record) -> Object:
    """The object reduced to its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": record.object["metadata"],
    }


def bookmark(resource: Resource, revision: int, *, initial_end: bool = False) -> bytes:
    """A line that tells a watch's client the current version."""
    metadata: Object = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return watch_line(
        "BOOKMARK",
        orjson.dumps({"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}),
    )


class ReadHandler:
    """Reads from one store."""

    def __init__(self, store: Store, clock: Callable[[], float], *, watch_buffer: int) -> None:
        self._store = store
        self._clock = clock
        self._watch_buffer = watch_buffer
        self._pages: collections.OrderedDict[_PageKey, list[Record]] = collections.OrderedDict()

    def get(self, target: RequestInfo, form: ResponseForm) -> bytes:
        """One object.

        Raises: ApiError 404.
        """
        record = self._store.get(stored_as(target.resource), target.namespace, target.name)
        if record is None:
            raise api_errors.not_found(target.resource, target.name)
        return self.object_in_form(target.resource, record, form)

    def object_in_form(self, resource: Resource, record: Record, form: ResponseForm) -> bytes:
        """A record in the requested form."""
        record = conversion.to_view(resource, record)
        if form.table:
            return orjson.dumps(
                tables.table(resource, [record], self._clock(), form.include, _list_metadata(record.revision))
            )
        if form.metadata_only:
            return orjson.dumps(metadata_only(record))
        return record.json()

    # Lists

    def list_objects(self, target: RequestInfo, query: Mapping[str, str], form: ResponseForm) -> bytes:
        """The objects of a resource, by namespace and selectors, whole or one page.

        Raises: ApiError 400, 410, 504.
        """
        resource = target.resource
        revision, records = self._starting_records(target, query)
        matches = self._selector_predicate(target, query)
        if matches is not None:
            records = [record for record in records if matches(record.object)]
        metadata = _list_metadata(revision)
        limit = _number_parameter(query, "limit") or 0
        if limit and len(records) > limit:
            following = records[limit]
            metadata["continue"] = _continue_token(revision, following.key)
            if matches is None:
                metadata["remainingItemCount"] = len(records) - limit
            self._cache_page(_page_key(target, query, revision), records)
            records = records[:limit]
        if resource.is_view:
            records = [conversion.to_view(resource, record) for record in records]
        if form.table:
            return orjson.dumps(tables.table(resource, records, self._clock(), form.include, metadata))
        if form.metadata_only:
            items = [metadata_only(record) for record in records]
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
            return orjson.dumps({"kind": kind, "apiVersion": version, "metadata": metadata, "items": items})
        return _list_body(resource, metadata, records)

    def _selector_predicate(self, target: RequestInfo, query: Mapping[str, str]) -> selectors.Predicate | None:
        """Return the predicate of the request's selectors and name, over stored objects; None if all match."""
        fields = query.get("fieldSelector", "")
        if target.name:
            fields = f"{fields},metadata.name={target.name}" if fields else f"metadata.name={target.name}"
        labels = query.get("labelSelector", "")
        predicate = selectors.predicate(target.resource, labels, fields)  # rejects unknown fields by their own name
        if predicate is None or not target.resource.is_view:
            return predicate
        stored = stored_as(target.resource)
        return selectors.predicate(stored, labels, conversion.selector_to_storage(target.resource, fields))

    def _starting_records(self, target: RequestInfo, query: Mapping[str, str]) -> tuple[int, list[Record]]:
        """The version and the records that a list starts from, before selectors."""
        resource = stored_as(target.resource)
        current = self._store.revision
        if token := query.get("continue"):
            return self._records_after_token(target, query, token)
        requested = _number_parameter(query, "resourceVersion")
        if requested is not None and requested > current:
            raise api_errors.too_large_version(requested, current)
        if query.get("resourceVersionMatch") == "Exact" and requested and self._store.last_change(resource) > requested:
            cached = self._pages.get(_page_key(target, query, requested))
            if cached is None:
                raise api_errors.expired(f"too old resource version: {requested}")
            return requested, cached
        return current, self._store.scan(resource, target.namespace)

    def _records_after_token(
        self, target: RequestInfo, query: Mapping[str, str], token: str
    ) -> tuple[int, list[Record]]:
        """Return a paged list's version, and its records from the token on. Raises: ApiError 400; 410 if it is gone."""
        revision, start = _parse_continue_token(token)
        cached = self._pages.get(_page_key(target, query, revision))
        resource = stored_as(target.resource)
        if cached is None:
            if revision >= 0 and self._store.last_change(resource) > revision:
                raise api_errors.expired(_TOO_OLD, _continue_token(-1, start))
            cached = self._store.scan(resource, target.namespace)
            revision = revision if revision >= 0 else self._store.revision
        return revision, cached[bisect.bisect_left(cached, start, key=lambda record: record.key) :]

    def _cache_page(self, key: _PageKey, records: list[Record]) -> None:
        """Cache what is left of a list for its next page; the oldest is dropped beyond _MAX_PAGES."""
        self._pages.setdefault(key, records)
        if len(self._pages) > _MAX_PAGES:
            self._pages.popitem(last=False)

    # Watches

    def watch(
        self, target: RequestInfo, query: Mapping[str, str], form: ResponseForm, default_timeout: float
    ) -> WatchRequest:
        """Start a watch: with the present objects, or after the version that the client has seen.

        The present objects come first where sendInitialEvents says so, or without it if no version is given. The caller
        stops the watcher. Raises: ApiError 400, 504; 410 if it requests events that have been dropped.
        """
        resource = target.resource
        requested = _number_parameter(query, "resourceVersion")
        if requested is not None and requested > self._store.revision:
            raise api_errors.too_large_version(requested, self._store.revision)
        initial = query.get("sendInitialEvents")
        if initial is not None and query.get("resourceVersionMatch") != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise api_errors.invalid_options("ListOptions", field_errors.forbidden("resourceVersionMatch", text))
        watcher = Watcher(
            self._store,
            stored_as(resource),
            namespace=target.namespace,
            matches=self._selector_predicate(target, query),
            render=self._make_renderer(resource, form),
            limit=self._watch_buffer,
        )
        from_present_objects = is_true(initial) if initial is not None else not requested
        watcher.start(since=None if from_present_objects else requested or self._store.revision)
        bookmarks = is_true(query.get("allowWatchBookmarks", "false"))
        if initial is not None and from_present_objects and bookmarks:
            watcher.send_line(bookmark(resource, self._store.revision, initial_end=True))
        timeout = _number_parameter(query, "timeoutSeconds")
        return WatchRequest(watcher, float(timeout or default_timeout), bookmarks)

    def _make_renderer(self, resource: Resource, form: ResponseForm) -> Render | None:
        """Return the function that writes a watched object in the form; None: as it is stored."""
        if form.table:
            headed = False

            def as_table(record: Record) -> bytes:
                nonlocal headed
                view = conversion.to_view(resource, record)
                metadata = _list_metadata(record.revision)
                rows = tables.table(resource, [view], self._clock(), form.include, metadata, headers=not headed)
                headed = True
                return orjson.dumps(rows)

            return as_table
        if form.metadata_only:
            return lambda record: orjson.dumps(metadata_only(record))
        if resource.is_view:
            return lambda record: conversion.to_view(resource, record).json()
        return None


def _page_key(target: RequestInfo, query: Mapping[str, str], revision: int) -> _PageKey:
    selector_texts = query.get("labelSelector", ""), query.get("fieldSelector", "")
    return (target.resource, target.namespace, *selector_texts, revision)


def _list_metadata(revision: int) -> Object:
    return {"resourceVersion": str(revision)}


def _list_body(resource: Resource, metadata: Object, records: list[Record]) -> bytes:
    """Return a list as JSON, put together from the records' own JSON."""
    head = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata}
    opening = orjson.dumps(head)[:-1] + b',"items":['
    # Items of a list carry neither kind nor version, which every record's JSON starts with.
    skip = len(orjson.dumps({"kind": resource.kind, "apiVersion": resource.api_version}))
    items = b"},{".join(record.json()[skip:-1] for record in records)
    return opening + (b"{" + items + b"}" if records else b"") + b"]}"


def _continue_token(revision: int, key: Key) -> str:
    """Return the token of the page that begins at a key; version −1: the newest list."""
    body = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": "/".join(key)})
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def _parse_continue_token(token: str) -> tuple[int, Key]:
    """Return version and first key of a token. Raises: ApiError 400."""
    try:
        body = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, _, name = body["start"].partition("/")
        return int(body["rv"]), (namespace, name)
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise api_errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from error
