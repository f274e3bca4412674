"""The pages of the console over HTTP: its files, which everybody may load, and its views, for whom they are.

Readers ask again every second or two. A view that has not changed since is not made again: the reader sends the tag of
the one that it has, and gets 304.

Also change: docs/console.md.

Tests: tests/security/test_insight_http.py, tests/security/test_console_http.py.
"""

import asyncio
from collections.abc import Mapping, Sequence

import orjson
from aiohttp import web

from trireme.insight import request_errors
from trireme.insight.console import assets, console_state, documents, views
from trireme.insight.http_api import access, failures, visibility
from trireme_kube.componentbase.server import http_site
from trireme_kube.componentbase.server.authentication import User

_TAGGED = {"X-Content-Type-Options": "nosniff", "Vary": "Authorization"}


def paths() -> Sequence[str]:
    """The paths of all views."""
    return [view.path for view in views.VIEWS]


def is_here(path: str) -> bool:
    """Whether the path is one of the console's: of a view, or of a file of its page."""
    return views.find(path) is not None or assets.find(path) is not None


def reply_with_file(request: web.Request) -> http_site.Reply | None:
    """The file of the page at the path; None: it is another page. A file has no secret and needs no credentials."""
    asset = assets.find(request.raw_path.partition("?")[0])
    if asset is None:
        return None
    _check_method(request)
    headers = {**assets.HEADERS, "ETag": asset.etag}
    if _has(request, asset.etag):
        return http_site.Reply(b"", asset.content_type, 304, headers)
    return http_site.Reply(asset.body, asset.content_type, headers=headers)


class ConsolePages:
    """Answers requests for views."""

    def __init__(
        self, state: console_state.ConsoleState, callers: access.Access, past_names: visibility.PastNames
    ) -> None:
        """`past_names` are not shown to who may not list nodes and pods either."""
        self._state = state
        self._access = callers
        self._past_names = past_names

    async def reply_with_view(self, request: web.Request, user: User, *, pretty: bool) -> http_site.Reply | None:
        """The view at the path; None: it is another page. Raises: HttpFailure, ReviewError."""
        found = views.find(request.raw_path.partition("?")[0])
        if found is None:
            return None
        _check_method(request)
        sight = await self._sight_of(user, found)
        try:
            query = {name: request.query.getall(name) for name in request.query if name != "pretty"}
            arguments = found.view.arguments(query)
        except request_errors.BadRequest as error:
            raise failures.bad_request(str(error)) from error
        if not self._state.cluster.synced:
            raise failures.unavailable("no frontend has sent this replica all of the cluster yet: try again")
        etag = found.etag(self._state, sight, arguments)
        headers = {**_TAGGED, "ETag": etag}
        if _has(request, etag):
            return http_site.Reply(b"", http_site.JSON, 304, headers)
        document = found.document(self._state, sight, arguments)
        if document is None:
            raise failures.HttpFailure(404, "NotFound", f"there is no {' '.join(found.names.values())} now")
        # In a thread: thousands of nodes take a while, in which the cluster is to be followed.
        body = await asyncio.to_thread(_to_json, document, pretty=pretty)
        return http_site.Reply(body, http_site.JSON, headers=headers)

    async def _sight_of(self, user: User, found: views.FoundView) -> documents.Sight:
        """What the user sees of the view. Raises: HttpFailure: the user may not read it."""
        view, own_pod, namespace = found.view, "", ""
        if view.of_pod:
            own_pod, namespace = found.names["name"], found.names["namespace"]
            await self._access.check_may_get_pod(user, namespace, own_pod)
        viewer = await self._access.find_viewer(user)
        for needed, may, kind in (
            (view.nodes, viewer.lists_nodes, "nodes"),
            (view.pods, viewer.lists_pods, "pods"),
        ):
            if needed and not may:
                text = f'User "{user.name}" may not list {kind} in the whole cluster, which this page needs'
                raise failures.HttpFailure(403, "Forbidden", f"{view.path} is forbidden: {text}")
        names = visibility.NameReplacer(self._state.cluster, viewer, own_pod, self._past_names, own_namespace=namespace)
        return documents.Sight(viewer.lists_nodes, viewer.lists_pods, names.without_names)


def _check_method(request: web.Request) -> None:
    """Check that the request reads, and has no body. Raises: HttpFailure."""
    if request.method != "GET":
        raise failures.only_get()
    if request.can_read_body:
        raise failures.has_body()


def _has(request: web.Request, etag: str) -> bool:
    return etag in [text.strip() for text in request.headers.get("If-None-Match", "").split(",")]


def _to_json(document: Mapping[str, object], *, pretty: bool) -> bytes:
    """The document as JSON; `pretty`: indented for people."""
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if pretty else 0))
