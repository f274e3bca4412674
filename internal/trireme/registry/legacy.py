"""Kubernetes' plugins in older formats of the configuration: what was renamed, merged into another plugin, or removed.

Source: pkg/scheduler/framework/plugins/legacy_registry.go and pkg/scheduler/algorithmprovider of Kubernetes 1.22, the
defaults of each version of the configuration.

Also change: internal/trireme/config_convert/policies.py, internal/trireme/config_convert/profile_conversion.py,
internal/trireme/config/scheduler_configuration.py (names of older plugins).
"""

from types import MappingProxyType

#: Plugins that do not exist any more, with what to do instead.
REMOVED_PLUGINS = MappingProxyType(
    {
        "NodeLabel": "was removed; the pods' NodeAffinity, or addedAffinity in NodeAffinity's arguments, replaces it",
        "NodePreferAvoidPods": "was removed, with the annotation preferAvoidPods; a PreferNoSchedule taint replaces it",
        "NodeResourceLimits": "was removed, it never left alpha; only requests count",
        "ServiceAffinity": "was removed; a pod affinity or topologySpreadConstraints of the pods replace it",
    }
)
#: The plugins that have the settings, and the work, that other plugins or the configuration itself once had.
ADDED_AFFINITY = "NodeAffinity"  # of labels that nodes must have, or should
BIND_TIMEOUT = "VolumeBinding"
HARD_POD_AFFINITY_WEIGHT = "InterPodAffinity"
RESOURCE_STRATEGIES = "NodeResourcesFit"
SPREADING = "PodTopologySpread"
VOLUME_COUNTS = "NodeVolumeLimits"

#: Filtered and preferred nodes by labels, as the plugin of that name in this scheduler does.
NODE_LABELS = "NodeLabel"
#: Limits of in-tree volumes. Such volumes are CSI volumes today, and counted as those.
VOLUME_LIMITS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
#: Spread the pods of a service; replaced by PodTopologySpread's default constraints.
SELECTOR_SPREAD = frozenset({"DefaultPodTopologySpread", "SelectorSpread"})
#: Score plugins that became strategies of NodeResourcesFit.
STRATEGIES = MappingProxyType(
    {
        "NodeResourcesLeastAllocated": "LeastAllocated",
        "NodeResourcesMostAllocated": "MostAllocated",
        "RequestedToCapacityRatio": "RequestedToCapacityRatio",
    }
)
#: The default weights that are others since v1beta3.
OLD_WEIGHTS = MappingProxyType({"TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1})

#: Predicates, in the order in which they ran, with the plugins that filter as they did.
PREDICATES = MappingProxyType(
    {
        "CheckNodeUnschedulable": ("NodeUnschedulable",),
        "GeneralPredicates": ("NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"),
        "HostName": ("NodeName",),
        "PodFitsHostPorts": ("NodePorts",),
        "MatchNodeSelector": ("NodeAffinity",),
        "PodFitsResources": ("NodeResourcesFit",),
        "NoDiskConflict": ("VolumeRestrictions",),
        "PodToleratesNodeTaints": ("TaintToleration",),
        "CheckNodeLabelPresence": (),
        "CheckServiceAffinity": (),
        "MaxEBSVolumeCount": ("NodeVolumeLimits",),
        "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
        "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
        "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
        "MaxCinderVolumeCount": ("NodeVolumeLimits",),
        "CheckVolumeBinding": ("VolumeBinding",),
        "NoVolumeZoneConflict": ("VolumeZone",),
        "EvenPodsSpread": ("PodTopologySpread",),
        "MatchInterPodAffinity": ("InterPodAffinity",),
        # Conditions that became taints.
        "CheckNodeCondition": ("TaintToleration",),
        "CheckNodeMemoryPressure": ("TaintToleration",),
        "CheckNodeDiskPressure": ("TaintToleration",),
        "CheckNodePIDPressure": ("TaintToleration",),
    }
)
PREDICATE_ALIASES = MappingProxyType({"PodFitsPorts": "PodFitsHostPorts"})
#: Ran under every Policy.
MANDATORY_PREDICATES = ("CheckNodeUnschedulable", "PodToleratesNodeTaints")
#: Ran if a Policy listed none.
DEFAULT_PREDICATES = (
    "NoVolumeZoneConflict",
    "MaxCSIVolumeCountPred",
    "MatchInterPodAffinity",
    "NoDiskConflict",
    "GeneralPredicates",
    "PodToleratesNodeTaints",
    "CheckVolumeBinding",
    "CheckNodeUnschedulable",
    "EvenPodsSpread",
)

#: Priorities with the plugin that scores as they did; a strategy's old name stands for NodeResourcesFit with it.
PRIORITIES = MappingProxyType(
    {
        "SelectorSpreadPriority": "SelectorSpread",
        "ServiceSpreadingPriority": "SelectorSpread",
        "EvenPodsSpreadPriority": "PodTopologySpread",
        "InterPodAffinityPriority": "InterPodAffinity",
        "LeastRequestedPriority": "NodeResourcesLeastAllocated",
        "MostRequestedPriority": "NodeResourcesMostAllocated",
        "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
        "NodePreferAvoidPodsPriority": "NodePreferAvoidPods",
        "NodeAffinityPriority": "NodeAffinity",
        "TaintTolerationPriority": "TaintToleration",
        "ImageLocalityPriority": "ImageLocality",
        "ResourceLimitsPriority": "NodeResourceLimits",
    }
)
#: The same score for every node: it changed nothing.
EQUAL_PRIORITY = "EqualPriority"
#: Scored if a Policy listed none.
DEFAULT_PRIORITIES = MappingProxyType(
    {
        "SelectorSpreadPriority": 1,
        "InterPodAffinityPriority": 1,
        "LeastRequestedPriority": 1,
        "BalancedResourceAllocation": 1,
        "NodeAffinityPriority": 1,
        "TaintTolerationPriority": 1,
        "ImageLocalityPriority": 1,
        "EvenPodsSpreadPriority": 2,
    }
)

#: All plugins that a Policy could configure.
IN_POLICIES = frozenset(
    {
        *(name for names in PREDICATES.values() for name in names),
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
    }
)

DEFAULT_PROVIDER = "DefaultProvider"
PROVIDERS = (DEFAULT_PROVIDER, "ClusterAutoscalerProvider")
