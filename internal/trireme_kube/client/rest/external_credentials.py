"""Credentials from outside the kubeconfig: a credential plugin or an identity provider.

`kubernetes.aio` obtains and renews them. It raises whatever exception a mistake happens to cause; this module turns
that into one line that names the file and the field. Importing this module imports the package, so `credentials`
imports it only where it is needed.

Tests: tests/unit/client/rest/test_credentials.py.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from kubernetes.aio import config as kube_config
from kubernetes.aio.config import kube_config as kube_config_loader

from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.kubeconfig.connection import Connection
from trireme_kube.client.rest.transport_config import Renewal, TransportConfig

# The package's config module has no type hints.
_package: Any = kube_config_loader

# A credential plugin may prompt a person or call a cloud; after this long it hangs.
PLUGIN_DEADLINE_SECONDS = 60.0


async def load(connection: Connection, config: TransportConfig) -> Renewal:
    """Run the user's credential plugin or identity provider, and put the credentials into `config`.

    Returns what renews them. Raises: ConfigurationError: no usable credentials.
    """
    loader = await _load_credentials(connection)
    _take_over(loader, config)

    async def renew(rejected: bool) -> None:
        try:
            await _load_anew_if_useful(connection, loader, rejected)
        except kube_config.ConfigException as error:
            raise ConfigurationError(str(error)) from error
        _take_over(loader, config)

    return renew


async def _load_credentials(connection: Connection) -> Any:
    """Let the package load the user's credentials, running a credential plugin if it names one.

    Raises:
        ConfigurationError: Of whatever kind the package's error is; also if a plugin gave no credentials.
    """
    reports: list[str] = []
    try:
        with _collect_library_errors(reports):
            async with asyncio.timeout(PLUGIN_DEADLINE_SECONDS):
                loader = _package.KubeConfigLoader(_document_of(connection))
                await loader._load_authentication()
    except TimeoutError as error:
        raise connection.user_error(
            "", f"the credential plugin took longer than {PLUGIN_DEADLINE_SECONDS:.0f} s"
        ) from error
    except Exception as error:  # the package raises whatever a wrong field leads to
        raise connection.user_error("", " ".join(str(error).split()) or type(error).__name__) from error
    if connection.has_plugin and not (loader.__dict__.get("token") or loader.__dict__.get("cert_file")):
        raise connection.user_error(".exec", "; ".join(reports) or "the credential plugin gave no credentials")
    return loader


def _document_of(connection: Connection) -> dict[str, Any]:
    """A kubeconfig with the user alone, for the package: it needs a context and a cluster too."""
    context = {"cluster": "c", "user": "u"}
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": connection.host}}],
        "users": [{"name": "u", "user": dict(connection.user)}],
    }


def _take_over(loader: Any, config: TransportConfig) -> None:
    """Put the credentials that the package has loaded into `config`; what it has none of stays."""
    found = loader.__dict__
    config.authorization = found.get("token", config.authorization)
    config.cert_file = found.get("cert_file", config.cert_file)
    config.key_file = found.get("key_file", config.key_file)


async def _load_anew_if_useful(connection: Connection, loader: Any, rejected: bool) -> None:
    """Load credentials anew, where that can help.

    Args: rejected: Whether the server rejected the present ones: then an expiry yet to come means nothing.
    """
    if connection.has_plugin:
        has_expiry = hasattr(loader, "exec_plugin_expiry")
        if rejected and has_expiry:
            del loader.exec_plugin_expiry
        elif not rejected and not has_expiry:
            return  # without an expiry, the plugin runs again only after the server rejected its credentials
        async with asyncio.timeout(PLUGIN_DEADLINE_SECONDS):
            await loader.load_from_exec_plugin()
    else:
        if rejected and loader.provider == kube_config_loader.PROVIDER_TYPE_OIDC:
            # Whether the token has expired is decided by our wall clock, which may be behind.
            await _refresh_id_token(loader)
        await loader._load_authentication()  # calls the identity provider again if the token has expired


async def _refresh_id_token(loader: Any) -> None:
    """Get a new token from the identity provider, if we may."""
    provider = loader._user["auth-provider"]
    if "refresh-token" in provider["config"]:
        await loader._refresh_oidc(provider)


@contextlib.contextmanager
def _collect_library_errors(into: list[str]) -> Iterator[None]:
    """Collect the package's error log lines: for a failed credential plugin it only logs the reason."""

    class Collector(logging.Handler):
        """Keeps each message as one line."""

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
