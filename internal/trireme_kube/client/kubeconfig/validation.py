"""Validates the cluster and the user of a kubeconfig's context, with client-go's messages.

Source: k8s.io/client-go/tools/clientcmd (validation.go).

Tests: tests/unit/client/kubeconfig/test_validation.py, tests/unit/client/kubeconfig/test_connection.py.
"""

from pathlib import Path

from trireme_kube.apimachinery.configuration_files import os_error
from trireme_kube.apimachinery.golang import quote
from trireme_kube.client.kubeconfig import server_url
from trireme_kube.client.kubeconfig.loading import Value

#: The largest number of connections that a cluster may be given at least.
_MAX_POOL_SIZE = 100

#: Older versions have a default for the interactive mode.
_WITH_A_MODE = ("client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1alpha1")


def cluster_problems(name: str, cluster: Value) -> list[str]:
    """The problems of a cluster's entry."""
    problems: list[str] = []
    if not cluster.get("server"):
        problem = f"no server found for cluster {quote(name)}" if name else "default cluster has no server defined"
        problems.append(problem)
    proxy = cluster.get("proxy-url", "")
    if proxy:
        problem = _proxy_url_problem(proxy)
        if problem:
            problems.append(f"invalid 'proxy-url' {quote(proxy)} for cluster {quote(name)}: {problem}")
    pool_size = cluster.get("min-connection-pool-size", 0)
    if not 0 <= pool_size <= _MAX_POOL_SIZE:
        problems.append(
            f"invalid 'min-connection-pool-size' {pool_size} for cluster {quote(name)}: "
            f"must be between 0 and {_MAX_POOL_SIZE}"
        )
    ca_file = cluster.get("certificate-authority", "")
    if ca_file and cluster.get("certificate-authority-data"):
        problems.append(
            f"certificate-authority-data and certificate-authority are both specified for {name}. "
            "certificate-authority-data will override."
        )
    if ca_file and _file_open_problem(ca_file):
        problems.append(
            f"unable to read certificate-authority {ca_file} for {name} due to {_file_open_problem(ca_file)}"
        )
    return problems


def user_problems(name: str, user: Value) -> list[str]:
    """The problems of a user's entry."""
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
            if path and _file_open_problem(path):
                problems.append(f"unable to read {what} {path} for {name} due to {_file_open_problem(path)}")
    problems.extend(_exec_plugin_problems(name, user))
    if user.get("token") and (user.get("username") or user.get("password")):
        problems.append(
            f"more than one authentication method found for {name}; found [token basicAuth], only one is allowed"
        )
    if (user.get("as-uid") or user.get("as-groups") or user.get("as-user-extra")) and not user.get("as"):
        problems.append(f"requesting uid, groups or user-extra for {name} without impersonating a user")
    return problems


def _exec_plugin_problems(name: str, user: Value) -> list[str]:
    """What is wrong with a user's exec plugin; nothing without one."""
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


def _proxy_url_problem(proxy: str) -> str:
    """Why the proxy's URL cannot be used; empty: it can."""
    try:
        scheme = server_url.parse(proxy).scheme
    except ValueError:
        return f"could not parse: {proxy}"
    if scheme not in ("http", "https", "socks5"):
        return f"unsupported scheme {quote(scheme)}, must be http, https, or socks5"
    return ""


def _file_open_problem(path: str) -> str:
    """Why the file cannot be opened; empty: it can."""
    try:
        with Path(path).open("rb"):
            return ""
    except IsADirectoryError:
        return ""
    except OSError as error:
        return f"open {path}: {os_error(error)}"
