"""What may help a pod that NodeResourcesFit refused: what a node has to give, and what a pod that is gone gave back.

Source: pkg/scheduler/framework/plugins/noderesources (fit.go).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trireme.framework import amounts, resizes
from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, always, helps_none, is_on_node
from trireme.plugin_kit import device_resources
from trireme.snapshot import classes
from trireme.v1 import core_pb2, resource_pb2

#: Whether devices stand for the resource where a node has none of it.
_Backed = Callable[[str], bool]

#: Whether what happens on the node of this name is of no use to pods of the class.
_Elsewhere = Callable[[classes.PodClass, str], bool]

_NODE_ACTIONS = ("Add", "UpdateNodeAllocatable")


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """NodeResourcesFit: room that is given back, or a node with more of what the pod asks for."""
    by_devices = context.features.enabled("DRAExtendedResource")
    resizing = context.features.enabled(resizes.GATE)
    elsewhere = _is_resized_elsewhere if resizing else _never_resized_elsewhere

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node) -> ClassHint:
        before = None if old is None else amounts.node_allocatable(old.status.allocatable)
        after = amounts.node_allocatable(new.status.allocatable)
        backed = _make_device_backed_check(context)

        def helps(pod_class: classes.PodClass) -> bool:
            if elsewhere(pod_class, new.metadata.name):
                return False
            requested = _amounts_if_valid(pod_class).filtering
            return _fits_empty_node(requested, after, backed) and (
                before is None or _has_more_of_requested(requested, before, after, backed)
            )

        return helps

    def after_node_of_nominee(old: core_pb2.Node | None, new: core_pb2.Node) -> ClassHint:
        if old is None:
            return helps_none
        before, after = (amounts.node_allocatable(node.status.allocatable) for node in (old, new))
        backed = _make_device_backed_check(context)

        def helps(pod_class: classes.PodClass) -> bool:
            if pod_class.pod.spec.HasField("scheduling_group") or elsewhere(pod_class, new.metadata.name):
                return False
            requested = _amounts_if_valid(pod_class).filtering
            return _lacks_native(requested, after) and _fits_empty_node(requested, before, backed)

        return helps

    after_scale_down = _make_hint_after_neighbour_scale_down(context, elsewhere)
    wanted = [
        ClusterEventWithHint("AssignedPod", ("Delete",), _make_hint_after_delete(elsewhere)),
        ClusterEventWithHint("Node", _NODE_ACTIONS, after_node, after_node_of_nominee),
        ClusterEventWithHint("AssignedPod", ("UpdatePodScaleDown",), after_scale_down),
        ClusterEventWithHint("TargetPod", ("UpdatePodScaleDown",), always),
    ]
    if by_devices:
        wanted.append(ClusterEventWithHint("resource.k8s.io/DeviceClass", ("Add", "Update"), _after_device_class))
    if resizing:
        wanted.append(ClusterEventWithHint("AssignedPod", ("UpdatePodScaleUp",), _after_neighbour_scale_up))
        wanted.append(ClusterEventWithHint("TargetPod", ("UpdatePodScaleUp",), lambda old, new: _is_resize_deferred))
    return wanted


def _make_hint_after_delete(elsewhere: _Elsewhere) -> Callable[[Any, Any], ClassHint]:
    """Make the hint for a deleted pod: it helps all pods, except one that is resized on another node (`elsewhere`)."""

    def after_pod_delete(old: Any, new: Any) -> ClassHint:
        return (lambda pod_class: not elsewhere(pod_class, old.node_name)) if is_on_node(old) else helps_none

    return after_pod_delete


def _after_neighbour_scale_up(old: Any, new: Any) -> ClassHint:
    """Make the hint for another pod that asks for more now: it helps a pod of its node whose resize is deferred.

    The pod that grew takes the room that the resize waits for, so that preemption may have to make it.
    """
    return lambda pod_class: pod_class.resize_deferred and not _is_resized_elsewhere(pod_class, new.node_name)


def _is_resize_deferred(pod_class: classes.PodClass) -> bool:
    return pod_class.resize_deferred


def _is_resized_elsewhere(pod_class: classes.PodClass, node_name: str) -> bool:
    """Whether the pod is resized where it is, on another node than this."""
    return pod_class.resize_deferred and pod_class.pod.spec.node_name != node_name


def _never_resized_elsewhere(pod_class: classes.PodClass, node_name: str) -> bool:
    """Stand for `_is_resized_elsewhere` without the feature gate."""
    return False


def _make_hint_after_neighbour_scale_down(
    context: HintContext, elsewhere: _Elsewhere
) -> Callable[[Any, Any], ClassHint]:
    """Make the hint for a pod on a node that asks for less now: it helps pods that ask for what was freed."""

    def after_scale_down(old: Any, new: Any) -> ClassHint:
        if not new.node_name:
            return helps_none
        before = _amounts_if_valid(context.cluster.class_of(old.pod)).compared
        now = _amounts_if_valid(context.cluster.class_of(new.pod)).compared
        freed = {name for name, amount in before.items() if amount > now.get(name, 0)}

        def helps(pod_class: classes.PodClass) -> bool:
            if elsewhere(pod_class, new.node_name):
                return False
            return any(amount and name in freed for name, amount in _amounts_if_valid(pod_class).compared.items())

        return helps if freed else helps_none

    return after_scale_down


def _after_device_class(old: resource_pb2.DeviceClass | None, new: resource_pb2.DeviceClass) -> ClassHint:
    """Make the hint for a device class that newly stands for an extended resource: it helps pods that ask for it."""
    stands_for = new.spec.extended_resource_name
    if old is not None and old.spec.extended_resource_name == stands_for:
        return helps_none
    names = {stands_for} if new.spec.HasField("extended_resource_name") else set()
    if old is None:
        names.add(device_resources.CLASS_RESOURCE_PREFIX + new.metadata.name)

    def helps(pod_class: classes.PodClass) -> bool:
        return not names.isdisjoint(_amounts_if_valid(pod_class).filtering)

    return helps


def _fits_empty_node(requested: Mapping[str, int], allocatable: Mapping[str, int], backed: _Backed) -> bool:
    """Whether the pod would fit if the node were empty."""
    if allocatable.get(amounts.PODS, 0) < 1:
        return False
    for name, amount in requested.items():
        there = allocatable.get(name, 0)
        if amount > there and not (there <= 0 and amounts.is_scalar(name) and backed(name)):
            return False
    return True


def _lacks_native(requested: Mapping[str, int], allocatable: Mapping[str, int]) -> bool:
    """Whether the node, were it empty, has less than requested of a resource that does not come and go with a plugin.

    A device plugin that restarts takes its resources away for a moment, for which no pod has to preempt elsewhere.
    """
    return any(amount > allocatable.get(name, 0) for name, amount in requested.items() if not amounts.is_scalar(name))


def _has_more_of_requested(
    requested: Mapping[str, int], before: Mapping[str, int], after: Mapping[str, int], backed: _Backed
) -> bool:
    """Whether the node has more than before of something that the pod asks for."""
    if after.get(amounts.PODS, 0) > before.get(amounts.PODS, 0):
        return True
    for name, amount in requested.items():
        if amount <= 0:
            continue
        if after.get(name, 0) > before.get(name, 0):
            return True
        if amounts.is_scalar(name) and after.get(name, 0) <= 0 and backed(name):
            return True
    return False


def _make_device_backed_check(context: HintContext) -> _Backed:
    """Return a function that says whether a device class stands for a resource; its first call reads the classes.

    Without the feature gate none does.
    """
    if not context.features.enabled("DRAExtendedResource"):
        return _never_device_backed

    @functools.cache
    def device_backed_names() -> frozenset[str]:
        found = set()
        for entry in context.cluster.all("device_class"):
            found.add(device_resources.CLASS_RESOURCE_PREFIX + entry.metadata.name)
            found.add(entry.spec.extended_resource_name)
        return frozenset(found)

    return lambda name: name in device_backed_names()


def _never_device_backed(name: str) -> bool:
    """Stand for `_make_device_backed_check` without the feature gate."""
    return False


def _amounts_if_valid(pod_class: classes.PodClass) -> amounts.PodAmounts:
    """Return the class's amounts. Raises: ValueError if one is invalid, so that the hint fails and the pod is tried."""
    if pod_class.invalid is not None:
        raise ValueError(pod_class.invalid)
    return pod_class.amounts
