"""PEM files that are reloaded when they change: certificates are short-lived, and another program renews them.

The files are checked whenever a connection is made, and read if they changed. A certificate and key that do not match
(the writer is not finished) are ignored: the old pair stays in use, with one log line. A certificate whose time has
passed is used and logged, since only the other side notices it. Used by servers and clients.

Also change: internal/trireme_kube/client/rest/transport.py (files that are replaced while in use).
"""

import logging
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from trireme.rpc.listen_flags import ListenError
from trireme_kube.componentbase import clocks, documents

log = logging.getLogger(__name__)

_FileStamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file, and the flag or field that configures it."""

    name: str
    path: pathlib.Path


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one side of a connection: certificate, key, and the authorities it trusts. None: not configured."""

    certificate: NamedFile | None
    private_key: NamedFile | None
    authorities: NamedFile | None


@dataclass(frozen=True, slots=True)
class Content:
    """The files' content, PEM; None for a file that is not configured."""

    certificate: bytes | None
    private_key: bytes | None
    authorities: bytes | None


class WatchedFiles:
    """The last valid content of certificate files, reloaded when they change."""

    def __init__(self, files: Files) -> None:
        """Read the files.

        Raises:
            ListenError: one cannot be read, or certificate and key do not belong together.
        """
        self._files = files
        self._all = [file for file in (files.certificate, files.private_key, files.authorities) if file is not None]
        self._stamp = _read_stamps(self._all)
        self._unusable: _FileStamp | None = None
        self.content = _load_contents(files)
        self.reloads = 0
        self._warn_unless_valid()

    def reload_if_changed(self) -> bool:
        """Reload the files if any has changed; return whether there is new content.

        Files that cannot be used are logged once, and the content before them stays in use.
        """
        stamp: _FileStamp = ()
        try:
            stamp = _read_stamps(self._all)
            if stamp in (self._stamp, self._unusable):
                return False
            content = _load_contents(self._files)
        except ListenError as error:
            if stamp != self._unusable:
                self._unusable = stamp
                log.error("%s; the certificate before stays in use until the files can be read", error)
            return False
        self._stamp, self._unusable, self.content = stamp, None, content
        self.reloads += 1
        log.info("reloaded the certificates: %s", ", ".join(str(file.path) for file in self._all))
        self._warn_unless_valid()
        return True

    def validity_problem(self) -> str:
        """Why others refuse the certificate now: its time has passed, or has not come. Empty: it has not."""
        if self._files.certificate is None or self.content.certificate is None:
            return ""
        certificate = x509.load_pem_x509_certificates(self.content.certificate)[0]
        where, now = f"{self._files.certificate.name}: {self._files.certificate.path}", clocks.wall()
        if now > certificate.not_valid_after_utc.timestamp():
            ended = certificate.not_valid_after_utc.isoformat()
            page = documents.CERTIFICATE_EXPIRES
            return f"{where}: expired at {ended}: others refuse it until the file is replaced ({page})"
        if now < certificate.not_valid_before_utc.timestamp():
            begins = certificate.not_valid_before_utc.isoformat()
            return f"{where}: not valid before {begins}, by the clock of this host ({documents.CLOCKS_THAT_DIFFER})"
        return ""

    def _warn_unless_valid(self) -> None:
        if problem := self.validity_problem():
            log.warning("%s", problem)


def _read_stamps(files: Sequence[NamedFile]) -> _FileStamp:
    """Read what changes when a file does: inode, time and size. Raises: ListenError if one is missing."""
    stamps = []
    for file in files:
        try:
            status = file.path.stat()
        except OSError as error:
            raise ListenError(f"{file.name}: {file.path}: {error.strerror or error}") from error
        stamps.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(stamps)


def _load_contents(files: Files) -> Content:
    """Read the files, and check that the key is that of the certificate. Raises: ListenError.

    Without both certificate and key only the authorities are read.
    """
    authorities = _read_certificates(files.authorities) if files.authorities else None
    if files.certificate is None or files.private_key is None:
        return Content(None, None, authorities)
    certificate = _read_certificates(files.certificate)
    key = _read_file(files.private_key)
    # gRPC would only log an error of its own at each handshake.
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        where = f"{files.private_key.name}: {files.private_key.path}"
        raise ListenError(f"{where}: must be a key in PEM without a password") from error
    if private.public_key() != x509.load_pem_x509_certificates(certificate)[0].public_key():
        where = f"{files.private_key.name}: {files.private_key.path}"
        remedy = "use the key that the certificate was issued for"
        raise ListenError(f"{where}: not the key of {files.certificate.path}: {remedy}")
    return Content(certificate, key, authorities)


def _read_certificates(file: NamedFile) -> bytes:
    """Read a file, and check that it has certificates. Raises: ListenError."""
    content = _read_file(file)
    try:
        x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise ListenError(f"{file.name}: {file.path}: must have a certificate in PEM") from error
    return content


def _read_file(file: NamedFile) -> bytes:
    """Read a file. Raises: ListenError naming its flag or field."""
    try:
        return file.path.read_bytes()
    except OSError as error:
        raise ListenError(f"{file.name}: {file.path}: {error.strerror or error}") from error
