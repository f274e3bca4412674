"""Server certificates that are replaced while the server runs, and the identities of clients.

The files are checked before every handshake; an established connection keeps its certificate.

Also change: docs/security.md.

Tests: tests/contract/test_replica_grpc_server.py.
"""

from collections.abc import Iterable, Mapping

import grpc

from trireme.rpc import tls_files
from trireme.rpc.listen_flags import TlsFiles


class ReloadedCertificates:
    """The certificate configuration of a server; gRPC calls `fetch` before each handshake."""

    def __init__(self, files: TlsFiles) -> None:
        """Reads the files.

        Raises:
            ListenError: a file cannot be read, or certificate and key do not belong together.
        """
        self._watched = tls_files.WatchedFiles(_tls_files(files))
        self._mutual = files.client_ca is not None

    @property
    def reloads(self) -> int:
        """How often the files were reloaded."""
        return self._watched.reloads

    def credentials(self) -> grpc.ServerCredentials:
        """The server credentials; clients must present a certificate if a client CA is configured."""
        return grpc.dynamic_ssl_server_credentials(
            self._make_configuration(),
            self.fetch,  # type: ignore[arg-type]  # None means no change, which the stubs do not know
            require_client_authentication=self._mutual,
        )

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """The new configuration if the files changed, else None."""
        return self._make_configuration() if self._watched.reload_if_changed() else None

    def _make_configuration(self) -> grpc.ServerCertificateConfiguration:
        """Make the configuration for gRPC from the files as they are now."""
        content = self._watched.content
        assert content.private_key is not None
        assert content.certificate is not None
        return grpc.ssl_server_certificate_configuration(
            [(content.private_key, content.certificate)], root_certificates=content.authorities
        )


def identities(auth_context: Mapping[str, Iterable[bytes]]) -> set[str]:
    """The subject alternative names and common name of the peer's certificate."""
    names: set[str] = set()
    for key in ("x509_subject_alternative_name", "x509_common_name"):
        names.update(value.decode("utf-8", "replace") for value in auth_context.get(key, ()))
    return names


def _tls_files(files: TlsFiles) -> tls_files.Files:
    """The server's files, with the names of their flags for errors."""
    return tls_files.Files(
        tls_files.NamedFile("--tls-cert-file", files.certificate),
        tls_files.NamedFile("--tls-private-key-file", files.private_key),
        tls_files.NamedFile("--client-ca-file", files.client_ca) if files.client_ca is not None else None,
    )
