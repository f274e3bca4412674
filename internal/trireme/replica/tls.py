"""Server certificates that are replaced while the server runs, and the identities of clients.

Certificates are short-lived and mounted by something that renews them, so the files are looked at before every
handshake and read when they changed. A pair that does not fit together (the writer is half done) is not taken: the
server goes on with the one it has, and says so once.
"""

import logging
import pathlib
from collections.abc import Iterable, Mapping

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from trireme.replica.listening import ListenError, TlsFiles

log = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]


class ReloadedCertificates:
    """The certificate configuration of a server; `fetch` is what gRPC calls before each handshake."""

    def __init__(self, files: TlsFiles) -> None:
        """Reads the files.

        Raises:
            ListenError: a file cannot be read, or certificate and key do not belong together.
        """
        self._files = files
        self._stamp = _look(files)
        self._unusable: _Stamp | None = None
        self._initial = _load(files)
        self.reloads = 0

    def credentials(self) -> grpc.ServerCredentials:
        """The server credentials; clients must show a certificate if there is an authority for them."""
        return grpc.dynamic_ssl_server_credentials(
            self._initial,
            self.fetch,  # type: ignore[arg-type]  # None means no change, which the stubs do not know
            require_client_authentication=self._files.client_ca is not None,
        )

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """The new configuration if the files changed, else None."""
        stamp: _Stamp = ()
        try:
            stamp = _look(self._files)
            if stamp in (self._stamp, self._unusable):
                return None
            configuration = _load(self._files)
        except ListenError as error:
            if stamp != self._unusable:
                self._unusable = stamp
                log.error("keeping the certificate in use: %s", error)
            return None
        self._stamp, self._unusable = stamp, None
        self.reloads += 1
        log.info("took the new certificate in %s", self._files.certificate)
        return configuration


def identities(auth_context: Mapping[str, Iterable[bytes]]) -> set[str]:
    """What the peer's certificate calls it: its subject alternative names and its common name."""
    names: set[str] = set()
    for key in ("x509_subject_alternative_name", "x509_common_name"):
        names.update(value.decode("utf-8", "replace") for value in auth_context.get(key, ()))
    return names


def _named(files: TlsFiles) -> Iterable[tuple[str, pathlib.Path]]:
    yield "--tls-cert-file", files.certificate
    yield "--tls-private-key-file", files.private_key
    if files.client_ca is not None:
        yield "--client-ca-file", files.client_ca


def _look(files: TlsFiles) -> _Stamp:
    stamps = []
    for flag, path in _named(files):
        try:
            status = path.stat()
        except OSError as error:
            raise ListenError(f"{flag}: {path}: {error.strerror or error}") from error
        stamps.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(stamps)


def _load(files: TlsFiles) -> grpc.ServerCertificateConfiguration:
    certificate = _read("--tls-cert-file", files.certificate)
    key = _read("--tls-private-key-file", files.private_key)
    authority = _read("--client-ca-file", files.client_ca) if files.client_ca is not None else None
    # gRPC would only complain in its own log, handshake after handshake.
    leaf = _certificates("--tls-cert-file", files.certificate, certificate)[0]
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ListenError(f"--tls-private-key-file: {files.private_key}: no PEM key without a password") from error
    if private.public_key() != leaf.public_key():
        raise ListenError(f"--tls-private-key-file: {files.private_key}: not the key of {files.certificate}")
    if authority is not None and files.client_ca is not None:
        _certificates("--client-ca-file", files.client_ca, authority)
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=authority)


def _certificates(flag: str, path: pathlib.Path, content: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise ListenError(f"{flag}: {path}: no PEM certificate") from error


def _read(flag: str, path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ListenError(f"{flag}: {path}: {error.strerror or error}") from error
