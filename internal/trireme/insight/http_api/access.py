"""Who sends an HTTP request, and what of an answer it may see.

Also change: docs/security.md.

Tests: tests/security/test_insight_http.py.
"""

import asyncio
import ipaddress
from typing import Protocol

from aiohttp import web

from trireme.insight.http_api import failures
from trireme.insight.http_api.visibility import Viewer
from trireme_kube.componentbase.server import caller_names, http_site
from trireme_kube.componentbase.server.authentication import (
    Headers,
    ReviewError,
    Unauthenticated,
    User,
)
from trireme_kube.componentbase.server.authorization import AccessVerdict, ResourceAccess, forbidden_resource_message

USER_HEADER = "Trireme-User"
"""Whom insight forwards a request for: the name in hexadecimal UTF-8."""

_NODES, _PODS = ResourceAccess("list", "nodes"), ResourceAccess("list", "pods")


class Access(Protocol):
    """Authenticates callers and says what they may see. Raises: HttpFailure, ReviewError.

    Implementers: trireme.insight.http_api.access.ReviewedAccess, trireme.insight.http_api.access.LoopbackAccess,
    trireme.insight.http_api.access.ForwardedAccess.
    """

    async def authenticate(self, request: web.Request) -> User:
        """The caller."""
        ...

    async def check_may_get_pod(self, user: User, namespace: str, name: str) -> None:
        """Raise HttpFailure unless the user may read the pod."""
        ...

    async def find_viewer(self, user: User) -> Viewer:
        """What the user may list in the whole cluster."""
        ...


class Guard(Protocol):
    """The part of a server's guard that is used here.

    Implementers: trireme.delegated_access.delegated_guard.DelegatedGuard.
    """

    async def authenticate(self, headers: Headers, certificate: bytes | None) -> User:
        """Find the caller by headers and client certificate. Raises: Unauthenticated."""
        ...

    async def authorize_resource(self, user: User, access: ResourceAccess) -> AccessVerdict:
        """Whether the user has this access. Raises: ReviewError."""
        ...


class ReviewedAccess:
    """Has the API server review each caller. One without credentials is refused, whatever anonymous users may do."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def authenticate(self, request: web.Request) -> User:
        """The caller. Raises: HttpFailure."""
        _check_credential_headers(request)
        certificate = http_site.client_certificate(request)
        try:
            user = await self._guard.authenticate(tuple(request.headers.items()), certificate)
        except Unauthenticated as error:
            if isinstance(error.__cause__, ReviewError):
                raise error.__cause__ from error
            raise failures.unauthorized() from error
        if user.name == caller_names.ANONYMOUS or not user.name:
            raise failures.unauthorized()
        return user

    async def check_may_get_pod(self, user: User, namespace: str, name: str) -> None:
        """Raises: HttpFailure, ReviewError."""
        access = ResourceAccess("get", "pods", namespace, name)
        verdict = await self._guard.authorize_resource(user, access)
        if not verdict.allowed:
            message = forbidden_resource_message(user, access, verdict.reason)
            raise failures.HttpFailure(403, "Forbidden", f"{message}; who may get the pod may see its explanation")

    async def find_viewer(self, user: User) -> Viewer:
        """What the user may list. Raises: ReviewError."""
        nodes, pods = await asyncio.gather(
            self._guard.authorize_resource(user, _NODES), self._guard.authorize_resource(user, _PODS)
        )
        return Viewer(nodes.allowed, pods.allowed)


class LoopbackAccess:
    """Takes everybody on this machine for one user who may see all, unless a web page of elsewhere sent the request."""

    async def authenticate(self, request: web.Request) -> User:
        """The one user. Raises: HttpFailure: the request is for a host that is not this one.

        A page from elsewhere whose name resolves to this machine would send its own name (DNS rebinding).
        """
        if not _is_loopback(request.headers.getall("Host", [])):
            message = "the Host header names another machine: use the address that --http-listen has, or localhost"
            raise failures.HttpFailure(403, "Forbidden", message)
        return User("loopback")

    async def check_may_get_pod(self, user: User, namespace: str, name: str) -> None:
        """The user may."""

    async def find_viewer(self, user: User) -> Viewer:
        """The user sees all."""
        return Viewer(lists_nodes=True, lists_pods=True)


class ForwardedAccess(LoopbackAccess):
    """Takes the caller from a header of insight, which alone can connect, and has asked whether the caller sees all."""

    async def authenticate(self, request: web.Request) -> User:
        """The caller that insight names. Raises: HttpFailure: the header is missing, or no text."""
        try:
            name = bytes.fromhex(request.headers[USER_HEADER]).decode()
        except (KeyError, ValueError) as error:
            raise failures.unauthorized() from error
        return User(name)


def check_sees_all(user: User, viewer: Viewer, what: str) -> None:
    """Refuse users who may not see the whole cluster; `what` they may not. Raises: HttpFailure."""
    for resource, allowed in (("nodes", viewer.lists_nodes), ("pods", viewer.lists_pods)):
        if not allowed:
            text = (
                f'{resource} is forbidden: User "{user.name}" cannot list resource "{resource}" at the cluster scope; '
                f"who may list nodes and pods in the whole cluster may {what}"
            )
            raise failures.HttpFailure(403, "Forbidden", text)


def _check_credential_headers(request: web.Request) -> None:
    """Refuse headers that a proxy in front may read in another way than this server. Raises: HttpFailure."""
    if len(request.headers.getall("Authorization", [])) > 1:
        raise failures.bad_request("the request has more than one Authorization header: send one")
    if any(name.lower().startswith("impersonate-") for name in request.headers):
        raise failures.bad_request("Impersonate-* headers are not supported here: send a token of that user")


def _is_loopback(hosts: list[str]) -> bool:
    """Whether the only host named is this machine."""
    if len(hosts) != 1:
        return False
    text = hosts[0].lower()
    name = text.partition("]")[0].removeprefix("[") if text.startswith("[") else text.partition(":")[0]
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
