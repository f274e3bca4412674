"""What tests of the search for devices have in common: slices, claims, and the search itself."""

from collections.abc import Iterable
from typing import Any

from trireme.plugins.dynamic_resources import (
    allocated_devices,
    allocation_results,
    allocator,
    devices,
    expressions,
    features,
    pools,
)
from trireme.v1 import resource_pb2
from trireme_kube.apimachinery import decode

Json = dict[str, Any]

DRIVER = "d.example.com"


def slices_of(*specs: Json, rules: Iterable[Json] = ()) -> list[devices.DeviceSlice]:
    """One pool on one node, one slice each."""
    out = []
    for number, spec in enumerate(specs):
        pool = {"name": "pool", "generation": 1, "resourceSliceCount": len(specs), **spec.pop("pool", {})}
        body = {"metadata": {"name": f"s{number}"}, "spec": {"driver": DRIVER, "nodeName": "n", **spec, "pool": pool}}
        read = [
            decode.decode({"metadata": {"name": "r"}, "spec": rule}, resource_pb2.DeviceTaintRule) for rule in rules
        ]
        out.append(devices.read_slice(decode.decode(body, resource_pb2.ResourceSlice), read))
    return out


def named(*names: str, **fields: Any) -> Json:
    """Devices of these names, all with these fields."""
    return {"devices": [{"name": name, **fields} for name in names]}


def claim_of(*requests: Json, **spec: Any) -> resource_pb2.ResourceClaim:
    """The claim `ns/c` for these requests."""
    body = {"metadata": {"namespace": "ns", "name": "c"}, "spec": {"devices": {"requests": list(requests), **spec}}}
    return decode.decode(body, resource_pb2.ResourceClaim)


def exactly(name: str = "r", **fields: Any) -> Json:
    """A request for a number of devices of any class."""
    return {"name": name, "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, **fields}}


def all_devices(name: str = "r", **fields: Any) -> Json:
    """A request for all devices of any class."""
    return {"name": name, "exactly": {"deviceClassName": "any", "allocationMode": "All", **fields}}


def either(*alternatives: Json, name: str = "r") -> Json:
    """A request with alternatives."""
    first = [
        {"name": f"s{number}", "deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, **fields}
        for number, fields in enumerate(alternatives)
    ]
    return {"name": name, "firstAvailable": first}


def selected(expression: str) -> Json:
    """A CEL selector, as fields of a request."""
    return {"selectors": [{"cel": {"expression": expression}}]}


def search(
    slices: list[devices.DeviceSlice],
    *claims: resource_pb2.ResourceClaim,
    taken: Iterable[allocated_devices.ClaimedDevice] = (),
    on: features.Features | None = None,
    out_of_time: bool = False,
    skips_operations: bool = False,
) -> list[list[str]] | None:
    """Device by device what each claim gets, as request=device."""
    on = on or features.Features()
    allocated = allocated_devices.AllocatedDevices()
    for each in taken:
        allocated.add(each)
    known = {"any": decode.decode({"metadata": {"name": "any"}, "spec": {}}, resource_pb2.DeviceClass)}
    by_pool: dict[devices.PoolId, list[devices.DeviceSlice]] = {}
    for entry in slices:
        by_pool.setdefault(entry.pool, []).append(entry)
    seen = pools.gather_pools([entry for entry in slices if pools.is_usable(entry, on)], by_pool, on)
    inputs = allocator.AllocatorInputs(known, allocated, expressions.CompiledExpressions(), on)
    found = allocator.Allocator(
        inputs, seen, claims, lambda device: True, lambda: out_of_time, skips_operations
    ).allocate()
    if found is None:
        return None
    return [
        [
            f"{one.request}={one.device}"
            for one in allocation_results.allocation_result(each, "n", on, lambda: "share").devices.results
        ]
        for each in found
    ]


def held_device(name: str, shared: bool = False, **consumed: int) -> allocated_devices.ClaimedDevice:
    """A device that a claim has. `consumed`: what it takes of capacities of the driver's domain."""
    amounts = {f"{DRIVER}/{capacity}": nanos for capacity, nanos in consumed.items()}
    return allocated_devices.ClaimedDevice((DRIVER, "pool", name), shared, amounts or None)
