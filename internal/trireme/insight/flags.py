"""The flags that insight alone has: its HTTP API, and its recordings.

Of the HTTP API's the rules say which need each other: HTTPS with both kubeconfigs anywhere; plain HTTP, or without
authentication, on a loopback address only.

Also change: docs/explain.md.
Also change: docs/recording.md.
Also change: deploy/chart/templates/_pods.tpl (the chart's pods, which set flags).

Tests: tests/unit/insight/http_api/test_flags.py, tests/unit/insight/test_recorder.py.
"""

from dataclasses import dataclass
from typing import Annotated

from trireme.phases.process_flags import ProcessFlags
from trireme.rpc import listen_flags
from trireme_kube.apimachinery import golang, quantity
from trireme_kube.componentbase.cli.arguments import Argument

_LEAST_BYTES = 1 << 20
_LEAST_SECONDS = 60
_NS = 1_000_000_000


def _parse_bytes(text: str) -> int:
    """A quantity of bytes. Raises: ValueError."""
    try:
        number = quantity.parse_quantity(text).value()
    except ValueError as error:
        raise ValueError(f"{text!r} is not a quantity: {error}") from error
    if number < _LEAST_BYTES:
        raise ValueError(f"{text!r} is less than 1Mi")
    return number


def _parse_age(text: str) -> float:
    """A duration in seconds. Raises: ValueError."""
    seconds = golang.parse_duration(text).nanoseconds / _NS
    if seconds < _LEAST_SECONDS:
        raise ValueError(f"{text!r} is less than 1m")
    return seconds


@dataclass(frozen=True, slots=True)
class HttpFlags:
    """Checked flags of the HTTP API; all files are paths, empty where there is none."""

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


@dataclass(frozen=True, slots=True)
class InsightFlags:
    """The flags as they are given."""

    http_listen: Annotated[
        str,
        Argument(
            "host:port for explanations as JSON over HTTPS, with the certificate of --tls-cert-file; plain HTTP only "
            "on a loopback address; empty: not served"
        ),
    ] = ""
    http_client_ca_file: Annotated[
        str, Argument("CA of the certificates by which users are known over HTTPS; empty: by tokens alone")
    ] = ""
    authentication_kubeconfig: Annotated[
        str,
        Argument(
            "kubeconfig of the API server that reviews tokens; empty: callers of --http-listen are not authenticated, "
            "which needs a loopback address"
        ),
    ] = ""
    authorization_kubeconfig: Annotated[
        str,
        Argument("kubeconfig of the API server that reviews access; needed with --authentication-kubeconfig"),
    ] = ""
    record_dir: Annotated[
        str,
        Argument(
            "folder for recordings of the cluster and the queue, which hold names and labels; empty: none are made",
            metavar="DIR",
        ),
    ] = ""
    record_max_bytes: Annotated[
        int,
        Argument(
            "most that the recordings take; the oldest are deleted (default 1Gi)",
            metavar="QUANTITY",
            parse=_parse_bytes,
        ),
    ] = 1 << 30
    record_max_age: Annotated[
        float,
        Argument("recordings that began longer ago are deleted (default 24h)", metavar="DURATION", parse=_parse_age),
    ] = 86_400.0

    def http(self, process: ProcessFlags) -> HttpFlags | None:
        """The checked flags of the HTTP API; None: no HTTP is served.

        Raises: ListenError: names the flag at fault.
        """
        tokens, access = self.authentication_kubeconfig, self.authorization_kubeconfig
        if not self.http_listen:
            for name in ("http_client_ca_file", "authentication_kubeconfig", "authorization_kubeconfig"):
                if getattr(self, name):
                    raise listen_flags.ListenError(
                        f"--{name.replace('_', '-')} is for --http-listen, which is not given"
                    )
            return None
        address = listen_flags.parse_address(self.http_listen, "--http-listen")
        where = f"--http-listen: {self.http_listen!r}"
        if address.socket_path is not None:
            raise listen_flags.ListenError(f"{where} is not host:port")
        if bool(tokens) != bool(access):
            raise listen_flags.ListenError("--authentication-kubeconfig and --authorization-kubeconfig need each other")
        if not address.local and not process.tls_cert_file:
            raise listen_flags.ListenError(
                f"{where} can be reached from other machines: that needs --tls-cert-file and --tls-private-key-file"
            )
        if not address.local and not tokens:
            raise listen_flags.ListenError(
                f"{where} can be reached from other machines: that needs --authentication-kubeconfig and "
                "--authorization-kubeconfig"
            )
        if self.http_client_ca_file and not (tokens and process.tls_cert_file):
            raise listen_flags.ListenError(
                "--http-client-ca-file needs --tls-cert-file, --authentication-kubeconfig and "
                "--authorization-kubeconfig"
            )
        return HttpFlags(
            address, process.tls_cert_file, process.tls_private_key_file, self.http_client_ca_file, tokens, access
        )
