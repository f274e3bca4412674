"""NodeDeclaredFeatures: a pod goes only where the kubelet can do what the pod needs."""

from typing import Any

import numpy as np
import pytest

from tests.helpers import snapshot_views
from trireme.cache import pod_projection
from trireme.plugin_api import interfaces
from trireme.plugins.node_declared_features import filter as node_declared_features
from trireme.snapshot import classes, snapshot
from trireme.v1 import core_pb2, snapshot_pb2

Json = dict[str, Any]

RESTART = node_declared_features.RESTART_ALL_CONTAINERS
NAMESPACES = node_declared_features.USER_NAMESPACES_HOST_NETWORK
MOUNTS = node_declared_features.BIND_MOUNT_OPTIONS

_RULES = {"restartPolicyRules": [{"action": "RestartAllContainers"}]}
_MOUNTED = {"volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}]}

NEEDS = [
    pytest.param({"containers": [{"name": "c"} | _RULES]}, {RESTART}, id="restart-rule"),
    pytest.param({"initContainers": [{"name": "c"} | _RULES]}, {RESTART}, id="restart-rule-of-an-init-container"),
    pytest.param({"hostNetwork": True, "hostUsers": False}, {NAMESPACES}, id="host-network-without-host-users"),
    pytest.param({"hostNetwork": True, "hostUsers": True}, set(), id="host-network-with-host-users"),
    pytest.param({"hostNetwork": True}, set(), id="host-network"),
    pytest.param({"hostUsers": False}, set(), id="own-users"),
    pytest.param({"containers": [{"name": "c"} | _MOUNTED]}, {MOUNTS}, id="bind-mount-options"),
    pytest.param({"ephemeralContainers": [{"name": "c"} | _MOUNTED]}, {MOUNTS}, id="of-an-ephemeral-container"),
    pytest.param({}, set(), id="nothing"),
]


def _class(spec: Json) -> classes.PodClass:
    """As the class of such a pod comes from the frontend."""
    metadata = {"namespace": "default", "name": "p", "uid": "p"}
    full = {"containers": [{"name": "c"}], **spec}
    parsed = pod_projection.parse({"metadata": metadata, "spec": full})
    return classes.PodClass(1, core_pb2.Pod.FromString(parsed.base))


def _verdicts(spec: Json, declared: list[list[str]], enabled: bool = True) -> list[str] | None:
    """The verdicts on nodes that declare these features; None where the plugin is skipped."""
    snap = snapshot.Snapshot()
    entries = [
        snapshot_pb2.NodeEntry(slot=slot, node=snapshot_views.node_of(f"n{slot}", features=features))
        for slot, features in enumerate(declared)
    ]
    snap.apply(snapshot_pb2.Delta(reset=True, to_generation=1, nodes=entries))
    plugin = node_declared_features.NodeDeclaredFeatures(enabled)
    table = interfaces.StatusTable()
    pod_class = _class(spec)
    prepared = plugin.pre_filter(pod_class, snap, table)
    if prepared.skip:
        return None
    verdicts = plugin.filter(pod_class, snap, prepared.state, np.arange(len(declared)), table)
    return [table.statuses[number - 1].message if number else "" for number in verdicts.index.tolist()]


@pytest.mark.parametrize(("spec", "needed"), NEEDS)
def test_required_features_must_be_declared_by_the_node(spec: Json, needed: set[str]) -> None:
    """A pod that starts where the kubelet does not know what it asks for runs otherwise than it says."""
    said = _verdicts(spec, [[], sorted(needed), [*sorted(needed), "Other"]])
    refused = "node(s) didn't match Pod's required features"
    assert said == ([refused, "", ""] if needed else None)


def test_without_the_gate_nothing_is_refused() -> None:
    """A gate that is off must leave pods where they were scheduled before."""
    assert _verdicts({"hostNetwork": True, "hostUsers": False}, [[]], enabled=False) is None
