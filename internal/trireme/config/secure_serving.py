"""The HTTPS server's certificates, authorities and socket, prepared before anything else starts.

The checks and their order are kube-scheduler's, so that for a manifest with two mistakes both report the same one
first. The socket is bound here, because a port that is in use should end the program with a message, and not after
minutes of synchronising caches; the server gets it from `Serving.listener`.

Source: k8s.io/apiserver/pkg/server/options.
"""

import ipaddress
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trireme.config.serving_flags import AuthenticationOptions, AuthorizationOptions, ServingOptions
from trireme_kube.apimachinery.configuration_files import ConfigurationError, os_error, read_file
from trireme_kube.apimachinery.golang import quote
from trireme_kube.client.kubeconfig.client_checks import check_connection
from trireme_kube.client.kubeconfig.connection import Connection, from_kubeconfig, in_cluster
from trireme_kube.componentbase.tls import tls_names
from trireme_kube.componentbase.tls.pem_checks import are_readable, check_bundle, check_pair
from trireme_kube.componentbase.tls.self_signed import make_certificate

Log = Callable[[str], None]
#: Reads the ConfigMap kube-system/extension-apiserver-authentication through a connection: its data. Raises
#: `ConfigurationError` with what went wrong.
#: Implementers: trireme.delegated_access.serving_trust.read_authentication_settings.
Lookup = Callable[[Connection], Mapping[str, str]]

#: The names of the files in --cert-dir.
_PAIR_NAME = "kube-scheduler"
_BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Serving:
    """Everything that the HTTPS server needs."""

    options: ServingOptions
    #: Bound and listening, not yet accepting.
    listener: socket.socket
    #: In PEM; empty if `options` name files, which are read again when they change.
    certificate: bytes = b""
    private_key: bytes = b""
    #: The API server that reviews tokens and access; `None`: none.
    token_review: Connection | None = None
    access_review: Connection | None = None
    #: The cluster's own authentication settings; empty if there are none.
    cluster_settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The serving certificate: files, or a generated one."""

    options: ServingOptions
    certificate: bytes = b""
    private_key: bytes = b""


def default_certificate(options: ServingOptions, log: Log) -> Certificate:
    """Make a self-signed certificate if none is configured: in `--cert-dir`, or in memory.

    Raises: ConfigurationError: it cannot be made or stored.
    """
    if not options.enabled or options.cert_file or options.key_file:
        return Certificate(options)
    files: tuple[str, str] | None = None
    if options.cert_dir:
        directory = options.cert_dir.rstrip("/") or "/"
        files = (str(Path(directory, f"{_PAIR_NAME}.crt")), str(Path(directory, f"{_PAIR_NAME}.key")))
        options = replace(options, cert_file=files[0], key_file=files[1])
        there = [are_readable(file) for file in files]
        if all(there):
            return Certificate(options)
        if any(there):
            missing = files[there.index(False)]
            raise ConfigurationError(
                "error creating self-signed certificates: "
                f"error reading {missing}, certificate and key must be supplied as a pair"
            )
    certificate, private_key = make_certificate("localhost", _names_for_certificate(options.bind_address))
    if files is None:
        log("I Generated self-signed cert in-memory")
        return Certificate(options, certificate, private_key)
    try:
        _write_file(Path(files[0]), certificate, 0o644)
        _write_file(Path(files[1]), private_key, 0o600)
    except OSError as error:
        raise ConfigurationError(f"error creating self-signed certificates: {_path_error_text(error)}") from error
    log(f"I Generated self-signed cert ({files[0]}, {files[1]})")
    return Certificate(options)


def _names_for_certificate(bind_address: str) -> list[str]:
    """The names that a self-signed certificate is for."""
    names = ["localhost", "127.0.0.1"]
    if not ipaddress.ip_address(bind_address).is_unspecified:
        names.append(bind_address)
    return names


def _write_file(path: Path, data: bytes, mode: int) -> None:
    """Write a file with this mode, and make its folder."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _path_error_text(error: OSError) -> str:
    """The error of a path in Go's words."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"mkdir {error.filename}: not a directory"
    return f"open {error.filename}: {os_error(error)}"


def prepare_serving(
    certificate: Certificate,
    authentication: AuthenticationOptions,
    authorization: AuthorizationOptions,
    environment: Mapping[str, str],
    log: Log,
    lookup: Lookup | None = None,
) -> Serving | None:
    """Bind the port and check certificates, authentication and authorisation; `None` if nothing is served.

    Raises: ConfigurationError: something cannot be used.
    """
    options = certificate.options
    if not options.enabled:
        return None
    listener = bind_port(options)
    try:
        _check_tls_options(options)
        token_review = _authentication_connection(authentication, environment, log)
        cluster_settings = _look_up_request_header_settings(authentication, token_review, lookup, log)
        access_review = _authorization_connection(authorization, environment, log)
    except ConfigurationError:
        listener.close()
        raise
    return Serving(
        options,
        listener,
        certificate.certificate,
        certificate.private_key,
        token_review,
        access_review,
        cluster_settings,
    )


def bind_port(options: ServingOptions) -> socket.socket:
    """Bind the port of the HTTPS server and listen; connections wait until the server accepts them.

    An unspecified address (0.0.0.0, ::) means both families. Raises: ConfigurationError: it is in use, or we may not
    bind it.
    """
    address = ipaddress.ip_address(options.bind_address)
    host = f"[{address}]" if address.version == 6 else str(address)
    # An unspecified address means both families if the machine has two.
    both = address.is_unspecified and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or address.version == 6 else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.permit_port_sharing:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        listener.bind(("::" if both else str(address), options.secure_port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        where = f"{host}:{options.secure_port}"
        raise ConfigurationError(
            f"failed to create listener: failed to listen on {where}: listen tcp {where}: bind: {os_error(error)}"
        ) from error
    listener.setblocking(False)
    return listener


def _check_tls_options(options: ServingOptions) -> None:
    """Check certificates, ciphers, curves and TLS version. Raises: ConfigurationError."""
    if options.cert_file or options.key_file:
        check_serving_pair("serving-cert", options.cert_file, options.key_file)
    for cipher in options.cipher_suites:
        if cipher not in tls_names.CIPHERS:
            raise ConfigurationError(f"Cipher suite {cipher} not supported or doesn't exist")
    _check_curves(options.curve_preferences)
    if options.min_tls_version and options.min_tls_version not in tls_names.VERSIONS:
        raise ConfigurationError(f"unknown tls version {quote(options.min_tls_version)}")
    for pair in options.sni_cert_keys:
        try:
            check_serving_pair("sni-serving-cert", pair.cert_file, pair.key_file)
        except ConfigurationError as error:
            raise ConfigurationError(f"failed to load SNI cert and key: {error}") from error


def _check_curves(curves: Sequence[int]) -> None:
    """Check the preferences of curves. Raises: ConfigurationError for one that is unknown or repeated."""
    seen: set[int] = set()
    for curve in curves:
        if not 0 < curve <= 0xFFFF:
            raise ConfigurationError(f"curve preference {curve} is out of range (must be 1-65535)")
        if curve in seen:
            raise ConfigurationError(f"duplicate curve preference {curve}")
        if curve not in tls_names.CURVES:
            raise ConfigurationError(f"curve preference {curve} is not supported by the current Go version")
        seen.add(curve)


def check_serving_pair(purpose: str, cert_file: str, key_file: str) -> None:
    """Check the files of a serving certificate.

    Raises: ConfigurationError: one is missing, empty or malformed, or they do not belong together.
    """
    if not cert_file or not key_file:
        raise ConfigurationError("missing filename for serving cert")
    certificate, private_key = read_file(cert_file), read_file(key_file)
    if not certificate or not private_key:
        name = quote(f"{purpose}::{cert_file}::{key_file}")
        raise ConfigurationError(f"missing content for serving cert {name}")
    check_pair(certificate, private_key)


def _review_connection(kubeconfig: str, what: str, environment: Mapping[str, str], log: Log) -> Connection | None:
    """Return the connection by which callers are reviewed: the kubeconfig's, else the pod's own.

    None: there is neither. `what` is reviewed, for messages. An unusable kubeconfig is an error, an unusable service
    account a warning.
    """
    if kubeconfig:
        try:
            connection = from_kubeconfig(kubeconfig, "", environment)
        except ConfigurationError as error:
            raise ConfigurationError(f"failed to get delegated {what} kubeconfig: {error}") from error
        check_connection(connection)
        return connection
    if not (environment.get("KUBERNETES_SERVICE_HOST") and environment.get("KUBERNETES_SERVICE_PORT")):
        return None
    try:
        return in_cluster(environment)
    except ConfigurationError as error:
        log(f"W failed to read in-cluster kubeconfig for delegated {what}: {error}")
        return None


def _authentication_connection(
    options: AuthenticationOptions, environment: Mapping[str, str], log: Log
) -> Connection | None:
    """The connection that reviews tokens and reads the cluster's authorities; None if there is none.

    Without it, callers are known by certificate alone, and only by authorities from files.
    Raises: ConfigurationError: the kubeconfig or a bundle cannot be used.
    """
    try:
        connection = _review_connection(options.kubeconfig, "authentication", environment, log)
    except ConfigurationError as error:
        raise ConfigurationError(f"failed to get delegated authentication kubeconfig: {error}") from error
    for file, purpose, key, consequence, failure in (
        (
            options.client_ca_file,
            "client-ca-bundle",
            "client-ca-file",
            "client certificate authentication",
            "unable to load client CA provider",
        ),
        (
            options.request_header_client_ca_file,
            "request-header",
            "requestheader-client-ca-file",
            "request-header client certificate authentication",
            "unable to create request header authentication config",
        ),
    ):
        if file:
            try:
                check_bundle(purpose, file)
            except ConfigurationError as error:
                raise ConfigurationError(f"{failure}: {error}") from error
        elif not options.skip_lookup and connection is None:
            log(
                f"W No authentication-kubeconfig provided in order to lookup {key} in "
                f"configmap/extension-apiserver-authentication in kube-system, so {consequence} won't work."
            )
    return connection


def _look_up_request_header_settings(
    options: AuthenticationOptions, connection: Connection | None, lookup: Lookup | None, log: Log
) -> Mapping[str, str]:
    """The cluster's own authentication settings, if they are required and can be read.

    Raises: ConfigurationError: they cannot be read, and that is not tolerated.
    """
    needed = not options.skip_lookup and not options.request_header_client_ca_file
    if connection is None or lookup is None or not needed:
        return {}
    try:
        return lookup(connection)
    except ConfigurationError as error:
        if not options.tolerate_lookup_failure:
            raise ConfigurationError(
                f"unable to load configmap based request-header-client-ca-file: {error}"
            ) from error
        log(f"W Error looking up in-cluster authentication configuration: {error}")
        log("W Continuing without authentication configuration. This may treat all requests as anonymous.")
        log(
            "W To require authentication configuration lookup to succeed, "
            "set --authentication-tolerate-lookup-failure=false"
        )
        return {}


def _authorization_connection(
    options: AuthorizationOptions, environment: Mapping[str, str], log: Log
) -> Connection | None:
    """The connection that reviews access; None if there is none. Raises: ConfigurationError."""
    connection = _review_connection(options.kubeconfig, "authorization", environment, log)
    options.check_paths()
    if connection is None:
        log("W No authorization-kubeconfig provided, so SubjectAccessReview of authorization tokens won't work.")
    return connection
