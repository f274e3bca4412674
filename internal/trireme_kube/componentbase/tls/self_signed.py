"""A self-signed certificate for the HTTPS server, if the operator configured none.

It lets a scraper talk to a scheduler without any preparation. It is valid for a year and has its own authority, as in
Kubernetes' components.

Tests: tests/unit/client/rest/test_credentials.py.
"""

import ipaddress
from collections.abc import Sequence
from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trireme_kube.componentbase import clocks

_LIFETIME = timedelta(days=365)


def _x509_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative_name(text: str) -> x509.GeneralName:
    """Make a subject alternative name, of an IP address if it is one."""
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def make_certificate(host: str, alternatives: Sequence[str]) -> tuple[bytes, bytes]:
    """A certificate (followed by its authority's) and its private key, in PEM."""
    # Another machine's clock may be behind ours.
    start = clocks.utc_now() - timedelta(hours=1)
    timestamp = int(start.timestamp())
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = _x509_name(f"{host}-ca@{timestamp}")
    builder = x509.CertificateBuilder().not_valid_before(start).not_valid_after(start + _LIFETIME)
    authority = (
        builder.subject_name(authority_name)
        .issuer_name(authority_name)
        .public_key(authority_key.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        builder.subject_name(_x509_name(f"{host}@{timestamp}"))
        .issuer_name(authority_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_alternative_name(text) for text in dict.fromkeys((host, *alternatives))]),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    chain = certificate.public_bytes(pem) + authority.public_bytes(pem)
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return chain, private
