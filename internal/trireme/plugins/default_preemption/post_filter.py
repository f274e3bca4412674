"""DefaultPreemption's PostFilter, which `evaluation.preemption` carries out: it asks all plugins of the profile."""

from trireme.evaluation.preemption import preemption
from trireme.plugin_kit import plugin_context


def make(context: plugin_context.PluginContext) -> preemption.DefaultPreemption:
    """The plugin, by its arguments and the feature gates."""
    percentage = context.args.get("minCandidateNodesPercentage", 10)
    args = preemption.Args(percentage, context.args.get("minCandidateNodesAbsolute", 100))
    return preemption.DefaultPreemption(args, groups=context.features.get("GenericWorkload", False))
