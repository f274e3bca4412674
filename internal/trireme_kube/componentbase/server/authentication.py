"""Authenticates callers: by a proxy's headers, a client certificate, or a bearer token that the API server reviews.

The order is kube-scheduler's. A caller without credentials is anonymous. One whose token the API server rejects is
refused, even if anonymous callers would be served. TLS has already refused certificates that none of the authorities
issued; here the authorities of clients and of proxies are distinguished.

Source: k8s.io/apiserver/pkg/authentication.

Tests: tests/unit/componentbase/server/test_access.py, tests/contract/test_serving_access.py.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import NameOID

from trireme_kube.componentbase.logs import klog
from trireme_kube.componentbase.server import caller_names
from trireme_kube.componentbase.server.expiring_cache import ExpiringCache

log = logging.getLogger(__name__)

_UNAUTHENTICATED_GROUP = "system:unauthenticated"
_AUTHENTICATED_GROUP = "system:authenticated"


# The part of a certificate's name that is the user's UID. Source: k8s.io/apimachinery/pkg/apis/asn1.
_UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


@dataclass(frozen=True, slots=True)
class User:
    """The authenticated caller."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User(caller_names.ANONYMOUS, (_UNAUTHENTICATED_GROUP,))


class Unauthenticated(Exception):
    """The caller's credentials are invalid."""


class ReviewError(Exception):
    """The API server could not review."""


#: Reviews a token by the API server; None: nobody's. Raises: ReviewError.
ReviewToken = Callable[[str], Awaitable[User | None]]


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The headers in which a proxy names the caller. No authorities: no proxy is trusted."""

    authorities: Sequence[x509.Certificate] = ()
    allowed_names: Sequence[str] = ()
    username: Sequence[str] = (caller_names.USER_HEADER,)
    uid: Sequence[str] = ()
    group: Sequence[str] = (caller_names.GROUP_HEADER,)
    extra_prefixes: Sequence[str] = (caller_names.EXTRA_HEADER_PREFIX,)


@dataclass(frozen=True, slots=True)
class Trust:
    """The authorities that authenticate callers by certificate; replaced as a whole when it changes."""

    client_authorities: Sequence[x509.Certificate] = ()
    proxies: RequestHeaders = RequestHeaders()
    # Clients' certificates may state a UID (gate AllowParsingUserUIDFromCertAuth).
    with_uid: bool = True


#: Header names and values in order, repeated ones too.
Headers = Sequence[tuple[str, str]]


class Authenticator:
    """Authenticates callers. `trust` is called for each request, so that it may change."""

    def __init__(
        self,
        trust: Callable[[], Trust],
        review: ReviewToken | None,
        ttl_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        """`review` None: tokens are ignored."""
        self._trust = trust
        self._review = review
        self._ttl = ttl_seconds
        self._users_by_token: ExpiringCache[bytes, User] = ExpiringCache(clock)
        self._reviews_under_way: dict[bytes, asyncio.Task[User | None]] = {}

    async def authenticate(self, headers: Headers, certificate: bytes | None) -> User:
        """Find the caller. `certificate` is the client's, DER.

        Raises: Unauthenticated: the credentials are invalid.
        """
        trust = self._trust()
        leaf = x509.load_der_x509_certificate(certificate) if certificate else None
        found = None
        if leaf is not None:
            found = _user_by_proxy(leaf, headers, trust.proxies) or _user_by_certificate(leaf, trust)
        if found is None:
            found = await self._user_by_token(headers)
        if found is None:
            return ANONYMOUS
        if found.name == caller_names.ANONYMOUS or _AUTHENTICATED_GROUP in found.groups:
            return found
        return User(found.name, (*found.groups, _AUTHENTICATED_GROUP), found.uid, found.extra)

    async def _user_by_token(self, headers: Headers) -> User | None:
        """The user that the bearer token stands for; None if there is no token, or nobody to review it.

        Callers with the same token share one review. A user is cached, a refusal is not. Raises: Unauthenticated.
        """
        authorization = next((value for name, value in headers if name.lower() == "authorization"), "").strip()
        kind, _, token = authorization.partition(" ")
        token = token.strip()
        if self._review is None or kind.lower() != "bearer" or not token:
            return None
        # The tokens themselves are not stored.
        key = hashlib.sha256(token.encode()).digest()
        cached = self._users_by_token.get(key)
        if cached is not None:
            return cached
        task = self._reviews_under_way.get(key)
        if task is None:
            task = self._reviews_under_way[key] = asyncio.ensure_future(self._review(token))
            task.add_done_callback(lambda _: self._reviews_under_way.pop(key, None))
        try:
            user = await asyncio.shield(task)
        except ReviewError as error:
            klog.error(log, "Unable to authenticate the request", err=str(error))
            raise Unauthenticated from error
        if user is None:
            klog.error(log, "Unable to authenticate the request", err="invalid bearer token")
            raise Unauthenticated
        self._users_by_token.put(key, user, self._ttl)
        return user


def _user_by_proxy(leaf: x509.Certificate, headers: Headers, proxies: RequestHeaders) -> User | None:
    """The user that a trusted proxy names in headers; None if the caller is no such proxy, or names nobody."""
    if not issued_by(leaf, proxies.authorities):
        return None
    if proxies.allowed_names and _common_name(leaf) not in proxies.allowed_names:
        return None
    name = next(iter(_values_of_first_present(headers, proxies.username)), "")
    if not name:
        return None
    extra: dict[str, list[str]] = {}
    for header, value in headers:
        for prefix in proxies.extra_prefixes:
            if header.lower().startswith(prefix.lower()):
                extra.setdefault(unquote(header[len(prefix) :].lower()), []).append(value)
                break
    return User(
        name,
        tuple(_values_of_first_present(headers, proxies.group)),
        next(iter(_values_of_first_present(headers, proxies.uid)), ""),
        {key: tuple(values) for key, values in extra.items()},
    )


def _user_by_certificate(leaf: x509.Certificate, trust: Trust) -> User | None:
    """Raises: Unauthenticated if the certificate states an invalid UID."""
    name = _common_name(leaf)
    if not name or not issued_by(leaf, trust.client_authorities):
        return None
    uid = ""
    stated = [str(entry.value) for entry in leaf.subject.get_attributes_for_oid(_UID)] if trust.with_uid else []
    if stated:
        uid = stated[0]
        if len(stated) > 1 or not uid:
            why = f"expected 1 UID, but found multiple: {stated}" if uid else "UID cannot be an empty string"
            klog.error(log, "Unable to authenticate the request", err=why)
            raise Unauthenticated
    organizations = leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return User(name, tuple(str(entry.value) for entry in organizations), uid)


def issued_by(leaf: x509.Certificate, authorities: Sequence[x509.Certificate]) -> bool:
    """Whether one of the authorities signed it itself.

    Go accepts intermediate authorities that the caller sends, too. TLS does so here, but Python 3.11 hands on the
    caller's own certificate alone: an intermediate authority has to be listed beside its root.
    """
    for authority in authorities:
        try:
            leaf.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            continue
        return True
    return False


def _common_name(leaf: x509.Certificate) -> str:
    """Return the certificate's common name, empty if it has none."""
    names = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def _values_of_first_present(headers: Headers, names: Sequence[str]) -> list[str]:
    """The values of the first of the names that is present."""
    for expected in names:
        found = [value for name, value in headers if name.lower() == expected.lower() and value]
        if found:
            return found
    return []
