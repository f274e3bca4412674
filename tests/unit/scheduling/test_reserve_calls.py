"""Reserve and Unreserve: what they assume and give back is in the cache and is published at once."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from trireme.cache import assumed_objects, class_registry, cluster_cache
from trireme.framework import status
from trireme.scheduling import ports, reserve_calls
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, snapshot_pb2, status_pb2

_POD = cycle_pb2.PodIdentity(namespace="ns", name="p", uid="u")


def _claim(*devices: str) -> snapshot_pb2.ClusterObject:
    entry = snapshot_pb2.ClusterObject()
    metadata = entry.resource_claim.metadata
    metadata.namespace, metadata.name, metadata.uid, metadata.resource_version = "ns", "c", "c", "1"
    for device in devices:
        entry.resource_claim.status.allocation.devices.results.add(driver="d", pool="p", device=device)
    return entry


class _Filter:
    """Filter, that assumes a claim for each pod; `fault` is raised by its calls."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.code: status_pb2.Code.ValueType = status_pb2.CODE_SUCCESS
        self.undone: list[str] = []
        self.more: list[snapshot_pb2.ClusterObject] = []
        self.claim_statuses: list[core_pb2.NodeAllocatableResourceClaimStatus] = []

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]
    ) -> filter_pb2.ReserveResponse:
        if self.fault is not None:
            raise self.fault
        answer = status_pb2.Status(code=self.code, plugin="D", messages=["m"])
        reserved = filter_pb2.Reservation(status=answer, assumed=[_claim("d1")], state=b"state")
        reserved.assumed.extend(self.more)
        reserved.claim_statuses.extend(self.claim_statuses)
        return filter_pb2.ReserveResponse(reservations=[reserved] * len(placements))

    async def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        self.undone += [placement.pod.name for placement in placements]
        if self.fault is not None:
            raise self.fault


class _Reserving:
    """Calls of Reserve for one pod, beside a cache that knows a claim."""

    def __init__(self) -> None:
        self.cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
        self.cache.set_object(_claim())
        self.filter: Any = _Filter()
        self.changes: list[tuple[int, int]] = []
        self.calls = reserve_calls.ReserveCalls(self.cache, self.filter, self._note)
        self.placement = filter_pb2.Placement(pod=_POD, node_name="n")

    def _note(self, changes: Sequence[assumed_objects.Change]) -> None:
        for before, after in changes:
            self.changes.append((_devices(before), _devices(after)))

    async def reserve(self, group: str = "") -> bytes | status.Status:
        (answer,) = await self.calls.reserve(cycle_pb2.Cycle(), [self.placement], group)
        return answer

    @property
    def assumed(self) -> int:
        return _devices(self.cache.get_assumed("resource_claim", "ns", "c"))


def _devices(entry: snapshot_pb2.ClusterObject | None) -> int:
    return -1 if entry is None else len(entry.resource_claim.status.allocation.devices.results)


async def test_what_is_reserved_is_assumed_and_given_back() -> None:
    """Pods that wait for the device are notified of both."""
    reserving = _Reserving()
    assert await reserving.reserve() == b"state"
    assert (reserving.assumed, reserving.changes) == (1, [(0, 1)])
    reserving.calls.unreserve(cycle_pb2.Cycle(), [reserving.placement])
    assert (reserving.assumed, reserving.changes[1:]) == (0, [(1, 0)])
    assert reserving.calls.background.running == 1
    await reserving.calls.close()
    assert reserving.calls.background.running == 0


async def test_a_refusal_or_a_fault_assumes_nothing() -> None:
    reserving = _Reserving()
    reserving.filter.code = status_pb2.CODE_UNSCHEDULABLE
    assert await reserving.reserve() == status.unschedulable("D", "m")
    reserving.filter.fault = ports.PhaseUnavailable("nobody")
    failed = status.error("", "running Reserve plugins: nobody", reasons=(status.Reason("phaseFailed"),))
    assert await reserving.reserve() == failed
    assert (reserving.assumed, reserving.changes) == (0, [])


async def test_an_object_that_changed_since_filter_saw_it_is_not_assumed() -> None:
    reserving = _Reserving()
    newer = _claim()
    newer.resource_claim.metadata.resource_version = "2"
    reserving.cache.set_object(newer)
    answer = await reserving.reserve()
    assert isinstance(answer, status.Status)
    assert (answer.code, reserving.assumed, reserving.changes) == (status.Code.ERROR, 0, [])
    assert [reason.code for reason in answer.reasons] == ["objectChanged"]


async def test_unreserve_that_fails_is_over() -> None:
    """Nobody can do more about it, and the scheduler goes on."""
    reserving = _Reserving()
    await reserving.reserve()
    reserving.filter.fault = ports.PhaseFault("odd")
    reserving.calls.unreserve(cycle_pb2.Cycle(), [reserving.placement])
    await reserving.calls.background.close()
    assert reserving.assumed == 0


@pytest.mark.parametrize("group", ["g", ""])
async def test_only_claims_are_shared_and_only_while_a_group_is_tried(group: str) -> None:
    reserving = _Reserving()
    volume = snapshot_pb2.ClusterObject()
    volume.persistent_volume.metadata.name = "v"
    other = _claim("d2")
    other.resource_claim.metadata.name = other.resource_claim.metadata.uid = "other"
    other.resource_claim.metadata.resource_version = ""
    reserving.cache.set_object(volume)
    reserving.filter.more = [volume, other]
    assert await reserving.reserve(group) == b"state"
    shared = {entry.WhichOneof("object"): entry.open_to_group for entry in reserving.cache.objects_assumed_for("u")}
    assert shared == {"resource_claim": group, "persistent_volume": ""}
    assert len(reserving.cache.objects_assumed_for("u")) == 3
    assert {entry.open_to_group for entry in reserving.cache.objects_assumed_for("u")} == {group, ""}


async def test_what_devices_stand_for_counts_on_the_node_beside_the_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reserving = _Reserving()
    counted: list[tuple[str, int]] = []
    monkeypatch.setattr(
        reserving.cache, "count_claim_resources", lambda uid, statuses: counted.append((uid, len(statuses)))
    )
    await reserving.reserve()
    assert counted == []
    reserving.calls.unreserve(cycle_pb2.Cycle(), [reserving.placement])
    reserving.filter.claim_statuses = [core_pb2.NodeAllocatableResourceClaimStatus(resource_claim_name="c")]
    await reserving.reserve()
    assert counted == [("u", 1)]


async def test_all_placements_are_undone_the_last_one_first() -> None:
    reserving = _Reserving()
    await reserving.reserve()
    first = filter_pb2.Placement(pod=cycle_pb2.PodIdentity(namespace="ns", name="first", uid="first"), node_name="n")
    reserving.calls.unreserve(cycle_pb2.Cycle(), [first, reserving.placement])
    assert reserving.assumed == 0
    await asyncio.sleep(0)
    assert reserving.filter.undone == ["p", "first"]
    await reserving.calls.close()
