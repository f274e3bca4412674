"""Whether a plugin describes itself in terms that the scheduler knows.

Every text names the field of PluginInfo that is wrong and the values that it may have, because the plugin's author
reads it.

Also change: docs/declared-dependencies.md.
Also change: docs/extension-points.md.
Also change: protos/trireme/v1/plugin.proto (the messages).

Tests: tests/unit/plugin_api/test_plugin_info_validation.py, tests/contract/test_plugin_monitor.py.
"""

from collections.abc import Iterable
from typing import Any

from trireme.framework import cluster_event
from trireme.plugin_api import contract_features, pod_fields
from trireme.v1 import plugin_pb2

#: Where a plugin may refuse a pod, which then waits for an event.
#: Source: shouldHaveEnqueueExtensions in pkg/scheduler/framework/runtime/framework.go; kube-scheduler ignores the
#: events of other plugins, here they are an error.
REFUSING = frozenset(
    {
        plugin_pb2.EXTENSION_POINT_PRE_ENQUEUE,
        plugin_pb2.EXTENSION_POINT_PRE_FILTER,
        plugin_pb2.EXTENSION_POINT_FILTER,
        plugin_pb2.EXTENSION_POINT_RESERVE,
        plugin_pb2.EXTENSION_POINT_PERMIT,
        plugin_pb2.EXTENSION_POINT_PLACEMENT_FEASIBLE,
    }
)

_PREFIXES = {
    "extension_points": (plugin_pb2.ExtensionPoint, "EXTENSION_POINT_"),
    "node_data": (plugin_pb2.NodeData, "NODE_DATA_"),
    "depends_on": (plugin_pb2.Dependency, "DEPENDENCY_"),
    "normalization": (plugin_pb2.Normalization, "NORMALIZATION_"),
}


def check_plugin_info(info: plugin_pb2.PluginInfo) -> None:
    """Check a remote plugin's description (extension points, events, enums, pod fields), as of a handshake.

    Raises:
        ValueError: names the field that is wrong, and the allowed values.
    """
    for at, point in enumerate(info.extension_points):
        _check_enum_value(f"extension_points[{at}]", "extension_points", point, unset=False)
    check_configured_info(info)
    if info.events_to_register and not REFUSING.intersection(info.extension_points):
        raise ValueError(
            "events_to_register: no event can help a pod of this plugin, because it cannot refuse one; "
            f"only plugins with one of these extension points may register events: {_extension_point_names(REFUSING)}"
        )
    for at, event in enumerate(info.events_to_register):
        try:
            cluster_event.parse(event.resource, event.actions)
        except ValueError as error:
            raise ValueError(f"events_to_register[{at}].{error}") from error


def check_configured_info(info: plugin_pb2.PluginInfo) -> None:
    """Check what a phase reads of a description that the frontend has accepted: all but its events.

    A frontend of a later release may know extension points, and events, that this one does not: nothing here calls
    the plugin for them.

    Raises:
        ValueError: as check_plugin_info.
    """
    if not info.extension_points:
        raise ValueError(f"extension_points: there is none; allowed: {_allowed_enum_values('extension_points')}")
    _check_enum_value("node_data", "node_data", info.node_data)
    _check_enum_value("depends_on", "depends_on", info.depends_on)
    _check_enum_value("normalization", "normalization", info.normalization)
    _check_normalization(info)
    pod_fields.PodFields(info.pod_fields)
    for at, feature in enumerate(info.required_features):
        if feature not in contract_features.FEATURES:
            raise ValueError(
                f"required_features[{at}]: {feature} is not known to this scheduler, which has: "
                f"{', '.join(sorted(contract_features.FEATURES))}; update the scheduler, "
                "or run an older version of the plugin"
            )


def normal_form(info: plugin_pb2.PluginInfo) -> plugin_pb2.PluginInfo:
    """The description as far as it decides how the plugin is called and what it answers: equal if both are the same.

    Lists are sorted and without duplicates, and what is unset has its default. The version stays, because cached
    answers hold for it alone. `info` is one that `check_plugin_info` accepts.
    """
    normal = plugin_pb2.PluginInfo()
    normal.CopyFrom(info)
    normal.DiscardUnknownFields()
    normal.extension_points[:] = sorted(set(info.extension_points))
    normal.pod_fields[:] = sorted(set(info.pod_fields))
    events = {(each.resource, tuple(sorted(set(each.actions))), each.hint) for each in info.events_to_register}
    normal.ClearField("events_to_register")
    for resource, actions, hint in sorted(events):
        normal.events_to_register.add(resource=resource, actions=actions, hint=hint)
    normal.node_data = info.node_data or plugin_pb2.NODE_DATA_NAMES
    normal.depends_on = info.depends_on or plugin_pb2.DEPENDENCY_CLUSTER
    normal.normalization = info.normalization or plugin_pb2.NORMALIZATION_NONE
    return normal


def point_name(point: plugin_pb2.ExtensionPoint.ValueType) -> str:
    """The extension point as profiles write it, e.g. preFilter."""
    words = plugin_pb2.ExtensionPoint.Name(point).removeprefix("EXTENSION_POINT_").lower().split("_")
    return words[0] + "".join(word.capitalize() for word in words[1:])


def _extension_point_names(points: Iterable[plugin_pb2.ExtensionPoint.ValueType]) -> str:
    return ", ".join(point_name(point) for point in sorted(points))


def _check_enum_value(path: str, field: str, value: int, *, unset: bool = True) -> None:
    """Raises: ValueError if the value is unknown, or unset where it may not be."""
    enum_type, _ = _PREFIXES[field]
    if value not in enum_type.values() or (not unset and value == 0):
        raise ValueError(f"{path}: {value} is not known here; allowed: {_allowed_enum_values(field)}")


def _allowed_enum_values(field: str) -> str:
    """The values of an enum that a plugin may use, for a message."""
    enum_type: Any
    enum_type, prefix = _PREFIXES[field]
    return ", ".join(f"{name.removeprefix(prefix)} ({number})" for name, number in enum_type.items() if number)


def _check_normalization(info: plugin_pb2.PluginInfo) -> None:
    """Raises: ValueError if normalization and the extension point normalizeScore do not fit together."""
    points = info.extension_points
    own = plugin_pb2.EXTENSION_POINT_NORMALIZE_SCORE in points
    if own and info.normalization != plugin_pb2.NORMALIZATION_CUSTOM:
        raise ValueError(
            f"normalization: {_normalization_name(info)} with the extension point normalizeScore, "
            "which is never called then; allowed: CUSTOM"
        )
    if not own and info.normalization == plugin_pb2.NORMALIZATION_CUSTOM and plugin_pb2.EXTENSION_POINT_SCORE in points:
        raise ValueError(
            "extension_points: normalizeScore is missing, which normalization: CUSTOM calls; add it, or declare "
            "another normalization: NONE, MAX or MAX_REVERSED"
        )
    none = info.normalization in (plugin_pb2.NORMALIZATION_UNSPECIFIED, plugin_pb2.NORMALIZATION_NONE)
    if not none and plugin_pb2.EXTENSION_POINT_SCORE not in points:
        raise ValueError(
            f"normalization: {_normalization_name(info)} is for plugins with the extension point score; allowed: NONE"
        )


def _normalization_name(info: plugin_pb2.PluginInfo) -> str:
    return plugin_pb2.Normalization.Name(info.normalization).removeprefix("NORMALIZATION_")
