"""Loads and makes what a process runs of the in-tree plugins, and nothing else of them.

Arguments come as the JSON of the configuration API with all defaults filled in; they were validated where the
configuration was read, so what is wrong with them here is a fault of the caller and named as such.

Tests: tests/unit/registry/test_registry.py.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from trireme.framework.plugin_spec import ExtensionPoint, LazyImport
from trireme.plugin_api import interfaces
from trireme.plugin_kit import device_resources, plugin_context
from trireme.registry import json_args
from trireme.registry.in_tree import IN_TREE

Features = Mapping[str, bool]

# Other plugins count devices too, and know nothing of the one that they belong to.
_DEVICE_COUNTS = LazyImport(".device_counts:make")


def preload(*points: ExtensionPoint) -> None:
    """Load what implements these extension points of all in-tree plugins."""
    for spec in IN_TREE.plugins.values():
        for point in points:
            if point in spec.implementations:
                spec.implementations[point].load(spec.package)


def plugins_ignoring_resizes() -> frozenset[str]:
    """The in-tree plugins that pass over a pod whose resize is deferred."""
    return frozenset(name for name, spec in IN_TREE.plugins.items() if spec.ignores_deferred_resizes)


def make(
    name: str,
    point: ExtensionPoint,
    args_json: bytes,
    features: Features,
    filters: Iterable[interfaces.FilterPlugin] = (),
) -> Any:
    """Make an in-tree plugin at an extension point, with the profile's arguments.

    None: it is not in-tree, does not implement the point, or depends on its filter and the profile has none.
    Raises: ValueError for bad arguments.
    """
    spec = IN_TREE.plugins.get(name)
    if spec is None or point not in spec.implementations:
        return None

    def device_counts() -> device_resources.DeviceCounts:
        """Make what counts devices; its plugin's modules are loaded only when it is needed."""
        made: device_resources.DeviceCounts = _DEVICE_COUNTS.load(IN_TREE["DynamicResources"].package)(features)
        return made

    context = plugin_context.PluginContext(
        json_args.parse_args(name, args_json),
        features,
        device_counts,
        next((plugin for plugin in filters if plugin.name == name), None),
    )
    return spec.implementations[point].load(spec.package)(context)
