"""Bind with a low client rate limit: work that waits for the limit is neither a replica that is gone nor repeated."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract import bind_cluster
from tests.contract.bind_cluster import CONFIG_HASH, Bind
from trireme.cache import object_waits
from trireme.framework import status
from trireme.frontend.phase_clients import bind_phase_client
from trireme.plugins.dynamic_resources import reserve_state
from trireme.rpc import dialing
from trireme.scheduling import item_batches, pre_binding
from trireme.v1 import bind_pb2, bind_phase_pb2, core_pb2, cycle_pb2
from trireme_kube.embedded.endpoints.faults import Fault, FaultAction

QPS = 20
SILENCE_SECONDS = 2.5


@pytest.fixture
async def bind(tmp_path: Path) -> AsyncIterator[Bind]:
    """A bind service with a low rate limit, and its leader."""
    flags = (f"--kube-api-qps={QPS}", "--kube-api-burst=1")
    async with bind_cluster.running(tmp_path, *flags) as found:
        await found.acquire()
        yield found


class Replicas(bind_phase_client.BindPhaseClient):
    """The frontend's side of one bind replica; notes when the replica is no longer called."""

    def __init__(self, bind: Bind, plugins: dict[str, list[str]], valid_ms: int) -> None:
        def fence() -> cycle_pb2.Fence:
            return bind.fence(valid_ms)

        def fence_request() -> bind_phase_pb2.FenceRequest:
            return bind_phase_pb2.FenceRequest(
                fence=fence(), config_hash=CONFIG_HASH, configuration=bind_cluster.configuration(**plugins)
            )

        self.failures: list[str] = []
        super().__init__(fence, fence_request, dialing.Dialer(), 60.0, self._note_failure)

    def _note_failure(self) -> None:
        self.failures += [link.last_error for link in self.statistics() if link.last_error and not link.fenced]


@contextlib.asynccontextmanager
async def frontend(bind: Bind, valid_ms: int = 2_600, **plugins: list[str]) -> AsyncIterator[Replicas]:
    """A leader whose Lease is never valid for longer than `valid_ms`, as it goes on renewing it."""
    replicas = Replicas(bind, plugins, valid_ms)
    replicas.set_endpoints([bind.address])
    try:
        await replicas.wait_until_announced(10.0)
        replicas.failures.clear()  # until now it has not confirmed that we lead
        yield replicas
    finally:
        await replicas.close()


def condition(bind: Bind, name: str) -> bind_pb2.Action:
    told = core_pb2.PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="no")
    return bind_pb2.Action(pod=bind.identity(name), set_condition=bind_pb2.SetCondition(condition=told))


@pytest.fixture
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frontend that waits for less time than the work here takes."""
    monkeypatch.setattr(bind_phase_client, "SILENCE_SECONDS", SILENCE_SECONDS)


@pytest.mark.usefixtures("short_silence")
async def test_work_behind_other_work_is_waited_for(bind: Bind) -> None:
    """A call that queues behind another is not taken for a hung one.

    The second call gets its first result after the whole of the first: later than a replica may be silent, and
    later than the end of the Lease that the calls began with.
    """
    names = [f"pod-{number}" for number in range(QPS * 5)]
    await bind.make_pods(*names)
    counted = bind.cluster.faults.add(Fault(FaultAction.DELAY, "PATCH", "/status", times=-1))
    async with frontend(bind) as replicas:
        first = asyncio.create_task(replicas.apply([condition(bind, name) for name in names[1:]]))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(replicas.apply([condition(bind, names[0])]))
        results = [*(await first), *(await second)]
        assert [result.status.messages for result in results if result.status.code != 1] == []
        assert replicas.failures == []
    assert counted.struck == len(names), "each is written once"


@pytest.mark.usefixtures("short_silence")
async def test_bindings_wait_for_the_rate_limit(bind: Bind) -> None:
    names = [f"pod-{number}" for number in range(QPS * 5)]
    await bind.make_pods(*names)
    counted = bind.cluster.faults.add(Fault(FaultAction.DELAY, "POST", "/binding", times=-1))
    async with frontend(bind) as replicas:
        await _bind_all(bind, replicas, names)
        assert replicas.failures == []
    assert counted.struck == len(names)


async def _bind_all(bind: Bind, replicas: Replicas, names: list[str]) -> None:
    async def one_call(part: list[str]) -> None:
        request = bind_pb2.BindRequest(cycle=bind.cycle(2_600), items=bind.items(part, "node-00001"))
        async for result in replicas.bind(request):
            assert result.status.code == 1, result.status.messages

    await asyncio.gather(*(one_call(names[first : first + 10]) for first in range(0, len(names), 10)))


@pytest.mark.usefixtures("short_silence")
async def test_claims_of_many_pods_are_written_at_the_rate_of_the_limit(bind: Bind) -> None:
    """A storm of time-outs: more requests waiting than the limit lets through before their deadlines."""
    names = [f"pod-{number}" for number in range(QPS * 3)]
    await bind.make_pods(*names)
    states = {name: await _claim(bind, name) for name in names}
    counted = [
        bind.cluster.faults.add(Fault(FaultAction.DELAY, method, "/resourceclaims/", times=-1))
        for method in ("PATCH", "PUT", "GET")
    ]
    async with frontend(bind, pre_bind=["DynamicResources"]) as replicas:
        binding = pre_binding.PreBinding(
            replicas, object_waits.ObjectWaits(), asyncio.get_running_loop().time, nominating=False
        )

        async def prepare(name: str) -> status.Status:
            item = bind.items([name], "node-00001")[0]
            item.state = states[name]
            assert await binding.has_work(bind.cycle(), item, item_batches.FIRST) is True
            return await binding.run(
                bind.cycle(), item, item_batches.FIRST, lambda plugin, keys: None, lambda name: True
            )

        outcomes = await asyncio.gather(*(prepare(name) for name in names))
        assert [outcome for outcome in outcomes if outcome != status.SUCCESS] == []
        assert replicas.failures == []
        await binding.close()
    expected = [len(names), len(names), 0]
    assert [each.struck for each in counted] == expected, "the finalizer and the status of each, once"


async def _claim(bind: Bind, name: str) -> bytes:
    """Creates a claim for the pod; what Reserve would leave for PreBind."""
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    exactly = {"deviceClassName": "gpu"}
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    made = (await bind.api.post(path, body)).json()
    device = {"request": "r", "driver": "gpu.example.com", "pool": "node-00001", "device": "gpu-0"}
    claim = reserve_state.ClaimToReserve(
        namespace="default", name=name, uid=made["metadata"]["uid"], allocation={"devices": {"results": [device]}}
    )
    state = reserve_state.DeviceClaims(claims=(claim,)).to_bytes()
    return bind_phase_pb2.PluginStates(plugin_states={"DynamicResources": state}).SerializeToString()
