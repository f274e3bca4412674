"""TLS of simulated gRPC: which certificate either side shows, and whether the other one takes it.

The certificates are real ones, and the signatures, names and times in them are checked; nothing is encrypted. As in
TLS, the client decides first. A server that refuses the client closes the connection without saying why.
"""

from __future__ import annotations

import datetime
import functools
import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import grpc
from cryptography import exceptions, x509
from grpc import aio

from trireme_kube.componentbase import clocks

_FAILED = "Ssl handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal"
PLAINTEXT = f"{_FAILED}:WRONG_VERSION_NUMBER: Invalid certificate verification context"
_HANDSHAKES_KNOWN = 4096
#: What `install` replaces of `grpc`.
REPLACED = ("ssl_channel_credentials", "ssl_server_certificate_configuration", "dynamic_ssl_server_credentials")


class Untrusted(OSError):
    """The other side's certificate is refused; the text is as gRPC has it."""


@dataclass(frozen=True)
class Certificates:
    """What one side has, PEM: its own certificate, empty for none, and the authorities that it trusts."""

    own: bytes
    trusted: bytes

    def check_client(self, certificate: bytes, *, is_required: bool) -> None:
        """Raises: Untrusted."""
        if certificate or is_required:
            _check_signature(certificate, self.trusted)

    def check_server(self, certificate: bytes, name: str) -> None:
        """Raises: Untrusted: it is of another authority, or not for that name."""
        _check_signature(certificate, self.trusted)
        if name not in _names(certificate):
            raise Untrusted(f"Hostname Verification Check failed. Peer name {name} is not in peer certificate")


class ServerCredentials:
    """The certificates of a server, which may be replaced at each handshake."""

    def __init__(
        self, initial: Certificates, fetch: Callable[[], Certificates | None], *, requires_client: bool
    ) -> None:
        self._current = initial
        self._fetch = fetch
        self.requires_client = requires_client

    def for_handshake(self) -> Certificates:
        """Those for a connection that begins now."""
        self._current = self._fetch() or self._current
        return self._current


def authentication(certificate: bytes) -> dict[str, list[bytes]]:
    """What gRPC tells handlers of a client with this certificate."""
    if not certificate:
        return {}
    found = _parsed(certificate)[0]
    common = found.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return {
        "x509_common_name": [str(each.value).encode() for each in common],
        "x509_subject_alternative_name": [name.encode() for name in _names(certificate)],
    }


def install(secure_channel: Callable[..., aio.Channel]) -> None:
    """Replace gRPC's credentials by those that simulated channels and servers take."""
    aio.secure_channel = secure_channel
    grpc.ssl_channel_credentials = _channel_credentials
    grpc.ssl_server_certificate_configuration = _server_configuration
    grpc.dynamic_ssl_server_credentials = _server_credentials


def _channel_credentials(
    root_certificates: bytes | None = None, private_key: bytes | None = None, certificate_chain: bytes | None = None
) -> Certificates:
    return Certificates(certificate_chain or b"", root_certificates or b"")


def _server_configuration(pairs: Iterable[tuple[bytes, bytes]], root_certificates: bytes | None = None) -> Certificates:
    return Certificates(next(iter(pairs))[1], root_certificates or b"")


def _server_credentials(
    initial: Certificates, fetch: Callable[[], Certificates | None], require_client_authentication: bool = False
) -> ServerCredentials:
    return ServerCredentials(initial, fetch, requires_client=require_client_authentication)


def _check_signature(certificate: bytes, trusted: bytes) -> None:
    """Check that one of the authorities has signed it, and that it is valid now. Raises: Untrusted."""
    problem = _signature_problem(certificate, trusted)
    if not problem:
        now = datetime.datetime.fromtimestamp(clocks.wall(), datetime.UTC)
        found = _parsed(certificate)[0]
        if now > found.not_valid_after_utc:
            problem = "certificate has expired"
        elif now < found.not_valid_before_utc:
            problem = "certificate is not yet valid"
    if problem:
        raise Untrusted(f"{_FAILED}:CERTIFICATE_VERIFY_FAILED: {problem}")


@functools.lru_cache(_HANDSHAKES_KNOWN)
def _signature_problem(certificate: bytes, trusted: bytes) -> str:
    if not certificate:
        return "peer did not return a certificate"
    found = _parsed(certificate)[0]
    for authority in _parsed(trusted) if trusted else ():
        try:
            found.verify_directly_issued_by(authority)
        except (ValueError, TypeError, exceptions.InvalidSignature):
            continue
        return ""
    return "unable to get local issuer certificate"


@functools.lru_cache(_HANDSHAKES_KNOWN)
def _parsed(certificates: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(certificates)


@functools.lru_cache(_HANDSHAKES_KNOWN)
def _names(certificate: bytes) -> list[str]:
    """The DNS names and IP addresses that a certificate is for."""
    try:
        found = _parsed(certificate)[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses: list[Any] = found.get_values_for_type(x509.IPAddress)
    return [*found.get_values_for_type(x509.DNSName), *(str(ipaddress.ip_address(each)) for each in addresses)]
