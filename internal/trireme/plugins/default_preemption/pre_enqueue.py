"""DefaultPreemption's PreEnqueue: a preemptor waits while its victims are being deleted.

Source: pkg/scheduler/framework/plugins/defaultpreemption.

Tests: tests/unit/queueing/test_pre_enqueue.py.
"""

from collections.abc import Callable, Mapping, Sequence

from trireme.plugin_api.pre_enqueue import PodToEnqueue, PreEnqueueContext


class VictimsToDelete:
    """DefaultPreemption at PreEnqueue: holds a preemptor back while its victims are being evicted."""

    def __init__(self, preempting: Callable[[str], bool]) -> None:
        self._preempting = preempting

    def refuses(self, pod: PodToEnqueue) -> bool:
        """Whether evictions of the pod's victims have not all been sent yet."""
        return self._preempting(pod.uid)

    def waits_for(self, pod: PodToEnqueue) -> Mapping[str, Sequence[str]]:
        """Return nothing to add to the report of waiting pods: it names the victims itself."""
        return {}


def make(context: PreEnqueueContext) -> VictimsToDelete:
    """Make the plugin."""
    return VictimsToDelete(context.preempting)
