"""Connections to other services: TLS, our certificate, and the identity expected of the server.

A `Dialer` is made once from the settings; each `RenewableChannel` it opens leads to one address. Renewed certificates
do not affect an established connection, so no call in flight is dropped. When the connection breaks, its owner calls
`renew`, which replaces the channel if the certificates have changed; gRPC by itself would keep the old ones.

The expected identity is a DNS name or an IP address in the server's certificate: gRPC compares that, whatever address
was dialled (for a pod, an IP that no certificate contains). With several identities, each reconnection tries the next.
Unix sockets are plaintext; file permissions protect them.

Also change: internal/trireme/config/service_tls.py (its fields).

Tests: tests/unit/rpc/test_dialing.py, tests/contract/test_replica_dialing.py.
"""

import asyncio
import pathlib
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from grpc import aio

from trireme.rpc import channels, in_process, tls_files
from trireme.rpc.listen_flags import UNIX
from trireme.v1 import snapshot_pb2
from trireme_kube.componentbase import documents

NO_PROXY = ("grpc.enable_http_proxy", 0)
"""HTTPS_PROXY and its kin are for the API server and extenders: a proxy at the edge of the cluster does not reach pods,
and without TLS it would read the whole cluster."""


# In the details where gRPC could not connect. Others are the server's own.
_NO_CONNECTION = "; last error: "
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS settings of a client. Without `ca_file` it trusts the system's authorities; a certificate is optional."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    #: DNS names or IP addresses, one of which the server's certificate must contain; empty: the address dialled.
    identities: tuple[str, ...] = ()
    #: The field that contains these settings, for messages; and that of the identities, if it is not in there.
    field: str = "tls"
    identities_field: str = ""
    #: Whose field it is, for messages that do not say so; empty: that of all services.
    owner: str = ""


# The files that dialers of this process use now.
_watched_files: "weakref.WeakValueDictionary[tls_files.Files, tls_files.WatchedFiles]" = weakref.WeakValueDictionary()


class Dialer:
    """Opens channels. Without settings they are plaintext."""

    def __init__(self, settings: TlsSettings | None = None) -> None:
        """Reads the files, unless another dialer of this process uses them: then their last valid content is used.

        So files that are gone, or do not match while certificates are renewed, matter to nobody who connects anew by
        files that are in use.

        Raises:
            ListenError: naming the field and the file that cannot be used.
        """
        self._watched = None if settings is None else _watch_files(_tls_files(settings))
        self._settings = settings or TlsSettings()
        self._identities = self._settings.identities

    @property
    def can_dial_addresses(self) -> bool:
        """Whether the addresses of a name can be dialled: without identities TLS checks the name that was dialled."""
        return self._watched is None or bool(self._identities)

    @property
    def reloads(self) -> int:
        """How often the files were reloaded."""
        return 0 if self._watched is None else self._watched.reloads

    def open(self, address: str, options: Sequence[tuple[str, Any]]) -> "RenewableChannel":
        """Open a channel to an address, on the running loop."""
        return RenewableChannel(self, address, options)

    def channel(self, address: str, options: Sequence[tuple[str, Any]], attempt: int) -> channels.DrainingChannel:
        """Open a channel with the current certificates. `attempt` selects the expected identity."""
        passes_trace = not isinstance(address, in_process.Address)
        return channels.DrainingChannel(self._connect(address, options, attempt), passes_trace=passes_trace)

    def _connect(self, address: str, options: Sequence[tuple[str, Any]], attempt: int) -> aio.Channel:
        """Open gRPC's own channel: plaintext, or TLS with the files as they are now; or one within this process."""
        if isinstance(address, in_process.Address):
            return in_process.InProcessChannel(address.server)
        expected = [*options, NO_PROXY]
        if address.startswith(UNIX):
            # Else it is the socket's path, which servers refuse that take HTTP/2 at its word, such as Rust's h2.
            expected.append(("grpc.default_authority", "localhost"))
        if self._watched is None or address.startswith(UNIX):
            return aio.insecure_channel(address, options=expected)
        self._watched.reload_if_changed()
        content = self._watched.content
        credentials = grpc.ssl_channel_credentials(content.authorities, content.private_key, content.certificate)
        if self._identities:
            expected.append(("grpc.ssl_target_name_override", self._identity(attempt)))
        return aio.secure_channel(address, credentials, options=expected)

    def error_details(self, error: aio.AioRpcError, address: str, attempt: int) -> str:
        """The details of a call's error; where TLS refused, in words and with the field that decides it."""
        settings, details = self._settings, error.details() or ""
        if _NO_CONNECTION not in details:
            return details
        if "Hostname Verification Check failed" in details:
            field = settings.identities_field or f"{settings.field}.allowedIdentities"
            details = f"its certificate is not for {self._identity(attempt) or address}, as {field} wants"
            if not self._identities:
                details = f"its certificate is not for {address}: name what it is for in {field}"
        elif "certificate has expired" in details:
            details = f"its certificate, or that of its authority, has expired ({documents.CERTIFICATE_EXPIRES})"
        elif "certificate is not yet valid" in details:
            details = (
                "its certificate, or that of its authority, is not valid yet, by the clock of this host "
                f"({documents.CLOCKS_THAT_DIFFER})"
            )
        elif _UNTRUSTED in details:
            reason = details.partition(_UNTRUSTED)[2].strip(" :")
            details = f"its certificate is of no authority in {settings.field}.caFile ({reason})"
        elif "WRONG_VERSION_NUMBER" in details:
            details = f"it does not speak TLS, as {settings.field} says it does"
        elif self._watched is not None and (problem := self._watched.validity_problem()):
            # It ends the connection without a word.
            details = f"{details}; {problem}"
        return details

    def _identity(self, attempt: int) -> str:
        """The identity that the server has to have at this attempt: each in turn; empty: that of the address."""
        return self._identities[attempt % len(self._identities)] if self._identities else ""

    def is_outdated(self, address: str, reloads: int) -> bool:
        """Whether a channel opened at that reload count would differ from one opened now."""
        if self._watched is None or address.startswith(UNIX) or isinstance(address, in_process.Address):
            return False
        self._watched.reload_if_changed()
        return len(self._identities) > 1 or self._watched.reloads != reloads


class RenewableChannel:
    """A channel to one address, replaced when it breaks if certificates or the expected identity changed."""

    def __init__(self, dialer: Dialer, address: str, options: Sequence[tuple[str, Any]]) -> None:
        self._dialer = dialer
        self._address = address
        self._options = options
        self._attempt = 0
        self._replaced: set[asyncio.Task[None]] = set()
        self.channel = dialer.channel(address, options, 0)
        self._reloads = dialer.reloads

    def renew(self) -> bool:
        """Call this when the connection broke or failed; returns whether the channel was replaced."""
        if not self._dialer.is_outdated(self._address, self._reloads):
            return False
        self._attempt += 1
        task = asyncio.create_task(_drain_and_close(self.channel))
        self._replaced.add(task)
        task.add_done_callback(self._replaced.discard)
        self.channel = self._dialer.channel(self._address, self._options, self._attempt)
        self._reloads = self._dialer.reloads
        return True

    def error_text(self, error: aio.AioRpcError) -> str:
        """The error of a call on this channel, for people."""
        return f"{error.code().name}: {self.error_details(error)}"

    def error_details(self, error: aio.AioRpcError) -> str:
        """The details of a call's error, in words where TLS refused; to be read before `renew`, for the old channel."""
        return self._dialer.error_details(error, self._address, self._attempt)

    async def drain(self) -> None:
        """Refuse new calls, and return once those in flight have ended or reached their deadlines."""
        await self.channel.drain()

    async def close(self) -> None:
        """Close the channel; calls in flight fail with UNAVAILABLE."""
        for task in self._replaced:
            task.cancel()
        await asyncio.gather(*self._replaced, return_exceptions=True)
        await self.channel.close()


async def _drain_and_close(channel: channels.DrainingChannel) -> None:
    """Close a channel once its calls have ended."""
    try:
        await channel.drain()
    finally:
        await channel.close()


def remote_settings(config: snapshot_pb2.RemotePlugin) -> TlsSettings | None:
    """The TLS settings of a plugin's configuration; None: plaintext."""
    if not config.HasField("tls"):
        return None
    tls = config.tls
    return TlsSettings(
        tls.ca_file,
        tls.certificate_file,
        tls.private_key_file,
        tuple(tls.allowed_identities),
        owner=f"plugin {config.name}",
    )


def _watch_files(files: tls_files.Files) -> tls_files.WatchedFiles:
    """The files' content, reloaded if they changed. Raises: ListenError if nobody uses them and they cannot be used."""
    watched = _watched_files.get(files)
    if watched is None:
        watched = tls_files.WatchedFiles(files)
        _watched_files[files] = watched
    else:
        watched.reload_if_changed()
    return watched


def _tls_files(settings: TlsSettings) -> tls_files.Files:
    """The files of the settings, with the names of their fields for errors."""
    prefix = f"{settings.owner}: {settings.field}" if settings.owner else settings.field

    def named_file(field: str, path: str) -> tls_files.NamedFile | None:
        return tls_files.NamedFile(f"{prefix}.{field}", pathlib.Path(path)) if path else None

    return tls_files.Files(
        named_file("certFile", settings.cert_file),
        named_file("keyFile", settings.key_file),
        named_file("caFile", settings.ca_file),
    )
