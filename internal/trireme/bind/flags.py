"""The flags of the bind process. A mistake is one line that names the flag, where argparse would write a page."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from trireme.bind import write_turns
from trireme.framework import release
from trireme.rpc import listen_flags
from trireme_kube.client.rest.client import ClientSettings
from trireme_kube.client.rest.credentials import Source
from trireme_kube.componentbase.cli import log_flags
from trireme_kube.componentbase.logs import klog


class FlagError(ValueError):
    """A flag is wrong; the message is one line that names it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the flags say."""

    listener: listen_flags.Listener
    connection: ClientSettings
    #: Namespace and name of the Lease; None: no leader election.
    lease: tuple[str, str] | None
    metrics_listen: str
    #: Process id of the parent to end with; 0: none.
    parent: int


def parse(argv: Sequence[str] | None) -> Options:
    """Read and check the flags, and set up the log by them before the first check of the others.

    Raises:
        FlagError, ListenError: naming the flag or file.
    """
    values = _make_parser().parse_args(argv)
    klog.setup(log_flags.options(values, "trireme"))
    listener = listen_flags.make_listener(
        values.listen,
        certificate=values.tls_cert_file,
        private_key=values.tls_private_key_file,
        client_ca=values.client_ca_file,
        identities=tuple(values.allowed_identities.split(",")) if values.allowed_identities else (),
        guarded=True,
    )
    if values.metrics_listen:
        address = listen_flags.parse_address(values.metrics_listen, "--metrics-listen")
        if address.socket_path is not None:
            raise FlagError(f"--metrics-listen: {values.metrics_listen!r} is not host:port")
    if values.leader_elect and not (values.leader_elect_resource_name and values.leader_elect_resource_namespace):
        raise FlagError("--leader-elect-resource-name and --leader-elect-resource-namespace must name a Lease")
    if values.kube_api_burst < 1 <= values.kube_api_qps:
        raise FlagError(f"--kube-api-burst: {values.kube_api_burst} must be at least 1")
    return Options(
        listener=listener,
        connection=ClientSettings(
            source=Source(values.kubeconfig, values.master),
            user_agent=release.user_agent("bind"),
            qps=values.kube_api_qps,
            burst=values.kube_api_burst,
            max_connections=3 * write_turns.CONCURRENCY,  # for bindings, PreBind and actions
        ),
        lease=(values.leader_elect_resource_namespace, values.leader_elect_resource_name)
        if values.leader_elect
        else None,
        metrics_listen=values.metrics_listen,
        parent=values.exit_with_parent,
    )


class _Parser(argparse.ArgumentParser):
    """A parser that raises FlagError with one line, where argparse prints the usage and exits."""

    def error(self, message: str) -> NoReturn:
        """Raise FlagError with the message that argparse would print."""
        raise FlagError(message)


def _make_parser() -> argparse.ArgumentParser:
    """Declare bind's flags with their defaults and help."""
    parser = _Parser(
        prog="trireme-bind",
        description="The bind phase of the Trireme scheduler: the only writer of pods, bindings and claims.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--listen", default="127.0.0.1:0", help="host:port or unix:/path (default %(default)s); beyond this machine "
        "only with the four flags of TLS")  # fmt: skip
    add("--kubeconfig", default="", help="kubeconfig file; empty: the pod's service account")
    add("--master", default="", help="address of the API server, in place of the kubeconfig's")
    add("--kube-api-qps", type=float, default=50.0, help="requests a second to the API server; negative: no limit")
    add("--kube-api-burst", type=int, default=100, help="requests at once beyond that (default %(default)s)")
    add("--tls-cert-file", default="", help="certificate to serve with; reloaded when it changes")
    add("--tls-private-key-file", default="", help="its private key")
    add("--client-ca-file", default="", help="CA that callers' certificates must be signed by")
    add("--allowed-identities", default="", help="names of callers' certificates (SAN or CN), comma-separated")
    add("--leader-elect", type=_parse_boolean, nargs="?", const=True, default=True, metavar="BOOL",
        help="check callers against the Lease (default true)")  # fmt: skip
    add("--leader-elect-resource-name", default="kube-scheduler", help="name of the Lease (default %(default)s)")
    add("--leader-elect-resource-namespace", default="kube-system", help="its namespace (default %(default)s)")
    add("--metrics-listen", default="", help="host:port for /metrics, /healthz and /readyz; empty: not served")
    add("--exit-with-parent", type=int, default=0, metavar="PID", help="end when this process, the parent, ends")
    log_flags.add(parser)
    return parser


def _parse_boolean(text: str) -> bool:
    """Parse a boolean as Go's flag package does. Raises: argparse.ArgumentTypeError."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
