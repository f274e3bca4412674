"""How many pods one batch has: the one place that decides it.

A batch costs a few calls however many pods it has, so most limits are as large as the answers allow:

- The queue hands out at most `max_pods` pods (`trireme.batch.maxPods`). Which pods may share a batch follows from what
  they are: of one class and level, and either all nominated for a node or none.
- Under load the pacer lets a batch grow to `growth_target`.
- Filter is called for the whole batch, unless an HTTP extender takes part: its responses are about one pod.
- Score places as many pods as Filter's answer holds for. Plugins whose answers hold for fewer declare that
  (`FilterAnswer.max_batch`); so does filter for remote plugins that depend on the cluster as a whole.
- Pods nominated for nodes, speculative placement and preemption have limits of their own, see below.
"""

from collections.abc import Callable
from dataclasses import dataclass

from trireme.wire.phase_answers import FilterAnswer

# What a batch is let grow to under load. Larger ones hardly cost less per pod, and their pods wait for longer.
GROWTH_TARGET = 32

# Pods in one FilterNominated call.
MAX_NOMINATED = 32

# Pods placed by speculation, at most. It begins with one, and doubles each time that all placements were used.
MAX_SPECULATIVE = 64

# Pods for which PostFilter runs in one call, at most: other pods are not scheduled meanwhile.
MAX_PREEMPTORS = 16


def _never_one_by_one(class_id: int) -> bool:
    """Answer, where there are no HTTP extenders, that none filters or scores the class."""
    return False


@dataclass(slots=True)
class BatchLimit:
    """The size of batches, for each step. `one_by_one` returns whether an HTTP extender filters or scores a class.

    A reload of the configuration may change `max_pods`, between two cycles.
    """

    max_pods: int
    one_by_one: Callable[[int], bool] = _never_one_by_one

    @property
    def growth_target(self) -> int:
        """How many pods a batch may grow to before it is taken: never more than the queue would hand out."""
        return min(GROWTH_TARGET, self.max_pods)

    def for_filter(self, class_id: int, pods: int) -> int:
        """For how many of these pods Filter is called: one where an HTTP extender filters or scores them, else all."""
        return 1 if pods > 1 and self.one_by_one(class_id) else pods

    def for_place(self, filtered: FilterAnswer, pods: int) -> int:
        """How many of these pods may be placed by this answer of Filter, which may limit the batch."""
        return min(pods, filtered.max_batch or pods)

    def for_speculation(self, used: int) -> int:
        """For how many pods to speculate: twice as many as were used of the class's last speculation, within bounds."""
        return min(2 * used, MAX_SPECULATIVE) or 1

    def for_post_filter(self, asynchronous: bool) -> int:
        """For how many pods PostFilter runs in one call: one, where each waits until its victims are deleted."""
        return MAX_PREEMPTORS if asynchronous else 1
