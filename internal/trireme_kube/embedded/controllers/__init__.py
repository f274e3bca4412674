"""The parts of kube-controller-manager that matter to a scheduler, a module for each controller.

Each controller listens to the store and processes keys from a queue of its own; none scans all objects on a timer. They
write through the same registry as clients do, so their writes are observed, validated and defaulted alike.
"""
