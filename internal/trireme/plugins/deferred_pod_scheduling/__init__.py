"""DeferredPodScheduling: makes room for a running pod whose resize is deferred, on its own node."""
