"""The in-tree plugins, a line for each.

Source: pkg/scheduler/framework/plugins of Kubernetes 1.37.
"""

import importlib

from trireme.framework.plugin_spec import Registry, Role

# The folders in trireme.plugins; the `spec` of each has the plugin's SPEC.
_FOLDERS = (
    "default_binder",
    "default_preemption",
    "deferred_pod_scheduling",
    "dynamic_resources",
    "gang_scheduling",
    "image_locality",
    "inter_pod_affinity",
    "node_affinity",
    "node_declared_features",
    "node_label",
    "node_label_value",
    "node_name",
    "node_ports",
    "node_resources_balanced_allocation",
    "node_resources_fit",
    "node_unschedulable",
    "node_volume_limits",
    "pod_group_pods_count",
    "pod_topology_spread",
    "priority_sort",
    "scheduling_gates",
    "taint_toleration",
    "topology_placement_generator",
    "volume_binding",
    "volume_restrictions",
    "volume_zone",
)

IN_TREE = Registry.of(*(importlib.import_module(f"trireme.plugins.{folder}.spec").SPEC for folder in _FOLDERS))

# It has two parts: PostFilter makes room for a pod, PreEnqueue holds the pod back while its victims are being deleted.
PREEMPTION_PLUGIN = IN_TREE.name_of(Role.PREEMPTION)

# In its name groups wait for their members: in the queue at PreEnqueue, and on Permit.
GANG_PLUGIN = IN_TREE.name_of(Role.GANGS)
