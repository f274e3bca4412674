"""The certificates of the simulated processes: files that are written again when an authority or a leaf is renewed.

All keys follow from the seed, as do the signatures of Ed25519, so the files of a run are always the same.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import pathlib
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from tests.simulation.simulated_process import WALL_START

_VALID_DAYS = 3650
CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"


class Authority:
    """A certificate authority."""

    def __init__(self, name: str) -> None:
        self._key = _key(name)
        self._name = _named(name)
        self._issued = 0
        builder = _builder(self._name, self._name, self._key, 1)
        extension = x509.BasicConstraints(ca=True, path_length=None)
        self.certificate = _pem(builder.add_extension(extension, critical=True).sign(self._key, None))

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """Another certificate for this name, and its key, PEM."""
        self._issued += 1
        key = _key(f"{name} {self._issued} {self._name.rfc4514_string()}")
        builder = _builder(_named(name), self._name, key, self._issued + 1)
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        certificate = builder.add_extension(names, critical=False).sign(self._key, None)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return _pem(certificate), private


class Holder:
    """The files of one process, or of several that mount the same Secret."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        """`name` is what its certificate is for."""
        self.folder = folder
        self.name = name
        folder.mkdir(parents=True)

    @property
    def settings(self) -> dict[str, str]:
        """The fields of a TLS configuration."""
        files = {"certFile": CERTIFICATE, "keyFile": KEY, "caFile": AUTHORITIES}
        return {field: str(self.folder / file) for field, file in files.items()}

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of a server that takes calls of those with a certificate."""
        files = {"tls-cert-file": CERTIFICATE, "tls-private-key-file": KEY, "client-ca-file": AUTHORITIES}
        return tuple(f"--{flag}={self.folder / file}" for flag, file in files.items())

    def renew(self, authority: Authority, seconds: float) -> None:
        """Get another certificate. `seconds`: the simulation's time, which the files then have."""
        certificate, key = authority.issue(self.name)
        self._write(CERTIFICATE, certificate, seconds)
        self._write(KEY, key, seconds)

    def renew_key_only(self, authority: Authority, seconds: float) -> None:
        """Get a key to which the certificate does not belong, as while files are being written."""
        self._write(KEY, authority.issue(self.name)[1], seconds)

    def trust(self, authorities: Sequence[Authority], seconds: float) -> None:
        """Trust these authorities, and no other."""
        self._write(AUTHORITIES, b"".join(each.certificate for each in authorities), seconds)

    def _write(self, name: str, content: bytes, seconds: float) -> None:
        write_file(self.folder / name, content, seconds)


def write_file(path: pathlib.Path, content: bytes, seconds: float) -> None:
    """Replace a file at once, as of a time of the simulation: programs look at when a file was changed."""
    new = path.with_name(f".{path.name}")
    new.write_bytes(content)
    nanoseconds = int((WALL_START + seconds) * 1e9)
    os.utime(new, ns=(nanoseconds, nanoseconds))
    new.replace(path)


def _key(seed: str) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(seed.encode()).digest())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ed25519.Ed25519PrivateKey, number: int
) -> x509.CertificateBuilder:
    start = datetime.datetime.fromtimestamp(WALL_START, datetime.UTC) - datetime.timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(number)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=_VALID_DAYS))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class Certificates:
    """The files of all processes, and the authorities that there were."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self.authorities = [Authority("authority 1")]
        self.holders: dict[str, Holder] = {}

    @property
    def newest(self) -> Authority:
        """The authority that all are to trust in the end."""
        return self.authorities[-1]

    def add_authority(self) -> Authority:
        """Have another one; nobody trusts it yet."""
        self.authorities.append(Authority(f"authority {len(self.authorities) + 1}"))
        return self.newest

    def holder(self, process: str, name: str) -> Holder:
        """The files of a process, or of those that share some; `name` is what the certificate is for."""
        found = self.holders.get(process)
        if found is None:
            found = self.holders[process] = Holder(self._folder / process, name)
            found.trust((self.newest,), 0.0)
            found.renew(self.newest, 0.0)
        return found

    def settle(self, seconds: float) -> None:
        """Let every holder have a certificate of the newest authority, and trust no other."""
        for holder in self.holders.values():
            holder.trust((self.newest,), seconds)
            holder.renew(self.newest, seconds)
