"""Pods whose states are too large for one call to bind, over real gRPC."""

import asyncio
import time
from pathlib import Path

from tests.contract import bind_cluster
from tests.contract.bind_cluster import CONFIG_HASH
from trireme.cache import object_waits
from trireme.framework import status
from trireme.frontend.phase_clients import bind_phase_client
from trireme.plugins.dynamic_resources import reserve_state
from trireme.rpc import dialing, message_sizes
from trireme.scheduling import item_batches, pre_binding
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2

PODS = 500
CONFIGURATIONS = 5
CONFIGURATION_BYTES = 9 << 10


def state() -> bytes:
    """A claim's allocation with large configurations, as DynamicResources has it."""
    parameters = {"opaque": {"driver": "gpu.example.com", "parameters": {"x": "y" * CONFIGURATION_BYTES}}}
    allocation = {"devices": {"config": [{"source": "FromClaim", **parameters}] * CONFIGURATIONS}}
    claim = reserve_state.ClaimToReserve("default", "c", "u", allocation=allocation)
    states = bind_phase_pb2.PluginStates()
    states.plugin_states["DynamicResources"] = reserve_state.DeviceClaims((claim,)).to_bytes()
    return states.SerializeToString()


async def test_many_pods_with_large_allocations_are_prepared(tmp_path: Path) -> None:
    """Their call was refused as too large, taken for one to a busy replica, and repeated forever."""
    large = state()
    assert PODS * len(large) > message_sizes.MAX_PLUGIN_BYTES
    async with bind_cluster.running(tmp_path) as bind, asyncio.timeout(60):
        await bind.acquire()
        fence_request = bind_phase_pb2.FenceRequest(
            fence=bind.fence(),
            config_hash=CONFIG_HASH,
            configuration=bind_cluster.configuration(pre_bind=["DynamicResources"]),
        )
        replicas = bind_phase_client.BindPhaseClient(
            bind.fence, lambda: fence_request, dialing.Dialer(), 60.0, lambda: None
        )
        replicas.set_endpoints([bind.address])
        await replicas.wait_until_announced(10.0)
        binding = pre_binding.PreBinding(replicas, object_waits.ObjectWaits(), time.monotonic, nominating=False)

        async def run(number: int) -> status.Status:
            pod = cycle_pb2.PodIdentity(namespace="default", name=f"p{number}", uid=f"u{number}")
            item = bind_pb2.BindItem(pod=pod, node_name="node-0", state=large)
            return await binding.run(
                bind.cycle(), item, item_batches.FIRST, lambda plugin, keys: None, lambda name: True
            )

        try:
            results = await asyncio.gather(*map(run, range(PODS)))
        finally:
            await binding.close()
            await replicas.close()
        # There is no such claim, which is an answer as good as any.
        assert {result.code for result in results} == {status.Code.ERROR}
        assert all("too large" not in result.message for result in results)
        assert "not found" in results[0].message
