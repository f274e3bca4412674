"""Reserve: what the plugins of a profile assume beside pods on their nodes, put together into one answer.

Nothing is stored here. The frontend caches what is answered and streams it to all replicas, so that any of them answers
the next request as if it had answered this one. Pods of a class for which a plugin of this process assumes something
come one at a time: the second must see what the first one took, and sees it only in a later generation.

Tests: tests/unit/evaluation/test_reserving.py, tests/unit/registry/test_filter_profiles.py,
tests/contract/test_phase_contract.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trireme.evaluation.filtering import filter_chain
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import classes, snapshot
from trireme.v1 import bind_phase_pb2, cycle_pb2, filter_pb2, plugin_pb2, snapshot_pb2, status_pb2
from trireme.wire import profile_messages
from trireme.wire import status as wire_status


class Reserver(Protocol):
    """A plugin at Reserve, in this process or a service of its own.

    Implementers: trireme.evaluation.reserving.InTreeReserver, trireme.remote.remote_reserve.RemoteReservePlugin,
    trireme.remote.recorded_plugins.RecordedReservePlugin.
    """

    @property
    def name(self) -> str:
        """The plugin's name."""
        ...

    @property
    def must_be_called(self) -> bool:
        """Whether to call it for every pod: only the plugin itself knows whether it reserves something."""
        ...

    async def reserve(
        self,
        cycle: cycle_pb2.Cycle,
        placements: Sequence[filter_pb2.Placement],
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
    ) -> Sequence[filter_pb2.Reservation]:
        """Call Reserve for each placement; return what to assume beside them, in order."""
        ...

    async def unreserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement], pod_class: classes.PodClass
    ) -> None:
        """Call Unreserve: the placements are void."""
        ...


@dataclass(frozen=True, slots=True)
class InTreeReserver:
    """A plugin of this process. It stores nothing, so Unreserve has nothing to do here."""

    plugin: interfaces.ReservePlugin
    #: The same plugin, if its answers take long to find.
    preparing: interfaces.SlowFilter | None
    must_be_called: bool = False

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.plugin.name

    async def reserve(
        self,
        cycle: cycle_pb2.Cycle,
        placements: Sequence[filter_pb2.Placement],
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
    ) -> Sequence[filter_pb2.Reservation]:
        """Call Reserve of the in-tree plugin for each placement; return what to assume beside them, in order."""
        return [await self._reserve_one_pod(placement, pod_class, snap) for placement in placements]

    async def unreserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement], pod_class: classes.PodClass
    ) -> None:
        """Do nothing: in-tree plugins store nothing at Reserve."""

    async def _reserve_one_pod(
        self, placement: filter_pb2.Placement, pod_class: classes.PodClass, snap: snapshot.Snapshot
    ) -> filter_pb2.Reservation:
        """Reserve for one pod by an in-tree plugin; an error status if the node is unknown here."""
        slot = snap.nodes.slot_of_name.get(placement.node_name)
        if slot is None:
            text = f'running Reserve plugin "{self.name}": node "{placement.node_name}" not found'
            reasons = (status.Reason.of("nodeGone", {"node": placement.node_name}),)
            failed = status.error(self.name, text, reasons=reasons)
            return filter_pb2.Reservation(status=wire_status.to_message(failed))
        if self.preparing is not None:
            await self.preparing.prepare(pod_class, snap, np.array([slot]), remembering=False)
        reserved = self.plugin.reserve(pod_class, placement.pod, snap, slot)
        return filter_pb2.Reservation(
            status=wire_status.to_message(reserved.status or status.SUCCESS),
            assumed=reserved.assumed,
            state=reserved.state,
            claim_statuses=reserved.claim_statuses,
        )


# Makes a plugin that is a service of its own.
# Implementers: trireme.remote.remote_plugins.RemotePlugins.make_reserve_plugin,
# trireme.remote.recorded_makers.RecordedMakers.make_reserver.
MakeRemoteReserver = Callable[[snapshot_pb2.RemotePlugin], Reserver]


def make_reservers(
    configuration: snapshot_pb2.Configuration,
    chains: Mapping[str, filter_chain.FilterChain],
    make_remote: MakeRemoteReserver | None,
) -> Mapping[str, Sequence[Reserver]]:
    """Make the plugins at Reserve of each profile, in order; an in-tree one that does not filter is left out.

    Without `make_remote` remote plugins are left out too.
    """
    remotes = {remote.name: remote for remote in configuration.remote_plugins}
    out: dict[str, list[Reserver]] = {}
    for profile in configuration.profiles:
        local = {plugin.name: plugin for plugin in chains[profile.scheduler_name].synchronous}
        found = out[profile.scheduler_name] = []
        for entry in profile_messages.plugins_at(profile, plugin_pb2.EXTENSION_POINT_RESERVE):
            plugin = local.get(entry.name)
            if isinstance(plugin, interfaces.ReservePlugin):
                preparing = plugin if isinstance(plugin, interfaces.SlowFilter) else None
                found.append(InTreeReserver(plugin, preparing))
            elif entry.name in remotes and make_remote is not None:
                found.append(make_remote(remotes[entry.name]))
    return out


async def reserve(
    plugins: Sequence[Reserver],
    cycle: cycle_pb2.Cycle,
    placed: Sequence[filter_pb2.Placement],
    pod_class: classes.PodClass,
    snap: snapshot.Snapshot,
) -> list[filter_pb2.Reservation]:
    """What all plugins together assume for each placement; nothing where one of them fails.

    Plugins are called in order, each about those placements that no plugin before it has refused.
    """
    success = wire_status.to_message(status.SUCCESS)
    out = [filter_pb2.Reservation(status=success) for _ in placed]
    states = [bind_phase_pb2.PluginStates() for _ in out]
    for plugin in plugins:
        open_ones = [at for at, reservation in enumerate(out) if reservation.status.code == status_pb2.CODE_SUCCESS]
        placements = [placed[at] for at in open_ones]
        if not placements:
            break
        answers = await plugin.reserve(cycle, placements, pod_class, snap)
        for at, answer in zip(open_ones, answers, strict=True):
            if answer.status.code != status_pb2.CODE_SUCCESS:
                out[at] = filter_pb2.Reservation(status=answer.status)
                continue
            out[at].assumed.extend(answer.assumed)
            out[at].claim_statuses.extend(answer.claim_statuses)
            if answer.state:
                states[at].plugin_states[plugin.name] = answer.state
    for reservation, state in zip(out, states, strict=True):
        if state.plugin_states and reservation.status.code == status_pb2.CODE_SUCCESS:
            reservation.state = state.SerializeToString(deterministic=True)
    return out


async def unreserve(
    plugins: Sequence[Reserver],
    cycle: cycle_pb2.Cycle,
    placed: Sequence[filter_pb2.Placement],
    pod_class: classes.PodClass,
) -> None:
    """Call Unreserve of all plugins, last ones first."""
    for plugin in reversed(plugins):
        await plugin.unreserve(cycle, placed, pod_class)
