"""What the configuration asks of the in-tree plugins: the type, the defaults and the rules of their arguments."""

import functools
from collections.abc import Mapping
from types import MappingProxyType

from trireme.framework.plugin_args import PluginArgs
from trireme.registry.in_tree import IN_TREE


@functools.cache
def plugin_args() -> Mapping[str, PluginArgs]:
    """By name the plugins that take arguments of a type."""
    found = {name: spec.args.load(spec.package) for name, spec in IN_TREE.plugins.items() if spec.args is not None}
    return MappingProxyType(found)
