"""SchedulingGates' PreEnqueue: a pod waits until all of its scheduling gates are removed.

Source: pkg/scheduler/framework/plugins/schedulinggates.

Tests: tests/unit/queueing/test_pre_enqueue.py.
"""

from collections.abc import Mapping, Sequence

from trireme.plugin_api.pre_enqueue import PodToEnqueue, PreEnqueueContext


class SchedulingGates:
    """SchedulingGates at PreEnqueue: holds a pod back while it has scheduling gates."""

    def refuses(self, pod: PodToEnqueue) -> bool:
        """Whether the pod has a gate."""
        return bool(pod.gates)

    def waits_for(self, pod: PodToEnqueue) -> Mapping[str, Sequence[str]]:
        """Return the pod's scheduling gates, by name."""
        return {"gates": list(pod.gates)} if pod.gates else {}


def make(context: PreEnqueueContext) -> SchedulingGates:
    """Make the plugin."""
    return SchedulingGates()
