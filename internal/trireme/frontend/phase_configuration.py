"""The configuration that filter, score and bind receive, and its hash.

Also change: internal/trireme/config/service_tls.py (its fields).

Tests: tests/unit/frontend/test_phase_configuration.py, tests/contract/test_plugin_monitor.py.
"""

import hashlib
from collections.abc import Mapping, Sequence

from trireme.config import (
    commandline,
    remote_plugin_settings,
    scheduler_configuration,
    service_tls,
    trireme_configuration,
)
from trireme.framework import canaries, release
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_api import plugin_info_validation
from trireme.scheduling import profile_roles
from trireme.v1 import plugin_pb2, snapshot_pb2

POINTS: Mapping[ExtensionPoint, plugin_pb2.ExtensionPoint.ValueType] = {
    ExtensionPoint.PRE_ENQUEUE: plugin_pb2.EXTENSION_POINT_PRE_ENQUEUE,
    ExtensionPoint.QUEUE_SORT: plugin_pb2.EXTENSION_POINT_QUEUE_SORT,
    ExtensionPoint.PRE_FILTER: plugin_pb2.EXTENSION_POINT_PRE_FILTER,
    ExtensionPoint.FILTER: plugin_pb2.EXTENSION_POINT_FILTER,
    ExtensionPoint.POST_FILTER: plugin_pb2.EXTENSION_POINT_POST_FILTER,
    ExtensionPoint.PRE_SCORE: plugin_pb2.EXTENSION_POINT_PRE_SCORE,
    ExtensionPoint.SCORE: plugin_pb2.EXTENSION_POINT_SCORE,
    ExtensionPoint.RESERVE: plugin_pb2.EXTENSION_POINT_RESERVE,
    ExtensionPoint.PERMIT: plugin_pb2.EXTENSION_POINT_PERMIT,
    ExtensionPoint.PRE_BIND: plugin_pb2.EXTENSION_POINT_PRE_BIND,
    ExtensionPoint.BIND: plugin_pb2.EXTENSION_POINT_BIND,
    ExtensionPoint.POST_BIND: plugin_pb2.EXTENSION_POINT_POST_BIND,
    ExtensionPoint.PLACEMENT_FEASIBLE: plugin_pb2.EXTENSION_POINT_PLACEMENT_FEASIBLE,
}

# The name of the feature, in contract_features.
_PLACEMENT_FEASIBLE = "placement-feasible"

_FAILURE_POLICIES = {
    "Fail": snapshot_pb2.FAILURE_POLICY_FAIL,
    "Ignore": snapshot_pb2.FAILURE_POLICY_IGNORE,
}


def make_configuration(
    completed: commandline.CompletedConfig, infos: Mapping[str, plugin_pb2.PluginInfo]
) -> snapshot_pb2.Configuration:
    """Build the message that the phases get.

    `infos` are the descriptions of the remote plugins that take part, by name; other remote plugins are left out.
    """
    missing = frozenset(plugin.name for plugin in completed.trireme.remote_plugins if plugin.name not in infos)
    return snapshot_pb2.Configuration(
        profiles=[profile_message(profile, missing) for profile in completed.profiles],
        feature_gates=completed.gates.for_phases(),
        remote_plugins=[
            remote_plugin(
                plugin,
                completed.trireme.tls,
                infos.get(plugin.name),
                plugin_configurations(completed, plugin.name),
                completed.discovered.targets(plugin.endpoints),
            )
            for plugin in completed.trireme.remote_plugins
            if plugin.name in infos
        ],
        column_cache_classes=completed.trireme.column_cache_classes,
        release=release.TRIREME,
        self_check_off=completed.trireme.insight.self_check == trireme_configuration.OFF,
    )


def config_hash(message: snapshot_pb2.Configuration) -> int:
    """A number that identifies the configuration. Range: fixed64, never 0."""
    digest = hashlib.blake2b(message.SerializeToString(deterministic=True), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


def profile_message(profile: scheduler_configuration.CompletedProfile, missing: frozenset[str]) -> snapshot_pb2.Profile:
    """Build a profile's message: its plugins by extension point with their weights, and their arguments.

    Left out are the plugins of `missing` (remote ones that do not take part) and, at Permit, those that the frontend
    itself answers for.
    """
    message = snapshot_pb2.Profile(
        scheduler_name=profile.scheduler_name,
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
    )
    for point, number in POINTS.items():
        excluded = missing | profile_roles.OWN_PERMIT if point is ExtensionPoint.PERMIT else missing
        plugins = [plugin for plugin in profile.plugins.get(point, ()) if plugin.name not in excluded]
        if plugins:
            entry = message.plugin_sets.add(extension_point=number)
            for plugin in plugins:
                entry.plugins.add(name=plugin.name, weight=plugin.weight)
    for name in (name for name in profile.all_names() if name not in missing):
        message.plugin_args.add(name=name, args_json=profile.args_json(name))
    return message


def plugin_configurations(completed: commandline.CompletedConfig, plugin: str) -> list[plugin_pb2.ConfigureRequest]:
    """The remote plugin's configuration for each profile that names it, without the configuration's hash."""
    return [
        plugin_pb2.ConfigureRequest(
            plugin=canaries.served_name(plugin),
            profile=profile.scheduler_name,
            args_json=profile.args_json(plugin),
            feature_gates=completed.gates.all(),
        )
        for profile in completed.profiles
        if plugin in profile.all_names()
    ]


def remote_plugin(
    plugin: remote_plugin_settings.RemotePlugin,
    between_services: service_tls.TLS,
    info: plugin_pb2.PluginInfo | None = None,
    configurations: Sequence[plugin_pb2.ConfigureRequest] = (),
    targets: Sequence[str] = (),
) -> snapshot_pb2.RemotePlugin:
    """How to reach, at these addresses, and configure a plugin.

    Without TLS settings of its own, those between the services apply.
    """
    message = snapshot_pb2.RemotePlugin(
        name=plugin.name,
        endpoints=targets,
        deadline_ms=max(1, round(plugin.deadline.seconds * 1000)),
        failure_policy=_FAILURE_POLICIES[plugin.failure_policy],
        breaker_failures=plugin.circuit_breaker.failures,
        breaker_open_ms=round(plugin.circuit_breaker.open_for.seconds * 1000),
        info=None if info is None else _without_placement_feasible(info),
        configurations=configurations,
        shadow=plugin.compared_only,
        hedging=plugin.hedging,
        budget_ms_per_second=round(plugin.budget_per_second.seconds * 1000),
    )
    tls = between_services if plugin.tls is None else plugin.tls
    if tls.enabled:
        message.tls.CopyFrom(
            snapshot_pb2.RemotePluginTls(
                ca_file=tls.ca_file,
                certificate_file=tls.cert_file,
                private_key_file=tls.key_file,
                allowed_identities=tls.allowed_identities,
            )
        )
    return message


def _without_placement_feasible(info: plugin_pb2.PluginInfo) -> plugin_pb2.PluginInfo:
    """The description without the extension point that no phase calls, and without the feature that it is.

    Phases of release 0.1.0 refuse both. A plugin that has no other point keeps them: no phase looks at its description.
    """
    points = [point for point in info.extension_points if point != plugin_pb2.EXTENSION_POINT_PLACEMENT_FEASIBLE]
    if not points or len(points) == len(info.extension_points):
        return info
    out = plugin_pb2.PluginInfo()
    out.CopyFrom(info)
    out.extension_points[:] = points
    out.required_features[:] = [name for name in info.required_features if name != _PLACEMENT_FEASIBLE]
    if plugin_info_validation.REFUSING.isdisjoint(points):
        # Events of a plugin that cannot refuse are refused as well; the queue has them from the handshake.
        out.ClearField("events_to_register")
    return out
