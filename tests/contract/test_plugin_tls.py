"""Plugins in every language over TLS: who is let in, and files that are replaced while they serve."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from grpc import aio

from tests.contract import certificates
from tests.contract.contract_services import DEADLINE, PLUGINS, ROOT, command
from trireme.v1 import plugin_pb2, plugin_pb2_grpc

# The first test of a plugin builds it.
pytestmark = pytest.mark.timeout(600)

SCHEDULER = "trireme-frontend"
#: The longest that an SDK may take to see that a file has changed, with a margin for a busy machine.
RELOAD = 60.0


@dataclass(frozen=True)
class Secure:
    """A plugin that serves with TLS, and the files that it reads."""

    address: str
    folder: Path
    authority: certificates.Authority


@pytest.fixture(scope="module", params=[*PLUGINS, "gpu-memory-rust"])
def secure(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """The plugin, serving only callers of one authority with the scheduler's name."""
    folder, authority = tmp_path_factory.mktemp("tls"), certificates.Authority()
    _write(folder, authority)
    flags = ["--listen", "127.0.0.1:0", "--allowed-identities", f"other,{SCHEDULER}"]
    flags += ["--tls-cert-file", folder / "plugin.crt", "--tls-private-key-file", folder / "plugin.key"]
    flags += ["--client-ca-file", folder / "ca.crt"]
    process = subprocess.Popen([*command(request.param), *flags], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield Secure(process.stdout.readline().strip().removeprefix("listening on "), folder, authority)
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE)


@pytest.mark.parametrize("name", [*PLUGINS, "gpu-memory-rust"])
def test_a_plugin_does_not_start_with_the_key_of_another_certificate(name: str, tmp_path: Path) -> None:
    """If this fails, it listens, fails every handshake, and does not say why."""
    authority = certificates.Authority()
    authority.issue("plugin").write(tmp_path, "plugin")
    (tmp_path / "other.crt").write_bytes(authority.issue("other").certificate)
    flags = ["--listen", "127.0.0.1:0", "--tls-cert-file", tmp_path / "other.crt"]
    flags += ["--tls-private-key-file", tmp_path / "plugin.key"]
    ended = subprocess.run(
        [*command(name), *flags], cwd=ROOT, capture_output=True, text=True, timeout=RELOAD, check=False
    )
    assert ended.returncode == 1
    assert "listening" not in ended.stdout
    assert len(ended.stderr.splitlines()) == 1
    assert "--tls-private-key-file" in ended.stderr
    assert str(tmp_path / "other.crt") in ended.stderr
    assert str(tmp_path / "plugin.key") in ended.stderr


async def test_the_scheduler_is_answered_and_others_are_refused(secure: Secure) -> None:
    """If this fails, anybody who reaches the port learns of pods and nodes, or places pods by a plugin's answers."""
    assert await _call(secure, secure.authority, secure.authority.issue(SCHEDULER)) is None
    assert await _call(secure, secure.authority, secure.authority.issue("cn", "other")) is None
    refused = await _call(secure, secure.authority, secure.authority.issue("somebody", "else.example"))
    assert refused is grpc.StatusCode.PERMISSION_DENIED
    stranger = certificates.Authority("another authority")
    assert await _call(secure, secure.authority, stranger.issue(SCHEDULER)) is grpc.StatusCode.UNAVAILABLE
    assert await _call(secure, secure.authority, None) is grpc.StatusCode.UNAVAILABLE
    async with aio.insecure_channel(secure.address) as plain:
        assert await _answer(plain) is grpc.StatusCode.UNAVAILABLE


async def test_files_that_are_replaced_are_used_for_the_next_connection(secure: Secure) -> None:
    """If this fails, a plugin must be restarted before its certificate ends, or trusts a replaced authority."""
    old, new = secure.authority, certificates.Authority("new authority")
    assert await _call(secure, old, old.issue(SCHEDULER)) is None
    # What cannot be read leaves in force what was.
    (secure.folder / "plugin.crt").write_text("no certificate")
    await asyncio.sleep(2)
    assert await _call(secure, old, old.issue(SCHEDULER)) is None
    await _replace(secure, new)
    assert await _call(secure, new, old.issue(SCHEDULER)) is grpc.StatusCode.UNAVAILABLE
    await _replace(secure, old)


async def _replace(secure: Secure, authority: certificates.Authority) -> None:
    """Replace the files, and wait until the plugin serves with them."""
    _write(secure.folder, authority)
    ends = time.monotonic() + RELOAD
    while await _call(secure, authority, authority.issue(SCHEDULER)) is not None:
        assert time.monotonic() < ends, "the new certificate and authority are not used"
        await asyncio.sleep(0.2)


def _write(folder: Path, authority: certificates.Authority) -> None:
    """Write the plugin's certificate of this authority, and the authority."""
    authority.issue("plugin").write(folder, "plugin")
    (folder / "ca.crt").write_bytes(authority.certificate)


async def _call(
    secure: Secure, authority: certificates.Authority, pair: certificates.Pair | None
) -> grpc.StatusCode | None:
    """The error of a call over a new connection with this certificate; None if it is answered."""
    credentials = grpc.ssl_channel_credentials(
        authority.certificate, pair.key if pair else None, pair.certificate if pair else None
    )
    # Channels of one target and the same options would share a connection.
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with aio.secure_channel(secure.address, credentials, options) as channel:
        return await _answer(channel)


async def _answer(channel: aio.Channel) -> grpc.StatusCode | None:
    """The error of GetPluginInfo, or None."""
    plugin = plugin_pb2_grpc.PluginServiceStub(channel)  # type: ignore[no-untyped-call]
    try:
        await plugin.GetPluginInfo(plugin_pb2.GetPluginInfoRequest(), timeout=DEADLINE)
    except aio.AioRpcError as error:
        return error.code()
    return None
