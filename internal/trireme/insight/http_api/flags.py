"""The flags of insight's HTTP API, and the rules about which of them need each other.

The rules: HTTPS with both kubeconfigs anywhere; plain HTTP, or without authentication, on a loopback address only.
"""

import argparse
from dataclasses import dataclass

from trireme.rpc import listen_flags


@dataclass(frozen=True, slots=True)
class HttpFlags:
    """Checked flags; all files are paths, empty where there is none."""

    address: listen_flags.Address
    certificate: str
    private_key: str
    client_ca: str
    authentication_kubeconfig: str
    authorization_kubeconfig: str

    @property
    def reviews(self) -> bool:
        """Whether the API server reviews callers."""
        return bool(self.authentication_kubeconfig)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    flag = parser.add_argument
    flag("--http-listen", default="", help="host:port for explanations as JSON over HTTPS, with the certificate of "
         "--tls-cert-file; plain HTTP only on a loopback address; empty: not served")  # fmt: skip
    flag("--http-client-ca-file", default="", help="CA of the certificates by which users are known over HTTPS; "
         "empty: by tokens alone")  # fmt: skip
    flag("--authentication-kubeconfig", default="", help="kubeconfig of the API server that reviews tokens; "
         "empty: callers of --http-listen are not authenticated, which needs a loopback address")  # fmt: skip
    flag("--authorization-kubeconfig", default="", help="kubeconfig of the API server that reviews access; "
         "needed with --authentication-kubeconfig")  # fmt: skip


def check(options: argparse.Namespace) -> HttpFlags | None:
    """The checked flags; None: no HTTP is served.

    Raises: ListenError: names the flag at fault.
    """
    tokens, access = options.authentication_kubeconfig, options.authorization_kubeconfig
    if not options.http_listen:
        for name in ("http_client_ca_file", "authentication_kubeconfig", "authorization_kubeconfig"):
            if getattr(options, name):
                raise listen_flags.ListenError(f"--{name.replace('_', '-')} is for --http-listen, which is not given")
        return None
    address = listen_flags.parse_address(options.http_listen, "--http-listen")
    where = f"--http-listen: {options.http_listen!r}"
    if address.socket_path is not None:
        raise listen_flags.ListenError(f"{where} is not host:port")
    if bool(tokens) != bool(access):
        raise listen_flags.ListenError("--authentication-kubeconfig and --authorization-kubeconfig need each other")
    if not address.local and not options.tls_cert_file:
        raise listen_flags.ListenError(
            f"{where} can be reached from other machines: that needs --tls-cert-file and --tls-private-key-file"
        )
    if not address.local and not tokens:
        raise listen_flags.ListenError(
            f"{where} can be reached from other machines: that needs --authentication-kubeconfig and "
            "--authorization-kubeconfig"
        )
    if options.http_client_ca_file and not (tokens and options.tls_cert_file):
        raise listen_flags.ListenError(
            "--http-client-ca-file needs --tls-cert-file, --authentication-kubeconfig and --authorization-kubeconfig"
        )
    return HttpFlags(
        address, options.tls_cert_file, options.tls_private_key_file, options.http_client_ca_file, tokens, access
    )
