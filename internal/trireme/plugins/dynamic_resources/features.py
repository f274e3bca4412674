"""Which parts of dynamic resource allocation are on, from the feature gates.

Also change: internal/trireme/config/gate_effects.py, internal/trireme/config/feature_gates.json,
internal/trireme/framework/feature_gates.py (the gates that have an effect).

Tests: tests/unit/plugins/dynamic_resources/test_gated.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trireme.framework import feature_gates


@dataclass(frozen=True, slots=True)
class Features:
    """What the allocator and the plugin may use."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable: bool = True
    taints: bool = True
    taint_rules: bool = True
    binding_conditions: bool = True
    consumable: bool = True
    fractional: bool = True
    extended_resources: bool = True
    filter_timeout: bool = True
    # Claims may belong to a PodGroup.
    group_claims: bool = False
    # Requests may state attributes that are computed from those of a device.
    derived_attributes: bool = False
    # Devices that draw on one set of counters must have a compatibility group in common.
    compatibility_groups: bool = False
    # Constraints compare attributes as sets of values.
    list_attributes: bool = False
    # Devices may stand for cpu, memory and other resources that a node has itself.
    node_allocatable: bool = False
    # Requests and limits of a pod as a whole count.
    pod_level_resources: bool = True
    # Slices may skip steps on the node, if the node declares that it supports this.
    optional_node_operations: bool = False
    # What is wrong with one device concerns that device alone; kube-scheduler ends the pod's attempt.
    corrected: bool = False

    @property
    def experimental(self) -> bool:
        """Whether Kubernetes uses its experimental allocator: it alone supports these features."""
        return (
            self.derived_attributes
            or self.compatibility_groups
            or self.list_attributes
            or self.optional_node_operations
        )


def of_gates(gates: Mapping[str, bool]) -> Features:
    """Return the features that the gates turn on; one that is not named is at Kubernetes' default."""

    def is_on_by_default(name: str) -> bool:
        """Whether a gate is on that is on by default."""
        return gates.get(name, True)

    def is_off_by_default(name: str) -> bool:
        """Whether a gate is on that is off by default."""
        return gates.get(name, False)

    return Features(
        admin_access=is_on_by_default("DRAAdminAccess"),
        prioritized_list=is_on_by_default("DRAPrioritizedList"),
        partitionable=is_on_by_default("DRAPartitionableDevices"),
        taints=is_on_by_default("DRADeviceTaints"),
        taint_rules=is_on_by_default("DRADeviceTaints") and is_on_by_default("DRADeviceTaintRules"),
        binding_conditions=is_on_by_default("DRADeviceBindingConditions")
        and is_on_by_default("DRAResourceClaimDeviceStatus"),
        consumable=is_on_by_default("DRAConsumableCapacity"),
        fractional=is_on_by_default("DRAFractionalCapacityRange"),
        extended_resources=is_on_by_default("DRAExtendedResource"),
        filter_timeout=is_on_by_default("DRASchedulerFilterTimeout"),
        group_claims=is_off_by_default("DRAWorkloadResourceClaims"),
        derived_attributes=is_off_by_default("DRADerivedAttributes"),
        compatibility_groups=is_off_by_default("DRADeviceCompatibilityGroups"),
        list_attributes=is_off_by_default("DRAListTypeAttributes"),
        node_allocatable=is_off_by_default("DRANodeAllocatableResources"),
        pod_level_resources=is_on_by_default("PodLevelResources"),
        optional_node_operations=is_off_by_default("DRAOptionalNodeOperations"),
        corrected=is_off_by_default(feature_gates.CORRECTED),
    )
