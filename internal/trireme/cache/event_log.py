"""Log lines about informers' events: nodes that come and go, and from -v=3 on every event, in kube-scheduler's words.

Separate from the event handlers, which check once for a batch whether any line is needed.

Source: pkg/scheduler/eventhandlers.go, pkg/scheduler/backend/cache/node_tree.go.
"""

import logging

from trireme.v1 import core_pb2
from trireme_kube.apimachinery import well_known_labels
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)

_ADD_DELETE, _UPDATE = 3, 4

_ZONE_LABELS = (well_known_labels.BETA_ZONE, well_known_labels.ZONE)
_REGION_LABELS = (well_known_labels.BETA_REGION, well_known_labels.REGION)


def logs_each_event() -> bool:
    """Whether events are logged one by one."""
    return klog.enabled(log, _ADD_DELETE)


def node_changed(before: core_pb2.Node | None, node: core_pb2.Node) -> None:
    """Log a new or changed node."""
    if before is None:
        klog.info(log, _ADD_DELETE, "Add event for node", node=klog.Ref(node.metadata.name))
        _log_node_tree_change("Added node to NodeTree", node)
        return
    klog.info(log, _UPDATE, "Update event for node", node=klog.Ref(node.metadata.name))
    if klog.enabled(log, 2) and _region_and_zone(before) != _region_and_zone(node):
        _log_node_tree_change("Removed node from NodeTree", before)
        _log_node_tree_change("Added node to NodeTree", node)


def node_deleted(node: core_pb2.Node) -> None:
    """Log a deleted node."""
    klog.info(log, _ADD_DELETE, "Delete event for node", node=klog.Ref(node.metadata.name))
    _log_node_tree_change("Removed node from NodeTree", node)


def pod_changed(key: str, has_node: bool, was_pending: bool, was_placed: bool) -> None:
    """Log a listed, added or changed pod."""
    pod = klog.Ref(key)
    if not has_node:
        if was_pending:
            klog.info(log, _UPDATE, "Update event for unscheduled pod", pod=pod)
        else:
            klog.info(log, _ADD_DELETE, "Add event for unscheduled pod", pod=pod)
    elif was_placed:
        klog.info(log, _UPDATE, "Update event for scheduled pod", pod=pod)
    else:
        klog.info(log, _ADD_DELETE, "Add event for scheduled pod", pod=pod)
        if was_pending:
            klog.info(log, _ADD_DELETE, "Delete event for unscheduled pod", pod=pod)


def pod_deleted(key: str, was_pending: bool) -> None:
    """Log a deleted pod."""
    which = "unscheduled" if was_pending else "scheduled"
    klog.info(log, _ADD_DELETE, f"Delete event for {which} pod", pod=klog.Ref(key))


def _log_node_tree_change(message: str, node: core_pb2.Node) -> None:
    """Log what kube-scheduler logs of its tree of nodes by zone, which Trireme does not have."""
    if klog.enabled(log, 2):
        klog.info(log, 2, message, node=klog.Ref(node.metadata.name), zone=_region_and_zone(node))


def _region_and_zone(node: core_pb2.Node) -> str:
    """Region and zone, as kube-scheduler joins them; empty where the node has neither."""
    labels = node.metadata.labels
    region, zone = (next((labels[key] for key in keys if key in labels), "") for keys in (_REGION_LABELS, _ZONE_LABELS))
    return f"{region}:\x00:{zone}" if region or zone else ""
