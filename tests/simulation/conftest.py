"""What the suites share that hold simulated transports to the real ones' contracts."""

import asyncio

import pytest
from grpc import aio

from tests.simulation import simulated_grpc_client, simulated_grpc_server, virtual_loop
from tests.simulation.grpc_contract_service import Run


@pytest.fixture(params=["real", "simulated"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a program on real or simulated gRPC."""
    if request.param == "real":
        return lambda main: asyncio.run(main())
    monkeypatch.setattr(aio, "insecure_channel", simulated_grpc_client.insecure_channel)
    monkeypatch.setattr(aio, "server", simulated_grpc_server.server)
    return lambda main: virtual_loop.run(lambda loop: main())
