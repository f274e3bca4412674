"""Checks certificates and keys from files or from a configuration.

This module only checks; the server or client loads them again, and again when they change. Messages are those of Go's
`crypto/tls`, which operators can search for.

Source: k8s.io/client-go/transport.

Tests: tests/unit/client/kubeconfig/test_connection.py, tests/unit/config/test_profiles.py,
tests/unit/config/test_secure_serving.py.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from trireme_kube.apimachinery.configuration_files import ConfigurationError, read_file
from trireme_kube.apimachinery.golang import quote
from trireme_kube.componentbase.tls.client_tls import ClientTLS

_BLOCK = re.compile(rb"-----BEGIN ([^\r\n]*?)-----[ \t]*\r?\n(.*?)-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PemBlock:
    """A PEM block: its type, and its whole text."""

    kind: str
    text: bytes


def pem_blocks(pem: bytes) -> list[PemBlock]:
    """The PEM blocks of a file."""
    return [PemBlock(found.group(1).decode("latin-1"), found.group(0) + b"\n") for found in _BLOCK.finditer(pem)]


def _load_certificate(pem: bytes) -> x509.Certificate:
    """The first certificate in a PEM text. Raises: ConfigurationError: in Go's words, with what was found instead."""
    skipped: list[str] = []
    for block in pem_blocks(pem):
        if block.kind == "CERTIFICATE":
            try:
                return x509.load_pem_x509_certificate(block.text)
            except ValueError as error:
                raise ConfigurationError("x509: malformed certificate") from error
        skipped.append(block.kind)
    if not skipped:
        raise ConfigurationError("tls: failed to find any PEM data in certificate input")
    if len(skipped) == 1 and skipped[0].endswith("PRIVATE KEY"):
        raise ConfigurationError(
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched"
        )
    raise ConfigurationError(
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the '
        f"following types: [{' '.join(skipped)}]"
    )


def _load_private_key(pem: bytes) -> PrivateKeyTypes:
    """Load the first private key in a PEM text, without a password. Raises: ConfigurationError in Go's words."""
    skipped: list[str] = []
    for block in pem_blocks(pem):
        if block.kind == "PRIVATE KEY" or block.kind.endswith(" PRIVATE KEY"):
            try:
                return serialization.load_pem_private_key(block.text, password=None)
            except (ValueError, TypeError, UnsupportedAlgorithm) as error:
                raise ConfigurationError("tls: failed to parse private key") from error
        skipped.append(block.kind)
    if not skipped:
        raise ConfigurationError("tls: failed to find any PEM data in key input")
    if len(skipped) == 1 and skipped[0] == "CERTIFICATE":
        raise ConfigurationError("tls: found a certificate rather than a key in the PEM for the private key")
    raise ConfigurationError(
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of '
        f"the following types: [{' '.join(skipped)}]"
    )


def check_pair(certificate_pem: bytes, key_pem: bytes) -> None:
    """Check that a certificate and a key can be parsed and belong together.

    Raises: ConfigurationError: they cannot, or do not.
    """
    certificate = _load_certificate(certificate_pem)
    private_key = _load_private_key(key_pem)
    public_key = certificate.public_key()
    own = private_key.public_key()
    if type(own) is not type(public_key):
        raise ConfigurationError("tls: private key type does not match public key type")
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    if own.public_bytes(*form) != public_key.public_bytes(*form):
        raise ConfigurationError("tls: private key does not match public key")


def check_authorities(pem: bytes) -> None:
    """Check that a bundle contains a certificate.

    Raises: ConfigurationError: it has none that can be parsed.
    """
    found = pem_blocks(pem)
    usable = [block for block in found if block.kind == "CERTIFICATE"]
    for block in usable:
        try:
            x509.load_pem_x509_certificate(block.text)
        except ValueError as error:
            raise ConfigurationError("failed to parse certificate: x509: malformed certificate") from error
        return
    if not found:
        raise ConfigurationError("unable to parse bytes as PEM block")
    raise ConfigurationError("no valid certificate authority data seen")


def check_bundle(purpose: str, file: str) -> None:
    """Check a file of authorities for incoming certificates.

    Raises: ConfigurationError: it cannot be read, or has no usable certificate.
    """
    data = read_file(file)
    name = quote(f"{purpose}::{file}")
    if not data:
        raise ConfigurationError(f"missing content for CA bundle {name}")
    usable = [block for block in pem_blocks(data) if block.kind == "CERTIFICATE"]
    problem = "" if usable else "data does not contain any valid RSA or ECDSA certificates"
    for block in usable:
        try:
            x509.load_pem_x509_certificate(block.text)
        except ValueError:
            problem = "x509: malformed certificate"
            break
    if problem:
        raise ConfigurationError(f"error loading CA bundle for {name}: {problem}")


def check_files(tls: ClientTLS) -> None:
    """Checks that the files a client's TLS names can be read, whatever is in them.

    Raises:
        ConfigurationError: one cannot be read.
    """
    for data, file in ((tls.ca_data, tls.ca_file), (tls.cert_data, tls.cert_file), (tls.key_data, tls.key_file)):
        if file and not data:
            read_file(file)


def check_client(tls: ClientTLS) -> None:
    """Checks that a client's TLS can be set up.

    Raises:
        ConfigurationError: a file is missing, or what is in it cannot be used.
    """
    has_ca = bool(tls.ca_file or tls.ca_data)
    has_certificate = bool((tls.cert_file or tls.cert_data) and (tls.key_file or tls.key_data))
    if not (has_ca or has_certificate or tls.insecure or tls.server_name):
        return
    if has_ca and tls.insecure:
        raise ConfigurationError("specifying a root certificates file with the insecure flag is not allowed")
    authorities = tls.ca_data or (read_file(tls.ca_file) if tls.ca_file else b"")
    certificate = tls.cert_data or (read_file(tls.cert_file) if tls.cert_file else b"")
    private_key = tls.key_data or (read_file(tls.key_file) if tls.key_file else b"")
    if has_ca and authorities:
        try:
            check_authorities(authorities)
        except ConfigurationError as error:
            raise ConfigurationError(f"unable to load root certificates: {error}") from error
    # A pair from files is parsed when a connection is made, as in client-go: what is wrong with it is no error here.
    reloaded = tls.cert_file and not tls.cert_data and tls.key_file and not tls.key_data
    if has_certificate and not reloaded:
        check_pair(certificate, private_key)


def are_readable(*paths: str) -> bool:
    """Whether all these files are there and can be opened."""
    for path in paths:
        try:
            with Path(path).open("rb"):
                pass
        except OSError:
            return False
    return True
