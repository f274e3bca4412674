"""The flags of the HTTPS server, of how its callers are identified, and of what they may read; and their rules.

Source: k8s.io/apiserver/pkg/server/options.

Also change: internal/trireme/delegated_access/serving_trust.py,
internal/trireme/shadow/migration/findings.py (names of flags).
Also change: docs/deployment.md.
Also change: internal/trireme/frontend/serving/serving_site.py,
internal/trireme_kube/componentbase/server/health.py (the health paths).

Tests: tests/unit/config/test_secure_serving.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from trireme.config.gates import FeatureGates
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.golang import SECOND, Duration, quote
from trireme_kube.componentbase.cli import flag_values as kinds
from trireme_kube.componentbase.cli.flag_declarations import Declared
from trireme_kube.componentbase.cli.flag_values import NamedCertKey
from trireme_kube.componentbase.server import caller_names
from trireme_kube.componentbase.tls import tls_names

Log = Callable[[str], None]

_TEN_SECONDS = Duration(10 * SECOND)


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """The HTTPS server: address, certificates, ciphers."""

    bind_address: Annotated[
        str,
        Declared(
            "bind-address",
            "Address on which --secure-port listens; an unspecified one (0.0.0.0, ::) means all interfaces.",
            type=kinds.IP,
        ),
    ] = "0.0.0.0"
    secure_port: Annotated[
        int, Declared("secure-port", "Port that serves HTTPS, with authentication; 0 turns it off.")
    ] = 10259
    disable_http2_serving: Annotated[bool, Declared("disable-http2-serving", "Serve HTTP/1.1 alone.")] = False
    cert_dir: Annotated[
        str,
        Declared(
            "cert-dir", "Directory of the serving certificate, made there when missing; unused with --tls-cert-file."
        ),
    ] = ""
    cert_file: Annotated[
        str,
        Declared(
            "tls-cert-file",
            "Serving certificate, followed by its chain. Without one a self-signed certificate is made.",
        ),
    ] = ""
    key_file: Annotated[str, Declared("tls-private-key-file", "Private key of --tls-cert-file.")] = ""
    cipher_suites: Annotated[
        tuple[str, ...],
        Declared(
            "tls-cipher-suites",
            "Cipher suites to offer, separated by commas. \n"
            f"Preferred values: {', '.join(tls_names.PREFERRED_CIPHERS)}. \n"
            f"Insecure values: {', '.join(tls_names.INSECURE_CIPHERS)}.",
        ),
    ] = ()
    curve_preferences: Annotated[
        tuple[int, ...],
        Declared(
            "tls-curve-preferences",
            "Numbers of the key exchange mechanisms to allow, in any order: "
            + ", ".join(f"{number} ({name})" for number, name in tls_names.CURVES.items())
            + ".",
        ),
    ] = ()
    min_tls_version: Annotated[
        str,
        Declared("tls-min-version", f"Oldest TLS version to accept. Possible values: {', '.join(tls_names.VERSIONS)}"),
    ] = ""
    sni_cert_keys: Annotated[
        tuple[NamedCertKey, ...],
        Declared(
            "tls-sni-cert-key",
            'Certificate and key for some host names, as "file.crt,file.key" or "file.crt,file.key:*.a.com,a.com"; '
            "without names, those of the certificate. Repeat the flag for more pairs.",
        ),
    ] = ()
    http2_max_streams_per_connection: Annotated[
        int,
        Declared(
            "http2-max-streams-per-connection", "Most streams in an HTTP/2 connection; 0 leaves it to the server."
        ),
    ] = 0
    permit_port_sharing: Annotated[
        bool, Declared("permit-port-sharing", "Listen with SO_REUSEPORT: others may share the port.")
    ] = False
    permit_address_sharing: Annotated[
        bool,
        Declared("permit-address-sharing", "Listen with SO_REUSEADDR, so that sockets in TIME_WAIT are no hindrance."),
    ] = False

    @property
    def enabled(self) -> bool:
        """Whether anything is served."""
        return self.secure_port != 0

    def problems(self) -> list[str]:
        """The problems of these flags."""
        if self.secure_port > 65535:
            return [
                f"--secure-port {self.secure_port} must be between 1 and 65535, inclusive. "
                "It cannot be turned off with 0"
            ]
        if self.secure_port < 0:
            return [
                f"--secure-port {self.secure_port} must be between 0 and 65535, inclusive. "
                "0 for turning off secure port"
            ]
        return []


@dataclass(frozen=True, slots=True)
class AuthenticationOptions:
    """How callers of the HTTPS server are identified."""

    kubeconfig: Annotated[
        str,
        Declared(
            "authentication-kubeconfig",
            "kubeconfig of the API server that reviews tokens. Without one, requests with tokens are anonymous.",
        ),
    ] = ""
    cache_ttl: Annotated[
        Duration, Declared("authentication-token-webhook-cache-ttl", "How long a review is cached.")
    ] = _TEN_SECONDS
    client_ca_file: Annotated[
        str, Declared("client-ca-file", "Authorities whose client certificates identify their callers.")
    ] = ""
    request_header_username_headers: Annotated[
        tuple[str, ...],
        Declared("requestheader-username-headers", "Headers in which a proxy names the user."),
    ] = ("x-remote-user",)
    request_header_uid_headers: Annotated[
        tuple[str, ...],
        Declared("requestheader-uid-headers", "Headers in which a proxy names the user's UID."),
    ] = ()
    request_header_group_headers: Annotated[
        tuple[str, ...],
        Declared("requestheader-group-headers", "Headers in which a proxy names the user's groups."),
    ] = ("x-remote-group",)
    request_header_extra_prefixes: Annotated[
        tuple[str, ...],
        Declared(
            "requestheader-extra-headers-prefix", "Prefixes of headers in which a proxy adds attributes of the user."
        ),
    ] = ("x-remote-extra-",)
    request_header_client_ca_file: Annotated[
        str,
        Declared("requestheader-client-ca-file", "Authorities of the proxies whose headers are trusted."),
    ] = ""
    request_header_allowed_names: Annotated[
        tuple[str, ...],
        Declared(
            "requestheader-allowed-names", "Common names of the proxies whose headers are trusted; empty means all."
        ),
    ] = ()
    skip_lookup: Annotated[
        bool,
        Declared("authentication-skip-lookup", "Do not look for missing authentication settings in the cluster."),
    ] = False
    tolerate_lookup_failure: Annotated[
        bool,
        Declared(
            "authentication-tolerate-lookup-failure",
            "Continue if the settings cannot be read from the cluster; all callers may then be anonymous.",
        ),
    ] = True

    def problems(self, gates: FeatureGates, log: Log) -> list[str]:
        """The problems of these flags; those that only API aggregation suffers from are logged."""
        found = [
            f"empty value in {quote(flag)}"
            for flag, values in (
                ("requestheader-username-headers", self.request_header_username_headers),
                ("requestheader-group-headers", self.request_header_group_headers),
                ("requestheader-extra-headers-prefix", self.request_header_extra_prefixes),
                ("requestheader-allowed-names", self.request_header_allowed_names),
            )
            if _has_blank(values)
        ]
        for flag, values, standard, what in (
            ("requestheader-username-headers", self.request_header_username_headers, caller_names.USER_HEADER, ""),
            ("requestheader-group-headers", self.request_header_group_headers, caller_names.GROUP_HEADER, ""),
            (
                "requestheader-extra-headers-prefix",
                self.request_header_extra_prefixes,
                caller_names.EXTRA_HEADER_PREFIX,
                " prefix",
            ),
        ):
            if values and not _contains_ignoring_case(values, standard):
                log(
                    f"W --{flag} is set without specifying the standard {standard} header{what} - "
                    "API aggregation will not work"
                )
        return found + self._uid_problems(gates)

    def _uid_problems(self, gates: FeatureGates) -> list[str]:
        """The problems of --requestheader-uid-headers, which needs a feature gate."""
        headers, flag = self.request_header_uid_headers, "requestheader-uid-headers"
        if not gates.enabled("RemoteRequestHeaderUID"):
            rule = f'--{flag} requires the "RemoteRequestHeaderUID" feature to be enabled'
            return [rule] if headers else []
        found = [f"empty value in {quote(flag)}"] if _has_blank(headers) else []
        if headers and not _contains_ignoring_case(headers, "X-Remote-Uid"):
            found.append(
                f"--{flag} is set without specifying the standard X-Remote-Uid header - API aggregation will not work"
            )
        return found


def _has_blank(values: tuple[str, ...]) -> bool:
    """Whether one of the values is blank."""
    return any(not value.strip() for value in values)


def _contains_ignoring_case(values: tuple[str, ...], name: str) -> bool:
    """Whether the name is among the values, in any case of letters."""
    return any(value.lower() == name.lower() for value in values)


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    """Which pages callers of the HTTPS server may read."""

    kubeconfig: Annotated[
        str,
        Declared(
            "authorization-kubeconfig",
            "kubeconfig of the API server that reviews access. Without one, what needs a review is forbidden.",
        ),
    ] = ""
    allow_cache_ttl: Annotated[
        Duration,
        Declared("authorization-webhook-cache-authorized-ttl", "How long a review that allows a request is cached."),
    ] = _TEN_SECONDS
    deny_cache_ttl: Annotated[
        Duration,
        Declared("authorization-webhook-cache-unauthorized-ttl", "How long a review that denies a request is cached."),
    ] = _TEN_SECONDS
    always_allow_paths: Annotated[
        tuple[str, ...],
        Declared("authorization-always-allow-paths", "Paths that everybody may read, without a review."),
    ] = ("/healthz", "/readyz", "/livez")

    def check_paths(self) -> None:
        """Check the paths that need no review. Raises: ConfigurationError: one has a star before its end."""
        for path in self.always_allow_paths:
            stripped = path.removeprefix("/")
            if "*" in stripped[:-1]:
                raise ConfigurationError(f"only trailing * allowed in {quote(stripped)}")
