"""What a PostFilter plugin decides by: a pod that no node takes, and why.

Tests: tests/unit/plugins/default_preemption/test_post_filter_searches.py,
tests/unit/plugins/default_preemption/test_post_filter.py.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trireme.evaluation.filtering import class_verdicts, filter_chain, nominated_pods
from trireme.evaluation.preemption import dry_run_cache
from trireme.framework import status
from trireme.snapshot import arrays, classes
from trireme.v1 import core_pb2, cycle_pb2, filter_phase_pb2, meta_pb2

#: Before each text of a preemption that failed.
TEXT_PREFIX = "preemption: "
GROUP_TEXT_PREFIX = f"pod group {TEXT_PREFIX}"

# How often dry runs are tried while the cluster changes each time that plugins are called.
MAX_TRIES = 5

# Brings the columns of the class up to date.
# Implementers: trireme.evaluation.filter_engine.FilterEngine._make_column_refresher.
Refresh = Callable[[], Awaitable[class_verdicts.ClassVerdicts]]

# The nodes that preemption may choose from, at least one.
Candidates = tuple[filter_phase_pb2.PreemptionCandidate, ...]


@dataclass(slots=True)
class PendingNominations:
    """Nominations that PostFilter decided in the same call for pods of the class: the snapshot has none of them yet."""

    class_id: int
    # The slots that the pods are nominated to, in order.
    slots: list[int] = field(default_factory=list)
    # What dry runs found on these slots since then; None: nothing yet. Older results do not hold.
    results: dict[int, dry_run_cache.SlotResult | None] = field(default_factory=dict)
    # Whether a nomination changes nothing for the next pod of the class but on its own node.
    independent: bool = False

    def add(self, slot: int) -> None:
        """One more pod is nominated to the slot."""
        self.slots.append(slot)
        self.results[slot] = None

    def added_to(self, nominees: nominated_pods.Nominees) -> nominated_pods.Nominees:
        """Return these nominees and the pending ones."""
        slots = np.array(self.slots, dtype=np.int32)
        return nominated_pods.Nominees(
            np.concatenate([nominees.class_ids, np.full(slots.shape, self.class_id, dtype=np.int32)]),
            np.concatenate([nominees.slots, slots]),
        )


@dataclass(frozen=True, slots=True)
class PostFilterContext:
    """A pod that no node takes, with what is known of its class. `cycle.pod` has its name, UID and nomination.

    `index` has by slot the number, from 1, of the status that refuses the pod; None: PreFilter refused it on all nodes,
    by `pre_filter`. `refresh` brings `columns` up to date. Shape: index (slot,).
    """

    cycle: cycle_pb2.Cycle
    pod_class: classes.PodClass
    chain: filter_chain.FilterChain
    columns: class_verdicts.ClassVerdicts
    refresh: Refresh
    statuses: Sequence[status.Status]
    index: arrays.Int16Array | None
    pre_filter: status.Status | None
    # Preemption lists its candidates, for HTTP extenders to narrow, or chooses among those that they left.
    list_candidates: bool = False
    candidates: Sequence[filter_phase_pb2.PreemptionCandidate] | None = None
    # Where PostFilter runs for several pods of the class in one call.
    pending: PendingNominations | None = None
    # What the order depends on in which nodes are tried.
    seed: int = 0

    def status_at(self, slot: int) -> status.Status | None:
        """Return why the node at the slot refuses the pod; None: it does not, or does not exist."""
        if self.index is None:
            return self.pre_filter
        number = int(self.index[slot]) if slot < self.index.shape[0] else 0
        return self.statuses[number - 1] if number else None

    def slots_where_preemption_may_help(self, live: arrays.SlotArray) -> arrays.SlotArray:
        """Return the slots of these that refuse the pod, but not as unresolvable. Shape: (n,)."""
        if self.index is None:
            refused = self.pre_filter is not None and self.pre_filter.code == status.Code.UNSCHEDULABLE
            return live if refused else live[:0]
        codes = np.array([0, *(entry.code for entry in self.statuses)])
        known = live[live < self.index.shape[0]]
        return known[codes[self.index[known]] == status.Code.UNSCHEDULABLE]


def cycle_for(cycle: cycle_pb2.Cycle, preemptor: filter_phase_pb2.Preemptor) -> cycle_pb2.Cycle:
    """Return the cycle about this pod of its class."""
    out = cycle_pb2.Cycle()
    out.CopyFrom(cycle)
    identity = preemptor.pod
    metadata = meta_pb2.ObjectMeta(namespace=identity.namespace, name=identity.name, uid=identity.uid)
    nomination = core_pb2.PodStatus(nominated_node_name=preemptor.nominated_node)
    out.pod.CopyFrom(core_pb2.Pod(metadata=metadata, status=nomination))
    return out
