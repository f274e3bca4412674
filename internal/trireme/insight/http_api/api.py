"""The pages of insight's HTTP API: RPCs of its service and views of the console, as JSON, and the console itself.

A page is a line of `_pages`, or of `views.VIEWS` (`console_pages.py`); simulations have one of their own. The request
passes, in this order: its size, the caller's credentials, a place among the caller's requests, the right to read the
pod (or, for a simulation, to list nodes and pods), the query or body; then the RPC is called, and names that the caller
may not list are left out of its answer.

Also change: console/src/views/pod.tsx (paths of insight's API).
Also change: docs/explain.md.

Tests: tests/security/test_insight_http.py, tests/contract/test_insight_recorded_console.py.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from google.protobuf import message

from trireme.insight import http_metrics, request_errors, service
from trireme.insight.http_api import (
    access,
    console_pages,
    failures,
    lost_requests,
    recorded_console,
    recorded_paths,
    request_places,
    requests,
    simulation_page,
    visibility,
)
from trireme.rpc import channels
from trireme.v1 import decision_explanation_pb2, insight_pb2
from trireme.wire import json_documents
from trireme_kube.componentbase.server import http_site, status_documents
from trireme_kube.componentbase.server.authentication import ReviewError, User

log = logging.getLogger(__name__)

MAX_URL_BYTES = 6000
"""Of path and query; room for the names of a hundred nodes. aiohttp refuses more than 8190."""
REQUEST_SECONDS = 30.0
"""A request has an answer within this time; remote plugins have their own, shorter deadlines."""
MAX_REQUESTS = 64
"""At once; each may hold the answers of some thousand nodes."""
MAX_AUTHENTICATIONS = 256
"""At once: requests whose caller is not known yet, shared between their addresses."""

Rpc = Callable[[Any, str], Awaitable[message.Message]]


@dataclass(frozen=True, slots=True)
class Page:
    """A page about a pod, and the RPC that answers it; the request has the pod in its field `pod`."""

    path: requests.PodPath
    request: Callable[[], Any]
    rpc: Rpc


def _pages(served: service.InsightService) -> Sequence[Page]:
    """All pages. An RPC of the service becomes a page by a line here; `visibility` lists who sees what of it."""
    decision = decision_explanation_pb2.ExplainDecisionRequest
    return (
        Page(requests.PodPath("explanation"), insight_pb2.ExplainRequest, served.explain),
        Page(requests.PodPath("decision"), decision, served.explain_decision),
    )


class HttpApi:
    """Answers HTTP requests for the pages of a service."""

    def __init__(
        self,
        served: service.InsightService,
        callers: access.Access,
        *,
        recorded: recorded_console.RecordedConsole | None = None,
        seconds: float = REQUEST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`recorded` answers about what was recorded; None: nothing is."""
        self._recorded = recorded
        self._metrics = served.http_metrics
        self._clock = clock
        self._cluster = served.cluster
        self._past_names = served.remembered_names
        self._console = console_pages.ConsolePages(served.console, callers, served.remembered_names)
        self._pages = _pages(served)
        self._simulate: Rpc = served.simulate
        self._access = callers
        self._seconds = seconds
        self._places = request_places.RequestPlaces(MAX_REQUESTS)
        self._authentications = request_places.RequestPlaces(MAX_AUTHENTICATIONS)

    def application(self) -> web.Application:
        """The pages for aiohttp."""
        return http_site.make_application(self.reply_to)

    async def reply_to(self, request: web.Request) -> http_site.Reply:
        """The page, or a Status that says why there is none; counted in the metrics."""
        started = self._clock()
        reply = await self._reply_to(request)
        self._metrics.record(self._page_name(request), reply.status, self._clock() - started)
        return reply

    def _page_name(self, request: web.Request) -> str:
        """The page as metrics name it; all of the console's are one."""
        found = self._page_at(request)
        if found is not None:
            return found[0].path.page
        path = request.raw_path.partition("?")[0]
        if path in simulation_page.PATHS:
            return http_metrics.SIMULATIONS
        if self._recorded is not None and recorded_paths.is_here(path):
            return http_metrics.RECORDED
        return http_metrics.CONSOLE if console_pages.is_here(path) else http_metrics.NO_PAGE

    async def _reply_to(self, request: web.Request) -> http_site.Reply:
        """As `reply_to`."""
        pretty = status_documents.is_for_people(request.headers.get("User-Agent", ""), request.query.get("pretty"))
        try:
            async with asyncio.timeout(self._seconds):
                return await lost_requests.unless_lost(request, self._answer(request, pretty=pretty))
        except failures.HttpFailure as error:
            failure = error
        except lost_requests.RequestLostError:
            failure = failures.unavailable(channels.CLOSED)
        except request_places.NoPlaceLeft:
            failure = failures.too_many_requests()
        except TimeoutError:
            is_past = self._recorded is not None and recorded_paths.is_here(request.raw_path.partition("?")[0])
            failure = (failures.recording_timed_out if is_past else failures.timed_out)(self._seconds)
        except ReviewError as error:
            log.error("a request cannot be reviewed: %s; its sender has to try again", error)
            failure = failures.unavailable("the API server does not review callers at the moment: try again")
        except Exception:
            log.exception("a request cannot be answered: %s; report this defect", request.method)
            failure = failures.HttpFailure(500, "InternalError", "the request failed here: see the log of insight")
        return failure.reply(pretty=pretty)

    async def _answer(self, request: web.Request, *, pretty: bool) -> http_site.Reply:
        """Answer a request, or raise what `reply_to` converts."""
        if len(request.raw_path) > MAX_URL_BYTES:
            message = f"path and query have more than {MAX_URL_BYTES} bytes: name fewer nodes"
            raise failures.HttpFailure(414, "RequestURITooLong", message)
        file = console_pages.reply_with_file(request)
        if file is not None:
            return file
        with self._authentications.place_for(request.remote):
            user = await self._access.authenticate(request)
        with self._places.place_for(user.name):
            return await self._answer_user(request, user, pretty=pretty)

    async def _answer_user(self, request: web.Request, user: User, *, pretty: bool) -> http_site.Reply:
        """Answer an authenticated user who has a place."""
        view = await self._console.reply_with_view(request, user, pretty=pretty)
        if view is not None:
            return view
        path = request.raw_path.partition("?")[0]
        if path in simulation_page.PATHS:
            return await self._answer_simulation(request, user, path, pretty=pretty)
        if self._recorded is not None and recorded_paths.is_here(path):
            access.check_sees_all(user, await self._access.find_viewer(user), "see what was recorded")
            return await self._recorded.reply_to(request, user)
        page, namespace, name = self._find_page(request)
        await self._access.check_may_get_pod(user, namespace, name)
        viewer = await self._access.find_viewer(user)
        message = page.request()
        message.pod.namespace, message.pod.name = namespace, name
        try:
            requests.fill_from_query(message, _query_of(request))
        except request_errors.BadRequest as error:
            raise failures.bad_request(str(error)) from error
        if len(getattr(message, "nodes", ())) and not viewer.lists_nodes:
            text = f'User "{user.name}" may not list nodes, so it may not name any: leave nodes out of the query'
            raise failures.HttpFailure(403, "Forbidden", f"nodes is forbidden: {text}")
        names = visibility.NameReplacer(self._cluster, viewer, name, self._past_names, own_namespace=namespace)
        try:
            answer = await page.rpc(message, _caller(user))
        except service.NotAnsweredError as error:
            raise failures.of_call(error.code, names.without_names(str(error))) from error
        # At once: names are looked up in the state of the cluster that the answer was computed from.
        shown = visibility.limit(answer, viewer, names)
        # In a thread: thousands of nodes take a while, in which the cluster is to be followed.
        body = await asyncio.to_thread(_to_json, shown, pretty=pretty)
        return http_site.Reply(body, http_site.JSON, headers={"X-Content-Type-Options": "nosniff"})

    async def _answer_simulation(self, request: web.Request, user: User, path: str, *, pretty: bool) -> http_site.Reply:
        """Answer a question about what would happen, to a user who may list all nodes and pods."""
        access.check_sees_all(user, await self._access.find_viewer(user), "simulate")
        message = await simulation_page.read_request(request, path)
        try:
            answer = await self._simulate(message, _caller(user))
        except service.NotAnsweredError as error:
            raise failures.of_call(error.code, str(error)) from error
        body = await asyncio.to_thread(_to_json, answer, pretty=pretty)
        return http_site.Reply(body, http_site.JSON, headers={"X-Content-Type-Options": "nosniff"})

    def _page_at(self, request: web.Request) -> tuple[Page, tuple[str, str]] | None:
        """The page at the path, and namespace and name of its pod as they are there; None: there is none."""
        path = request.raw_path.partition("?")[0]
        return next(((page, pod) for page in self._pages if (pod := page.path.pod_of(path)) is not None), None)

    def _recorded_paths(self) -> Sequence[str]:
        """The paths of what was recorded, if anything is."""
        return () if self._recorded is None else (recorded_paths.RECORDING, f"{recorded_paths.MOMENTS}MILLISECONDS/…")

    def _find_page(self, request: web.Request) -> tuple[Page, str, str]:
        """The page at the path, and namespace and name of its pod. Raises: HttpFailure."""
        found = self._page_at(request)
        if found is None:
            paths = [str(page.path) for page in self._pages]
            known = ", ".join([*paths, *simulation_page.PATHS, *self._recorded_paths(), *console_pages.paths()])
            raise failures.HttpFailure(404, "NotFound", f"there is no such page; there is {known}")
        if request.method != "GET":
            raise failures.only_get()
        if request.can_read_body:
            raise failures.has_body()
        page, (namespace, name) = found
        try:
            requests.check_names(namespace, name)
        except request_errors.BadRequest as error:
            raise failures.bad_request(str(error)) from error
        return page, namespace, name


def _caller(user: User) -> str:
    return f"user:{user.name}"


def _query_of(request: web.Request) -> Mapping[str, Sequence[str]]:
    """All values by name, but `pretty`, which every page has."""
    return {name: request.query.getall(name) for name in request.query if name != "pretty"}


def _to_json(answer: message.Message, *, pretty: bool) -> bytes:
    """The message in protobuf's JSON mapping, with counts that are 0; `pretty`: indented for people."""
    text = json.dumps(json_documents.document(answer), ensure_ascii=False, indent=2 if pretty else None)
    return f"{text}\n".encode()
