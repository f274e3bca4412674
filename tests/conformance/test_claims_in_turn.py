"""Pods with claims or volumes of their own, placed by one call for several, go where one call for each puts them.

They also get the same devices there.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.conformance import decision_profiles
from tests.conformance.decision_cluster import DecisionCluster, Json
from tests.conformance.in_process_phases import evaluators_of
from trireme.cache import pod_projection
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, filter_pb2, snapshot_pb2
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer

_NOBODY = {"metadata": {"namespace": "default", "name": "none", "uid": "none"}, "spec": {"containers": [{"name": "c"}]}}
_SETUP = decision_profiles.make()
_PROFILE = decision_profiles.default_profile()
_DRIVER, _CLASS = "d.example.com", "on-demand"


class _Placing:
    """A cluster in which pods are placed, reserved and not bound."""

    def __init__(self, objects: Json) -> None:
        self._snap = snapshot.Snapshot()
        self._evaluators = evaluators_of(self._snap, _SETUP.configuration)
        self._cluster = DecisionCluster({**objects, "pod": _NOBODY})
        self._cluster.fill()
        cache = self._cluster.cache
        while cache.take_delta() is not None:
            pass
        for delta in cache.full_sync():
            self._snap.apply(snapshot_pb2.Delta.FromString(delta.SerializeToString()))

    def _follow(self) -> int:
        """Bring the snapshot to the cache's state; answers its generation."""
        while (delta := self._cluster.cache.take_delta()) is not None:
            self._snap.apply(snapshot_pb2.Delta.FromString(delta.SerializeToString()))
        return self._snap.generation

    async def place_together(self, pods: Sequence[Json]) -> list[Any]:
        """Where the first of the pods go by one call, and what is assumed for them; one at least, or None for it."""
        wanted = [(self._cluster.class_of(pod), 1) for pod in pods]
        answers = await self._evaluators.place_in_turn(_PROFILE, wanted, self._follow())
        found = []
        for pod, (class_id, _), (filtered, placed) in zip(pods, wanted, answers, strict=False):
            if not placed.slots:
                break
            found.append(await self._take(pod, class_id, filtered, placed))
        return found or [await self.place(pods[0])]

    async def place(self, pod: Json) -> Any:
        """Where the pod goes by a call of its own, and what is assumed for it; None: nowhere."""
        class_id = self._cluster.class_of(pod)
        filtered = await self._evaluators.filter(_PROFILE, class_id, 1, self._follow())
        if filtered.is_refused_everywhere(-1):
            return None
        placed = await self._evaluators.place(_PROFILE, class_id, 1, filtered)
        return await self._take(pod, class_id, filtered, placed)

    async def _take(self, pod: Json, class_id: int, filtered: FilterAnswer, placed: PlaceAnswer) -> Any:
        cache, parsed = self._cluster.cache, pod_projection.parse(pod)
        (slot,) = placed.slots
        node = cache.node_at(slot, filtered.columns.generation)
        assert node is not None
        cache.assume(
            parsed.key, parsed.uid, node, self._cluster.registry.intern_base(parsed.base), parsed.labels, class_id
        )
        if not filtered.needs_reserve:
            return node, []
        identity = cycle_pb2.PodIdentity(namespace=parsed.namespace, name=parsed.name, uid=parsed.uid)
        cycle = self._evaluators.cycle(_PROFILE, class_id, filtered.columns.generation)
        placement = filter_pb2.Placement(pod=identity, node_name=node, slot=slot)
        (reserved,) = (await self._evaluators.reserve(cycle, [placement])).reservations
        assert reserved.state, reserved.status
        cache.assume_objects(parsed.uid, reserved.assumed)
        return node, [entry.SerializeToString(deterministic=True) for entry in reserved.assumed]


def _objects(devices: Sequence[int], spread: bool, attachments: int, claims: Sequence[Json]) -> Json:
    """A node for each number of devices; `spread`: a pool more that all nodes reach."""
    names = [f"n{number}" for number in range(len(devices))]
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    pools: list[tuple[str, Json, list[Json]]] = [
        (
            name,
            {"nodeName": name},
            [{"name": f"d{at}", "attributes": {"even": {"bool": at % 2 == 0}}} for at in range(count)],
        )
        for name, count in zip(names, devices, strict=True)
        if count
    ]
    if spread:
        pools.append(("all", {"allNodes": True}, [{"name": "d", "attributes": {"even": {"bool": True}}}]))
    return {
        "nodes": [
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"allocatable": amounts, "capacity": amounts},
            }
            for name in names
        ],
        "resourceSlices": [
            {
                "kind": "ResourceSlice",
                "metadata": {"name": pool},
                "spec": {
                    "driver": _DRIVER,
                    "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                    "devices": found,
                    **place,
                },
            }
            for pool, place, found in pools
        ],
        "deviceClasses": [{"kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}}],
        "resourceClaims": [claim for claim in claims if claim["kind"] == "ResourceClaim"],
        "pvcs": [claim for claim in claims if claim["kind"] == "PersistentVolumeClaim"],
        "storageClasses": [
            {
                "kind": "StorageClass",
                "metadata": {"name": _CLASS},
                "provisioner": _DRIVER,
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        ],
        "csiNodes": [
            {
                "kind": "CSINode",
                "metadata": {"name": name},
                "spec": {"drivers": [{"name": _DRIVER, "nodeID": name, "allocatable": {"count": attachments}}]},
            }
            for name in names
        ],
    }


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Json, list[Json]]:
    """A cluster, and pods to place in it; some use the claim of another."""
    claims: list[Json] = []
    pods: list[Json] = []
    for number in range(draw(st.integers(2, 12))):
        spec: Json = {"schedulerName": "default-scheduler"}
        requests = {"cpu": draw(st.sampled_from(["10m", "400m", "2"]))}
        spec["containers"] = [{"name": "c", "resources": {"requests": requests}}]
        name = f"c{number}" if not claims or draw(st.integers(0, 7)) else claims[0]["metadata"]["name"]
        kind = draw(st.sampled_from(["device", "device", "volume", "none"]))
        metadata = {"namespace": "default", "name": name, "uid": name, "resourceVersion": "1"}
        if kind == "device":
            exactly: Json = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": draw(st.integers(1, 2))}
            if draw(st.booleans()):
                exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{_DRIVER}"].even'}}]
            request: Json = {"name": "r", "exactly": exactly}
            if not draw(st.integers(0, 5)):
                fields = {**exactly, "name": "one"}
                request = {"name": "r", "firstAvailable": [fields, {**fields, "name": "two", "count": 1}]}
            claims.append({"kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": {"requests": [request]}}})
            spec["resourceClaims"] = [{"name": "device", "resourceClaimName": name}]
        elif kind == "volume":
            wanted = {
                "accessModes": [draw(st.sampled_from(["ReadWriteOnce", "ReadWriteOncePod"]))],
                "storageClassName": _CLASS,
                "resources": {"requests": {"storage": "1Gi"}},
            }
            claims.append({"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": wanted})
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        pods.append({"metadata": {"namespace": "default", "name": f"p{number}", "uid": f"p{number}"}, "spec": spec})
    devices = draw(st.lists(st.integers(0, 4), min_size=2, max_size=6))
    return _objects(devices, draw(st.booleans()) and draw(st.booleans()), draw(st.integers(1, 3)), claims), pods


@pytest.mark.timeout(240)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=_cases())
def test_pods_with_claims_go_where_they_go_one_after_the_other(case: tuple[Json, list[Json]]) -> None:
    asyncio.run(_compare(*case))


async def _compare(objects: Json, pods: Sequence[Json]) -> None:
    together, apart = _Placing(objects), _Placing(objects)
    left = pods
    while left:
        found = await together.place_together(left)
        event(f"{len(found)} pods by a call")
        for pod, where in zip(left, found, strict=False):
            assert await apart.place(pod) == where
        left = left[len(found) :]


@pytest.mark.parametrize("kind", ["device", "volume"])
async def test_pods_with_claims_of_their_own_are_placed_by_one_call(kind: str) -> None:
    """If this fails, each pod with a claim costs as many calls as a batch."""
    metadata = [{"namespace": "default", "name": f"c{at}", "uid": f"c{at}", "resourceVersion": "1"} for at in range(3)]
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": _CLASS,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    specs: dict[str, tuple[str, Json]] = {
        "device": ("ResourceClaim", {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}),
        "volume": ("PersistentVolumeClaim", wanted),
    }
    claim_kind, spec = specs[kind]
    claims = [{"kind": claim_kind, "metadata": each, "spec": spec} for each in metadata]
    pods = [
        {
            "metadata": {"namespace": "default", "name": f"p{at}", "uid": f"p{at}"},
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "400m"}}}],
                **(
                    {"resourceClaims": [{"name": "device", "resourceClaimName": f"c{at}"}]}
                    if kind == "device"
                    else {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": f"c{at}"}}]}
                ),
            },
        }
        for at in range(3)
    ]
    assert len(await _Placing(_objects([2, 2, 2, 2], False, 3, claims)).place_together(pods)) == 3
