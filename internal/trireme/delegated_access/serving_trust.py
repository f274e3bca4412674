"""Whom the HTTPS server trusts: authorities from files and from the cluster, and reviews by the API server.

The authorities in the cluster are those of the ConfigMap that every extension server reads. It is read at the start,
before anything else runs (`read_authentication_settings`), and once a minute after that; a configured file takes
precedence. If a later read fails, the previous value stays.

Source: k8s.io/apiserver/pkg/server/options/authentication.go.

Also change: internal/trireme/config/serving_flags.py, internal/trireme/shadow/migration/findings.py (names of flags).
Also change: internal/trireme_kube/embedded/registry/reviews.py, tests/helpers/insight_http.py (reviews of callers).
Also change: deploy/chart/templates/reviews.yaml (rights of reviews).

Tests: tests/contract/test_serving_access.py.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from cryptography import x509

from trireme.config.serving_flags import AuthenticationOptions
from trireme.framework import release
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.kubeconfig.connection import Connection
from trireme_kube.client.rest import client, credentials
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable, with_advice
from trireme_kube.componentbase.server.authentication import RequestHeaders, ReviewError, Trust, User
from trireme_kube.componentbase.server.authorization import Access, AccessVerdict

log = logging.getLogger(__name__)

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
REFRESH_SECONDS = 60.0
REVIEW_SECONDS = 10.0
# In the order of RequestHeaders' fields.
_PROXY_SETTINGS = ("allowed-names", "username-headers", "uid-headers", "group-headers", "extra-headers-prefix")


class ClusterTrust:
    """The authorities in force for callers' certificates, from files and the cluster; `follow` keeps them current.

    `api` None: the cluster is not read.
    """

    def __init__(
        self,
        options: AuthenticationOptions,
        api: client.ApiClient | None,
        cluster_settings: Mapping[str, str],
        *,
        with_uid: bool,
    ) -> None:
        """`with_uid`: clients' certificates may state a UID."""
        self._with_uid = with_uid
        self._options = options
        self._api = None if options.skip_lookup else api
        self._cluster_settings = cluster_settings
        # The latest values, and the parts of them in force, by their key in the ConfigMap.
        self._usable: dict[str, tuple[bytes, bytes]] = {}
        self._sources: tuple[bytes, bytes, Mapping[str, str]] | None = None
        self._trust = Trust()

    async def follow(self) -> None:
        """Read the ConfigMap again and again until cancelled."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            if self._api is None or not self._needs_cluster:
                continue
            try:
                self._cluster_settings = await _read_config_map(self._api)
            except (ApiError, ApiUnreachable) as error:
                text = "%s cannot be read: %s; the one before stays in force, and it is read again in %d s"
                log.warning(text, CONFIG_MAP, with_advice(error), REFRESH_SECONDS)

    def pem(self) -> bytes:
        """The certificates of all authorities."""
        clients, proxies = self._client_and_proxy_authorities()
        return clients + b"\n" + proxies if clients or proxies else b""

    @property
    def name(self) -> str:
        """The source of the authorities, in the words of kube-scheduler's log."""
        options = self._options
        within = "client-ca::kube-system::extension-apiserver-authentication"
        clients, proxies = options.client_ca_file, options.request_header_client_ca_file
        return ",".join(
            (
                f"client-ca-bundle::{clients}" if clients else f"{within}::client-ca-file",
                f"request-header::{proxies}" if proxies else f"{within}::requestheader-client-ca-file",
            )
        )

    def trust(self) -> Trust:
        """The authorities that authenticate callers now."""
        clients, proxies = self._client_and_proxy_authorities()
        sources = (clients, proxies, self._cluster_settings)
        if sources != self._sources:
            self._sources = sources
            self._trust = Trust(
                _load_authorities(clients), self._trusted_proxies(_load_authorities(proxies)), self._with_uid
            )
        return self._trust

    @property
    def _needs_cluster(self) -> bool:
        """Whether some authority comes from the cluster's ConfigMap, as no file is given."""
        return not (self._options.client_ca_file and self._options.request_header_client_ca_file)

    def _client_and_proxy_authorities(self) -> tuple[bytes, bytes]:
        """The authorities of clients and of proxies, PEM. Small files, read at each new connection."""
        return (
            self._read_authorities(self._options.client_ca_file, "client-ca-file"),
            self._read_authorities(self._options.request_header_client_ca_file, "requestheader-client-ca-file"),
        )

    def _read_authorities(self, file: str, key: str) -> bytes:
        """The bundle in the file, or else in the ConfigMap; an unusable one changes nothing."""
        previous = self._usable.get(key, (b"", b""))
        try:
            bundle = Path(file).read_bytes() if file else self._cluster_settings.get(key, "").encode()
        except OSError as error:
            log.error("%s: %s; the authorities before stay in force until it can be read", file, error.strerror)
            return previous[1]
        if bundle == previous[0]:
            return previous[1]
        usable = not bundle.strip() or bool(_load_authorities(bundle))
        self._usable[key] = (bundle, bundle if usable else previous[1])
        return self._usable[key][1]

    def _trusted_proxies(self, authorities: Sequence[x509.Certificate]) -> RequestHeaders:
        """Which proxies may name a caller, and in which headers: as flags say that name a file, or else the cluster."""
        options = self._options
        if options.request_header_client_ca_file:
            return RequestHeaders(
                authorities,
                options.request_header_allowed_names,
                options.request_header_username_headers,
                options.request_header_uid_headers,
                options.request_header_group_headers,
                options.request_header_extra_prefixes,
            )
        try:
            return RequestHeaders(
                authorities, *(self._list_setting(f"requestheader-{name}") for name in _PROXY_SETTINGS)
            )
        except ValueError as error:
            # Without allowed names every proxy would be trusted.
            log.error("%s: %s; the settings of proxies before it stay in force until it is", CONFIG_MAP, error)
            return self._trust.proxies

    def _list_setting(self, key: str) -> tuple[str, ...]:
        """A setting of the ConfigMap that is a list of texts in JSON. Raises: ValueError: it is none."""
        try:
            value = orjson.loads(self._cluster_settings.get(key) or "[]")
        except orjson.JSONDecodeError:
            value = ""
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise ValueError(f"{key} is not a list of texts in JSON")
        return tuple(value)


def read_authentication_settings(connection: Connection) -> Mapping[str, str]:
    """Read the cluster's authentication settings once, before there is an event loop.

    Raises: ConfigurationError with the cause.
    """
    try:
        return asyncio.run(_connect_and_read_config_map(connection))
    except (ApiError, ApiUnreachable) as error:
        raise ConfigurationError(str(error)) from error


async def _connect_and_read_config_map(connection: Connection) -> Mapping[str, str]:
    """Connect to the API server, read the ConfigMap of authentication, and disconnect."""
    agent = release.user_agent()
    settings = client.ClientSettings(credentials.Source(connection.kubeconfig), agent, max_connections=1)
    async with await client.connect(settings) as api:
        return await _read_config_map(api)


async def _read_config_map(api: client.ApiClient) -> Mapping[str, str]:
    """The ConfigMap's data; empty if it does not exist. Raises: ApiError, ApiUnreachable."""
    try:
        answer = (await api.read(CONFIG_MAP, deadline=REVIEW_SECONDS)).json()
    except ApiError as error:
        if error.not_found:
            return {}
        raise
    data = answer.get("data") or {}
    return {str(key): str(value) for key, value in data.items()}


class ReviewClient:
    """Has the API server review tokens (TokenReview) and access (SubjectAccessReview)."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api

    async def token(self, token: str) -> User | None:
        """The user of the token; None: nobody's. Raises: ReviewError."""
        body = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token}}
        status = await self._post_review("/apis/authentication.k8s.io/v1/tokenreviews", body)
        if not status.get("authenticated"):
            return None
        user = status.get("user") or {}
        extra = {str(key): tuple(values or ()) for key, values in (user.get("extra") or {}).items()}
        return User(user.get("username") or "", tuple(user.get("groups") or ()), user.get("uid") or "", extra)

    async def access(self, user: User, access: Access) -> AccessVerdict:
        """Whether the user has this access. Raises: ReviewError."""
        spec: dict[str, object] = {"user": user.name, **access.to_spec()}
        if user.groups:
            spec["groups"] = list(user.groups)
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}
        body = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": spec}
        status = await self._post_review("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        return AccessVerdict(bool(status.get("allowed")), status.get("reason") or "")

    async def _post_review(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """POST a review, and return its status. Raises: ReviewError."""
        try:
            answer = (await self._api.post(path, body, deadline=REVIEW_SECONDS)).json()
        except (ApiError, ApiUnreachable) as error:
            raise ReviewError(with_advice(error)) from error
        status = answer.get("status") if isinstance(answer, dict) else None
        return status if isinstance(status, dict) else {}


def _load_authorities(pem: bytes) -> list[x509.Certificate]:
    """The certificates in the bundle; an unusable one is logged, and has none."""
    if not pem.strip():
        return []
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        log.error("authorities of clients are not PEM certificates; those before stay in force until they are")
        return []
