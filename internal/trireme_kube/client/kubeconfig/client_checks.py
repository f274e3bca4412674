"""Checks of a connection that client-go makes when it makes a client: host, TLS, credentials and rate.

They find every mistake that can be found without connecting, with kube-scheduler's messages. They are separate from
the reading of kubeconfigs because they need the library for certificates, which not every program loads.

Source: k8s.io/client-go/rest, k8s.io/client-go/transport.

Tests: tests/unit/client/kubeconfig/test_connection.py.
"""

from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.golang import quote
from trireme_kube.client.kubeconfig import server_url
from trireme_kube.client.kubeconfig.connection import Connection
from trireme_kube.componentbase.tls.pem_checks import check_client, check_files


def check_connection(connection: Connection, *, qps: float = 0.0, burst: int = 1) -> None:
    """Find the errors that making a client would find.

    Raises: ConfigurationError: the host is invalid, or TLS cannot be set up.
    """
    if connection.auth_provider is not None:
        raise ConfigurationError(f"no Auth Provider found for name {quote(connection.auth_provider)}")
    check_files(connection.tls)
    check_client(connection.tls)
    if connection.username and (connection.token or connection.token_file):
        raise ConfigurationError("username/password or bearer token may be set, but not both")
    if qps > 0 and burst <= 0:
        raise ConfigurationError(
            "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to greater than 0"
        )
    try:
        server_url.parse_server(connection.host, tls=server_url.means_tls(connection.tls))
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
