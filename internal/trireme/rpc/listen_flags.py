"""Where a service listens and which callers it accepts, validated before anything starts.

A phase acts for any caller: bind binds and deletes pods. So a guarded service listens on a Unix socket or on loopback,
or else with mutual TLS and a list of identities that may call it; any other combination is an error that names the
flag.

Also change: sdk/go/tls.go, sdk/java/src/main/java/dev/trireme/sdk/Tls.java,
sdk/java/src/main/java/dev/trireme/sdk/PemFiles.java, sdk/java/src/main/java/dev/trireme/sdk/WatchedFiles.java,
sdk/java/src/main/java/dev/trireme/sdk/PluginMain.java, sdk/rust/src/tls.rs, sdk/rust/src/admission.rs,
sdk/typescript/src/tls.ts, sdk/typescript/src/watched_files.ts,
sdk/typescript/src/main.ts (the same in the other languages' SDKs).
Also change: docs/security.md.
"""

import ipaddress
import pathlib
import re
from dataclasses import dataclass, field

UNIX = "unix:"

_HOST_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:\[\]/]*):(?P<port>[0-9]{1,5})")


class ListenError(ValueError):
    """A flag, field or file makes listening or dialling impossible or unsafe; the message is one line naming it."""


@dataclass(frozen=True, slots=True)
class Address:
    """A gRPC listen address: `unix:/path` or `host:port`."""

    text: str

    @property
    def socket_path(self) -> pathlib.Path | None:
        """The path of a Unix socket."""
        return pathlib.Path(self.text.removeprefix(UNIX)) if self.text.startswith(UNIX) else None

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        if self.socket_path is not None:
            return True
        host = self.text.rpartition(":")[0].strip("[]")
        if host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def with_port(self, port: int) -> "Address":
        """The address with another port, for one that the system chose."""
        return self if self.socket_path is not None else Address(f"{self.text.rpartition(':')[0]}:{port}")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of a server; it reloads them when they change."""

    certificate: pathlib.Path
    private_key: pathlib.Path
    #: The authority of client certificates; if set, every client must present one.
    client_ca: pathlib.Path | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """Where to listen, and which callers to accept."""

    address: Address
    tls: TlsFiles | None = None
    #: SAN entries (DNS name, URI, IP, e-mail) or common names of client certificates; empty: any that the CA signed.
    identities: frozenset[str] = field(default_factory=frozenset)


def parse_address(text: str, flag: str = "--listen") -> Address:
    """Parse a listen address.

    Raises:
        ListenError: it is neither `unix:/path` nor `host:port`.
    """
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        if path.startswith("//"):  # unix:///path is the same to gRPC
            path = "/" + path.lstrip("/")
        if not path.startswith("/"):
            raise ListenError(f"{flag}: {text!r}: a Unix socket needs an absolute path, as in unix:/run/trireme.sock")
        if len(path.encode()) > 107:
            raise ListenError(f"{flag}: {text!r}: the path of a Unix socket has at most 107 bytes")
        return Address(UNIX + path)
    match = _HOST_PORT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ListenError(f"{flag}: {text!r} is neither unix:/path nor host:port")
    return Address(f"{match['host'] or '0.0.0.0'}:{match['port']}")


def make_listener(
    listen: str,
    *,
    certificate: str = "",
    private_key: str = "",
    client_ca: str = "",
    identities: tuple[str, ...] = (),
    guarded: bool = False,
) -> Listener:
    """Validate the flags of a service. `guarded`: the service must not be open to everybody.

    Raises:
        ListenError: names the flag or file at fault.
    """
    address = parse_address(listen)
    if bool(certificate) != bool(private_key):
        raise ListenError("--tls-cert-file and --tls-private-key-file need each other")
    if client_ca and not certificate:
        raise ListenError("--client-ca-file needs --tls-cert-file and --tls-private-key-file")
    if identities and not client_ca:
        raise ListenError("--allowed-identities needs --client-ca-file: without it no caller shows an identity")
    if any(not identity.strip() for identity in identities):
        raise ListenError("--allowed-identities: an entry is empty: remove it")
    tls = None
    if certificate:
        tls = TlsFiles(
            pathlib.Path(certificate), pathlib.Path(private_key), pathlib.Path(client_ca) if client_ca else None
        )
    if guarded and not address.local and not (tls and tls.client_ca and identities):
        raise ListenError(
            f"--listen: {listen!r} can be reached from other machines: that needs --tls-cert-file, "
            "--tls-private-key-file, --client-ca-file and --allowed-identities"
        )
    return Listener(address, tls, frozenset(identity.strip() for identity in identities))
