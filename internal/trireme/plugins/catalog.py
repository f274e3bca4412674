"""The in-tree filter, score and PostFilter plugins by name, made from their arguments.

Arguments come as the JSON of the configuration API with all defaults filled in; they were validated where the
configuration was read, so what is missing here is a fault of the caller and named as such.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from trireme.evaluation.preemption import post_filtering, preemption
from trireme.framework import resizes, tolerations
from trireme.plugin_api import interfaces
from trireme.plugin_kit import device_resources
from trireme.plugins.deferred_pod_scheduling import filter as deferred_pod_scheduling
from trireme.plugins.dynamic_resources import device_counts
from trireme.plugins.dynamic_resources import features as device_features
from trireme.plugins.dynamic_resources import plugin as dynamic_resources
from trireme.plugins.dynamic_resources import post_filter as deallocation
from trireme.plugins.image_locality import score as image_locality
from trireme.plugins.inter_pod_affinity import filter as inter_pod_affinity
from trireme.plugins.node_affinity import filter as node_affinity
from trireme.plugins.node_declared_features import filter as node_declared_features
from trireme.plugins.node_name import filter as node_name
from trireme.plugins.node_ports import filter as node_ports
from trireme.plugins.node_resources_balanced_allocation import score as node_resources_balanced_allocation
from trireme.plugins.node_resources_fit import filter as node_resources_fit
from trireme.plugins.node_unschedulable import filter as node_unschedulable
from trireme.plugins.node_volume_limits import filter as node_volume_limits
from trireme.plugins.pod_topology_spread import constraints as pod_topology_spread_constraints
from trireme.plugins.pod_topology_spread import filter as pod_topology_spread
from trireme.plugins.taint_toleration import filter as taint_toleration
from trireme.plugins.volume_binding import filter as volume_binding
from trireme.plugins.volume_restrictions import filter as volume_restrictions
from trireme.plugins.volume_zone import filter as volume_zone
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode, durations

Args = Mapping[str, Any]
Features = Mapping[str, bool]


def _node_affinity(args: Args, features: Features) -> node_affinity.NodeAffinity:
    added = args.get("addedAffinity")
    return node_affinity.NodeAffinity(None if added is None else decode.decode(added, core_pb2.NodeAffinity))


def _taints(args: Args, features: Features) -> taint_toleration.TaintToleration:
    return taint_toleration.TaintToleration(features.get(tolerations.GATE, False))


def _unschedulable(args: Args, features: Features) -> node_unschedulable.NodeUnschedulable:
    return node_unschedulable.NodeUnschedulable(features.get(tolerations.GATE, False))


def _fit(args: Args, features: Features) -> node_resources_fit.NodeResourcesFit:
    return node_resources_fit.NodeResourcesFit(_fit_args(args, features))


def _scoring_fit(args: Args, features: Features) -> node_resources_fit.NodeResourcesFit:
    made = _fit_args(args, features)
    return node_resources_fit.NodeResourcesFit(made, _counted_devices(made.resources, features))


def _fit_args(args: Args, features: Features) -> node_resources_fit.Args:
    strategy = args.get("scoringStrategy") or {}
    ratio = strategy.get("requestedToCapacityRatio") or {}
    return node_resources_fit.Args(
        strategy=strategy.get("type", node_resources_fit.LEAST_ALLOCATED),
        resources=_resources(strategy),
        shape=tuple((point.get("utilization", 0), point.get("score", 0)) for point in ratio.get("shape") or ()),
        ignored_resources=frozenset(args.get("ignoredResources") or ()),
        ignored_groups=frozenset(args.get("ignoredResourceGroups") or ()),
        resizing=features.get(resizes.GATE, False),
        device_backed=features.get("DRAExtendedResource", True),
    )


def _balanced(args: Args, features: Features) -> node_resources_balanced_allocation.NodeResourcesBalancedAllocation:
    scored = _resources(args)
    return node_resources_balanced_allocation.NodeResourcesBalancedAllocation(
        node_resources_balanced_allocation.Args(scored), _counted_devices(scored, features)
    )


def _counted_devices(scored: Iterable[tuple[str, int]], features: Features) -> device_counts.DeviceCounts | None:
    """Devices count where an extended resource is scored; None: there is none."""
    if not features.get("DRAExtendedResource", True) or not any(
        device_resources.may_be_devices(name) for name, _ in scored
    ):
        return None
    return device_counts.DeviceCounts(device_features.of_gates(features))


def _resources(args: Args) -> tuple[tuple[str, int], ...]:
    given = args.get("resources")
    if not given:
        return (("cpu", 1), ("memory", 1))
    return tuple((entry["name"], entry.get("weight", 1)) for entry in given)


def _limits(args: Args, features: Features) -> node_volume_limits.NodeVolumeLimits:
    return node_volume_limits.NodeVolumeLimits(features.get("VolumeLimitScaling", True))


def _volume_binding(args: Args, features: Features) -> volume_binding.VolumeBinding:
    scoring, resizing = features.get("StorageCapacityScoring", True), features.get(resizes.GATE, False)
    return volume_binding.VolumeBinding(volume_binding.args_of(args, scoring, resizing))


def _spread(args: Args, features: Features) -> pod_topology_spread.PodTopologySpread:
    match_label_keys = features.get("MatchLabelKeysInPodTopologySpread", True)
    comparing = features.get(tolerations.GATE, False)
    return pod_topology_spread.PodTopologySpread(
        pod_topology_spread_constraints.args_of(args, match_label_keys, comparing)
    )


def _inter_pod(args: Args, features: Features) -> inter_pod_affinity.InterPodAffinity:
    return inter_pod_affinity.InterPodAffinity(
        inter_pod_affinity.Args(
            hard_weight=args.get("hardPodAffinityWeight", 1),
            ignore_preferred_of_existing=bool(args.get("ignorePreferredTermsOfExistingPods")),
        )
    )


def _declared_features(args: Args, features: Features) -> node_declared_features.NodeDeclaredFeatures:
    return node_declared_features.NodeDeclaredFeatures(features.get("NodeDeclaredFeatures", True))


def _devices(args: Args, features: Features) -> dynamic_resources.DynamicResources:
    return dynamic_resources.DynamicResources(
        dynamic_resources.Args(
            # Null without the gate DRASchedulerFilterTimeout: no limit.
            filter_timeout=durations.seconds(args.get("filterTimeout", "10s") or "0"),
            binding_timeout=durations.seconds(args.get("bindingTimeout") or "600s"),
            on=device_features.of_gates(features),
        )
    )


def _deferred(args: Args, features: Features) -> deferred_pod_scheduling.DeferredPodScheduling:
    return deferred_pod_scheduling.DeferredPodScheduling(features.get(resizes.GATE, False))


_FILTERS: dict[str, Callable[[Args, Features], interfaces.FilterPlugin]] = {
    "NodeName": lambda args, features: node_name.NodeName(),
    "NodeUnschedulable": _unschedulable,
    "TaintToleration": _taints,
    "NodeAffinity": _node_affinity,
    "NodePorts": lambda args, features: node_ports.NodePorts(),
    "NodeResourcesFit": _fit,
    "VolumeRestrictions": lambda args, features: volume_restrictions.VolumeRestrictions(),
    "NodeVolumeLimits": _limits,
    "VolumeBinding": _volume_binding,
    "VolumeZone": lambda args, features: volume_zone.VolumeZone(),
    "PodTopologySpread": _spread,
    "InterPodAffinity": _inter_pod,
    "NodeDeclaredFeatures": _declared_features,
    "DynamicResources": _devices,
    "DeferredPodScheduling": _deferred,
}

_SCORES: dict[str, Callable[[Args, Features], interfaces.AnyScorePlugin]] = {
    "TaintToleration": _taints,
    "NodeAffinity": _node_affinity,
    "NodeResourcesFit": _scoring_fit,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _inter_pod,
    "NodeResourcesBalancedAllocation": _balanced,
    "VolumeBinding": _volume_binding,
    "ImageLocality": lambda args, features: image_locality.ImageLocality(),
    "DynamicResources": _devices,
}


def filter_plugin(name: str, args_json: bytes, features: Features) -> interfaces.FilterPlugin | None:
    """The filter plugin of this name, None where there is no such in-tree plugin. Raises: ValueError for bad args."""
    make = _FILTERS.get(name)
    return None if make is None else make(_parsed(name, args_json), features)


def score_plugin(name: str, args_json: bytes, features: Features) -> interfaces.AnyScorePlugin | None:
    """The score plugin of this name, None where there is no such in-tree plugin. Raises: ValueError for bad args."""
    make = _SCORES.get(name)
    return None if make is None else make(_parsed(name, args_json), features)


def post_filter_plugin(
    name: str, args_json: bytes, features: Features, filter_plugin: interfaces.FilterPlugin | None
) -> post_filtering.PostFilterPlugin | None:
    """The PostFilter plugin of this name; None where there is no such in-tree plugin, or what it looks at is what the
    profile's filter plugin of that name (`filter_plugin`) found, and there is none. Raises: ValueError for bad args.
    """
    if name == preemption.NAME:
        args = _parsed(name, args_json)
        counts = preemption.Args(
            args.get("minCandidateNodesPercentage", 10), args.get("minCandidateNodesAbsolute", 100)
        )
        return preemption.DefaultPreemption(counts, groups=features.get("GenericWorkload", False))
    if isinstance(filter_plugin, dynamic_resources.DynamicResources):
        return deallocation.Deallocation(filter_plugin)
    return None


def _parsed(name: str, args_json: bytes) -> Args:
    if not args_json:
        return {}
    args = orjson.loads(args_json)
    if not isinstance(args, dict):
        raise ValueError(f"args of plugin {name}: must be an object")
    return args
