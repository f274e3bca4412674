"""What a search found, as a claim's status states it.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go (Allocate).

Tests: tests/conformance/test_decisions.py.
"""

from collections.abc import Callable, Iterable, MutableSequence, Sequence

from trireme.plugins.dynamic_resources import allocator, device_request, devices, features
from trireme.plugins.dynamic_resources.allocation_errors import AllocationError
from trireme.v1 import core_pb2, resource_pb2

_FROM_CLASS = "FromClass"
_FROM_CLAIM = "FromClaim"


def allocation_result(
    solution: allocator.ClaimSolution, node_name: str, on: features.Features, new_share: Callable[[], str]
) -> resource_pb2.AllocationResult:
    """Make the allocation that is written into the claim's status. Raises: AllocationError.

    `new_share` names a share of a device; devices that are taken whole get none. Fields of features that are off stay
    unset.
    """
    out = resource_pb2.AllocationResult()
    # A claim that asks for nothing gets it: the part is there, empty.
    out.devices.SetInParent()
    for selected in solution.selected:
        result = out.devices.results.add(
            request=selected.request.full_name,
            driver=selected.device.id[0],
            pool=selected.device.id[1],
            device=selected.device.id[2],
            tolerations=selected.request.spec.tolerations,
        )
        if selected.request.admin_access:
            result.admin_access = True
        if selected.consumed is not None:
            result.share_id = new_share()
            for name, amount in selected.consumed.items():
                result.consumed_capacity[selected.device.status_name(name)].string = str(amount)
        if on.experimental:
            result.skip_node_operations.extend(selected.device.slice.message.spec.skip_node_operations)
        if on.binding_conditions:
            result.binding_conditions.extend(selected.device.message.binding_conditions)
            result.binding_failure_conditions.extend(selected.device.message.binding_failure_conditions)
    _add_device_configurations(out, solution)
    selector = node_selector_of_devices(solution, node_name)
    if selector is not None:
        out.node_selector.CopyFrom(selector)
    return out


def _add_device_configurations(out: resource_pb2.AllocationResult, solution: allocator.ClaimSolution) -> None:
    """Add the configurations of the classes, each class once, then those of the claim that are about what was chosen.

    One that is for all requests names none in the result, also where the claim listed them all.
    """
    configs = out.devices.config
    of_class: dict[str, range] = {}
    for request in solution.requests:
        name = request.device_class.metadata.name
        known = of_class.get(name)
        if known is None:
            start = len(configs)
            for parameters in request.device_class.spec.config:
                configs.add(source=_FROM_CLASS, device_configuration=parameters.device_configuration)
            known = of_class[name] = range(start, len(configs))
        for at in known:
            configs[at].requests.append(request.full_name)
    for stated in solution.claim.spec.devices.config:
        concerned = any(
            {request.parent or request.name, request.full_name} & {*stated.requests} for request in solution.requests
        )
        if not stated.requests or concerned:
            configs.add(source=_FROM_CLAIM, requests=stated.requests, device_configuration=stated.device_configuration)
    for config in configs:
        # None named means all of them.
        if config.requests and all(_lists_request(config.requests, request) for request in solution.requests):
            del config.requests[:]


def _lists_request(named: Iterable[str], request: device_request.DeviceRequest) -> bool:
    """Whether the names contain the request: its full name, or that of the request it is an alternative of."""
    return bool({request.parent or request.name, request.full_name} & set(named))


def node_selector_of_devices(solution: allocator.ClaimSolution, node_name: str) -> core_pb2.NodeSelector | None:
    """Return the nodes from which all devices can be used, as the allocation states them; None: all nodes.

    A device of one node, or one that binds to its node, makes it this node alone. Raises: AllocationError for a slice
    whose selector has several terms.
    """
    term = core_pb2.NodeSelectorTerm()
    for selected in solution.selected:
        placement = _stated_placement(selected.device)
        if placement.node_name or selected.device.message.binds_to_node:
            only = core_pb2.NodeSelector()
            only.node_selector_terms.add().match_fields.add(key="metadata.name", operator="In", values=[node_name])
            return only
        if placement.selector is None or not placement.selector.node_selector_terms:
            continue
        terms = placement.selector.node_selector_terms
        if len(terms) > 1:
            why = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise AllocationError(f"create NodeSelector for claim {solution.claim.metadata.name}: {why}")
        _add_missing_requirements(terms[0].match_fields, term.match_fields)
        _add_missing_requirements(terms[0].match_expressions, term.match_expressions)
    if not term.match_fields and not term.match_expressions:
        return None
    return core_pb2.NodeSelector(node_selector_terms=[term])


def _stated_placement(device: devices.Device) -> devices.DevicePlacement:
    """Return where the device is: by itself where its slice says so device by device, else by its slice."""
    return device.placement if device.slice.per_device else device.slice.placement


def _add_missing_requirements(
    stated: Sequence[core_pb2.NodeSelectorRequirement], to: MutableSequence[core_pb2.NodeSelectorRequirement]
) -> None:
    """Append to `to` the requirements that it lacks; the order of a requirement's values does not matter."""
    known = {(each.key, each.operator, frozenset(each.values)) for each in to}
    for requirement in stated:
        key = (requirement.key, requirement.operator, frozenset(requirement.values))
        if key not in known:
            known.add(key)
            to.append(requirement)
