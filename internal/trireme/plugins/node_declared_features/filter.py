"""NodeDeclaredFeatures: a node must declare the kubelet's features that a pod needs.

Decided once per distinct set of declared features; a cluster has a few.
"""

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.plugins.node_declared_features.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot_view
from trireme.v1 import core_pb2

_REASON = "node(s) didn't match Pod's required features"

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
BIND_MOUNT_OPTIONS = "VolumeBindMountOptions"


class NodeDeclaredFeatures:
    """The filter of NodeDeclaredFeatures: refuses nodes that do not declare a feature that the pod needs."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    ignores_requests: Literal[True] = True
    ignores_node_affinity: Literal[True] = True
    reads: tuple[str, ...] = ()

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """State: the features that the class needs; without any there is nothing to filter."""
        needed = pod_class.memo(self.name, lambda of: needed_features(of.pod))
        if not self._enabled or not needed:
            return interfaces.SKIPPED
        return interfaces.PreFilterResult(state=needed)

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots whose node lacks a feature."""
        needed: frozenset[str] = state
        reason = status.Reason.of("declaredFeatures", {"needed": ",".join(sorted(needed))})
        refusal = table.intern(status.unresolvable(self.name, _REASON, reasons=(reason,)))
        declared = [frozenset[str](), *snap.nodes.feature_sets.values_from(1)]
        by_set = np.array([interfaces.PASSES if needed <= each else refusal for each in declared], dtype=np.int16)
        return interfaces.Verdicts(by_set[snap.nodes.feature_set[slots]])


def needed_features(pod: core_pb2.Pod) -> frozenset[str]:
    """The features that the pod needs of its node."""
    return frozenset(_iterate_needed_features(pod))


def _iterate_needed_features(pod: core_pb2.Pod) -> Iterable[str]:
    """Yield the features that the pod needs by its restart rules, host users and mount options."""
    spec = pod.spec
    containers = (*spec.containers, *spec.init_containers)
    if any(rule.action == "RestartAllContainers" for each in containers for rule in each.restart_policy_rules):
        yield RESTART_ALL_CONTAINERS
    if spec.host_network and spec.HasField("host_users") and not spec.host_users:
        yield USER_NAMESPACES_HOST_NETWORK
    mounts = [mount for each in containers for mount in each.volume_mounts]
    mounts += [mount for each in spec.ephemeral_containers for mount in each.ephemeral_container_common.volume_mounts]
    if any(mount.bind_mount_options for mount in mounts):
        yield BIND_MOUNT_OPTIONS


def make(context: plugin_context.PluginContext) -> NodeDeclaredFeatures:
    """Make the plugin, by the feature gates."""
    return NodeDeclaredFeatures(context.features.get("NodeDeclaredFeatures", True))
