"""Asking a running frontend: by its Unix socket on this machine, or by HTTPS with a token."""

import argparse
import asyncio
import functools
import http
import json
import os
import pathlib
import socket
import ssl
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp

from trireme.cli import display

DEADLINE_SECONDS = 10.0

# Where `trireme up` has the frontend listen, so that nothing need be named on the same machine.
_SOCKET_VARIABLE = "TRIREME_SOCKET"

# Whom a server takes for the caller that it has no way to identify.
_ANONYMOUS = "system:anonymous"


class Unanswered(Exception):
    """The frontend cannot be asked, or has no answer; the text says why."""


def default_socket() -> pathlib.Path:
    """The socket of this user's own installation."""
    named = os.environ.get(_SOCKET_VARIABLE)
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"{tempfile.gettempdir()}/trireme-{os.getuid()}"
    return pathlib.Path(named) if named else pathlib.Path(folder, "trireme-admin.sock")


def socket_for(folder: pathlib.Path) -> pathlib.Path:
    """Where a new installation of this user listens: the default socket, or one in its own folder where that one is in
    use, or in a folder that others can write to.
    """
    path = default_socket()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.parent.stat()
        private = found.st_uid == os.getuid() and not found.st_mode & 0o022
    except OSError:
        private = False
    return path if private and not _answers(path) else folder / path.name


def state_folder() -> pathlib.Path:
    """Where `trireme up` leaves its kubeconfig: the same place each time.

    Source: the XDG base directory specification.
    """
    return pathlib.Path(os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local/state", "trireme")


def _answers(path: pathlib.Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that say whom to ask."""
    parser.add_argument(
        "--socket", default="", help=f"the frontend's admin socket (default {default_socket()}, or ${_SOCKET_VARIABLE})"
    )
    parser.add_argument("--server", default="", metavar="URL", help="ask this HTTPS address instead")
    parser.add_argument("--token-file", default="", help="bearer token for --server")
    parser.add_argument("--ca-file", default="", help="authority of the certificate of --server")
    parser.add_argument("--insecure", action="store_true", help="believe any certificate of --server")
    display.add_arguments(parser)


def show(options: argparse.Namespace, path: str, query: Mapping[str, str], render: display.Render) -> int:
    """Ask, and print the answer, once or with `--watch` until Ctrl-C. Returns the exit code."""
    return show_with(options, functools.partial(ask, options, path, query), render)


def show_with(
    options: argparse.Namespace, ask_for: Callable[[], Awaitable[display.Report]], render: display.Render
) -> int:
    """As `show`, of what `ask_for` answers."""
    try:
        asyncio.run(display.show(options, ask_for, render))
    except Unanswered as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def pending_pods(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The names of pending pods, for the shell's completion; none where the scheduler cannot be asked."""
    try:
        report = asyncio.run(ask(parsed_args, "/trireme/v1/status", {"pods": "1000"}))
    except Unanswered:
        return []
    return [pod["pod"] for pod in report["pending"]]


async def ask(options: argparse.Namespace, path: str, query: Mapping[str, str]) -> Mapping[str, Any]:
    """The frontend's answer. Raises: Unanswered."""
    connector, base, headers = _way(options)
    timeout = aiohttp.ClientTimeout(total=DEADLINE_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.get(base + path, params=query, headers=headers) as response,
        ):
            body = await response.read()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        if isinstance(error, aiohttp.ClientConnectorError) and not options.server:
            raise Unanswered(
                f"no scheduler listens at {_socket(options)} ({error.os_error.strerror}): start one with `trireme up`, "
                "or say where one is with --socket or --server"
            ) from error
        raise Unanswered(f"{options.server or _socket(options)}: {_problem(error)}") from error
    if response.status != 200:
        reason = _reason(body) or f"HTTP status {response.status}"
        raise Unanswered(f"{reason}{_advice(options, response.status, reason)}")
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Unanswered(f"{options.server or _socket(options)}: what answers there is no frontend of Trireme")
    return answer


def _problem(error: Exception) -> str:
    """An error of the connection in words; some have none of their own."""
    if isinstance(error, TimeoutError):
        return f"no answer within {DEADLINE_SECONDS:.0f} s"
    return str(error) or type(error).__name__


def _advice(options: argparse.Namespace, code: int, reason: str) -> str:
    """What to do about a refusal by a frontend's HTTPS port: it says who may not, and not what is missing."""
    if code == http.HTTPStatus.UNAUTHORIZED:
        return ": the token of --token-file is not valid" if options.token_file else ": give a token by --token-file"
    if code != http.HTTPStatus.FORBIDDEN:
        return ""
    if _ANONYMOUS not in reason:
        return (
            ". Its role must allow `get` of the non-resource URL /trireme/v1/*, and the frontend needs "
            "--authorization-kubeconfig to ask the API server about that"
        )
    if options.token_file:
        return (
            ". The frontend does not look whose token it is: start it with --authentication-kubeconfig and "
            "--authorization-kubeconfig, or ask by its socket on its own machine"
        )
    return ". Give the token of a user who may `get` the non-resource URL /trireme/v1/* by --token-file"


def _way(options: argparse.Namespace) -> tuple[aiohttp.BaseConnector, str, dict[str, str]]:
    if not options.server:
        return aiohttp.UnixConnector(path=_socket(options)), "http://frontend", {}
    if not options.server.startswith("https://"):
        raise Unanswered(f"--server: {options.server!r} is not of the form https://HOST:PORT")
    try:
        context = ssl.create_default_context(cafile=options.ca_file or None)
    except OSError as error:  # ssl.SSLError, a file without a certificate, is one too
        raise Unanswered(f"--ca-file: {options.ca_file}: {error.strerror}") from error
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    headers = {}
    if options.token_file:
        try:
            headers["Authorization"] = f"Bearer {pathlib.Path(options.token_file).read_text().strip()}"
        except OSError as error:
            raise Unanswered(f"--token-file: {options.token_file}: {error.strerror}") from error
    return aiohttp.TCPConnector(ssl=context), options.server.rstrip("/"), headers


def _socket(options: argparse.Namespace) -> str:
    return options.socket or str(default_socket())


def _reason(body: bytes) -> str:
    """What an error says, as text or in a Status object."""
    text = body.decode("utf-8", "replace").strip()
    try:
        status = json.loads(text)
    except ValueError:
        return text
    return str(status.get("message", text)) if isinstance(status, dict) else text
