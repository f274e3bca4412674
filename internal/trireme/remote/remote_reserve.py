"""Remote plugins at Reserve, as evaluation's Reserver.

Also change: protos/trireme/v1/filter.proto (the messages).

Tests: tests/unit/remote/test_plugin_failures.py, tests/contract/test_plugin_sdk_binding.py.
"""

import contextlib
from collections.abc import Sequence

from trireme.framework import status
from trireme.remote import answer_recording, remote_client, remote_connection, remote_results
from trireme.snapshot import classes, snapshot
from trireme.v1 import cycle_pb2, filter_pb2
from trireme.wire import status as wire_status

_RESERVE = remote_connection.Method("/trireme.v1.FilterPlugin/Reserve", filter_pb2.ReserveResponse)
_UNRESERVE = remote_connection.Method("/trireme.v1.FilterPlugin/Unreserve", filter_pb2.UnreserveResponse)


class RemoteReservePlugin:
    """Reserve and Unreserve. A remote plugin is called for every pod: only it knows whether it reserves something."""

    must_be_called = True

    def __init__(self, client: remote_client.PluginClient) -> None:
        self.name = client.name
        self._client = client

    async def reserve(
        self,
        cycle: cycle_pb2.Cycle,
        placements: Sequence[filter_pb2.Placement],
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
    ) -> Sequence[filter_pb2.Reservation]:
        """Call Reserve; on failure each placement has the error, or success where that is ignored."""
        reservations = await self._call_reserve(cycle, placements, pod_class)
        answer_recording.add_reservations(self.name, placements, reservations)
        return reservations

    async def _call_reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement], pod_class: classes.PodClass
    ) -> Sequence[filter_pb2.Reservation]:
        """As `reserve`."""
        request = filter_pb2.ReserveRequest(
            cycle=self._client.project_cycle(cycle, pod_class.pod), placements=placements
        )
        prefix = f'running Reserve plugin "{self.name}"'

        def read_reservations(response: filter_pb2.ReserveResponse) -> list[filter_pb2.Reservation]:
            return remote_results.read_results(
                "reservations", response.reservations, len(placements), self._client, prefix
            )

        try:
            return await self._client.connection.call(_RESERVE, request.SerializeToString(), read_reservations)
        except remote_connection.PluginError as error:
            failed = wire_status.to_message(self._client.apply_failure_policy(prefix, str(error)) or status.SUCCESS)
            return [filter_pb2.Reservation(status=failed) for _ in placements]

    async def unreserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement], pod_class: classes.PodClass
    ) -> None:
        """Notify the plugin that the placements are void."""
        request = filter_pb2.UnreserveRequest(
            cycle=self._client.project_cycle(cycle, pod_class.pod), placements=placements
        )
        with contextlib.suppress(remote_connection.PluginError):
            await self._client.connection.call(_UNRESERVE, request.SerializeToString(), lambda _: None)
