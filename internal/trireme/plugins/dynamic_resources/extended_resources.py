"""Extended resources that devices stand for: the claim that is made for a pod which asks for them without a claim.

What a node has in `allocatable` its device plugin gives; the rest becomes requests of one claim, a request for each
container and resource. What only runs before the other containers may use their devices, and asks for more only where
these are too few.

Source: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.

Tests: tests/conformance/test_decisions.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from trireme.plugin_kit import device_resources
from trireme.plugins.dynamic_resources import reserve_state
from trireme.snapshot import classes
from trireme.v1 import core_pb2, resource_pb2
from trireme_kube.apimachinery import quantity


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The request of the claim that is for a resource of a container."""

    container: str
    resource: str
    request: str


@dataclass(frozen=True, slots=True)
class _ExtendedResourceRequest:
    """A request of the claim for extended resources, by name, and how many devices it asks for."""

    name: str
    count: int


def device_backed_requests(pod_class: classes.PodClass) -> Mapping[str, int]:
    """Return the pod's requests, by resource name, that devices might provide in the place of the node."""
    return pod_class.memo("DynamicResources.extended", _requested_extended_resources)


def _requested_extended_resources(pod_class: classes.PodClass) -> dict[str, int]:
    """Compute `device_backed_requests` once for a class; amounts of 0 are left out."""
    return {
        name: amount
        for name, amount in pod_class.amounts.filtering.items()
        if amount > 0 and device_resources.may_come_from_devices(name)
    }


def extended_claim(
    namespace: str, requests: Iterable[resource_pb2.DeviceRequest] = (), uid: str = ""
) -> resource_pb2.ResourceClaim:
    """Make the pod's claim for extended resources in memory, before the API server has it."""
    out = resource_pb2.ResourceClaim()
    out.metadata.namespace, out.metadata.name = namespace, reserve_state.IN_MEMORY + uid
    out.metadata.annotations[reserve_state.EXTENDED_CLAIM] = "true"
    out.spec.devices.requests.extend(requests)
    return out


def device_requests(
    pod: core_pb2.Pod, resources: Iterable[str], class_of: Mapping[str, resource_pb2.DeviceClass]
) -> tuple[list[resource_pb2.DeviceRequest], list[ContainerRequest]]:
    """Make the claim's requests for these extended resources, by name, and say which container each is for.

    Resources that no device class stands for are left out. Init containers and containers after them share devices.
    """
    made: list[resource_pb2.DeviceRequest] = []
    mappings: list[ContainerRequest] = []
    for resource in sorted(resources):
        device_class = class_of.get(resource)
        if device_class is None:
            continue
        found, mapped = _requests_for_resource(pod, resource)
        mappings += mapped
        for request in found:
            exactly = resource_pb2.ExactDeviceRequest(
                device_class_name=device_class.metadata.name, allocation_mode="ExactCount", count=request.count
            )
            made.append(resource_pb2.DeviceRequest(name=request.name, exactly=exactly))
    return sorted(made, key=lambda request: request.name), mappings


def _requests_for_resource(
    pod: core_pb2.Pod, resource: str
) -> tuple[list[_ExtendedResourceRequest], list[ContainerRequest]]:
    """The requests for one resource, and which containers use which request.

    Containers that run side by side, sidecars among them, have a request each. An init container uses the devices of
    those that start after it, and requests what it needs beyond; since init containers run one after the other, the
    largest of their requests is for all of them.
    """
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    early = [at for at, container in enumerate(pod.spec.init_containers) if container.restart_policy != "Always"]
    lasting: list[_ExtendedResourceRequest | None] = [None] * len(containers)
    mappings: list[ContainerRequest] = []
    for at, container in enumerate(containers):
        if at not in early:
            lasting[at], mapped = _request_beyond_reusable(at, container, resource, ())
            mappings += mapped
    largest: _ExtendedResourceRequest | None = None
    early_names = set()
    early_mappings: list[ContainerRequest] = []
    for at in early:
        request, mapped = _request_beyond_reusable(
            at, containers[at], resource, [each for each in lasting[at:] if each]
        )
        early_mappings += mapped
        if request is not None:
            early_names.add(request.name)
            if largest is None or largest.count < request.count:
                largest = request
    if largest is not None:
        early_mappings = [
            replace(each, request=largest.name) if each.request in early_names else each for each in early_mappings
        ]
    found = [*([largest] if largest else []), *(each for each in lasting if each)]
    return found, [*mappings, *early_mappings]


def _request_beyond_reusable(
    at: int, container: core_pb2.Container, resource: str, reusable: Sequence[_ExtendedResourceRequest]
) -> tuple[_ExtendedResourceRequest | None, list[ContainerRequest]]:
    """The request that a container adds for an extended resource, and which requests give it what it asks for.

    An init container takes the devices of those that start after it first (`reusable`); a request is added for the
    rest. None: none is needed. Amounts that are not whole and positive ask for nothing.
    """
    stated = container.resources.requests
    if resource not in stated:
        return None, []
    requested = quantity.parse_quantity(stated[resource].string)
    if requested.nanos <= 0 or requested.nanos % quantity.NANOS_PER_UNIT:
        return None, []
    mappings = []
    there = 0
    for request in reusable:
        there += request.count
        mappings.append(ContainerRequest(container.name, resource, request.name))
        if there >= requested.value():
            return None, mappings
    name = f"container-{at}-request-{sorted(stated).index(resource)}"
    mappings.append(ContainerRequest(container.name, resource, name))
    return _ExtendedResourceRequest(name, requested.value() - there), mappings
