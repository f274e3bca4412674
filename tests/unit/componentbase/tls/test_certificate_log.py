"""How the log shows certificates."""

import ipaddress
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trireme_kube.componentbase.tls import certificate_log

_KEY = ec.generate_private_key(ec.SECP256R1())
_NOW = datetime(2026, 3, 4, 5, 6, 7, 883560, tzinfo=UTC)
_VALID = "(2026-01-02 03:04:05 +0000 UTC to 2027-01-02 03:04:05 +0000 UTC (now=2026-03-04 05:06:07.88356 +0000 UTC))"


def _name(common: str, organisation: str) -> x509.Name:
    found = [x509.NameAttribute(NameOID.COMMON_NAME, common)] if common else []
    return x509.Name([*found, *([x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation)] if organisation else [])])


def _certificate(
    subject: x509.Name, issuer: x509.Name, *extensions: x509.ExtendedKeyUsage | x509.SubjectAlternativeName
) -> x509.Certificate:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(_KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    builder = builder.not_valid_after(datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(_KEY, hashes.SHA256())


@pytest.mark.parametrize(
    ("certificate", "text"),
    [
        pytest.param(
            _certificate(
                _name("localhost", ""),
                _name("authority", ""),
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
                x509.SubjectAlternativeName(
                    [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
                ),
            ),
            f'"localhost" [serving] validServingFor=[127.0.0.1,localhost] issuer="authority" {_VALID}',
            id="server",
        ),
        pytest.param(
            _certificate(
                _name("someone", "people"),
                _name("authority", ""),
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
            ),
            f'"someone" [client,serving] groups=[people] issuer="authority" {_VALID}',
            id="client",
        ),
        pytest.param(
            _certificate(_name("authority", ""), _name("authority", "")),
            f'"authority" [] issuer="<self>" {_VALID}',
            id="authority",
        ),
    ],
)
def test_a_certificate_in_a_line(certificate: x509.Certificate, text: str) -> None:
    """After a rotation nobody could tell from the log which certificate is served, and until when."""
    assert certificate_log.detail(certificate, _NOW) == text
