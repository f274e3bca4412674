"""What the bind phase runs of the in-tree plugins.

All of it is loaded with this module, before a frontend comes.

Also change: internal/trireme/registry/filter_plugins.py,
internal/trireme/registry/score_plugins.py (filter and score are alike here).

Tests: tests/unit/registry/test_registry.py.
"""

from collections.abc import Callable, Mapping

from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_api.api_writer import ApiWriter
from trireme.plugin_kit.bind_phase_plugin import ActionCall, BindContext, BindPhasePlugin, UnreserveCall
from trireme.plugin_kit.pod_binder import PodBinder
from trireme.registry import json_args
from trireme.registry.in_tree import IN_TREE
from trireme.v1 import snapshot_pb2
from trireme.wire import profile_messages

# The points of the phase. The implementation at the first of them makes all that the plugin is in the phase.
_POINTS = (ExtensionPoint.PERMIT, ExtensionPoint.PRE_BIND, ExtensionPoint.BIND, ExtensionPoint.POST_BIND)

_MAKERS: Mapping[str, Callable[[BindContext], BindPhasePlugin]] = {
    name: next(spec.implementations[point].load(spec.package) for point in _POINTS if point in spec.implementations)
    for name, spec in IN_TREE.plugins.items()
    if not spec.implementations.keys().isdisjoint(_POINTS)
}

_UNRESERVE: Mapping[str, UnreserveCall] = {
    name: spec.implementations[ExtensionPoint.RESERVE].load(spec.package)
    for name, spec in IN_TREE.plugins.items()
    if ExtensionPoint.RESERVE in spec.implementations
}

_ACTIONS: Mapping[str, ActionCall] = {
    kind: target.load(spec.package) for spec in IN_TREE.plugins.values() for kind, target in spec.actions.items()
}


def bind_phase_plugins(
    configuration: snapshot_pb2.Configuration, writer: ApiWriter, binder: PodBinder, wall: Callable[[], int]
) -> dict[str, BindPhasePlugin]:
    """The in-tree plugins of the phase, by name. `wall`: nanoseconds since 1970. Raises: ValueError for bad args."""
    made = {}
    for name, make in _MAKERS.items():
        args = {
            profile.scheduler_name: json_args.parse_args(name, profile_messages.args_of(profile, name))
            for profile in configuration.profiles
        }
        made[name] = make(BindContext(args, configuration.feature_gates, writer, binder, wall))
    return made


def unreserve_call(name: str) -> UnreserveCall | None:
    """The function that undoes what the plugin's PreBind wrote; None: it is not in-tree, or writes nothing."""
    return _UNRESERVE.get(name)


def action_call(kind: str | None) -> ActionCall | None:
    """The function that executes actions of a kind of trireme.v1.Action (None: not set); None: they are no plugin's."""
    return None if kind is None else _ACTIONS.get(kind)
