"""Endpoints of a phase that come from the API: found through EndpointSlices, and followed as they change."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from trireme.frontend.phase_clients import endpoints
from trireme_kube.client.rest import client
from trireme_kube.client.rest.credentials import Source
from trireme_kube.embedded.cluster import EmbeddedCluster

PATH = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"


def _slice(name: str, service: str, *addresses: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
        "ports": [{"name": "grpc", "port": 7001}],
    }


async def test_slices_of_the_service_are_followed(tmp_path: Path) -> None:
    """Replicas come and go with every rollout: a frontend that looked once would soon ask nobody."""
    told: list[Sequence[str]] = []
    new = asyncio.Event()

    def take(addresses: Sequence[str]) -> None:
        told.append(addresses)
        new.set()

    async def until(true: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not true():
                new.clear()
                await new.wait()

    async with EmbeddedCluster(nodes=0) as cluster:
        cluster.write_kubeconfig(tmp_path / "kubeconfig")
        settings = client.ClientSettings(Source(str(tmp_path / "kubeconfig")), "test")
        async with await client.connect(settings) as api:
            await api.post(PATH, orjson.dumps(_slice("a", "filter", "10.0.0.1", "10.0.0.2")), deadline=10)
            await api.post(PATH, orjson.dumps(_slice("b", "score", "10.0.0.9")), deadline=10)
            configured = ["unix:/one-more", "endpointslice:///kube-system/filter:grpc"]
            following = asyncio.create_task(endpoints.follow_endpoints(configured, (), take, api))
            try:
                await until(lambda: told[-1:] == [["10.0.0.1:7001", "10.0.0.2:7001", "unix:/one-more"]])
                await api.post(PATH, orjson.dumps(_slice("c", "filter", "10.0.0.3")), deadline=10)
                await until(lambda: "10.0.0.3:7001" in told[-1])
                for name in ("a", "c"):
                    await api.delete(f"{PATH}/{name}", deadline=10)
                await until(lambda: told[-1] == ["unix:/one-more"])
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)


async def test_replicas_that_get_no_calls_are_reported_once_all_slices_have_been_read(tmp_path: Path) -> None:
    """A leader that goes by the addresses alone does not wait for a replica that terminates, or is found later."""
    story: asyncio.Queue[Any] = asyncio.Queue()

    async with EmbeddedCluster(nodes=0) as cluster:
        cluster.write_kubeconfig(tmp_path / "kubeconfig")
        settings = client.ClientSettings(Source(str(tmp_path / "kubeconfig")), "test")
        async with await client.connect(settings) as api:
            configured = ["endpointslice:///kube-system/bind:grpc"]
            following = asyncio.create_task(
                endpoints.follow_endpoints(configured, (), story.put_nowait, api, observe=story.put_nowait)
            )
            try:
                async with asyncio.timeout(20):
                    assert await story.get() == endpoints.Discovery(complete=False)
                    assert await story.get() == endpoints.Discovery(complete=True)  # there are no slices
                    leaving = dict(_slice("a", "bind", "10.0.0.1"))
                    await api.post(PATH, orjson.dumps(leaving), deadline=10)
                    assert await story.get() == ["10.0.0.1:7001"]
                    leaving["endpoints"][0]["conditions"]["terminating"] = True
                    await api.delete(f"{PATH}/a", deadline=10)
                    assert await story.get() == []
                    await api.post(PATH, orjson.dumps(leaving), deadline=10)
                    assert await story.get() == endpoints.Discovery(True, ("10.0.0.1:7001",))
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
