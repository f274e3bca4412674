"""The plugin lists of a profile: what is enabled and disabled at each extension point, and the arguments.

A working copy that the conversions change in place. It preserves the order of enabled plugins, which matters; a plugin
is at a point at most once.

Tests: tests/unit/config_convert/test_policies.py, tests/unit/config_convert/test_versions.py.
"""

from dataclasses import dataclass, field
from typing import Any

from trireme.config.scheduler_configuration import MULTI_POINT
from trireme.config_convert.reading import ConversionError, Note, Reader
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry import legacy
from trireme.registry.in_tree import IN_TREE

ALL = "*"
POINTS = (MULTI_POINT, *(point.value for point in ExtensionPoint))

FILTER, SCORE, PRE_SCORE = "filter", "score", "preScore"


@dataclass(slots=True)
class PluginSet:
    """The plugins at one extension point."""

    #: Plugin → weight, in order.
    enabled: dict[str, int | None] = field(default_factory=dict)
    disabled: list[str] = field(default_factory=list)

    @property
    def disables_all_defaults(self) -> bool:
        """Whether no default plugin runs."""
        return ALL in self.disabled

    def runs_default(self, name: str) -> bool:
        """Whether a default plugin runs."""
        return name in self.enabled or not (self.disables_all_defaults or name in self.disabled)

    def enable(self, name: str, weight: int | None = None) -> None:
        """Enable a plugin unless it is enabled already."""
        self.enabled.setdefault(name, weight)
        if name in self.disabled:
            self.disabled.remove(name)

    def disable(self, name: str) -> None:
        """Disable a default plugin."""
        if not self.disables_all_defaults and name not in self.disabled:
            self.disabled.append(name)

    def drop(self, name: str) -> bool:
        """Drop every mention of a plugin; return whether it was enabled."""
        if name in self.disabled:
            self.disabled.remove(name)
        if name not in self.enabled:
            return False
        del self.enabled[name]
        return True

    def document(self) -> dict[str, Any]:
        """The set in `v1` form."""
        written: dict[str, Any] = {}
        if self.enabled:
            written["enabled"] = [
                {"name": name} if weight is None else {"name": name, "weight": weight}
                for name, weight in self.enabled.items()
            ]
        if self.disabled:
            written["disabled"] = [{"name": name} for name in self.disabled]
        return written


@dataclass(slots=True)
class Plugins:
    """All lists of a profile, and the arguments."""

    sets: dict[str, PluginSet] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)

    def at(self, point: str) -> PluginSet:
        """The plugins at a point."""
        return self.sets.setdefault(point, PluginSet())

    def names(self) -> list[str]:
        """All plugins enabled at any point, without duplicates."""
        return list(dict.fromkeys(name for plugins in self.sets.values() for name in plugins.enabled))

    def args_of(self, name: str) -> dict[str, Any]:
        """A plugin's arguments, for modification."""
        args: dict[str, Any] = self.args.setdefault(name, {})
        return args

    def take_args(self, name: str) -> dict[str, Any]:
        """Remove and return a plugin's arguments."""
        args: dict[str, Any] = self.args.pop(name, None) or {}
        return args

    def drop(self, name: str) -> list[str]:
        """Drop every mention of a plugin; return where it was enabled."""
        self.args.pop(name, None)
        return [point for point, plugins in self.sets.items() if plugins.drop(name)]

    def document(self) -> dict[str, Any]:
        """Lists and arguments in `v1` form."""
        written: dict[str, Any] = {}
        lists = {point: self.sets[point].document() for point in POINTS if point in self.sets}
        if any(lists.values()):
            written["plugins"] = {point: plugins for point, plugins in lists.items() if plugins}
        if self.args:
            written["pluginConfig"] = [{"name": name, "args": args} for name, args in self.args.items()]
        return written


def read(profile: Reader, notes: list[Note]) -> Plugins:
    """Read `plugins` and `pluginConfig` of an old object, unconverted."""
    plugins = Plugins()
    lists = profile.reader("plugins")
    if lists is not None:
        for point in (*POINTS, "unreserve"):
            plugin_set = lists.reader(point)
            if plugin_set is not None:
                plugins.sets[point] = _read_plugin_set(plugin_set, notes)
        notes.extend(lists.unknown())
    for config in profile.readers("pluginConfig") or []:
        name = config.text("name")
        args = config.take("args")
        notes.extend(config.unknown())
        if name in plugins.args:
            raise ConversionError(f"{config.path}: {name} was configured before")
        plugins.args[name] = args
        if name in IN_TREE or name in legacy.REMOVED_PLUGINS or name in legacy.STRATEGIES:
            plugins.args[name] = _args_without_type(config, args)
    return plugins


def _args_without_type(config: Reader, args: Any) -> dict[str, Any]:
    """The arguments of a plugin, without version and kind. Raises: ConversionError: they are no object."""
    if not isinstance(args, dict | None):
        raise ConversionError(f"{config.at('args')}: must be an object")
    return {name: value for name, value in (args or {}).items() if name not in ("apiVersion", "kind")}


def _read_plugin_set(value: Reader, notes: list[Note]) -> PluginSet:
    """Read the plugins enabled and disabled at a point; unread fields become notes."""
    plugins = PluginSet()
    for plugin in value.readers("enabled") or []:
        plugins.enabled[plugin.text("name")] = plugin.integer("weight")
        notes.extend(plugin.unknown())
    for plugin in value.readers("disabled") or []:
        plugins.disabled.append(plugin.text("name"))
        plugin.take("weight")
        notes.extend(plugin.unknown())
    notes.extend(value.unknown())
    return plugins
