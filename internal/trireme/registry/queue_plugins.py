"""What the queue runs of the in-tree plugins; each is loaded when a profile that has the plugin asks for it.

Tests: tests/unit/frontend/test_rejected_plugins.py.
"""

from collections.abc import Sequence

from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_api import hints
from trireme.plugin_api.pre_enqueue import PreEnqueueContext, PreEnqueuePlugin
from trireme.registry.in_tree import IN_TREE


def events_to_register(name: str, context: hints.HintContext) -> Sequence[hints.ClusterEventWithHint]:
    """The events that may help pods which the plugin refused; none where it is not in-tree or registers none."""
    spec = IN_TREE.plugins.get(name)
    if spec is None or spec.events_to_register is None:
        return ()
    registered: Sequence[hints.ClusterEventWithHint] = spec.events_to_register.load(spec.package)(context)
    return registered


def pre_enqueue_plugin(name: str, context: PreEnqueueContext) -> PreEnqueuePlugin | None:
    """The plugin at PreEnqueue; None where it is not in-tree or does not implement it."""
    spec = IN_TREE.plugins.get(name)
    if spec is None or ExtensionPoint.PRE_ENQUEUE not in spec.implementations:
        return None
    made: PreEnqueuePlugin = spec.implementations[ExtensionPoint.PRE_ENQUEUE].load(spec.package)(context)
    return made
