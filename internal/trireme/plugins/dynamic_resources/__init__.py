"""DynamicResources: devices are given to claims, and pods go where their claims' devices are.

`inventory` reads slices, classes and taint rules into devices and pools; `ledger` knows which devices are taken;
`allocator` searches devices for claims on one node, with `constraints`, `capacity` and `expressions` (CEL) deciding
about each; `results` writes down what was found. `pod_claims` and `extended` find the claims of a pod, `device_search`
puts all of it together for `filter`, `score` and `reserve`.

Source: pkg/scheduler/framework/plugins/dynamicresources and k8s.io/dynamic-resource-allocation of Kubernetes 1.37.
"""
