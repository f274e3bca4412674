"""What a plugin is made from, in the process that runs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trireme.plugin_api import interfaces
from trireme.plugin_kit import device_resources


@dataclass(frozen=True, slots=True)
class PluginContext:
    """What a plugin is made with at an extension point.

    `args` are the plugin's arguments as JSON has them, with all defaults filled in and validated; `features` the gates.
    `device_counts` makes what counts devices of the cluster. `filter_plugin` is the profile's filter plugin of the same
    name, for implementations that look at what it found; None: the profile has none.
    """

    args: Mapping[str, Any]
    features: Mapping[str, bool]
    device_counts: Callable[[], device_resources.DeviceCounts]
    filter_plugin: interfaces.FilterPlugin | None = None
