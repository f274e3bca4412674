"""The connection to the API server: kubeconfig, `--master` or the pod's own service account, checked before use.

The client itself is made elsewhere, from the kubeconfig. This module finds every mistake that can be found without a
connection, because it should stop the program before anything is scheduled, with one line that names the file.

Source: k8s.io/client-go/tools/clientcmd, k8s.io/client-go/rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trireme.config import server_url
from trireme.config.gates import aggregate
from trireme.config.kubeconfig_schema import CONFIG
from trireme.config.loading import ConfigurationError, interpret, not_registered, os_error, read_file
from trireme.config.model import ClientConnection
from trireme.config.trust import ClientTLS, check_client, check_files
from trireme_kube.apimachinery import yaml_document
from trireme_kube.apimachinery.decoding import DecodeError, decode
from trireme_kube.apimachinery.golang import quote
from trireme_kube.apimachinery.json_document import Object

Log = Callable[[str], None]
Value = Mapping[str, Any]

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NO_CONFIGURATION = (
    "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
)
_NOT_IN_CLUSTER = (
    "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"
)
_EXEC_VERSIONS = ("client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1")
#: Older versions have a default for the interactive mode.
_WITH_A_MODE = ("client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1alpha1")


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
"""What is said of providers that there once were."""


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
    config = _load(path) if path else {}
    try:
        return _direct(config, path, master)
    except _EmptyError:
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
        if host and port and (_SERVICE_ACCOUNT / "token").is_file():
            return in_cluster(environment)
        raise ConfigurationError(_NO_CONFIGURATION) from None


def check(connection: Connection, *, qps: float = 0.0, burst: int = 1) -> None:
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
        server_url.server(connection.host, tls=_secured(tls))
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _secured(tls: ClientTLS) -> bool:
    return bool(tls.ca_file or tls.ca_data or tls.cert_file or tls.cert_data or tls.insecure)


class _EmptyError(ConfigurationError):
    """The kubeconfig names no cluster at all."""


# Loading.


def _load(path: str) -> dict[str, Any]:
    try:
        Path(path).stat()
    except FileNotFoundError as error:
        raise ConfigurationError(f"stat {path}: {os_error(error)}") from error
    except (OSError, ValueError):
        pass  # reading reports it better
    try:
        return _resolved(_decode(read_file(path)), Path(path).absolute().parent)
    except ConfigurationError as error:
        raise ConfigurationError(f'error loading config file "{path}": {error}') from error


def _decode(data: bytes) -> dict[str, Any]:
    if not data:
        return {}
    try:
        node = yaml_document.parse(data).node
    except yaml_document.MalformedYAMLError as error:
        raise ConfigurationError(str(error)) from error
    kind = interpret(node).or_else("", "v1", "Config")
    if (kind.group, kind.version, kind.kind) != ("", "v1", "Config"):
        raise ConfigurationError(not_registered(kind))
    try:
        value = decode(node if node is not None else Object(()), CONFIG).value
    except DecodeError as error:
        raise ConfigurationError(str(error)) from error
    for field_name, kind_name in (("clusters", "Cluster"), ("users", "AuthInfo"), ("contexts", "Context")):
        _by_name(value.get(field_name) or [], kind_name)
    return value


def _by_name(entries: list[Value], kind: str) -> dict[str, Value]:
    """Entries of a list by name.

    Raises:
        ConfigurationError: two have one name.
    """
    found: dict[str, Value] = {}
    for entry in entries:
        name = entry.get("name", "")
        if name in found:
            raise ConfigurationError(
                f"error converting *[]Named{kind} into *map[string]*api.{kind}: "
                f'duplicate name "{name}" in list{_format_entries(entries, kind)}'
            )
        found[name] = entry
    return found


def _format_entries(entries: list[Value], kind: str) -> str:
    """A list as Go prints it; users' secrets are masked."""
    rows: list[str] = []
    for entry in entries:
        if kind == "AuthInfo":
            inner = _format_user(entry.get("user") or {})
        elif kind == "Context":
            value = entry.get("context") or {}
            inner = [value.get("cluster", ""), value.get("user", ""), value.get("namespace", ""), "[]"]
        else:
            value = entry.get("cluster") or {}
            authorities = value.get("certificate-authority-data", b"")
            inner = [
                value.get("server", ""),
                value.get("tls-server-name", ""),
                str(value.get("insecure-skip-tls-verify", False)).lower(),
                value.get("certificate-authority", ""),
                f"[{' '.join(str(byte) for byte in authorities)}]",
                value.get("proxy-url", ""),
                str(value.get("disable-compression", False)).lower(),
                "[]",
            ]
        rows.append(f"{{{entry.get('name', '')} {{{' '.join(inner)}}}}}")
    return f": [{' '.join(rows)}]"


def _format_user(user: Value) -> list[str]:
    def data(name: str) -> str:
        return f"[{' '.join(map(str, user.get(name) or b''))}]"

    def secret(name: str) -> str:
        return "REDACTED" if user.get(name) else ""

    extra = user.get("as-user-extra") or {}
    extra_text = " ".join(f"{key}:[{' '.join(extra[key] or ())}]" for key in sorted(extra))
    return [
        user.get("client-certificate", ""),
        data("client-certificate-data"),
        user.get("client-key", ""),
        "[REDACTED]" if user.get("client-key-data") else "[]",
        secret("token"),
        user.get("tokenFile", ""),
        user.get("as", ""),
        user.get("as-uid", ""),
        f"[{' '.join(user.get('as-groups') or ())}]",
        f"map[{extra_text}]",
        user.get("username", ""),
        secret("password"),
        # Go prints the addresses of these.
        *("<nil>" if user.get(name) is None else "0x0" for name in ("auth-provider", "exec")),
        "[]",
    ]


_PATHS = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile")),
}


def _resolved(config: dict[str, Any], base: Path) -> dict[str, Any]:
    """The file with relative paths made absolute."""
    for section, (inner, names) in _PATHS.items():
        for entry in config.get(section) or ():
            part = entry.setdefault(inner, {})
            for name in names:
                if part.get(name):
                    part[name] = str(base / part[name]) if not Path(part[name]).is_absolute() else part[name]
    return config


# Using.


def _direct(config: Value, path: str, master: str) -> Connection:
    context_name = config.get("current-context", "")
    contexts = _by_name(config.get("contexts") or [], "Context")
    context: Value = contexts.get(context_name, {}).get("context", {})
    user_name, cluster_name = context.get("user", ""), context.get("cluster", "")
    user: Value = _by_name(config.get("users") or [], "AuthInfo").get(user_name, {}).get("user", {})
    clusters = _by_name(config.get("clusters") or [], "Cluster")
    cluster: dict[str, Any] = dict(clusters.get(cluster_name, {}).get("cluster", {}))
    if master:
        cluster["server"] = master
        cluster.pop("tls-server-name", None)
    problems: list[str] = []
    if context_name and context_name not in contexts:
        problems.append(f"context was not found for specified context: {context_name}")
    problems.extend(_user_problems(user_name, user))
    # A cluster's origin is part of it: one in a file is not empty, whatever its fields.
    if not cluster and cluster_name not in clusters:
        if not problems:
            raise _EmptyError(_NO_CONFIGURATION)
        problems.append("cluster has no server defined")
    else:
        problems.extend(_cluster_problems(cluster_name, cluster))
    if problems:
        raise ConfigurationError(f"invalid configuration: {aggregate(problems)}")
    return _connection(path, cluster, user)


def _connection(path: str, cluster: Value, user: Value) -> Connection:
    host = cluster.get("server", "")
    tls = ClientTLS(
        insecure=cluster.get("insecure-skip-tls-verify", False),
        server_name=cluster.get("tls-server-name", ""),
        ca_file=cluster.get("certificate-authority", ""),
        ca_data=cluster.get("certificate-authority-data", b""),
    )
    try:
        secure = server_url.server(host, tls=False).scheme == "https"
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


def _open_problem(path: str) -> str:
    try:
        with Path(path).open("rb"):
            return ""
    except IsADirectoryError:
        return ""
    except OSError as error:
        return f"open {path}: {os_error(error)}"


def _cluster_problems(name: str, cluster: Value) -> list[str]:
    problems: list[str] = []
    if not cluster.get("server"):
        problem = f"no server found for cluster {quote(name)}" if name else "default cluster has no server defined"
        problems.append(problem)
    proxy = cluster.get("proxy-url", "")
    if proxy:
        problem = _proxy_problem(proxy)
        if problem:
            problems.append(f"invalid 'proxy-url' {quote(proxy)} for cluster {quote(name)}: {problem}")
    ca_file = cluster.get("certificate-authority", "")
    if ca_file and cluster.get("certificate-authority-data"):
        problems.append(
            f"certificate-authority-data and certificate-authority are both specified for {name}. "
            "certificate-authority-data will override."
        )
    if ca_file and _open_problem(ca_file):
        problems.append(f"unable to read certificate-authority {ca_file} for {name} due to {_open_problem(ca_file)}")
    return problems


def _proxy_problem(proxy: str) -> str:
    try:
        scheme = server_url.parse(proxy).scheme
    except ValueError:
        return f"could not parse: {proxy}"
    if scheme not in ("http", "https", "socks5"):
        return f"unsupported scheme {quote(scheme)}, must be http, https, or socks5"
    return ""


def _user_problems(name: str, user: Value) -> list[str]:
    problems: list[str] = []
    certificate, private_key = user.get("client-certificate", ""), user.get("client-key", "")
    if certificate or user.get("client-certificate-data"):
        if certificate and user.get("client-certificate-data"):
            problems.append(
                f"client-cert-data and client-cert are both specified for {name}. client-cert-data will override."
            )
        if private_key and user.get("client-key-data"):
            problems.append(
                f"client-key-data and client-key are both specified for {name}; client-key-data will override"
            )
        if not private_key and not user.get("client-key-data"):
            problems.append(
                f"client-key-data or client-key must be specified for {name} to use the clientCert "
                "authentication method."
            )
        for what, path in (("client-cert", certificate), ("client-key", private_key)):
            if path and _open_problem(path):
                problems.append(f"unable to read {what} {path} for {name} due to {_open_problem(path)}")
    problems.extend(_exec_problems(name, user))
    if user.get("token") and (user.get("username") or user.get("password")):
        problems.append(
            f"more than one authentication method found for {name}; found [token basicAuth], only one is allowed"
        )
    if (user.get("as-uid") or user.get("as-groups") or user.get("as-user-extra")) and not user.get("as"):
        problems.append(f"requesting uid, groups or user-extra for {name} without impersonating a user")
    return problems


def _exec_problems(name: str, user: Value) -> list[str]:
    command = user.get("exec")
    if command is None:
        return []
    problems: list[str] = []
    if user.get("auth-provider") is not None:
        problems.append(f"authProvider cannot be provided in combination with an exec plugin for {name}")
    suffix = f"must be specified for {name} to use exec authentication plugin"
    if not command.get("command"):
        problems.append(f"command {suffix}")
    if not command.get("apiVersion"):
        problems.append(f"apiVersion {suffix}")
    problems.extend(f"env variable name {suffix}" for entry in command.get("env") or () if not entry.get("name"))
    mode = command.get("interactiveMode", "")
    if not mode and command.get("apiVersion") not in _WITH_A_MODE:
        problems.append(f"interactiveMode {suffix}")
    elif mode and mode not in ("Never", "IfAvailable", "Always"):
        problems.append(f"invalid interactiveMode for {name}: {quote(mode)}")
    return problems
