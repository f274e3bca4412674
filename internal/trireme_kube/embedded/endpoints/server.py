"""The HTTP shell: one handler that decodes a request, calls the module for it, and sends the response.

Plain aiohttp without its router and middlewares, because a scheduler's load is thousands of small requests a second and
the table-driven dispatch below needs neither. All work between reading the body and sending the response is
synchronous, so a client that disconnects in between leaves no half-done write.

Also change: internal/trireme_kube/embedded/registry/subresources.py (subresources with rules of their own).

Tests: tests/unit/embedded/test_parts.py, tests/e2e/test_e2e_up.py.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Mapping
from typing import Any

import orjson
import yaml
from aiohttp import web

from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.api.resources import Resource, stored_as
from trireme_kube.embedded.discovery.discovery import Discovery
from trireme_kube.embedded.endpoints import reads, watch_channels, writes
from trireme_kube.embedded.endpoints.faults import Fault, FaultAction, Faults
from trireme_kube.embedded.endpoints.reads import ReadHandler, ResponseForm
from trireme_kube.embedded.endpoints.request_info import RequestInfo, parse_path
from trireme_kube.embedded.kubelet import pod_logs
from trireme_kube.embedded.registry import reviews, subresources
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.serializer import protobuf
from trireme_kube.embedded.storage.watcher import Watcher, watch_line

_LOG = logging.getLogger(__name__)
# The API server's own limit for a request body.
_BODY_LIMIT = 3 * 1024 * 1024
# Longer than any client keeps an idle connection: closing first would race with a request under way.
_KEEP_ALIVE_SECONDS = 3600.0
# A watch without a timeout ends after a time between these.
_WATCH_SECONDS = (1800.0, 3600.0)
_JSON = "application/json"
_JSON_HEADERS = {"Content-Type": _JSON, "Cache-Control": "no-cache, private"}
_OUR_MISTAKE = "Internal error occurred: the embedded cluster failed at this request; its log says where"
_HEALTH = frozenset({"/healthz", "/readyz", "/livez"})
_PLAIN_FORM = ResponseForm()


def _make_low_level_request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=_BODY_LIMIT)


def _response_form(accept: str, query: Mapping[str, str]) -> ResponseForm:
    """The form that the Accept header requests; unknown ones get plain JSON."""
    if "as=" not in accept:
        return _PLAIN_FORM
    for choice in accept.split(","):
        parameters = dict(part.strip().partition("=")[::2] for part in choice.split(";")[1:])
        kind = parameters.get("as", "")
        if kind == "Table":
            return ResponseForm(table=True, include=query.get("includeObject", "Metadata"))
        if kind.startswith("PartialObjectMetadata"):
            return ResponseForm(metadata_only=True)
        if not kind and choice.strip().startswith(_JSON):
            return _PLAIN_FORM
    return _PLAIN_FORM


class _ConnectionDroppedError(Exception):
    """A fault dropped the connection."""


class ApiServer:
    """Serves one registry over HTTP on a loopback address."""

    def __init__(
        self,
        registry: Registry,
        *,
        watch_buffer: int = 10_000,
        bookmark_interval: float = 60.0,
        remote_faults: bool = False,
    ) -> None:
        """`remote_faults` lets clients arm faults."""
        self.faults = Faults()
        self.registry = registry
        self._reader = ReadHandler(registry.store, registry.clock_and_ids.clock, watch_buffer=watch_buffer)
        self._writer = writes.WriteHandler(registry, self._reader)
        self._bookmark_interval = bookmark_interval
        self._remote_faults = remote_faults
        self._discovery = Discovery(registry.catalog)
        registry.catalog.listen(self._end_watches)
        self._watchers: dict[Watcher, None] = {}  # in the order in which they began
        self._runner: web.ServerRunner | None = None
        self._requests = 0

    # Life

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port."""
        server = web.Server(
            self._handle_request,
            request_factory=_make_low_level_request,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=2.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=1024)
        await site.start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """End all watches and close."""
        self.drop_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _end_watches(self, resource: Resource) -> None:
        """End the watches of a resource that is no longer served."""
        for watcher in self._watchers:
            if watcher.resource is stored_as(resource):
                watcher.end()

    def drop_watches(self, path_part: str = "") -> int:
        """End the watches of resources whose key contains `path_part`; return how many."""
        dropped = [one for one in self._watchers if path_part in one.resource.key]
        for watcher in dropped:
            watcher.end()
        return len(dropped)

    @property
    def watches(self) -> int:
        """The number of open watches."""
        return len(self._watchers)

    @property
    def requests(self) -> int:
        """The number of requests received."""
        return self._requests

    # One request

    async def _handle_request(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; every error becomes a response, except where a fault drops the connection."""
        self._requests += 1
        try:
            return await self._answer_with_faults(request)
        except api_errors.ApiError as error:
            return self._error_response(error)
        except _ConnectionDroppedError:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        except (KeyError, TypeError, AttributeError, ValueError, IndexError):
            # A body that passes all checks and still fails must cost its sender an error, not everybody the server.
            _LOG.exception("%s %s failed; report this defect", request.method, request.path)
            return self._error_response(api_errors.ApiError(500, "InternalError", _OUR_MISTAKE))

    @staticmethod
    def _error_response(error: api_errors.ApiError) -> web.Response:
        """The response to a request that failed: the error as a Status object."""
        headers = dict(_JSON_HEADERS)
        retry = (error.details or {}).get("retryAfterSeconds")
        if retry:
            headers["Retry-After"] = str(retry)
        return web.Response(body=orjson.dumps(error.status()), status=error.code, headers=headers)

    async def _answer_with_faults(self, request: web.BaseRequest) -> web.StreamResponse:
        """Find what a request is for, inject a fault if one is armed for it, and answer it. Raises: ApiError."""
        url = request.rel_url
        query: Mapping[str, str] = url.query if url.raw_query_string else {}
        target = parse_path(url.path, self.registry.catalog)
        watching = target is not None and reads.is_true(query.get("watch", "false")) and request.method == "GET"
        fault = None
        if self.faults and not url.path.startswith("/trireme/"):
            fault = self.faults.strike(_verbs_for_faults(request.method, target, watching), str(url))
            if fault is not None:
                await _inject_fault_before(fault)
        if target is None:
            return await self._serve_other_path(request, url.path)
        if watching:
            return await self._serve_watch(request, target, query)
        if target.subresource == "log" and request.method == "GET":
            return await self._send_pod_log(request, target, query)
        reply = await self._reply_for_resource(request, target, query)
        if fault is not None:
            await _inject_fault_after(fault)
        return web.Response(body=reply.body, status=reply.code, headers=_JSON_HEADERS)

    async def _reply_for_resource(
        self, request: web.BaseRequest, target: RequestInfo, query: Mapping[str, str]
    ) -> writes.Reply:
        """Answer a request for a resource by its verb. Raises: ApiError."""
        method = request.method
        if target.subresource in target.resource.unserved:
            raise api_errors.subresource_not_found(target.resource, target.subresource)
        form = _response_form(request.headers.get("Accept", ""), query)
        if method == "GET":
            return self._reply_to_get(target, query, form)
        if method == "DELETE":
            options = await _read_body(request) if request.can_read_body else {}
            options = options if isinstance(options, dict) else {}
            if target.name:
                return self._writer.delete(target, query, options, form)
            return self._writer.delete_collection(target, query, options, form)
        if method == "PATCH" and target.name:
            kind = request.content_type
            if kind not in (allowed := writes.patch_types(target.resource)):
                raise api_errors.unsupported_media_type(allowed)
            body = await _read_body(request, as_yaml=kind == writes.APPLY_PATCH)
            return self._writer.patch(target, query, kind, body, form)
        if method not in ("POST", "PUT") or (method == "PUT" and not target.name):
            raise api_errors.method_not_allowed()
        body = await _read_body(request)
        if not isinstance(body, dict):
            raise api_errors.bad_request("the body of the request is no object")
        act = self._writer.post if method == "POST" else self._writer.put
        return act(target, query, body, form)

    def _reply_to_get(self, target: RequestInfo, query: Mapping[str, str], form: ResponseForm) -> writes.Reply:
        """Answer a GET: a list, an object, or its scale. Raises: ApiError."""
        if not target.name:
            return writes.Reply(200, self._reader.list_objects(target, query, form))
        if target.subresource == "scale":
            stored = stored_as(target.resource)
            record = self.registry.get(stored, target.namespace, target.name)
            return writes.Reply(200, orjson.dumps(subresources.scale_of(record.object, stored.scale_paths)))
        if target.subresource in ("binding", "eviction", "finalize"):
            raise api_errors.method_not_allowed()
        return writes.Reply(200, self._reader.get(target, form))

    async def _send_pod_log(
        self, request: web.BaseRequest, target: RequestInfo, query: Mapping[str, str]
    ) -> web.StreamResponse:
        """A pod's log as text; if it is followed, until the pod ends."""
        record = self.registry.get(stored_as(target.resource), target.namespace, target.name)
        text = pod_logs.log_text(record.object, query)
        if not reads.is_true(query.get("follow", "false")):
            return web.Response(body=text, content_type="text/plain")
        response = web.StreamResponse(headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"})
        response.enable_chunked_encoding()
        with contextlib.suppress(ConnectionError):  # the client went away
            await response.prepare(request)
            await response.write(text)
            await pod_logs.wait_for_end(self.registry.store, record)
        return response

    # Watches

    async def _serve_watch(
        self, request: web.BaseRequest, target: RequestInfo, query: Mapping[str, str]
    ) -> web.StreamResponse:
        """Answer a watch: open its channel and send events until it times out, falls behind or the client leaves.

        A version that is too old is an event within the watch (410); other refusals are plain responses.
        """
        form = _response_form(request.headers.get("Accept", ""), query)
        length = random.uniform(*_WATCH_SECONDS)
        refusal = b""
        watch: reads.WatchRequest | None = None
        try:
            watch = self._reader.watch(target, query, form, length)
        except api_errors.ApiError as error:
            if error.code != 410:
                raise
            # As in the API server: once the request is valid, errors are reported within the watch.
            refusal = watch_line("ERROR", orjson.dumps(error.status()))
        if watch is not None:
            self._watchers[watch.watcher] = None
        channel: watch_channels.Channel | None = None
        try:
            channel = await watch_channels.open_channel(request, _JSON_HEADERS, watch.watcher.end if watch else None)
            if watch is None:
                await channel.send(refusal)
            else:
                await self._stream_events(channel, target, watch)
            await channel.finish()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, which is how most watches end
        finally:
            if watch is not None:
                self._watchers.pop(watch.watcher, None)
                watch.watcher.stop()
        return channel.response if channel is not None else web.Response()

    async def _stream_events(
        self, channel: watch_channels.Channel, target: RequestInfo, watch: reads.WatchRequest
    ) -> None:
        """Send events as they come, and bookmarks between them if requested, until the watch ends."""
        loop = asyncio.get_running_loop()
        end = loop.time() + watch.timeout
        bookmark_at = loop.time() + self._bookmark_interval
        while (now := loop.time()) < end:
            wait = min(end, bookmark_at) - now if watch.bookmarks else end - now
            lines = await watch.watcher.take_lines(max(wait, 0.0))
            if lines is None:
                return
            if lines:
                await channel.send(lines)
            if watch.bookmarks and loop.time() >= bookmark_at and not watch.watcher.pending:
                bookmark_at = loop.time() + self._bookmark_interval
                await channel.send(reads.bookmark(target.resource, self.registry.store.revision))

    # Paths that are no resources

    async def _serve_other_path(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Answer paths of no resource: health, control of faults, reviews, discovery. Raises: ApiError."""
        if path in _HEALTH or path.rpartition("/")[0] in _HEALTH:
            return web.Response(text="ok")
        if path.startswith("/trireme/") and self._remote_faults:
            return await self._control_faults(request, path)
        review = reviews.review_at(path)
        if review is not None and request.method == "POST":
            body = await _read_body(request)
            if not isinstance(body, dict):
                raise api_errors.bad_request("the body of the request is no object")
            return web.Response(body=orjson.dumps(reviews.reply_to(review, body)), status=201, headers=_JSON_HEADERS)
        if request.method == "GET":
            response_document = self._discovery.document(path, request.headers.get("Accept", ""))
            if response_document is not None:
                kind, document = response_document
                return web.Response(body=document, headers={**_JSON_HEADERS, "Content-Type": kind})
        if not self._discovery.serves_version(path):
            return web.Response(status=404, text="404 page not found\n")
        raise api_errors.no_such_path()

    async def _control_faults(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Control of faults from another process; only if the server was started for tests."""
        if path == "/trireme/faults" and request.method == "POST":
            body = await _read_body(request)
            try:
                self.faults.add_from(body)
            except (TypeError, ValueError) as error:
                raise api_errors.bad_request(f"no fault: {error}") from error
        elif path == "/trireme/faults" and request.method == "DELETE":
            self.faults.clear()
        elif path == "/trireme/watches" and request.method == "DELETE":
            self.drop_watches(request.rel_url.query.get("resource", ""))
        elif path == "/trireme/history" and request.method == "DELETE":
            self.registry.store.compact()
        elif request.method != "GET":
            raise api_errors.no_such_path()
        state = {"faults": self.faults.describe(), "watches": self.watches, "requests": self.requests}
        return web.Response(body=orjson.dumps(state), headers=_JSON_HEADERS)


def _verbs_for_faults(method: str, target: RequestInfo | None, watching: bool) -> tuple[str, ...]:
    """Return the method, and LIST or WATCH if it is one: a fault may name either."""
    if watching:
        return (method, "WATCH")
    if method == "GET" and target is not None and not target.name:
        return (method, "LIST")
    return (method,)


async def _read_body(request: web.BaseRequest, *, as_yaml: bool = False) -> Any:
    """The body, decoded from protobuf or JSON; {} if there is none. YAML where the header or `as_yaml` allows it.

    Raises: ApiError 400, 413, 415.
    """
    kind = request.content_type
    if "cbor" in kind:
        raise api_errors.unsupported_media_type((_JSON, "application/yaml", protobuf.MEDIA_TYPE))
    try:
        raw = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        text = f"Request entity too large: limit is {_BODY_LIMIT}"
        raise api_errors.ApiError(413, "RequestEntityTooLarge", text) from error
    if not raw:
        return {}
    if kind == protobuf.MEDIA_TYPE:
        return protobuf.decode(raw)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if as_yaml or "yaml" in kind:
            with contextlib.suppress(yaml.YAMLError):
                return yaml.safe_load(raw)
        text = f"the object provided is unrecognized: couldn't get version/kind; json parse error: {error}"
        raise api_errors.bad_request(text) from error


async def _inject_fault_before(fault: Fault) -> None:
    """Do what a fault does before the request is executed: fail, delay, hang or drop it."""
    if fault.action is FaultAction.STATUS:
        details = {"retryAfterSeconds": fault.retry_after} if fault.retry_after else None
        reason = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 504: "Timeout"}.get(
            fault.code, "InternalError"
        )
        raise api_errors.ApiError(fault.code, reason, "a fault was injected", details)
    if fault.action in (FaultAction.DELAY, FaultAction.HANG):
        await asyncio.sleep(fault.seconds)
    if fault.action in (FaultAction.HANG, FaultAction.DROP_BEFORE):
        raise _ConnectionDroppedError


async def _inject_fault_after(fault: Fault) -> None:
    """Do what a fault does after the request was executed: delay or drop the response."""
    if fault.action is FaultAction.DELAY_REPLY:
        await asyncio.sleep(fault.seconds)
    if fault.action is FaultAction.DROP_AFTER:
        raise _ConnectionDroppedError
