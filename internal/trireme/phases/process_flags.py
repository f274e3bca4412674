"""The flags that filter, score, bind and insight share: where they listen, and with which certificates.

Also change: docs/deployment.md.
Also change: deploy/chart/templates/_pods.tpl (the chart's pods, which set flags).

Tests: tests/unit/bind/test_flags.py.
"""

from dataclasses import dataclass
from typing import Annotated

from trireme.rpc import listen_flags
from trireme_kube.componentbase.cli.arguments import Argument


@dataclass(frozen=True, slots=True)
class ProcessFlags:
    """How a process serves."""

    listen: Annotated[
        str,
        Argument("host:port or unix:/path (default %(default)s); bind: beyond this machine only with TLS"),
    ] = "127.0.0.1:0"
    tls_cert_file: Annotated[str, Argument("certificate to serve with; reloaded when it changes")] = ""
    tls_private_key_file: Annotated[str, Argument("its private key")] = ""
    client_ca_file: Annotated[str, Argument("CA that callers' certificates must be signed by")] = ""
    allowed_identities: Annotated[str, Argument("names of callers' certificates (SAN or CN), comma-separated")] = ""
    exit_with_parent: Annotated[int, Argument("end when this process, the parent, ends", metavar="PID")] = 0
    metrics_listen: Annotated[str, Argument("host:port for /metrics, /healthz and /readyz; empty: not served")] = ""

    def listener(self, *, guarded: bool = False) -> listen_flags.Listener:
        """Where to listen, and whom to accept; a guarded service is not open to everybody, and takes no empty identity.

        Raises: ListenError: names the flag or file at fault.
        """
        identities = self.allowed_identities.split(",") if self.allowed_identities else []
        return listen_flags.make_listener(
            self.listen,
            certificate=self.tls_cert_file,
            private_key=self.tls_private_key_file,
            client_ca=self.client_ca_file,
            identities=tuple(each for each in identities if each or guarded),
            guarded=guarded,
        )
