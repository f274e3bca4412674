"""Which field of a recorded message holds what: a text that is not listed is a name, and is replaced.

So a field that a release adds is replaced until somebody lists it. Maps are listed by their entries.

Also change: protos/trireme/v1/recording.proto (the messages).
Also change: protos/trireme/v1/snapshot.proto (the messages).

Tests: tests/unit/recording/test_redaction.py.
"""

import enum
from collections.abc import Mapping


class Content(enum.Enum):
    """What a field holds, and so what becomes of it."""

    #: Replaced, as a whole or by its parts between slashes.
    NAME = enum.auto()
    #: Kept if its domain is Kubernetes', else replaced.
    LABEL_KEY = enum.auto()
    #: As a label key if it has a domain, else kept.
    CONDITION = enum.auto()
    #: The path of a field: the label key in it, if there is one, is replaced.
    FIELD_PATH = enum.auto()
    #: Replaced, by its parts between two underscores.
    LABEL_VALUE = enum.auto()
    #: Replaced, repository, tag and digest by themselves.
    IMAGE = enum.auto()
    #: The names in it are replaced.
    TEXT = enum.auto()
    #: The value of an annotation whose key is Kubernetes': replaced if it is a name, kept if it is a word or a list of
    #: volume plugins, else left out, as is the last applied configuration.
    ANNOTATION_VALUE = enum.auto()
    #: The arguments of a plugin, JSON: labels in those of in-tree plugins are replaced, all others are left out.
    ARGUMENTS = enum.auto()
    #: Serialised decisions.
    DECISIONS = enum.auto()
    KEPT = enum.auto()
    #: Left out.
    DROPPED = enum.auto()


# By the name of the field, whichever message has it.
_BY_FIELD: Mapping[str, Content] = {
    **dict.fromkeys(
        (
            "uid", "user_uid", "share_id", "resource_version", "instance", "release", "version", "versions", "driver",
            "operator", "effect", "protocol", "phase", "reason", "type", "kind", "api_version", "api_group", "resource",
            "resources", "actions", "code", "plugin", "plugins", "fs_type", "qos_class", "restart_policy",
            "preemption_policy", "when_unsatisfiable", "node_affinity_policy", "node_taints_policy", "volume_mode",
            "access_modes", "persistent_volume_reclaim_policy", "reclaim_policy", "volume_binding_mode", "caching_mode",
            "volume_lifecycle_modes", "bind_mount_options", "unhealthy_pod_eviction_policy", "allocation_mode",
            "declared_features", "binding_conditions", "binding_failure_conditions", "skip_node_operations",
            "match_attribute", "distinct_attribute", "partition_type_attribute", "capacity_key", "source",
            "pull_policy",
            "expression", "extended_resource_name", "resource_name", "provisioner", "attacher", "removed_nominations",
            "removed_pods", "compatibility_groups", "disable_resize_preemption", "field_path",
        ),
        Content.KEPT,
    ),
    **dict.fromkeys(("topology_key", "topology_keys", "match_label_keys", "mismatch_label_keys"), Content.LABEL_KEY),
    "finalizers": Content.LABEL_KEY,
    "image": Content.IMAGE,
    "pod_fields": Content.FIELD_PATH,
    "messages": Content.TEXT,
    "args_json": Content.ARGUMENTS,
    "decisions": Content.DECISIONS,
    **dict.fromkeys(("json", "raw", "state"), Content.DROPPED),
}  # fmt: skip

# By message and field, where the name alone does not say it.
_BY_MESSAGE: Mapping[str, Content] = {
    "ContainerImage.names": Content.IMAGE,
    "ImageVolumeSource.reference": Content.IMAGE,
    **dict.fromkeys(
        ("Condition.type", "NodeCondition.type", "PodCondition.type", "PodReadinessGate.condition_type"),
        Content.CONDITION,
    ),
    "Evict.message": Content.TEXT,
    "QueuedPod.reason": Content.TEXT,
    "QueueEvent.label": Content.KEPT,
    "Reason.ParametersEntry.key": Content.KEPT,
    "Reason.ParametersEntry.value": Content.TEXT,
    **dict.fromkeys(
        ("Condition.message", "NodeCondition.message", "PodCondition.message", "PodStatus.message"), Content.DROPPED
    ),
    **dict.fromkeys(("PersistentVolumeStatus.message",), Content.DROPPED),
    **dict.fromkeys(
        (
            "ObjectMeta.LabelsEntry.key", "LabelSelector.MatchLabelsEntry.key", "LabelSelectorRequirement.key",
            "NodeSelectorRequirement.key", "PodSpec.NodeSelectorEntry.key", "Taint.key", "Toleration.key",
            "DeviceTaint.key", "DeviceToleration.key", "TopologyConstraint.key", "ObjectMeta.AnnotationsEntry.key",
            "TopologySelectorLabelRequirement.key", "ServiceSpec.SelectorEntry.key",
            "ReplicationControllerSpec.SelectorEntry.key",
        ),
        Content.LABEL_KEY,
    ),
    **dict.fromkeys(
        (
            "ObjectMeta.LabelsEntry.value", "LabelSelector.MatchLabelsEntry.value", "LabelSelectorRequirement.values",
            "NodeSelectorRequirement.values", "PodSpec.NodeSelectorEntry.value", "Taint.value", "Toleration.value",
            "DeviceTaint.value", "DeviceToleration.value", "TopologySelectorLabelRequirement.values",
            "ServiceSpec.SelectorEntry.value", "ReplicationControllerSpec.SelectorEntry.value",
        ),
        Content.LABEL_VALUE,
    ),
    "ObjectMeta.AnnotationsEntry.value": Content.ANNOTATION_VALUE,
    # Names of resources, attributes and capacities, which CEL expressions and plugins know.
    **dict.fromkeys(
        (
            "NodeStatus.AllocatableEntry.key", "NodeStatus.CapacityEntry.key", "PodSpec.OverheadEntry.key",
            "ResourceRequirements.LimitsEntry.key", "ResourceRequirements.RequestsEntry.key",
            "VolumeResourceRequirements.LimitsEntry.key", "VolumeResourceRequirements.RequestsEntry.key",
            "ContainerStatus.AllocatedResourcesEntry.key", "PodStatus.AllocatedResourcesEntry.key",
            "PersistentVolumeClaimStatus.CapacityEntry.key", "PersistentVolumeSpec.CapacityEntry.key",
            "CapacityRequirements.RequestsEntry.key", "Device.AttributesEntry.key", "Device.CapacityEntry.key",
            "Device.NodeAllocatableResourcesEntry.key", "DeviceRequestAllocationResult.ConsumedCapacityEntry.key",
            "CounterSet.CountersEntry.key", "DeviceCounterConsumption.CountersEntry.key",
            "Configuration.FeatureGatesEntry.key", "ConfigureRequest.FeatureGatesEntry.key", "DeviceAttribute.string",
            "DeviceAttribute.strings", "DeviceDerivedAttribute.name", "NodeAllocatableMappedResources.name",
            "NodeAllocatableOverheadResources.name", "Quantity.string", "IntOrString.str_val", "CSINodeDriver.name",
            "WeightedPlugin.name", "PluginArgs.name", "PluginInfo.name", "RemotePlugin.name", "ObjectKey.kind",
        ),
        Content.KEPT,
    ),
}  # fmt: skip

_WORDS_OF_TEXTS = """
a access accommodate affinity all allocate already an and another anti are attachment available be bind bound budget
by cannot capacity case claim claims class cluster completed conflict constraints containers controller count cpu
csi deallocation delete deletion didn disk disruption domain driver due eligible empty end ephemeral error exceed
existing extended failure features filter fit for found free group had has have helpful higher hostname immediate in
incoming io is kubernetes label labels lower match max memory missing mode must no node nodes nominated none not of
on or parsing permit persistent placement plugin plugins pod podgroup podgroups pods port ports potential preempting
preemption priority protection provisioner reason request requested requests required reserve resource resources
rule rules satisfy schedule scheduled scheduler scheduling selected selector service set slice spread storage
supported t taint taints terminating terms the to topology unavailable unbound unschedulable untolerated use valid
value victims volume volumes was were while with zone
"""
WORDS = frozenset(_WORDS_OF_TEXTS.split())
"""Words of the scheduler's own texts: in a text they are words, whatever is named so, unless in quotes."""

# Names that every cluster has.
COMMON = frozenset(
    {"", "default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler", "true", "false", "yes", "no"}
    | {"latest", "0.0.0.0", "127.0.0.1", "::", "::1"}
    # The field by which node selectors name a node, and what evictions for a group have for a node.
    | {"metadata.name", "cluster"}
)


def content_of(message: str, field: str) -> Content:
    """What the field of a message holds; `message` is its full name without the package."""
    return _BY_MESSAGE.get(f"{message}.{field}") or _BY_FIELD.get(field, Content.NAME)
