"""Which parts of dynamic resource allocation are on, from the feature gates."""

from collections.abc import Mapping
from dataclasses import dataclass


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


def of_gates(gates: Mapping[str, bool]) -> Features:
    """The features by the gates; one that is not named is as in Kubernetes: on, but for claims of groups."""

    def on(name: str) -> bool:
        return gates.get(name, True)

    return Features(
        admin_access=on("DRAAdminAccess"),
        prioritized_list=on("DRAPrioritizedList"),
        partitionable=on("DRAPartitionableDevices"),
        taints=on("DRADeviceTaints"),
        taint_rules=on("DRADeviceTaints") and on("DRADeviceTaintRules"),
        binding_conditions=on("DRADeviceBindingConditions") and on("DRAResourceClaimDeviceStatus"),
        consumable=on("DRAConsumableCapacity"),
        fractional=on("DRAFractionalCapacityRange"),
        extended_resources=on("DRAExtendedResource"),
        filter_timeout=on("DRASchedulerFilterTimeout"),
        group_claims=gates.get("DRAWorkloadResourceClaims", False),
    )
