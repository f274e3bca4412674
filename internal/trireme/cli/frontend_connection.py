"""The connection to a running frontend: its Unix socket on this machine, or HTTPS with a token or a certificate.

`cluster_connection` finds one in a cluster.

Also change: tools/release/checks.py (where the socket is).

Tests: tests/contract/test_cli_server.py, tests/unit/cli/test_display.py, tests/unit/cli/test_wrong_usage.py.
"""

import argparse
import asyncio
import dataclasses
import functools
import http
import json
import os
import pathlib
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import aiohttp

from trireme.cli import display
from trireme.framework import programs
from trireme_kube.componentbase.server import caller_names

DEADLINE_SECONDS = 10.0

# The namespace that the documents install into.
NAMESPACE = "trireme-system"

# The socket of `trireme up`, so that commands on the same machine need no flag.
SOCKET_VARIABLE = "TRIREME_SOCKET"

# What another try may pass: too many questions, no answer of insight, a frontend that is not ready.
_PASSING = (
    http.HTTPStatus.TOO_MANY_REQUESTS,
    http.HTTPStatus.BAD_GATEWAY,
    http.HTTPStatus.SERVICE_UNAVAILABLE,
    http.HTTPStatus.GATEWAY_TIMEOUT,
)

# A frontend answers from memory.
_SILENCE_ADVICE = (
    ": the frontend there is stopped, or has too much to do, which its log says. "
    "Another one leads once its lease is over: ask that"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes over HTTPS, and who asks: by a client certificate, or by headers with a token."""

    url: str
    tls: ssl.SSLContext
    headers: Mapping[str, str]


class Link(Protocol):
    """Leads to a frontend.

    Implementers: trireme.cli.cluster_connection.ClusterLink, trireme.cli.cluster_connection._Fixed.
    """

    @property
    def address(self) -> str:
        """Which one, for people."""

    async def target(self) -> Target:
        """Where the next request goes. Raises: ReportUnavailable."""


class ReportUnavailable(Exception):
    """The frontend cannot be reached, or reports an error; the text says why."""


class ReportUnavailableNow(ReportUnavailable, display.NoReportNowError):
    """The frontend cannot be reached now, or not answer this now."""


def default_socket() -> pathlib.Path:
    """The socket of this user's own installation."""
    path = os.environ.get(SOCKET_VARIABLE)
    # tempfile would need a folder that can be written to: a container on a read-only root may have none.
    temporary = os.environ.get("TMPDIR") or "/tmp"
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"{temporary}/trireme-{os.getuid()}"
    return pathlib.Path(path) if path else pathlib.Path(folder, "trireme-admin.sock")


def choose_socket_for_new_frontend(folder: pathlib.Path) -> pathlib.Path:
    """Choose the socket for a new installation of this user, and make its folder.

    That is the default socket, or one in a folder of its own if that is in use, or in a folder that others can write
    to.
    """
    path = default_socket()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.parent.stat()
        private = found.st_uid == os.getuid() and not found.st_mode & 0o022
    except OSError:
        private = False
    return path if private and not _is_listening(path) else folder / path.name


def state_folder() -> pathlib.Path:
    """The folder of `trireme up`'s kubeconfig: always the same one. Source: the XDG base directory specification."""
    return pathlib.Path(os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local/state", "trireme")


def _is_listening(path: pathlib.Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that select the frontend, and those for the output."""
    add_connection_arguments(parser)
    display.add_arguments(parser)


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that select the frontend."""
    parser.add_argument(
        "--socket", default="", help=f"the frontend's admin socket (default {default_socket()}, or ${SOCKET_VARIABLE})"
    )
    parser.add_argument("--server", default="", metavar="URL", help="connect to this HTTPS address instead")
    parser.add_argument("--token-file", default="", help="bearer token for --server")
    parser.add_argument("--ca-file", default="", help="authority of the certificate of --server")
    parser.add_argument("--insecure", action="store_true", help="accept any certificate of --server")
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="ask the leader in the cluster of the kubeconfig, through kubectl (`kubectl trireme` does so by itself)",
    )
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="as --cluster, with this kubeconfig")
    parser.add_argument("--context", default="", metavar="NAME", help="as --cluster, with this context of it")
    parser.add_argument(
        "--scheduler-namespace",
        default=NAMESPACE,
        metavar="NAME",
        help=f"with --cluster: where the scheduler runs (default {NAMESPACE}); who makes pods there can get your token",
    )
    parser.set_defaults(link=None)


def options_of_socket(path: pathlib.Path) -> argparse.Namespace:
    """The options that name a frontend's admin socket."""
    return argparse.Namespace(socket=str(path), server="", link=None)


def options_of_link(link: Link) -> argparse.Namespace:
    """The options that lead to a frontend by a link."""
    return argparse.Namespace(socket="", server="", token_file="", link=link)


def print_report(options: argparse.Namespace, path: str, query: Mapping[str, str], render: display.Render) -> int:
    """Fetch and print a report, once or with `--watch` until Ctrl-C. Returns the exit code."""
    return print_report_of(options, functools.partial(fetch_report, options, path, query), render)


def print_report_of(
    options: argparse.Namespace, ask_for: Callable[[], Awaitable[display.Report]], render: display.Render
) -> int:
    """As `print_report`, for the report that `ask_for` fetches."""
    try:
        asyncio.run(display.show_report(options, ask_for, render))
    except ReportUnavailable as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def pending_pods(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The names of pending pods, for the shell's completion; none if the frontend cannot be reached."""
    try:
        report = asyncio.run(fetch_report(parsed_args, programs.STATUS_PATH, {"pods": "1000"}))
    except ReportUnavailable:
        return []
    return [f"{pod['pod']['namespace']}/{pod['pod']['name']}" for pod in report["pending"]]


async def fetch_report(
    options: argparse.Namespace,
    path: str,
    query: Mapping[str, str],
    question: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> Mapping[str, Any]:
    """Fetch a report from the frontend; one about a `question` is posted. Raises: ReportUnavailable.

    `seconds` is how long that may take; by default DEADLINE_SECONDS.
    """
    seconds = DEADLINE_SECONDS if seconds is None else seconds
    link: Link | None = options.link
    if link is None:
        connector, base, headers = _connector_url_and_headers(options)
    else:
        target = await link.target()
        connector, base, headers = aiohttp.TCPConnector(ssl=target.tls), target.url, dict(target.headers)
    timeout = aiohttp.ClientTimeout(total=seconds)
    method = "GET" if question is None else "POST"
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.request(method, base + path, params=query, headers=headers, json=question) as response,
        ):
            body = await response.read()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        if isinstance(error, aiohttp.ClientConnectorError) and not options.server and options.link is None:
            raise ReportUnavailableNow(
                f"no scheduler listens at {_socket_path(options)} ({error.os_error.strerror}): wait if it is starting, "
                "name another with --socket or --server, or try one out with `trireme up`. "
                "A frontend listens there only if `admin.socket` of its TriremeConfiguration says so"
            ) from error
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            raise ReportUnavailable(f"{options.server}: {error.certificate_error}{_trust_advice(options)}") from error
        raise ReportUnavailableNow(
            f"{address_text(options)}: {_connection_error_text(error, seconds, relayed=question is not None)}"
        ) from error
    if response.status != 200:
        reason = _error_body_text(body) or f"HTTP status {response.status}"
        unavailable = ReportUnavailableNow if response.status in _PASSING else ReportUnavailable
        raise unavailable(f"{reason}{_permission_advice(options, response.status, reason)}")
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ReportUnavailable(f"{address_text(options)}: the server there is not a frontend of Trireme")
    return answer


def address_text(options: argparse.Namespace) -> str:
    """Where the frontend is looked for."""
    link: Link | None = options.link
    return link.address if link is not None else options.server or _socket_path(options)


def _connection_error_text(error: Exception, seconds: float, *, relayed: bool) -> str:
    """A connection error in words; some exceptions have no text of their own.

    `relayed`: the frontend would have had to wait for another process.
    """
    if isinstance(error, TimeoutError):
        late = f"no answer within {seconds:.0f} s"
        return late if relayed else f"{late}{_SILENCE_ADVICE}"
    return str(error) or type(error).__name__


def _trust_advice(options: argparse.Namespace) -> str:
    """How to have the certificate of a frontend accepted."""
    if options.ca_file:
        return ". The authority of --ca-file is another one, or the certificate has another name"
    return (
        ". Name the authority that signed the frontend's certificate by --ca-file. Without --tls-cert-file a frontend "
        "makes its own certificate, which no authority vouches for: --insecure accepts it"
    )


def _permission_advice(options: argparse.Namespace, code: int, reason: str) -> str:
    """Advice about a refusal by a frontend's HTTPS port: the server names the user, but not the missing permission."""
    if options.link is not None and (code == http.HTTPStatus.UNAUTHORIZED or caller_names.ANONYMOUS in reason):
        return ": the frontend does not accept the credentials of the kubeconfig"
    if code == http.HTTPStatus.UNAUTHORIZED:
        return ": the token of --token-file is not valid" if options.token_file else ": give a token by --token-file"
    if code != http.HTTPStatus.FORBIDDEN:
        return ""
    if caller_names.ANONYMOUS not in reason:
        return (
            ". Its role must allow `get` of the non-resource URL /trireme/v1/*, and the frontend needs "
            "--authorization-kubeconfig to have the API server review it"
        )
    if options.token_file:
        return (
            ". The frontend does not review tokens: start it with --authentication-kubeconfig and "
            "--authorization-kubeconfig, or connect to its socket on its own machine"
        )
    return ". Give the token of a user who may `get` the non-resource URL /trireme/v1/* by --token-file"


def _connector_url_and_headers(options: argparse.Namespace) -> tuple[aiohttp.BaseConnector, str, dict[str, str]]:
    """What a request to the frontend needs: its Unix socket, or HTTPS with the token if `--server` is given.

    Raises: ReportUnavailable: an option names no HTTPS address, or a file that cannot be read.
    """
    if not options.server:
        return aiohttp.UnixConnector(path=_socket_path(options)), "http://frontend", {}
    if not options.server.startswith("https://"):
        raise ReportUnavailable(f"--server: {options.server!r} is not of the form https://HOST:PORT")
    try:
        context = ssl.create_default_context(cafile=options.ca_file or None)
    except OSError as error:  # ssl.SSLError, a file without a certificate, is one too
        raise ReportUnavailable(f"--ca-file: {options.ca_file}: {error.strerror}") from error
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    headers = {}
    if options.token_file:
        try:
            headers["Authorization"] = f"Bearer {pathlib.Path(options.token_file).read_text().strip()}"
        except OSError as error:
            raise ReportUnavailable(f"--token-file: {options.token_file}: {error.strerror}") from error
    return aiohttp.TCPConnector(ssl=context), options.server.rstrip("/"), headers


def _socket_path(options: argparse.Namespace) -> str:
    """The socket that the options name, or the default one."""
    return options.socket or str(default_socket())


def _error_body_text(body: bytes) -> str:
    """The text of an error response, plain or in a Status object."""
    text = body.decode("utf-8", "replace").strip()
    try:
        status = json.loads(text)
    except ValueError:
        return text
    return str(status.get("message", text)) if isinstance(status, dict) else text
