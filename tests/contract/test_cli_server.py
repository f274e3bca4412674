"""What `trireme status --server` says where it is not answered as it asked."""

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.contract import certificates, https_server
from trireme.cli import frontend_connection
from trireme_kube.componentbase.server import status_documents

ANONYMOUS = 'forbidden: User "system:anonymous" cannot get path "/trireme/v1/status"'
NAMED = 'forbidden: User "ann" cannot get path "/trireme/v1/status"'


@contextlib.asynccontextmanager
async def _server(folder: Path, status: int, body: str, delay: float = 0.0) -> AsyncIterator[str]:
    """An HTTPS server that answers everything so; its address."""

    async def answer(_: web.BaseRequest) -> web.Response:
        await asyncio.sleep(delay)
        return web.Response(status=status, text=body)

    async with https_server.serving(folder, answer) as port:
        yield f"https://127.0.0.1:{port}"


async def _said(folder: Path, server: str, *, token: bool = False, insecure: bool = True, ca_file: str = "") -> str:
    (folder / "token").write_text("t")
    options = argparse.Namespace(
        socket="",
        server=server,
        token_file=str(folder / "token") if token else "",
        ca_file=ca_file,
        insecure=insecure,
        link=None,
    )
    with pytest.raises(frontend_connection.ReportUnavailable) as raised:
        await frontend_connection.fetch_report(options, "/trireme/v1/status", {})
    return str(raised.value)


def _refusal(message: str, code: int = 403) -> str:
    return status_documents.failure(code, "Forbidden", message).body


@pytest.mark.parametrize(
    ("message", "token", "missing"),
    [
        pytest.param(ANONYMOUS, True, "--authentication-kubeconfig", id="tokens-are-not-reviewed"),
        pytest.param(ANONYMOUS, False, "--token-file", id="no-token"),
        pytest.param(NAMED, True, "--authorization-kubeconfig", id="user-may-not"),
    ],
)
async def test_a_refusal_says_what_is_missing(tmp_path: Path, message: str, token: bool, missing: str) -> None:
    """If this fails, a caller with a good token reads that an anonymous user may not, and suspects the token."""
    async with _server(tmp_path, 403, _refusal(message)) as server:
        said = await _said(tmp_path, server, token=token)
    assert said.startswith(f"{message}. ")
    assert missing in said


async def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    """If this fails, OpenSSL's sentence stands alone, and names no flag that would help."""
    async with _server(tmp_path, 200, "{}") as server:
        said = await _said(tmp_path, server, insecure=False)
    assert said.startswith(f"{server}: ")
    assert "self-signed certificate" in said
    assert "--ca-file" in said
    assert "--insecure" in said


async def test_a_certificate_of_another_authority(tmp_path: Path) -> None:
    """If this fails, the message suggests --ca-file to somebody who has given the wrong one."""
    (tmp_path / "ca.pem").write_bytes(certificates.Authority().certificate)
    async with _server(tmp_path, 200, "{}") as server:
        said = await _said(tmp_path, server, insecure=False, ca_file=str(tmp_path / "ca.pem"))
    assert "the authority of --ca-file is another one" in said.lower()
    assert "--insecure" not in said


async def test_an_invalid_token_is_named(tmp_path: Path) -> None:
    """If this fails, the answer is one word."""
    async with _server(tmp_path, 401, _refusal("Unauthorized", 401)) as server:
        assert await _said(tmp_path, server, token=True) == "Unauthorized: the token of --token-file is not valid"


async def test_there_is_always_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the error ends with a colon: an exception without words of its own was shown as it is."""
    async with _server(tmp_path, 503, "") as server:
        assert await _said(tmp_path, server) == "HTTP status 503"
    async with _server(tmp_path, 200, "<html>") as server:
        assert await _said(tmp_path, server) == f"{server}: the server there is not a frontend of Trireme"
    monkeypatch.setattr(frontend_connection, "DEADLINE_SECONDS", 0.2)
    async with _server(tmp_path, 200, "", delay=1.0) as server:
        said = await _said(tmp_path, server)
        assert said.startswith(f"{server}: no answer within 0 s: the frontend there is stopped, or has too much to do")
        assert said.endswith("Another one leads once its lease is over: ask that")
