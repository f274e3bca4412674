"""The connection to the API server: kubeconfig, `--master` or the pod's own service account, checked before use.

The client itself is made elsewhere, from the kubeconfig. This module, with `kubeconfig_validation`, finds every mistake
that can be found without a connection, because it should stop the program before anything is scheduled, with one line
that names the file.

Source: k8s.io/client-go/tools/clientcmd, k8s.io/client-go/rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trireme.config import kubeconfig_loading, kubeconfig_validation, server_url
from trireme.config.model import ClientConnection
from trireme.config.trust import ClientTLS, check_client, check_files
from trireme_kube.apimachinery.configuration_files import ConfigurationError, read_file
from trireme_kube.apimachinery.field_errors import join_messages
from trireme_kube.apimachinery.golang import quote

Log = Callable[[str], None]

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NO_CONFIGURATION = (
    "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
)
_NOT_IN_CLUSTER = (
    "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"
)
_EXEC_VERSIONS = ("client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1")

_NO_TLS = ClientTLS()


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection to the API server."""

    host: str
    tls: ClientTLS = _NO_TLS
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    #: The file that defines it; empty for `--master` alone and in a cluster.
    kubeconfig: str = ""
    in_cluster: bool = False
    #: Client plugins that existed before commands; none are left.
    auth_provider: str | None = None


_REMOVED_PROVIDERS = {
    "azure": """The azure auth plugin has been removed.
Please use the https://github.com/Azure/kubelogin kubectl/client-go credential plugin instead.
See https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins for further \
details""",
    "gcp": """The gcp auth plugin has been removed.
Please use the "gke-gcloud-auth-plugin" kubectl/client-go credential plugin instead.
See https://cloud.google.com/blog/products/containers-kubernetes/kubectl-auth-changes-in-gke for further details""",
}
"""The messages about removed providers."""


def in_cluster(environment: Mapping[str, str]) -> Connection:
    """The connection of a pod.

    Raises:
        ConfigurationError: this is not a pod, or it has no service account.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigurationError(_NOT_IN_CLUSTER)
    token_file, ca_file = _SERVICE_ACCOUNT / "token", _SERVICE_ACCOUNT / "ca.crt"
    token = read_file(str(token_file)).decode("utf-8", "replace")
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    tls = ClientTLS(ca_file=str(ca_file)) if ca_file.exists() else ClientTLS()
    return Connection(f"https://{address}", tls, token, str(token_file), in_cluster=True)


def connect(client: ClientConnection, master: str, environment: Mapping[str, str], log: Log) -> Connection:
    """Make and check the connection for a configuration and `--master`.

    Raises: ConfigurationError: there is none, or it cannot be used.
    """
    if not client.kubeconfig and not master:
        log("W Neither --kubeconfig nor --master was specified.  Using the inClusterConfig.  This might not work.")
        try:
            return in_cluster(environment)
        except ConfigurationError as error:
            log(f"W error creating inClusterConfig, falling back to default config: {error}")
    return from_kubeconfig(client.kubeconfig, master, environment)


def from_kubeconfig(path: str, master: str, environment: Mapping[str, str]) -> Connection:
    """The connection of a kubeconfig's current context; `master` replaces its server.

    Raises: ConfigurationError: the file cannot be read, or has no usable connection.
    """
    config = kubeconfig_loading.load(path) if path else {}
    try:
        return _connection_of_context(config, path, master)
    except _EmptyKubeconfigError:
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
        if host and port and (_SERVICE_ACCOUNT / "token").is_file():
            return in_cluster(environment)
        raise ConfigurationError(_NO_CONFIGURATION) from None


def check_connection(connection: Connection, *, qps: float = 0.0, burst: int = 1) -> None:
    """Find the errors that making a client would find.

    Raises: ConfigurationError: the host is invalid, or TLS cannot be set up.
    """
    tls = connection.tls
    if connection.auth_provider is not None:
        unknown = f"no Auth Provider found for name {quote(connection.auth_provider)}"
        raise ConfigurationError(_REMOVED_PROVIDERS.get(connection.auth_provider, unknown))
    check_files(tls)
    check_client(tls)
    if connection.username and (connection.token or connection.token_file):
        raise ConfigurationError("username/password or bearer token may be set, but not both")
    if qps > 0 and burst <= 0:
        raise ConfigurationError(
            "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to greater than 0"
        )
    try:
        server_url.parse_server(connection.host, tls=_has_tls_settings(tls))
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _has_tls_settings(tls: ClientTLS) -> bool:
    """Whether anything of TLS is set, so that a host without a scheme means https."""
    return bool(tls.ca_file or tls.ca_data or tls.cert_file or tls.cert_data or tls.insecure)


class _EmptyKubeconfigError(ConfigurationError):
    """The kubeconfig names no cluster at all."""


def _connection_of_context(config: Mapping[str, Any], path: str, master: str) -> Connection:
    """The connection of the kubeconfig's current context; `master` replaces the server.

    Raises:
        _EmptyKubeconfigError: neither names a server.
        ConfigurationError: with all problems of the context, its user and its cluster.
    """
    context_name = config.get("current-context", "")
    contexts = kubeconfig_loading.by_name(config.get("contexts") or [], "Context")
    context: Mapping[str, Any] = contexts.get(context_name, {}).get("context", {})
    user_name, cluster_name = context.get("user", ""), context.get("cluster", "")
    users = kubeconfig_loading.by_name(config.get("users") or [], "AuthInfo")
    user: Mapping[str, Any] = users.get(user_name, {}).get("user", {})
    clusters = kubeconfig_loading.by_name(config.get("clusters") or [], "Cluster")
    cluster: dict[str, Any] = dict(clusters.get(cluster_name, {}).get("cluster", {}))
    if master:
        cluster["server"] = master
        cluster.pop("tls-server-name", None)
    problems: list[str] = []
    if context_name and context_name not in contexts:
        problems.append(f"context was not found for specified context: {context_name}")
    problems.extend(kubeconfig_validation.user_problems(user_name, user))
    # A cluster's origin is part of it: one in a file is not empty, whatever its fields.
    if not cluster and cluster_name not in clusters:
        if not problems:
            raise _EmptyKubeconfigError(_NO_CONFIGURATION)
        problems.append("cluster has no server defined")
    else:
        problems.extend(kubeconfig_validation.cluster_problems(cluster_name, cluster))
    if problems:
        raise ConfigurationError(f"invalid configuration: {join_messages(problems)}")
    return _connection_to_cluster(path, cluster, user)


def _connection_to_cluster(path: str, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> Connection:
    """The connection to a checked cluster as this user. Without https no credentials are sent."""
    host = cluster.get("server", "")
    tls = ClientTLS(
        insecure=cluster.get("insecure-skip-tls-verify", False),
        server_name=cluster.get("tls-server-name", ""),
        ca_file=cluster.get("certificate-authority", ""),
        ca_data=cluster.get("certificate-authority-data", b""),
    )
    try:
        secure = server_url.parse_server(host, tls=False).scheme == "https"
    except ValueError:
        secure = False
    if not secure:
        # Credentials and trust are for TLS alone.
        return Connection(host, kubeconfig=path)
    token, token_file = user.get("token", ""), user.get("tokenFile", "")
    if not token and token_file:
        token = read_file(token_file).decode("utf-8", "replace")
    if user.get("client-certificate") or user.get("client-certificate-data"):
        tls = ClientTLS(
            insecure=tls.insecure,
            server_name=tls.server_name,
            ca_file=tls.ca_file,
            ca_data=tls.ca_data,
            cert_file=user.get("client-certificate", ""),
            cert_data=user.get("client-certificate-data", b""),
            key_file=user.get("client-key", ""),
            key_data=user.get("client-key-data", b""),
        )
    command = user.get("exec")
    if command is not None and command.get("apiVersion") not in _EXEC_VERSIONS:
        raise ConfigurationError(f"exec plugin: invalid apiVersion {quote(command.get('apiVersion', ''))}")
    provider = user.get("auth-provider")
    return Connection(
        host=host,
        tls=tls,
        auth_provider=None if provider is None else provider.get("name", ""),
        token=token,
        token_file=token_file,
        username=user.get("username", ""),
        kubeconfig=path,
    )
