"""The plugins of a profile that says nothing: kube-scheduler's, in its order, with its weights.

Source: getDefaultPlugins and applyFeatureGates in pkg/scheduler/apis/config/v1/default_plugins.go of Kubernetes 1.38.

Tests: tests/unit/config/test_profiles.py, tests/unit/plugins/test_hints_table.py, tests/unit/config/test_start.py,
tests/contract/test_serving_http.py.
"""

from collections.abc import Mapping, Sequence

from trireme.framework import feature_gates
from trireme.framework.plugin_spec import ExtensionPoint

# With their weights, before feature gates add theirs.
_PLUGINS: tuple[tuple[str, int | None], ...] = (
    ("SchedulingGates", None),
    ("PrioritySort", None),
    ("NodeName", None),
    ("NodeUnschedulable", None),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", None),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", None),
    ("NodeVolumeLimits", None),
    ("VolumeBinding", None),
    ("VolumeZone", None),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    # Before preemption: releasing an idle claim is better than evicting a pod.
    ("DynamicResources", 2),
    ("DefaultPreemption", None),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", None),
)

#: The weights of those that score.
WEIGHTS = {name: weight for name, weight in _PLUGINS if weight is not None}


def default_plugins(gates: feature_gates.Gates) -> list[tuple[str, int | None]]:
    """Return the plugins of the default profile, in order, with the weights of those that have one; gates add some."""
    out = list(_PLUGINS)
    if gates.enabled("NodeDeclaredFeatures"):
        out.append(("NodeDeclaredFeatures", None))
    if gates.enabled("InPlacePodVerticalScalingSchedulerPreemption"):
        # Before the resources are looked at: a node that forbids resize preemption is refused for that.
        out.insert(_index_of_plugin(out, "NodeResourcesFit"), ("DeferredPodScheduling", None))
    if gates.enabled("GenericWorkload"):
        out.append(("GangScheduling", None))
    if gates.enabled("TopologyAwareWorkloadScheduling"):
        out.append(("TopologyPlacementGenerator", None))
        out.append(("PodGroupPodsCount", 1))
    return out


def disabled_plugins(gates: feature_gates.Gates) -> Mapping[ExtensionPoint, Sequence[str]]:
    """Return the plugins that the default profile disables at points that they have."""
    return {} if gates.enabled("GenericWorkload") else {ExtensionPoint.RESERVE: ["DefaultPreemption"]}


def _index_of_plugin(plugins: list[tuple[str, int | None]], name: str) -> int:
    return next(index for index, (other, _) in enumerate(plugins) if other == name)
