"""A refusal: why no node takes a pod, as a failure of its attempt, with the numbers of FailedScheduling.

Source: pkg/scheduler/framework/types.go FitError.

Tests: tests/unit/scheduling/test_refusal.py, tests/unit/scheduling/test_pod_group_cycle.py,
tests/unit/scheduling/test_preemptors_together.py.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from trireme.framework import status
from trireme.scheduling import fit_error
from trireme.scheduling.failure import Failure, RefusedPlacement, sort_key
from trireme.wire.phase_answers import FilterAnswer


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nodes refuse a pod: the distinct statuses of `nodes` nodes with their counts.

    `pre_filter`: the status with which PreFilter refused the pod, if it did.
    """

    nodes: int
    statuses: list[tuple[status.Status, int]]
    pre_filter: status.Status | None
    narrowed_by: frozenset[str]

    @staticmethod
    def of(
        filtered: FilterAnswer, nodes: int, changed: Mapping[int, status.Status] = MappingProxyType({})
    ) -> "Refusal":
        """Make the refusal of Filter's answer; if PreFilter refused, its status counts for all of `nodes` nodes.

        Else there are as many as the answer is about: one may have come or gone since. `changed`: the statuses by slot
        of nodes that refuse for another reason since.
        """
        if filtered.refusal is not None:
            return Refusal(nodes, [(filtered.refusal, nodes)], filtered.refusal, filtered.narrowed_by)
        columns = filtered.columns
        statuses = fit_error.nodes_by_status(columns.statuses, columns.index)
        if changed:
            counts = Counter(dict(statuses))
            for slot, now in changed.items():
                counts[columns.statuses[columns.index[slot] - 1]] -= 1
                counts[now] += 1
            statuses = list((+counts).items())
        return Refusal(sum(count for _, count in statuses), statuses, None, filtered.narrowed_by)

    @property
    def error(self) -> status.Status | None:
        """The status of a plugin that failed on a node: the attempt ends by error then, whatever other nodes say.

        It is the first one of the failure's statuses.
        """
        errors = [entry for entry in self.statuses if entry[0].code is status.Code.ERROR]
        return min(errors, key=sort_key)[0] if errors else None

    def as_failure(
        self,
        post_filter: str = "",
        nominated_node: str | None = None,
        by_post_filter: Sequence[status.Status] = (),
    ) -> Failure:
        """The failure of the attempt; `post_filter` is PostFilter's message, and `by_post_filter` its statuses."""
        if self.error is not None:
            return Failure(self.error.message, nominated_node="", refusals=tuple(self.statuses))
        rejectors, pending_plugins = _rejectors_of(self.statuses)
        return Failure(
            fit_error.message(self.nodes, self.pre_filter, self.statuses, post_filter),
            rejectors | self.narrowed_by,
            pending_plugins,
            nominated_node,
            unschedulable=True,
            refusals=(*self.statuses, *((each, 0) for each in by_post_filter)),
        )


def failure_by_reserve(refused: status.Status, node: str) -> Failure:
    """The failure of an attempt that Reserve ended: its message is as if the chosen node were the only one."""
    placement = RefusedPlacement("Reserve", node, refused)
    if not refused.is_rejection:
        return Failure(refused.message, nominated_node="", placement=placement, refusals=((refused, 1),))
    rejectors, pending_plugins = _rejectors_of([(refused, 1)])
    text = fit_error.message(1, None, [(refused, 1)], "")
    return Failure(
        text,
        rejectors,
        pending_plugins,
        nominated_node="",
        unschedulable=True,
        placement=placement,
        refusals=((refused, 1),),
    )


def _rejectors_of(refusals: Collection[tuple[status.Status, int]]) -> tuple[frozenset[str], frozenset[str]]:
    """The plugins that refused, and those of them whose status is Pending."""
    refused = frozenset(entry.plugin for entry, _ in refusals if entry.plugin)
    return refused, frozenset(entry.plugin for entry, _ in refusals if entry.code == status.Code.PENDING)
