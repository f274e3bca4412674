"""The connection to an API server: a kubeconfig's current context, `--master` or the pod's own service account.

It is read and validated with kube-scheduler's messages; `client_checks` finds what is wrong with its host and TLS.
Requests are sent with what `rest.credentials` makes of it.

Source: k8s.io/client-go/tools/clientcmd, k8s.io/client-go/rest.

Also change: internal/trireme_kube/client/rest/transport_config.py,
internal/trireme_kube/componentbase/server/https_server.py (hosts in URLs).
"""

import contextlib
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from trireme_kube.apimachinery.configuration_files import ConfigurationError, read_file
from trireme_kube.apimachinery.field_errors import join_messages
from trireme_kube.apimachinery.golang import quote
from trireme_kube.client.kubeconfig import loading, server_url, validation
from trireme_kube.client.kubeconfig.loading import Value
from trireme_kube.componentbase.tls.client_tls import ClientTLS

Log = Callable[[str], None]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a pod's own token and authority."""

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
    """The configured connection to an API server. Without TLS it has no credentials."""

    host: str
    tls: ClientTLS = _NO_TLS
    #: The content of `token_file` if there is one: it takes precedence, as it rotates.
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    #: The file that defines it; empty for `--master` alone and in a cluster.
    kubeconfig: str = ""
    in_cluster: bool = False
    proxy: str = ""
    #: Headers of every request, by which the user acts as somebody else.
    impersonation: tuple[tuple[str, str], ...] = ()
    #: The kubeconfig's entries of the user and the cluster, and their names there.
    user: Value = field(default_factory=dict, repr=False)
    user_name: str = ""
    cluster_name: str = ""

    @property
    def origin(self) -> str:
        """How messages call the configuration."""
        if self.kubeconfig:
            return f"kubeconfig {self.kubeconfig}"
        return "the pod's service account" if self.in_cluster else "--master"

    @property
    def has_plugin(self) -> bool:
        """Whether a program gives the credentials."""
        return self.user.get("exec") is not None

    @property
    def auth_provider(self) -> str | None:
        """The name of the identity provider that gives the credentials; None: there is none."""
        provider = self.user.get("auth-provider")
        return None if provider is None else provider.get("name", "")

    def user_error(self, field_path: str, problem: str) -> ConfigurationError:
        """An error about a field of the user, such as `.exec`, or about the whole user."""
        return self._field_error(f"users[{self.user_name}].user", field_path, problem)

    def cluster_error(self, field_path: str, problem: str) -> ConfigurationError:
        """An error about a field of the cluster."""
        return self._field_error(f"clusters[{self.cluster_name}].cluster", field_path, problem)

    def _field_error(self, entry: str, field_path: str, problem: str) -> ConfigurationError:
        """An error about a field; the kubeconfig's entry is named if there is one."""
        place = entry + field_path if self.kubeconfig else field_path.removeprefix(".")
        return ConfigurationError(f"{self.origin}: {place}: {problem}")


def in_cluster(environment: Mapping[str, str]) -> Connection:
    """The connection of a pod.

    Raises:
        ConfigurationError: this is not a pod, or it has no service account.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigurationError(_NOT_IN_CLUSTER)
    token_file, ca_file = SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt"
    token = read_file(str(token_file)).decode("utf-8", "replace")
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    tls = ClientTLS(ca_file=str(ca_file)) if ca_file.exists() else ClientTLS()
    return Connection(f"https://{address}", tls, token, str(token_file), in_cluster=True)


def connect(kubeconfig: str, master: str, environment: Mapping[str, str], log: Log) -> Connection:
    """The connection of a configuration's kubeconfig, if any, and `--master`; without either, that of the pod.

    Raises: ConfigurationError: there is none, or it cannot be used.
    """
    if not kubeconfig and not master:
        log("W Neither --kubeconfig nor --master was specified.  Using the inClusterConfig.  This might not work.")
        try:
            return in_cluster(environment)
        except ConfigurationError as error:
            log(f"W error creating inClusterConfig, falling back to default config: {error}")
    return from_kubeconfig(kubeconfig, master, environment)


def from_kubeconfig(path: str, master: str, environment: Mapping[str, str]) -> Connection:
    """The connection of a kubeconfig's current context; `master` replaces its server.

    Raises: ConfigurationError: the file cannot be read, or has no usable connection.
    """
    config = loading.load(path) if path else {}
    try:
        return _connection_of_context(config, path, master)
    except _EmptyKubeconfigError:
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
        if host and port and (SERVICE_ACCOUNT / "token").is_file():
            return in_cluster(environment)
        raise ConfigurationError(_NO_CONFIGURATION) from None


class _EmptyKubeconfigError(ConfigurationError):
    """The kubeconfig names no cluster at all."""


def _connection_of_context(config: Value, path: str, master: str) -> Connection:
    """The connection of the kubeconfig's current context; `master` replaces the server.

    Raises:
        _EmptyKubeconfigError: neither names a server.
        ConfigurationError: with all problems of the context, its user and its cluster.
    """
    context_name = config.get("current-context", "")
    contexts = loading.by_name(config.get("contexts") or [], "Context")
    context: Value = contexts.get(context_name, {}).get("context", {})
    user_name, cluster_name = context.get("user", ""), context.get("cluster", "")
    users = loading.by_name(config.get("users") or [], "AuthInfo")
    user: Value = users.get(user_name, {}).get("user", {})
    clusters = loading.by_name(config.get("clusters") or [], "Cluster")
    cluster = dict(clusters.get(cluster_name, {}).get("cluster", {}))
    if master:
        cluster["server"] = master
        cluster.pop("tls-server-name", None)
    problems: list[str] = []
    if context_name and context_name not in contexts:
        problems.append(f"context was not found for specified context: {context_name}")
    problems.extend(validation.user_problems(user_name, user))
    # A cluster's origin is part of it: one in a file is not empty, whatever its fields.
    if not cluster and cluster_name not in clusters:
        if not problems:
            raise _EmptyKubeconfigError(_NO_CONFIGURATION)
        problems.append("cluster has no server defined")
    else:
        problems.extend(validation.cluster_problems(cluster_name, cluster))
    if problems:
        raise ConfigurationError(f"invalid configuration: {join_messages(problems)}")
    connection = Connection(
        cluster.get("server", ""),
        kubeconfig=path,
        proxy=cluster.get("proxy-url", ""),
        impersonation=tuple(_impersonation_headers(user)),
        user_name=user_name,
        cluster_name=cluster_name,
    )
    return _with_tls_and_credentials(connection, cluster, user)


def _with_tls_and_credentials(connection: Connection, cluster: Value, user: Value) -> Connection:
    """The connection with the cluster's trust and the user's credentials; unchanged without https, as both are for TLS.

    Raises: ConfigurationError: the token file cannot be read, or the credential plugin is of an unknown version.
    """
    secure = False
    with contextlib.suppress(ValueError):
        secure = server_url.parse_server(connection.host, tls=False).scheme == "https"
    if not secure:
        return connection
    tls = ClientTLS(
        insecure=cluster.get("insecure-skip-tls-verify", False),
        server_name=cluster.get("tls-server-name", ""),
        ca_file=cluster.get("certificate-authority", ""),
        ca_data=cluster.get("certificate-authority-data", b""),
    )
    if user.get("client-certificate") or user.get("client-certificate-data"):
        tls = replace(
            tls,
            cert_file=user.get("client-certificate", ""),
            cert_data=user.get("client-certificate-data", b""),
            key_file=user.get("client-key", ""),
            key_data=user.get("client-key-data", b""),
        )
    token, token_file = user.get("token", ""), user.get("tokenFile", "")
    if token_file:
        try:
            token = read_file(token_file).decode("utf-8", "replace")
        except ConfigurationError:
            if not token:
                raise
    command = user.get("exec")
    if command is not None and command.get("apiVersion") not in _EXEC_VERSIONS:
        raise ConfigurationError(f"exec plugin: invalid apiVersion {quote(command.get('apiVersion', ''))}")
    return replace(
        connection,
        tls=tls,
        token=token,
        token_file=token_file,
        username=user.get("username", ""),
        password=user.get("password", ""),
        user=user,
    )


def _impersonation_headers(user: Value) -> Iterator[tuple[str, str]]:
    """The request headers of the user's `as…` fields."""
    if user.get("as"):
        yield "Impersonate-User", user["as"]
    if user.get("as-uid"):
        yield "Impersonate-Uid", user["as-uid"]
    for group in user.get("as-groups") or ():
        yield "Impersonate-Group", group
    for key, values in (user.get("as-user-extra") or {}).items():
        for value in values or ():
            yield f"Impersonate-Extra-{urllib.parse.quote(key, safe='')}", value
