"""A plugin's description: each field that is wrong is named with the values that it may have."""

from typing import Any

import pytest

from trireme.framework import cluster_event
from trireme.plugin_api import plugin_info_validation
from trireme.v1 import plugin_pb2

FILTER = plugin_pb2.EXTENSION_POINT_FILTER
SCORE = plugin_pb2.EXTENSION_POINT_SCORE
NORMALIZE = plugin_pb2.EXTENSION_POINT_NORMALIZE_SCORE


def info(**fields: Any) -> plugin_pb2.PluginInfo:
    """A filter plugin."""
    return plugin_pb2.PluginInfo(**{"name": "P", "extension_points": [FILTER], **fields})


def events(resource: str, *actions: str) -> dict[str, Any]:
    """One registered event."""
    return {"events_to_register": [plugin_pb2.ClusterEvent(resource=resource, actions=actions)]}


WRONG = {
    "no point": (
        {"extension_points": []},
        "extension_points: there is none; allowed: PRE_ENQUEUE (1), QUEUE_SORT (2), ",
    ),
    "unset point": (
        {"extension_points": [FILTER, 0]},
        "extension_points[1]: 0 is not known here; allowed: PRE_ENQUEUE (1), ",
    ),
    "unknown point": ({"extension_points": [99]}, "extension_points[0]: 99 is not known here; allowed: "),
    "node data": (
        {"node_data": 9},
        "node_data: 9 is not known here; allowed: NAMES (1), MESSAGES (2), JSON (3), SNAPSHOT (4)",
    ),
    "dependency": (
        {"depends_on": 9},
        "depends_on: 9 is not known here; allowed: NODE (1), NODE_PODS (2), CLUSTER (3)",
    ),
    "normalization": (
        {"normalization": 9},
        "normalization: 9 is not known here; allowed: NONE (1), MAX (2), MAX_REVERSED (3), CUSTOM (4)",
    ),
    "normalization without score": (
        {"normalization": plugin_pb2.NORMALIZATION_MAX},
        "normalization: MAX is for plugins with the extension point score; allowed: NONE",
    ),
    "normalization that is never called": (
        {"extension_points": [SCORE, NORMALIZE], "normalization": plugin_pb2.NORMALIZATION_MAX},
        "normalization: MAX with the extension point normalizeScore, which is never called then; allowed: CUSTOM",
    ),
    "normalization that nobody serves": (
        {"extension_points": [SCORE], "normalization": plugin_pb2.NORMALIZATION_CUSTOM},
        "extension_points: normalizeScore is missing, which normalization: CUSTOM calls; add it, or declare another",
    ),
    "resource": (
        events("Nodes", "Add"),
        "events_to_register[0].resource: Unsupported value: 'Nodes': supported values: Pod, AssignedPod, "
        "UnscheduledPod, TargetPod, Node, ",
    ),
    "action": (
        events("Node", "Added"),
        "events_to_register[0].actions: Unsupported value: 'Added': supported values: Add, Delete, "
        "UpdateNodeAllocatable, ",
    ),
    "action of pods": (
        events("Node", "UpdatePodLabel"),
        "events_to_register[0].actions: Unsupported value: 'UpdatePodLabel': supported values: Add, Delete, ",
    ),
    "action of nodes": (
        events("storage.k8s.io/CSINode", "UpdateNodeLabel"),
        "events_to_register[0].actions: Unsupported value: 'UpdateNodeLabel': supported values: Add, Delete, Update, "
        "All",
    ),
    "no action": (events("Node"), "events_to_register[0].actions: Required value"),
    "events of a plugin that only scores": (
        {"extension_points": [SCORE], **events("Node", "Add")},
        "events_to_register: no event can help a pod of this plugin, because it cannot refuse one; only plugins "
        "with one of these extension points may register events: preEnqueue, preFilter, filter, reserve, permit, "
        "placementFeasible",
    ),
    "pod field": ({"pod_fields": ["spec.nope"]}, "pod_fields: spec.nope: "),
    "feature of a newer contract": (
        {"required_features": ["idempotent", "time-travel"]},
        "required_features[1]: time-travel is not known to this scheduler, which has: idempotent, placement-feasible, ",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_fields_are_named_with_the_allowed_values(case: str) -> None:
    """If this fails, a plugin's author guesses, or the scheduler ends with a traceback."""
    fields, words = WRONG[case]
    with pytest.raises(ValueError, match=": ") as caught:
        plugin_info_validation.check_plugin_info(info(**fields))
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        events("Node", "Add", "UpdateNodeLabel"),
        events("Pod", "Update"),
        events("TargetPod", "UpdatePodLabel"),
        events("*", "All"),
        {"extension_points": [SCORE], "normalization": plugin_pb2.NORMALIZATION_MAX_REVERSED},
        {"extension_points": [SCORE, NORMALIZE], "normalization": plugin_pb2.NORMALIZATION_CUSTOM},
        {"required_features": ["required-features"]},
    ],
    ids=["plain", "node", "pod", "target pod", "everything", "normalization", "own normalization", "a known feature"],
)
def test_valid_plugin_info_is_accepted(fields: dict[str, Any]) -> None:
    """If this fails, a good plugin keeps the scheduler from starting."""
    plugin_info_validation.check_plugin_info(info(**fields))


@pytest.mark.parametrize("resource", list(cluster_event.Resource))
def test_every_resource_has_the_common_actions(resource: cluster_event.Resource) -> None:
    """If this fails, a plugin cannot register for an object that the scheduler watches."""
    for action in ("Add", "Delete", "Update", "All"):
        assert cluster_event.parse(resource, [action]).resource == resource
