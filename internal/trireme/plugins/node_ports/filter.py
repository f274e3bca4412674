"""NodePorts: two pods on one node cannot have the same host port.

Ports in use are not kept per node: the classes whose ports clash with the asking class are few, and their pods are
counted per slot from the pod table.

kube-scheduler keeps a set of ports per node. Where two pods on a node have the same one (nobody schedules them so, but
who binds pods by hand may), it is free there as soon as one of them goes: preemption's dry run shows that.

Tests: tests/unit/plugins/test_node_ports.py, tests/unit/evaluation/test_overlay_verdicts.py.
"""

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from trireme.framework import pod_takings, status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.plugins.node_ports.spec import SPEC
from trireme.snapshot import arrays, classes, labelled_classes, pod_overlay, snapshot_view

_REASON = "node(s) didn't have free ports for the requested pod ports"
_ANY = "0.0.0.0"


def ports_conflict(wanted: pod_takings.Port, used: pod_takings.Port) -> bool:
    """Return whether a port in use excludes a wanted one: same number and protocol, and the addresses overlap."""
    same_port = wanted[1:] == used[1:]
    return same_port and (wanted[0] == used[0] or _ANY in (wanted[0], used[0]))


class NodePorts:
    """The filter of NodePorts: refuses nodes where a host port of the pod is in use."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE_PODS
    ignores_requests: Literal[True] = True
    ignores_node_affinity: Literal[True] = True
    reads: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._refusal = status.unschedulable(self.name, _REASON, reasons=(status.Reason("hostPort"),))

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Only a pod with host ports needs to be filtered."""
        return interfaces.PreFilterResult(skip=not pod_class.host_ports)

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots that have a pod of a clashing class. Where the ports are free, one copy fits."""
        wanted = pod_class.host_ports
        clashing: dict[pod_takings.Port, list[int]] = {}
        labels = [_label(port) for port in wanted]
        for other in labelled_classes.classes_found_by(snap.base, "host_ports", _labels_of_class, labels):
            for used in other.host_ports:
                if any(ports_conflict(port, used) for port in wanted):
                    clashing.setdefault(used, []).append(other.id)
        if snap.dry_run is None:
            chosen = snap.class_mask(sorted({each for ids in clashing.values() for each in ids}))
            taken = snap.count_pods(chosen) > 0
        else:
            taken = np.zeros(snap.nodes.size, dtype=np.bool_)
            for ids in clashing.values():
                taken |= _slots_with_pod_of_classes(snap.dry_run, snap, snap.class_mask(ids))
        taken = taken[slots]
        index = np.where(taken, table.intern(self._refusal), interfaces.PASSES).astype(np.int16)
        return interfaces.Verdicts(index, np.ones(slots.shape[0], dtype=np.int32))


def _labels_of_class(pod_class: classes.PodClass) -> Iterable[labelled_classes.Label]:
    """What the class is found by: its host ports, whatever their addresses."""
    return {_label(port) for port in pod_class.host_ports}


def _label(port: pod_takings.Port) -> labelled_classes.Label:
    return port[1], str(port[2])


def _slots_with_pod_of_classes(
    changes: pod_overlay.OverlaidPods, snap: snapshot_view.SnapshotView, having: arrays.BoolArray
) -> arrays.BoolArray:
    """Mark the slots with a pod of these classes, by the dry run's state. Shapes: having (class,), result (slot,)."""
    taken = snap.count_pods(having) > 0
    taken[changes.slots_with_removed(having)] = False
    taken[changes.slots_with_added(having)] = True
    return taken


def make(context: plugin_context.PluginContext) -> NodePorts:
    """Make the plugin, which depends on nothing in its profile."""
    return NodePorts()
