"""Who we are to the API server, and where it is: kubeconfig, service account, `--master`.

The parsing of credentials, their refresh and TLS are `kubernetes.aio`'s. Beside it stands what that package leaves to
its callers: a wrong file is reported in one line that names the file and the field (the package fails with whatever
exception the mistake happens to cause), file references are resolved against the kubeconfig's folder, and credentials
that change while we run are followed. Invariant: after `load` returned, everything the connection needs from disk was
read and parsed once, so a mistake shows at start and not at the first request.

How kube-scheduler chooses: a kubeconfig if one is named, with `--master` in place of its server; `--master` alone
without credentials; neither: the pod's service account.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ipaddress
import logging
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias

import multidict
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import configuration as kube_configuration
from kubernetes.aio.config import incluster_config
from kubernetes.aio.config import kube_config as kube_config_loader

from trireme.kube import kubeconfig
from trireme.kube.errors import KubeconfigError

log = logging.getLogger(__name__)

# The package's config module has no type hints.
_package: Any = kube_config_loader
_in_cluster_package: Any = incluster_config

# A multidict because Impersonate-Group is repeated for each group.
Headers: TypeAlias = "multidict.CIMultiDict[str]"

# How often rotating credentials are looked at again, as client-go does with token files.
RENEWAL_SECONDS = 60.0
# A credential plugin may ask a person or a cloud; longer than this it hangs.
PLUGIN_DEADLINE_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Where the connection is configured. Both empty: the pod's service account."""

    kubeconfig: str = ""
    master: str = ""


class Credentials:
    """The connection's configuration and the current proof of identity. Belongs to one event loop."""

    def __init__(
        self,
        configuration: kube_configuration.Configuration,
        origin: str,
        renewal: Callable[[bool], Awaitable[None]] | None = None,
        extra_headers: Sequence[tuple[str, str]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.configuration = configuration
        self.origin = origin
        self._renewal = renewal
        self._extra_headers = extra_headers
        self._clock = clock
        self._due = clock() + RENEWAL_SECONDS if renewal else float("inf")
        self._lock = asyncio.Lock()
        self.headers: Headers = self._make_headers()

    @property
    def host(self) -> str:
        """The server's URL, without a slash at its end."""
        return str(self.configuration.host).rstrip("/")

    @property
    def certificate(self) -> tuple[str | None, str | None]:
        """Files of the client certificate and its key; they change where a credential plugin gives certificates."""
        return self.configuration.cert_file, self.configuration.key_file

    def due(self) -> bool:
        """Whether `refresh` should be called before the next request."""
        return self._clock() >= self._due

    async def refresh(self, rejected: Headers | None = None) -> bool:
        """Brings rotating credentials up to date, at once if the server rejected the given headers.

        Returns whether the headers or the certificate changed. A failure keeps the old ones: they may still be good.
        """
        if self._renewal is None:
            return False
        async with self._lock:
            if rejected is not None and rejected != self.headers:
                return True  # somebody else has refreshed them meanwhile
            if rejected is None and not self.due():
                return False
            self._due = self._clock() + RENEWAL_SECONDS
            before = (self.headers, self.certificate)
            try:
                await self._renewal(rejected is not None)
            except (kube_config.ConfigException, KubeconfigError, OSError, ValueError) as error:
                log.warning("credentials of %s could not be renewed: %s", self.origin, error)
                return False
            self.headers = self._make_headers()
            return (self.headers, self.certificate) != before

    def _make_headers(self) -> Headers:
        headers = multidict.CIMultiDict(self._extra_headers)
        token = self.configuration.api_key.get("BearerToken")
        if token:
            # Token files often end with a newline, which no header may contain.
            headers["Authorization"] = token.strip()
        return headers


async def load(source: Source, clock: Callable[[], float] = time.monotonic) -> Credentials:
    """Loads and checks the configuration that `source` names.

    Raises:
      KubeconfigError: naming the file and the field at fault.
    """
    if not source.kubeconfig and not source.master:
        return _in_cluster(clock)
    context = kubeconfig.read(source.kubeconfig, source.master)
    configuration = _new_configuration()
    loader = await _load_context(context, configuration)
    credentials = Credentials(
        configuration,
        context.origin,
        _renewal_of(context, loader, configuration),
        context.impersonation,
        clock,
    )
    _check_tls(context, configuration)
    configuration.proxy = configuration.proxy or proxy_from_environment(credentials.host)
    return credentials


def _new_configuration() -> kube_configuration.Configuration:
    # The class keeps a process-wide default that its metaclass-less constructor would copy; type.__call__ is how the
    # package itself makes a fresh one.
    made: kube_configuration.Configuration = type.__call__(kube_configuration.Configuration)
    return made


def _in_cluster(clock: Callable[[], float]) -> Credentials:
    configuration = _new_configuration()
    try:
        _in_cluster_package.load_incluster_config(configuration)
    except (kube_config.ConfigException, OSError) as error:
        # kube-scheduler's words for having nothing at all to go by.
        raise KubeconfigError(
            "no kubeconfig and no master given, and no service account found "
            f"({incluster_config.SERVICE_TOKEN_FILENAME}: {str(error).rstrip('.')})"
        ) from error

    async def renew(_: bool) -> None:
        # The package's hook reads the token file again when its copy is older than a minute.
        await configuration.get_api_key_with_prefix("BearerToken")

    return Credentials(configuration, "the pod's service account", renew, clock=clock)


async def _load_context(context: kubeconfig.Context, configuration: kube_configuration.Configuration) -> Any:
    reports: list[str] = []
    try:
        with _library_reports(reports):
            async with asyncio.timeout(PLUGIN_DEADLINE_SECONDS):
                loader = await _package.load_kube_config_from_dict(context.document, client_configuration=configuration)
    except TimeoutError as error:
        raise context.error(
            "user", f"the credential plugin took longer than {PLUGIN_DEADLINE_SECONDS:.0f} s"
        ) from error
    except Exception as error:  # the package raises whatever a wrong field leads to
        raise context.error("user", " ".join(str(error).split()) or type(error).__name__) from error
    if context.has_plugin and not ("token" in loader.__dict__ or "cert_file" in loader.__dict__):
        raise context.error("user.exec", "; ".join(reports) or "the credential plugin gave no credentials")
    return loader


@contextlib.contextmanager
def _library_reports(into: list[str]) -> Iterator[None]:
    """Collects what the package logs as errors: it swallows a credential plugin's failure and only logs why."""

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            into.append(" ".join(record.getMessage().split()))

    logger, collector = kube_config_loader.logger, Collector(logging.ERROR)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(collector)
    try:
        yield
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagate


def _renewal_of(
    context: kubeconfig.Context,
    loader: Any,
    configuration: kube_configuration.Configuration,
) -> Callable[[bool], Awaitable[None]] | None:
    """The function that renews this context's credentials, or None where they never change."""
    if not context.rotates:
        return None

    async def renew(rejected: bool) -> None:
        if context.has_plugin:
            known_expiry = hasattr(loader, "exec_plugin_expiry")
            if rejected and known_expiry:
                del loader.exec_plugin_expiry
            elif not rejected and not known_expiry:
                return  # a plugin that gives no expiry is asked again only when its answer was rejected
            async with asyncio.timeout(PLUGIN_DEADLINE_SECONDS):
                await loader.load_from_exec_plugin()
            configuration.cert_file = getattr(loader, "cert_file", configuration.cert_file)
            configuration.key_file = getattr(loader, "key_file", configuration.key_file)
        else:
            await loader._load_authentication()  # reads the token file, or asks the identity provider, again
        if "token" in loader.__dict__:
            configuration.api_key["BearerToken"] = loader.token

    return renew


def _check_tls(context: kubeconfig.Context, configuration: kube_configuration.Configuration) -> None:
    """Loads each file once by itself, so that the message can name the field."""
    if not str(configuration.host).startswith("https"):
        return
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if configuration.ssl_ca_cert:
        try:
            tls.load_verify_locations(cafile=configuration.ssl_ca_cert)
        except (ssl.SSLError, OSError) as error:
            raise context.error(
                "cluster.certificate-authority", f"not a PEM certificate ({_tls_reason(error)})"
            ) from error
    if configuration.cert_file:
        try:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file, password=_no_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise context.error(
                "user.client-certificate and client-key", f"not a certificate and its key ({_tls_reason(error)})"
            ) from error


def _no_password() -> str:
    # Without this callback OpenSSL asks on the terminal for an encrypted key's password, and the process hangs.
    raise ValueError("the key is encrypted")


def _tls_reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)


def proxy_from_environment(host: str) -> str | None:
    """The proxy that the environment names for `host`, looked up once.

    aiohttp would look it up (and read ~/.netrc) for every request, at 250 µs each: three times what the request costs.
    """
    url = urllib.parse.urlsplit(host)
    name = url.hostname or ""
    if name == "localhost" or _is_loopback(name) or urllib.request.proxy_bypass(name):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
