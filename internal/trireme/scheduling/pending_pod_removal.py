"""Removes a scheduler's state of a pod that is no longer pending: it was deleted, or has a node.

Tests: tests/unit/scheduling/test_never_lost.py, tests/unit/scheduling/test_nothing_is_kept.py,
tests/unit/scheduling/test_preemption_executor.py, tests/unit/scheduling/test_batches_in_turn.py.
"""

from trireme.framework import status
from trireme.scheduling import attempt_reporter, pods_in_pre_bind, preemption_executor, waiting_pods

REMOVED = status.unschedulable("", "removed", reasons=(status.Reason("podGone"),))
"""How an attempt ends whose pod was deleted meanwhile."""


class PendingPodRemoval:
    """Has all parts with state about pending pods forget a pod that is no longer pending.

    It stores nothing itself: `on_deleted` also ends a wait on Permit and PreBind. `on_bound` does not.
    """

    def __init__(
        self,
        reporter: attempt_reporter.AttemptReporter,
        waiting: waiting_pods.WaitingPods,
        preemptions: preemption_executor.PreemptionExecutor,
        in_pre_bind: pods_in_pre_bind.PodsInPreBind,
    ) -> None:
        self._reporter = reporter
        self._waiting = waiting
        self._preemptions = preemptions
        self._in_pre_bind = in_pre_bind

    def on_deleted(self, uid: str) -> None:
        """The pod with this UID has been deleted."""
        self._reporter.forget(uid)
        self._waiting.end(uid, REMOVED)
        self._in_pre_bind.cancel(uid, REMOVED)
        self._preemptions.forget(uid)

    def on_bound(self, uid: str) -> None:
        """The pod with this UID has a node, whether this scheduler bound it or somebody else."""
        self._reporter.forget(uid)
        self._preemptions.forget(uid)
