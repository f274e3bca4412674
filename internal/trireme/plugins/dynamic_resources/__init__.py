"""DynamicResources: allocates devices to the claims of pods, and refuses nodes without them.

`inventory` reads slices, classes and taint rules into devices and pools; `allocated_devices` knows which are allocated;
`allocator` searches devices for claims on one node, with `device_matching`, `constraints`, `consumable_capacity`,
`shared_counters` and `expressions` (CEL) deciding about each; `allocation_results` writes what was found. `pod_claims`
and `extended_resources` find the claims of a pod, `device_demand` what they ask for, and `device_search` puts all of it
together for `filter`, `score` and `reserve`.

Source: pkg/scheduler/framework/plugins/dynamicresources and k8s.io/dynamic-resource-allocation of Kubernetes 1.37.
"""
