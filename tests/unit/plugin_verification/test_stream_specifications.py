"""Checks of the snapshot stream and of TLS where the plugin cannot be reached."""

from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc import aio

from trireme.plugin_verification import exchanges, outcomes, rpcs, session, stream_specifications
from trireme.rpc import dialing
from trireme.v1 import plugin_pb2

_GONE = aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata(), details="gone")


class _GoneChannel:
    """A channel to a plugin that has gone."""

    def stream_stream(self, path: str) -> Any:
        async def read() -> None:
            raise _GONE

        return lambda requests, timeout: SimpleNamespace(read=read, cancel=lambda: True)


async def test_a_plugin_that_goes_when_a_stream_has_no_hello_violates_that() -> None:
    """If this fails, the command ends in a traceback."""
    verified = session.Session(_GoneChannel(), session.Settings("unix:/none"))
    verified.followed = SimpleNamespace(failure=None)
    with pytest.raises(outcomes.Violation, match="Sync without Hello fails with UNAVAILABLE: gone"):
        await stream_specifications.a_stream_begins_with_hello.check(verified)


async def test_tls_is_not_checked_where_a_certificate_does_not_help() -> None:
    """If this fails, a plugin that nobody reaches counts as one that refuses callers without a certificate."""
    failure = exchanges.Failure(grpc.StatusCode.UNAVAILABLE, "no authority")
    handshake = exchanges.Exchange(rpcs.GET_PLUGIN_INFO, plugin_pb2.GetPluginInfoRequest(), None, failure)
    tls = dialing.TlsSettings("ca.crt", "tls.crt", "tls.key")
    verified = session.Session(_GoneChannel(), session.Settings("127.0.0.1:1", tls=tls), handshake)
    with pytest.raises(outcomes.NotChecked):
        await stream_specifications.callers_without_a_certificate_are_refused.check(verified)
