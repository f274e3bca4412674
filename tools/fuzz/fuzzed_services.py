"""The services whose calls change what they know: each input gets one of its own, on a virtual clock.

bind works in front of an API server whose answers follow from the path alone, so that an input always takes the same
way.

Also change: internal/trireme_kube/client/writes.py (the writes).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.helpers import phase_calls, queue_builders
from trireme.bind.action_executor import ActionExecutor
from trireme.bind.binding_writer import BindingWriter
from trireme.bind.leadership import Leadership
from trireme.bind.pre_binder import PreBinder
from trireme.bind.service import BindPhase
from trireme.bind.work_in_flight import WorkInFlight
from trireme.bind.write_turns import RateLimit, WriteTurns
from trireme.config import remote_plugin_settings, trireme_configuration
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import handle
from trireme.plugin_kit import bind_phase_plugin
from trireme.registry import bind_plugins
from trireme.rpc.fencing import EpochGuard
from trireme.scheduling import waiting_pods
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, plugin_pb2, snapshot_pb2, status_pb2
from trireme_kube.apimachinery import api_writes

Clock = Callable[[], float]

UID = "u"
#: The plugin of `bind_phase` that has pods wait on Permit, and that of `handle_service` that may end their waits.
PLUGIN = "p"
#: The pods of `handle_service`: by name those that wait on Permit, and those that are in the queue.
WAITING, QUEUED = ("w0", "w1"), ("q0", "q1", "q2")
_WALL_NS = 1_800_000_000 * 10**9
_GATES = ("DRAExtendedResource", "DRADeviceBindingConditions")
_SECONDS_OF_A_WRITE = 0.01

_FAILURES: tuple[api_writes.Outcome, ...] = (
    api_writes.Conflict("the object has been modified"),
    api_writes.Gone("not found"),
    api_writes.Refused("forbidden", 403),
    api_writes.Unavailable("overloaded"),
    api_writes.Uncertain("no answer"),
)
_DEVICE = {"request": "r", "driver": "d", "pool": "n0", "device": "x", "bindingConditions": ["ready"]}
_SPECS: Mapping[str, Mapping[str, Any]] = {
    "persistentvolumes": {"claimRef": {"uid": UID, "name": "c", "namespace": "d"}},
    "persistentvolumeclaims": {"volumeName": "v0"},
    "resourceclaims": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "g"}}]}},
}
_STATUSES: Mapping[str, Mapping[str, Any]] = {
    "resourceclaims": {"allocation": {"devices": {"results": [_DEVICE]}}, "reservedFor": [{"uid": "other"}]},
    "persistentvolumeclaims": {"phase": "Bound"},
}


class ApiServer:
    """Has an object for every path, with the UID `UID`; those whose name ends with a digit of 5 to 9 fail in some way.

    It is what bind uses of a client's writer.
    """

    async def _outcome(self, method: str, path: str) -> api_writes.Outcome:
        await asyncio.sleep(_SECONDS_OF_A_WRITE)
        parts = path.removesuffix("/status").split("/")
        if parts[-1][-1:] in tuple("56789"):
            return _FAILURES[zlib.crc32(f"{method} {path}".encode()) % len(_FAILURES)]
        metadata: dict[str, Any] = {"name": parts[-1], "uid": UID, "resourceVersion": "1"}
        if parts[-1].startswith("deleted"):
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        kind = parts[-2] if len(parts) > 1 else ""
        return api_writes.Written(
            {"metadata": metadata, "spec": dict(_SPECS.get(kind, {})), "status": dict(_STATUSES.get(kind, {}))}
        )

    async def bind(self, pod: api_writes.PodName, node: str, deadline: float) -> api_writes.Outcome:
        """As the writer's."""
        return await self._outcome("BIND", pod.path)

    async def settle_binding(self, pod: api_writes.PodName, node: str, deadline: float) -> api_writes.SettledBinding:
        """As the writer's."""
        found = await self._outcome("SETTLE", pod.path)
        return api_writes.Unbound("") if isinstance(found, (api_writes.Refused, api_writes.Unavailable)) else found

    async def get(self, path: str, deadline: float) -> api_writes.Outcome:
        """As the writer's."""
        found = await self._outcome("GET", path)
        return api_writes.Unavailable("") if isinstance(found, (api_writes.Uncertain, api_writes.Conflict)) else found

    async def get_pod(self, pod: api_writes.PodName, deadline: float) -> api_writes.Outcome:
        """As the writer's."""
        return await self.get(pod.path, deadline)

    async def create(self, collection: str, obj: Mapping[str, Any], deadline: float) -> api_writes.Outcome:
        """As the writer's."""
        return await self._outcome("POST", f"{collection}/{obj['metadata']['name']}")

    async def put(self, path: str, obj: Mapping[str, Any], deadline: float) -> api_writes.Outcome:
        """As the writer's."""
        return await self._outcome("PUT", path)

    async def patch(
        self, path: str, patch: Mapping[str, Any], deadline: float, content_type: str = api_writes.STRATEGIC_MERGE
    ) -> api_writes.Outcome:
        """As the writer's."""
        return await self._outcome("PATCH", path)

    async def patch_pod_status(
        self, pod: api_writes.PodName, patch: Mapping[str, Any], deadline: float
    ) -> api_writes.Outcome:
        """As the writer's."""
        return await self._outcome("PATCH", f"{pod.path}/status")

    async def delete(self, path: str, uid: str, deadline: float) -> api_writes.Outcome:
        """As the writer's."""
        return await self._outcome("DELETE", path)

    async def delete_pod(self, pod: api_writes.PodName, deadline: float) -> api_writes.Outcome:
        """As the writer's."""
        return await self._outcome("DELETE", pod.path)


def bind_configuration() -> snapshot_pb2.Configuration:
    """One profile, with all in-tree plugins of the bind phase and `PLUGIN`."""
    profile = snapshot_pb2.Profile(scheduler_name=phase_calls.PROFILE)
    for point, names in (
        (plugin_pb2.EXTENSION_POINT_PERMIT, (PLUGIN,)),
        (plugin_pb2.EXTENSION_POINT_PRE_BIND, ("VolumeBinding", "DynamicResources")),
        (plugin_pb2.EXTENSION_POINT_BIND, ("DefaultBinder",)),
        (plugin_pb2.EXTENSION_POINT_POST_BIND, (PLUGIN,)),
    ):
        plugins = [snapshot_pb2.WeightedPlugin(name=name) for name in names]
        profile.plugin_sets.add(extension_point=point, plugins=plugins)
    return snapshot_pb2.Configuration(profiles=[profile], feature_gates=dict.fromkeys(_GATES, True))


@asynccontextmanager
async def bind_phase(clock: Clock) -> AsyncIterator[BindPhase]:
    """The service of bind, after a leader of epoch 1 has announced itself and the configuration."""
    api: Any = ApiServer()
    in_flight, limit = WorkInFlight(clock), RateLimit(0.0, lambda: 0.0)
    binder = BindingWriter(api, in_flight, clock=clock, jitter=lambda: 0.5, limit=limit)
    pre_binder = PreBinder(WriteTurns(limit), in_flight, clock)
    actor = ActionExecutor(
        api,
        in_flight,
        WriteTurns(limit),
        cancel_pre_bind=pre_binder.cancel,
        clock=clock,
        wall=lambda: _WALL_NS,
    )

    def plugins_of(configuration: snapshot_pb2.Configuration) -> Mapping[str, bind_phase_plugin.BindPhasePlugin]:
        in_tree = bind_plugins.bind_phase_plugins(configuration, api, binder, lambda: _WALL_NS)
        return {**in_tree, PLUGIN: bind_phase_plugin.BindPhasePlugin(PLUGIN, permit=_permit, post_bind=_post_bind)}

    leadership = Leadership(EpochGuard(), None, clock)
    service = BindPhase(leadership, binder, pre_binder, actor, in_flight, plugins_of, clock=clock)
    fence = cycle_pb2.Fence(epoch=1, lease_valid_ms=60_000)
    request = bind_phase_pb2.FenceRequest(fence=fence, config_hash=phase_calls.HASH, configuration=bind_configuration())
    await service.Fence(request, phase_calls.context())
    try:
        yield service
    finally:
        await actor.close(0.0)
        await binder.close(0.0)
        await leadership.close()


async def _permit(request: bind_pb2.PermitRequest) -> Sequence[bind_pb2.PermitResult]:
    """By the first letter of the pod's name: it waits, is refused, or may go on."""
    codes = {"w": status_pb2.CODE_WAIT, "r": status_pb2.CODE_UNSCHEDULABLE}
    return [
        bind_pb2.PermitResult(status=status_pb2.Status(code=codes.get(item.pod.name[:1], status_pb2.CODE_SUCCESS)))
        for item in request.items
    ]


async def _post_bind(request: bind_pb2.PostBindRequest) -> None:
    """Do nothing."""


@asynccontextmanager
async def handle_service(clock: Clock) -> AsyncIterator[handle.HandleService]:
    """The frontend's service for plugins, with pods that wait on Permit for `PLUGIN` and pods in the queue."""
    waiting = waiting_pods.WaitingPods()
    queue = queue_builders.queue()
    for name in QUEUED:
        queue.add(queue_builders.record(name), clock())
    queue_builders.fail(queue, clock(), "Fit")

    def activate(pods: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        queue.activate(pods, clock())
        return [pod for pod in dict.fromkeys(pods) if queue.contents.is_activated(*pod)]

    plugin = remote_plugin_settings.RemotePlugin(PLUGIN, "unix:/p", (ExtensionPoint.PERMIT,))
    config = trireme_configuration.TriremeConfiguration(remote_plugins=(plugin,))
    async with asyncio.TaskGroup() as tasks:
        for name in WAITING:
            tasks.create_task(waiting.begin_wait(f"uid-{name}", f"ns/{name}", {PLUGIN: 60.0})())
        await asyncio.sleep(0)
        yield handle.HandleService(config, waiting, activate)
