"""The defaults of a KubeSchedulerConfiguration: what `scheduler_configuration` declares, the plugins, their arguments.

Works on decoded values (`strict_decoding`), in place, before they are converted; feature gates decide some of them. An
operator's lists are merged into the default plugins here; `profiles` later expands `multiPoint` over the extension
points.

Source: pkg/scheduler/apis/config/v1 of Kubernetes 1.37.

Tests: tests/unit/config/test_profiles.py.
"""

from collections.abc import Callable
from typing import Any

from trireme.config.gates import FeatureGates
from trireme.config.scheduler_configuration import MULTI_POINT, SchedulerConfiguration, args_schemas
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry import default_profile, in_tree_args
from trireme_kube.apimachinery import declaration, golang

#: Marks arguments that need no defaults.
SPELT_OUT = "spelt out"
DEFAULT_SCHEDULER_NAME = "default-scheduler"

Value = dict[str, Any]
Log = Callable[[str], None]


def set_defaults(value: Value, gates: FeatureGates, log: Log) -> None:
    """Fill in every default of a decoded KubeSchedulerConfiguration, in place, those of plugin arguments included.

    A single profile gets the default scheduler name; of several, each has to state its own.
    """
    if not value.get("profiles"):
        value["profiles"] = [{}]
    profiles: list[Value] = value["profiles"]
    if len(profiles) == 1:
        profiles[0].setdefault("schedulerName", DEFAULT_SCHEDULER_NAME)
    for profile in profiles:
        _set_profile_defaults(profile, gates, log)
    if value.get("enableProfiling") is False:
        value.setdefault("enableContentionProfiling", False)
    if gates.enabled("TopologyAwareWorkloadScheduling"):
        value.setdefault("percentageOfPlacementsToScore", 0)
    declaration.set_defaults(SchedulerConfiguration, value)


# Plugins.


def default_plugins(gates: FeatureGates) -> list[Value]:
    """The plugins of a profile without a plugin list, in order."""
    return [
        {"name": name} if weight is None else {"name": name, "weight": weight}
        for name, weight in default_profile.default_plugins(gates)
    ]


def _set_profile_defaults(profile: Value, gates: FeatureGates, log: Log) -> None:
    """Fill in the profile's plugins, and the arguments of each that takes some and is enabled or configured."""
    custom: Value = profile.get("plugins") or {}
    defaults: Value = {MULTI_POINT: {"enabled": default_plugins(gates)}}
    for point, names in default_profile.disabled_plugins(gates).items():
        defaults[point.value] = {"disabled": [{"name": name} for name in names]}
    if profile.get("plugins") is None:
        profile["plugins"] = defaults
    else:
        profile["plugins"] = {
            name: _merge_plugin_sets(defaults.get(name, {}), custom.get(name) or {}, log)
            for name in (MULTI_POINT, *(point.value for point in ExtensionPoint))
        }
    configs: list[Value] = profile.get("pluginConfig") or []
    for config in configs:
        if config.get("name", "") in args_schemas() and not config.get(SPELT_OUT):
            set_args_defaults(config["name"], config["args"], gates)
    configured = {config.get("name", "") for config in configs}
    configs.extend(
        {"name": name, "args": set_args_defaults(name, {}, gates)}
        for name in _enabled_names(profile["plugins"])
        if name not in configured and name in args_schemas()
    )
    profile["pluginConfig"] = configs


def _enabled_names(plugins: Value) -> list[str]:
    """The enabled plugins, sorted."""
    return sorted(
        {plugin.get("name", "") for plugin_set in plugins.values() for plugin in plugin_set.get("enabled") or ()}
    )


def _merge_plugin_sets(default: Value, custom: Value, log: Log) -> Value:
    """The plugin set of one extension point: the operator's merged into the default.

    A plugin that is enabled again replaces the default one in its place; others are appended; `*` disables every
    default. Disabled plugins stay listed, because they also keep `multiPoint` from adding them to this point.
    """
    disabled = [{"name": plugin.get("name", "")} for plugin in custom.get("disabled") or ()]
    disabled += default.get("disabled") or []
    off = {plugin["name"] for plugin in disabled}
    customs: list[Value] = custom.get("enabled") or []
    by_name = {plugin.get("name", ""): index for index, plugin in enumerate(customs)}
    enabled: list[Value] = []
    replaced: set[int] = set()
    if "*" not in off:
        for plugin in default.get("enabled") or ():
            name = plugin["name"]
            if name in off:
                continue
            if name in by_name:
                log(f'I "Default plugin is explicitly re-configured; overriding" plugin={golang.quote(name)}')
                plugin = customs[by_name[name]]
                replaced.add(by_name[name])
            enabled.append(plugin)
    enabled.extend(plugin for index, plugin in enumerate(customs) if index not in replaced)
    merged: Value = {}
    if enabled:
        merged["enabled"] = enabled
    if disabled:
        merged["disabled"] = disabled
    return merged


def set_args_defaults(plugin: str, value: Value, gates: FeatureGates) -> Value:
    """Fill in the defaults of a plugin's decoded arguments; return them."""
    plugin_args = in_tree_args.plugin_args().get(plugin)
    if plugin_args is not None:
        plugin_args.set_defaults(value, gates)
    return value
