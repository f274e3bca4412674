"""The flags of the bind process. A mistake is one line that names the flag, where argparse would write a page.

Also change: deploy/chart/templates/_pods.tpl (the chart's pods, which set flags).
Also change: internal/trireme/config/leader_election.py (the flags that name the Lease).
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NoReturn

from trireme.bind import write_turns
from trireme.framework import release
from trireme.phases.process_flags import ProcessFlags
from trireme.rpc import listen_flags
from trireme_kube.client.rest.client import DEFAULT_BURST, DEFAULT_QPS, ClientSettings
from trireme_kube.client.rest.credentials import Source
from trireme_kube.componentbase.cli import arguments, log_flags
from trireme_kube.componentbase.cli.arguments import Argument
from trireme_kube.componentbase.logs import klog


class FlagError(ValueError):
    """A flag is wrong; the message is one line that names it."""


@dataclass(frozen=True, slots=True)
class BindFlags:
    """The flags that bind alone has: its connection to the API server, and the Lease."""

    kubeconfig: Annotated[str, Argument("kubeconfig file; empty: the pod's service account")] = ""
    master: Annotated[str, Argument("address of the API server, in place of the kubeconfig's")] = ""
    kube_api_qps: Annotated[float, Argument("requests a second to the API server; negative: no limit")] = DEFAULT_QPS
    kube_api_burst: Annotated[int, Argument("requests at once beyond that (default %(default)s)")] = DEFAULT_BURST
    leader_elect: Annotated[bool, Argument("check callers against the Lease (default true)", metavar="BOOL")] = True
    leader_elect_resource_name: Annotated[str, Argument("name of the Lease (default %(default)s)")] = "kube-scheduler"
    leader_elect_resource_namespace: Annotated[str, Argument("its namespace (default %(default)s)")] = "kube-system"

    def check(self) -> None:
        """Check the flags. Raises: FlagError."""
        if self.leader_elect and not (self.leader_elect_resource_name and self.leader_elect_resource_namespace):
            raise FlagError("--leader-elect-resource-name and --leader-elect-resource-namespace must name a Lease")
        if self.kube_api_burst < 1 <= self.kube_api_qps:
            raise FlagError(f"--kube-api-burst: {self.kube_api_burst} must be at least 1")

    def connection(self) -> ClientSettings:
        """The settings of the client of the API server."""
        return ClientSettings(
            source=Source(self.kubeconfig, self.master),
            user_agent=release.user_agent("bind"),
            qps=self.kube_api_qps,
            burst=self.kube_api_burst,
            max_connections=3 * write_turns.CONCURRENCY,  # for bindings, PreBind and actions
        )

    def lease(self) -> tuple[str, str] | None:
        """Namespace and name of the Lease; None: no leader election."""
        return (self.leader_elect_resource_namespace, self.leader_elect_resource_name) if self.leader_elect else None


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


def parse(argv: Sequence[str] | None, *, set_up_log: bool = True) -> Options:
    """Read and check the flags, and set up the log by them before the first check of the others.

    The log stays as it is without `set_up_log`: for a bind in the process of a frontend.

    Raises:
        FlagError, ListenError: naming the flag or file.
    """
    parser = _Parser(
        prog="trireme-bind",
        description="The bind phase of the Trireme scheduler: the only writer of pods, bindings and claims.",
        allow_abbrev=False,
    )
    for flags in (ProcessFlags, BindFlags, log_flags.LogFlags):
        arguments.add(parser, flags)
    values = parser.parse_args(argv)
    if set_up_log:
        klog.setup(arguments.read(log_flags.LogFlags, values).options("trireme"))
    process, own = arguments.read(ProcessFlags, values), arguments.read(BindFlags, values)
    listener = process.listener(guarded=True)
    if process.metrics_listen:
        address = listen_flags.parse_address(process.metrics_listen, "--metrics-listen")
        if address.socket_path is not None:
            raise FlagError(f"--metrics-listen: {process.metrics_listen!r} is not host:port")
    own.check()
    return Options(listener, own.connection(), own.lease(), process.metrics_listen, process.exit_with_parent)


class _Parser(argparse.ArgumentParser):
    """A parser that raises FlagError with one line, where argparse prints the usage and exits."""

    def error(self, message: str) -> NoReturn:
        """Raise FlagError with the message that argparse would print."""
        raise FlagError(message)
