"""Asking a running frontend: by its Unix socket on this machine, or by HTTPS with a token."""

import argparse
import asyncio
import json
import os
import pathlib
import socket
import ssl
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

DEADLINE_SECONDS = 10.0

# Where `trireme up` has the frontend listen, so that nothing need be named on the same machine.
_SOCKET_VARIABLE = "TRIREME_SOCKET"


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
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default %(default)s")


def show(
    options: argparse.Namespace, path: str, query: Mapping[str, str], as_text: Callable[[Mapping[str, Any]], str]
) -> int:
    """Ask, and print the answer. Returns the exit code."""
    try:
        answer = asyncio.run(ask(options, path, query))
    except Unanswered as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(answer, indent=2, ensure_ascii=False) if options.output == "json" else as_text(answer))
    return 0


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
        raise Unanswered(f"{options.server or _socket(options)}: {error or type(error).__name__}") from error
    if response.status != 200:
        raise Unanswered(_reason(body) or f"HTTP status {response.status}")
    answer = json.loads(body)
    assert isinstance(answer, dict)  # it is our own frontend's
    return answer


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
