"""The in-tree plugins, a line for each.

Source: pkg/scheduler/framework/plugins of Kubernetes 1.37.
"""

from trireme.framework.plugin_spec import Registry
from trireme.plugins.default_binder import spec as default_binder
from trireme.plugins.default_preemption import spec as default_preemption
from trireme.plugins.deferred_pod_scheduling import spec as deferred_pod_scheduling
from trireme.plugins.dynamic_resources import spec as dynamic_resources
from trireme.plugins.gang_scheduling import spec as gang_scheduling
from trireme.plugins.image_locality import spec as image_locality
from trireme.plugins.inter_pod_affinity import spec as inter_pod_affinity
from trireme.plugins.node_affinity import spec as node_affinity
from trireme.plugins.node_declared_features import spec as node_declared_features
from trireme.plugins.node_name import spec as node_name
from trireme.plugins.node_ports import spec as node_ports
from trireme.plugins.node_resources_balanced_allocation import spec as node_resources_balanced_allocation
from trireme.plugins.node_resources_fit import spec as node_resources_fit
from trireme.plugins.node_unschedulable import spec as node_unschedulable
from trireme.plugins.node_volume_limits import spec as node_volume_limits
from trireme.plugins.pod_group_pods_count import spec as pod_group_pods_count
from trireme.plugins.pod_topology_spread import spec as pod_topology_spread
from trireme.plugins.priority_sort import spec as priority_sort
from trireme.plugins.scheduling_gates import spec as scheduling_gates
from trireme.plugins.taint_toleration import spec as taint_toleration
from trireme.plugins.topology_placement_generator import spec as topology_placement_generator
from trireme.plugins.volume_binding import spec as volume_binding
from trireme.plugins.volume_restrictions import spec as volume_restrictions
from trireme.plugins.volume_zone import spec as volume_zone

IN_TREE = Registry.of(
    default_binder.SPEC,
    default_preemption.SPEC,
    deferred_pod_scheduling.SPEC,
    dynamic_resources.SPEC,
    gang_scheduling.SPEC,
    image_locality.SPEC,
    inter_pod_affinity.SPEC,
    node_affinity.SPEC,
    node_declared_features.SPEC,
    node_name.SPEC,
    node_ports.SPEC,
    node_resources_balanced_allocation.SPEC,
    node_resources_fit.SPEC,
    node_unschedulable.SPEC,
    node_volume_limits.SPEC,
    pod_group_pods_count.SPEC,
    pod_topology_spread.SPEC,
    priority_sort.SPEC,
    scheduling_gates.SPEC,
    taint_toleration.SPEC,
    topology_placement_generator.SPEC,
    volume_binding.SPEC,
    volume_restrictions.SPEC,
    volume_zone.SPEC,
)
