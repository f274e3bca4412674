"""Credentials from outside the kubeconfig: a credential plugin, an identity provider, or the pod's service account.

`kubernetes.aio` obtains and renews them. It raises whatever exception a mistake happens to cause; this module turns
that into one line that names the file and the field. Importing this module imports the package, so `credentials`
imports it only where it is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from kubernetes.aio import config as kube_config
from kubernetes.aio.config import incluster_config
from kubernetes.aio.config import kube_config as kube_config_loader

from trireme_kube.client.rest import connection, kubeconfig
from trireme_kube.client.rest.errors import KubeconfigError

# The package's config module has no type hints.
_package: Any = kube_config_loader
_in_cluster_package: Any = incluster_config

# A credential plugin may prompt a person or call a cloud; after this long it hangs.
PLUGIN_DEADLINE_SECONDS = 60.0


def in_cluster() -> tuple[connection.Connection, connection.Renewal]:
    """Connect as the pod's service account. Raises: KubeconfigError: there is none."""
    config = connection.Connection()
    # Without the package's own refreshing: it goes by the wall clock, which may be set back for hours.
    loader = _in_cluster_package.InClusterConfigLoader(
        incluster_config.SERVICE_TOKEN_FILENAME, incluster_config.SERVICE_CERT_FILENAME, try_refresh_token=False
    )
    try:
        loader.load_and_set(config)
    except (kube_config.ConfigException, OSError) as error:
        # kube-scheduler's text where neither is configured.
        raise KubeconfigError(
            "no kubeconfig and no master given, and no service account found "
            f"({incluster_config.SERVICE_TOKEN_FILENAME}: {str(error).rstrip('.')})"
        ) from error

    async def reload_token(_: bool) -> None:
        with _as_kubeconfig_errors():
            loader._read_token_file()
        config.api_key["BearerToken"] = loader.token

    return config, reload_token


async def load(context: kubeconfig.Context) -> tuple[connection.Connection, connection.Renewal]:
    """Run the context's credential plugin or identity provider. Raises: KubeconfigError: no usable credentials."""
    config = connection.Connection()
    loader = await _load_credentials_of_context(context, config)

    async def renew_credentials(rejected: bool) -> None:
        with _as_kubeconfig_errors():
            await _load_anew_if_useful(context, loader, config, rejected)

    return config, renew_credentials


async def _load_credentials_of_context(context: kubeconfig.Context, config: connection.Connection) -> Any:
    """Let the package load the credentials of a context, running a credential plugin if it names one.

    Raises:
        KubeconfigError: Of whatever kind the package's error is; also if a plugin gave no credentials.
    """
    reports: list[str] = []
    try:
        with _collect_library_errors(reports):
            async with asyncio.timeout(PLUGIN_DEADLINE_SECONDS):
                loader = await _package.load_kube_config_from_dict(context.document, client_configuration=config)
    except TimeoutError as error:
        raise context.field_error(
            "user", f"the credential plugin took longer than {PLUGIN_DEADLINE_SECONDS:.0f} s"
        ) from error
    except Exception as error:  # the package raises whatever a wrong field leads to
        raise context.field_error("user", " ".join(str(error).split()) or type(error).__name__) from error
    if context.has_plugin and not (loader.__dict__.get("token") or loader.__dict__.get("cert_file")):
        raise context.field_error("user.exec", "; ".join(reports) or "the credential plugin gave no credentials")
    return loader


async def _load_anew_if_useful(
    context: kubeconfig.Context, loader: Any, config: connection.Connection, rejected: bool
) -> None:
    """Load credentials anew into `config`, where that can help.

    Args: rejected: Whether the server rejected the present ones: then an expiry yet to come means nothing.
    """
    if context.has_plugin:
        has_expiry = hasattr(loader, "exec_plugin_expiry")
        if rejected and has_expiry:
            del loader.exec_plugin_expiry
        elif not rejected and not has_expiry:
            return  # without an expiry, the plugin runs again only after the server rejected its credentials
        async with asyncio.timeout(PLUGIN_DEADLINE_SECONDS):
            await loader.load_from_exec_plugin()
        config.cert_file = getattr(loader, "cert_file", config.cert_file)
        config.key_file = getattr(loader, "key_file", config.key_file)
    else:
        if rejected and loader.provider == kube_config_loader.PROVIDER_TYPE_OIDC:
            # Whether the token has expired is decided by our wall clock, which may be behind.
            await _refresh_id_token(loader)
        await loader._load_authentication()  # calls the identity provider again if the token has expired
    if "token" in loader.__dict__:
        config.api_key["BearerToken"] = loader.token


async def _refresh_id_token(loader: Any) -> None:
    """Get a new token from the identity provider, if we may."""
    provider = loader._user["auth-provider"]
    if "refresh-token" in provider["config"]:
        await loader._refresh_oidc(provider)


@contextlib.contextmanager
def _as_kubeconfig_errors() -> Iterator[None]:
    """Turn the package's configuration errors within the block into KubeconfigError."""
    try:
        yield
    except kube_config.ConfigException as error:
        raise KubeconfigError(str(error)) from error


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
