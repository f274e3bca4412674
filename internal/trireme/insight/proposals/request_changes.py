"""Candidates that lower a request of the pod: the largest readable amount that a node has left.

Tests: tests/unit/insight/test_proposals.py.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from trireme.framework import amounts
from trireme.insight.proposals import pod_changes
from trireme.snapshot import arrays, snapshot
from trireme.v1 import core_pb2, insight_pb2, meta_pb2
from trireme_kube.apimachinery import quantity

_KI, _MI, _GI = 1 << 10, 1 << 20, 1 << 30

# From which number of bytes on an amount is rounded down to a multiple of what.
_BYTE_STEPS = ((10 * _GI, _GI), (_GI, 128 * _MI), (128 * _MI, 16 * _MI), (_MI, _MI), (_KI, _KI))


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the pod for one resource, in the scheduler's unit.

    `container` is the place in `pod.spec.containers`, behind these in `init_containers`; −1: the pod's own.
    """

    container: int
    name: str
    resource: str
    amount: int

    def lowered(self, pod: core_pb2.Pod, amount: int) -> core_pb2.Pod:
        """A copy of the pod with this amount."""
        out = pod_changes.copy_of(pod)
        text = amounts.quantity_text(self.resource, amount)
        _requests_at(out, self.container)[self.resource].CopyFrom(meta_pb2.Quantity(string=text))
        return out


def requests_of(pod: core_pb2.Pod) -> list[Request]:
    """The requests of the pod that count, for each resource the largest first."""
    out = []
    of_pod = {name for name in pod.spec.resources.requests if amounts.is_pod_level(name)}
    for number, container in [(-1, None), *enumerate([*pod.spec.containers, *pod.spec.init_containers])]:
        for resource, amount in _amounts_of(_requests_at(pod, number)).items():
            if amount > 0 and (resource not in of_pod or container is None):
                out.append(Request(number, "" if container is None else container.name, resource, amount))
    return sorted(out, key=lambda request: (request.resource, -request.amount, request.container))


def lowered_requests(
    pod: core_pb2.Pod, request: Request, snap: snapshot.Snapshot, slots: arrays.SlotArray
) -> Iterator[pod_changes.PodChange]:
    """Candidates in descending order: what is left on these slots, which take the pod if the request is 0.

    Shape: slots (n,).
    """

    def needed(amount: int) -> int:
        """What the pod needs of the resource if it requests so much here."""
        lowered = request.lowered(pod, amount)
        return amounts.pod_amounts(lowered, snap.amount_rules).filtering.get(request.resource, 0)

    row = snap.nodes.resource_names.find(request.resource)
    if row is None or row >= snap.nodes.allocatable.shape[0]:
        return
    left = snap.nodes.allocatable[row, slots] - snap.requested(row, slots)
    amount = request.amount
    while left.size:
        amount = readable_amount(request.resource, _largest_amount(needed, int(left.max()), amount))
        if not amount:
            return
        proposal = insight_pb2.Proposal()
        lower = proposal.lower_request
        lower.container, lower.resource = request.name, request.resource
        lower.current.string = amounts.quantity_text(request.resource, request.amount)
        lower.proposed.string = amounts.quantity_text(request.resource, amount)
        yield pod_changes.PodChange(functools.partial(request.lowered, pod, amount), proposal)
        # The nodes with so much left refused it nevertheless, for example because pods are nominated to them.
        left = left[left < needed(amount)]


def lowered_share(lower: insight_pb2.LowerRequest) -> float:
    """By which share of itself a request is lowered. Range: 0 to 1."""
    current, proposed = (quantity.parse_quantity(each.string).nanos for each in (lower.current, lower.proposed))
    return 1 - proposed / current


def readable_amount(resource: str, amount: int) -> int:
    """Round an amount down so that it reads well: two digits of cpu, whole multiples of bytes, whole huge pages."""
    if resource == amounts.CPU:
        step = 10 ** max(len(str(amount)) - 2, 0)
    elif resource in (amounts.MEMORY, amounts.EPHEMERAL_STORAGE):
        step = next((step for least, step in _BYTE_STEPS if amount >= least), 1)
    elif resource.startswith(amounts.HUGE_PAGES):
        step = quantity.parse_quantity(resource.removeprefix(amounts.HUGE_PAGES)).nanos // 10**9
    else:
        step = 1
    return amount // step * step


def _largest_amount(needed: Callable[[int], int], free: int, below: int) -> int:
    """The largest amount below `below` with which the pod needs no more than is free; 0 where there is none."""
    least, most = 0, below - 1
    while least < most:
        middle = (least + most + 1) // 2
        if needed(middle) <= free:
            least = middle
        else:
            most = middle - 1
    return least


def _requests_at(pod: core_pb2.Pod, number: int) -> Mapping[str, meta_pb2.Quantity]:
    """The requests of the container at this place; −1: of the pod."""
    if number < 0:
        return pod.spec.resources.requests
    containers = len(pod.spec.containers)
    if number < containers:
        return pod.spec.containers[number].resources.requests
    return pod.spec.init_containers[number - containers].resources.requests


def _amounts_of(requests: Mapping[str, meta_pb2.Quantity]) -> Mapping[str, int]:
    """The amounts in the scheduler's units, rounded up."""
    out = {}
    for name in requests:
        parsed = quantity.parse_quantity(requests[name].string)
        out[name] = parsed.milli_value() if name == amounts.CPU else parsed.value()
    return out
