"""TLS contexts of a server whose certificate, key and authorities may change while it runs.

The files are checked when a connection comes, at most once a second. Unusable ones are ignored: the server keeps the
previous ones, and logs that once.

Tests: tests/contract/test_serving_access.py.
"""

import logging
import ssl
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from trireme_kube.componentbase.logs import klog
from trireme_kube.componentbase.tls import certificate_log

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0

_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Files of a certificate and its key; or their content, which then never changes.

    `names`: its host names, if there are several pairs; none: those in the certificate.
    """

    certificate_file: str = ""
    key_file: str = ""
    certificate: bytes = b""
    key: bytes = b""
    names: tuple[str, ...] = ()

    def read_pem(self) -> bytes:
        """Read the certificate, with its chain. Raises: OSError."""
        return Path(self.certificate_file).read_bytes() if self.certificate_file else self.certificate

    def label(self, kind: str) -> str:
        """Its name in the log."""
        if self.certificate_file:
            return f"{kind}::{self.certificate_file}::{self.key_file}"
        return "Generated self signed cert"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The settings of a context, beside the authorities of clients."""

    default: KeyPair
    by_name: Sequence[KeyPair] = ()
    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: str = ""
    #: The only curve to use; empty: OpenSSL chooses.
    curve: str = ""


class TlsContexts:
    """Returns the context for the next connection.

    `authorities` returns the certificates of clients' authorities, PEM, and is called for each connection; empty if no
    client certificate is requested.
    """

    def __init__(
        self,
        settings: TlsSettings,
        authorities: Callable[[], bytes],
        clock: Callable[[], float],
        authorities_name: str = "client-ca",
    ) -> None:
        """`authorities_name` is the source of the authorities, for the log.

        Raises: OSError (ssl.SSLError is one) or ValueError: a file cannot be used.
        """
        self._authorities_name = authorities_name
        self._settings = settings
        self._authorities = authorities
        self._clock = clock
        self._checked_at = clock()
        self._stamp = self._read_files()
        self._current = self._make_context()
        self.reloads = 0

    def current(self) -> ssl.SSLContext:
        """The context for a connection that begins now."""
        now = self._clock()
        if now - self._checked_at < CHECK_SECONDS:
            return self._current
        self._checked_at = now
        try:
            stamp = self._read_files()
            if stamp == self._stamp:
                return self._current
            self._stamp = stamp
            self._current = self._make_context()
        except (OSError, ValueError) as error:
            log.error("%s; the certificate before stays in use until the files can be read", error)
            return self._current
        self.reloads += 1
        return self._current

    def _read_files(self) -> tuple[_Stamp, bytes]:
        """Return a stamp that changes with the certificate files, and the clients' authorities. Raises: OSError."""
        stamps = []
        for pair in (self._settings.default, *self._settings.by_name):
            for file in filter(None, (pair.certificate_file, pair.key_file)):
                found = Path(file).stat()
                stamps.append((found.st_ino, found.st_mtime_ns, found.st_size))
        return tuple(stamps), self._authorities()

    def _make_context(self) -> ssl.SSLContext:
        """Load the certificates into a context that chooses among them by the name that the client sends.

        Of certificates for the same name, the first is used; for an unknown name, the default.
        """
        context = self._load_context_for_name(self._settings.default)
        others: dict[str, ssl.SSLContext] = {}
        for pair in self._settings.by_name:
            other = self._load_context_for_name(pair)
            for name in pair.names or _names_of_pair(pair):
                others.setdefault(name.lower(), other)
        if others:

            def choose_context_by_name(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
                other = _context_by_name(others, (name or "").lower())
                if other is not None:
                    connection.context = other

            context.sni_callback = choose_context_by_name
        self._log_loaded()
        return context

    def _log_loaded(self) -> None:
        """Log the authorities and certificates in use, at verbosity 2."""
        if klog.enabled(log, 2):
            certificate_log.log_loaded_authorities(log, self._authorities_name, self._authorities())
            pair = self._settings.default
            certificate_log.log_loaded(log, "Loaded serving cert", pair.label("serving-cert"), pair.read_pem())
            for index, pair in enumerate(self._settings.by_name):
                certificate_log.log_loaded(
                    log, "Loaded SNI cert", pair.label("sni-serving-cert"), pair.read_pem(), index=index
                )

    def _load_context_for_name(self, pair: KeyPair) -> ssl.SSLContext:
        """Make the context of one certificate, which asks clients for theirs if there are authorities."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._settings.minimum
        context.set_alpn_protocols(["http/1.1"])
        if self._settings.ciphers:
            context.set_ciphers(self._settings.ciphers)
        if self._settings.curve:
            context.set_ecdh_curve(self._settings.curve)
        _load_key_pair(context, pair)
        authorities = self._authorities()
        if authorities:
            context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


def _load_key_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Load certificate and key into the context. Raises: OSError, ValueError."""
    if pair.certificate_file:
        context.load_cert_chain(pair.certificate_file, pair.key_file, password=_refuse_password)
        return
    # The standard library reads keys from files only; this file is readable by nobody else.
    with tempfile.TemporaryDirectory(prefix="trireme-") as folder:
        certificate, key = Path(folder, "certificate"), Path(folder, "key")
        certificate.write_bytes(pair.certificate)
        key.touch(mode=0o600)
        key.write_bytes(pair.key)
        context.load_cert_chain(certificate, key, password=_refuse_password)


def _refuse_password() -> str:
    """Raise ValueError when OpenSSL asks for a key's password, which would otherwise be read from the terminal."""
    # Without this callback OpenSSL asks on the terminal for an encrypted key's password, and the process hangs.
    raise ValueError("the key is encrypted")


def _names_of_pair(pair: KeyPair) -> list[str]:
    """Return the DNS names and IP addresses that the certificate is for."""
    leaf = x509.load_pem_x509_certificates(pair.read_pem())[0]
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))]


def _context_by_name(others: dict[str, ssl.SSLContext], name: str) -> ssl.SSLContext | None:
    """The context for a name, or for the wildcard that covers it."""
    _, dot, parent = name.partition(".")
    return others.get(name) or (others.get(f"*.{parent}") if dot else None)
