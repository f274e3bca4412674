"""Makes an authority and a certificate for each service, for trying out mutual TLS.

    python deploy/make_certificates.py [--directory build/certificates] [--namespace trireme-system] [--days 30]

A second run keeps the authority and renews the certificates, so it shows a rotation too. Each service's folder has the
keys of a cert-manager Secret: `kubectl create secret generic trireme-bind-tls --from-file=DIRECTORY/bind`. In
production something that renews certificates by itself should issue them: the authority's key lies here as a file.

Also change: tools/chaos/chaos_sides.py, deploy/chart/values.yaml (names of the files of certificates).
Also change: docs/deployment.md.
Also change: deploy/chart/templates/certificates.yaml (the certificates' names).
"""

import argparse
import datetime
import os
import pathlib
import sys
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVICES = ("frontend", "filter", "score", "bind", "insight")

# Clocks differ a little from machine to machine.
_EARLIER = datetime.timedelta(minutes=5)


def names(service: str, namespace: str) -> list[x509.GeneralName]:
    """What a service's certificate calls it: DNS names, by which it is called, and its SPIFFE identity."""
    account = f"trireme-{service}"
    return [
        x509.DNSName(f"{account}.{namespace}.svc"),
        x509.DNSName(account),
        x509.UniformResourceIdentifier(f"spiffe://cluster.local/ns/{namespace}/sa/{account}"),
    ]


def make(directory: pathlib.Path, namespace: str, days: int, services: Sequence[str] = SERVICES) -> None:
    """Writes `ca.crt`, `ca.key`, and `tls.crt`, `tls.key` and `ca.crt` in a folder per service."""
    directory.mkdir(parents=True, exist_ok=True)
    key, authority = _authority(directory, days)
    pem = authority.public_bytes(serialization.Encoding.PEM)
    for service in services:
        folder = directory / service
        folder.mkdir(exist_ok=True)
        own_key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(f"trireme-{service}", own_key, days)
            .issuer_name(authority.subject)
            .add_extension(x509.SubjectAlternativeName(names(service, namespace)), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .sign(key, hashes.SHA256())
        )
        _write(folder / "tls.key", _pem(own_key), 0o600)
        _write(folder / "tls.crt", certificate.public_bytes(serialization.Encoding.PEM), 0o644)
        _write(folder / "ca.crt", pem, 0o644)


def _authority(directory: pathlib.Path, days: int) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key_file, file = directory / "ca.key", directory / "ca.crt"
    if key_file.exists() and file.exists():
        loaded = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise SystemExit(f"make_certificates: {key_file} is no key of ours")
        return loaded, x509.load_pem_x509_certificate(file.read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder("trireme", key, days * 10)
    certificate = (
        builder.issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "trireme")]))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(key_file, _pem(key), 0o600)
    _write(file, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return key, certificate


def _builder(name: str, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: pathlib.Path, content: bytes, mode: int) -> None:
    """Replaces the file as a whole: who reads it meanwhile has the old one or the new one."""
    new = path.with_name(f".{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    new.replace(path)


def main(argv: Sequence[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Make certificates for trying out mutual TLS between the services.")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("build/certificates"))
    parser.add_argument("--namespace", default="trireme-system")
    parser.add_argument("--days", type=int, default=30)
    options = parser.parse_args(argv)
    make(options.directory, options.namespace, options.days)
    print(f"certificates are in {options.directory}/{{{','.join(SERVICES)}}}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
