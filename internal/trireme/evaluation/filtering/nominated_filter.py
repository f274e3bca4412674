"""Filter for nominated pods: what they may do where they are nominated to, and what their nominations mean for others.

A node with nominated pods of at least the class's priority must take a pod of the class both with them there and
without. A pod that is nominated itself does not count there for itself.

Source: pkg/scheduler/framework/runtime (RunFilterPluginsWithNominatedPods).

Tests: tests/unit/evaluation/test_nominated_filter.py, tests/unit/evaluation/test_preparing.py,
tests/unit/plugins/default_preemption/test_post_filter.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trireme.evaluation.filtering import class_verdicts, dry_run_filter, filter_chain, nominated_pods
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, nominations, overlay, snapshot
from trireme.v1 import cycle_pb2


@dataclass(frozen=True, slots=True)
class SlotVerdict:
    """The verdict on one slot: the number of the status, and how many pods of the class fit there."""

    slot: int
    index: int
    capacity: int

    @property
    def passes(self) -> bool:
        """Whether a pod may run there."""
        return self.index == interfaces.PASSES and self.capacity > 0


class NominatedPodFilter:
    """Filter with nominated pods, for one profile on one snapshot."""

    def __init__(self, snap: snapshot.Snapshot, chain: filter_chain.FilterChain) -> None:
        self._snap = snap
        self._chain = chain

    def verdicts_with_nominees(
        self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts, due: arrays.SlotArray, renewed: bool
    ) -> tuple[arrays.SlotArray, list[tuple[arrays.SlotArray, interfaces.Verdicts]]]:
        """The slots that are due, and the verdicts on those with nominated pods, as if these were there.

        Adds to the slots where such pods came, went, or are to be evaluated again: all their slots where an answer may
        have changed though nothing did on the slot itself (`renewed`, or a plugin that looks at other nodes).
        """
        size = self._snap.nodes.size
        nominees = nominated_pods.nominees_of_at_least(self._snap, pod_class.priority)
        before = cached.nominated[cached.nominated < size]
        if not nominees.slots.size and not before.size:
            return due, []
        dry_run = dry_run_filter.DryRunFilter(self._chain, cached, pod_class, self._snap, nominees)
        nominated = np.zeros(size, dtype=np.bool_)
        nominated[nominees.slots] = True
        again = nominated.copy()
        again[before] = True
        if not renewed and dry_run.depends_on_own_slot_only:
            moved = np.zeros(size, dtype=np.bool_)
            moved[self._snap.nodes.changed_since(cached.generation, pods=True)] = True
            again &= moved
        again[due] = True
        cached.nominated = np.flatnonzero(nominated)
        slots = np.flatnonzero(nominated & again)
        return np.flatnonzero(again), list(dry_run.filter_with_nominees(slots)) if slots.size else []

    def own_nomination_verdict(
        self, cycle: cycle_pb2.Cycle, cached: class_verdicts.ClassVerdicts
    ) -> SlotVerdict | None:
        """The verdict on the slot that the cycle's pod is nominated to itself: there it does not count for itself.

        None where it is nominated nowhere or to a node that is gone or left out, where PreFilter refused the class, and
        where no pod is named.
        """
        own = self._nomination_of_pod(cycle.pod.metadata.uid, cached)
        pod_class = self._snap.classes.get(cycle.pod_class)
        if own is None or pod_class is None or cached.refusal is not None:
            return None
        dry_run = self._dry_run_without_nominations(pod_class, cached, own.uid)
        with overlay.SnapshotOverlay(self._snap, overlay.Semantics.DRY_RUN) as over:
            verdicts = dry_run.filter(np.array([own.slot]), over)
        assert verdicts.capacity is not None
        return SlotVerdict(own.slot, int(verdicts.index[0]), int(verdicts.capacity[0]))

    def slots_of_next_nominees_that_fit(
        self, cycle: cycle_pb2.Cycle, cached: class_verdicts.ClassVerdicts, pods: Sequence[cycle_pb2.PodIdentity]
    ) -> list[int]:
        """Return the slots of the longest prefix of `pods` that may all go where they are nominated to.

        The pods are of the cycle's class, and go there beside the cycle's pod. The prefix ends before the first pod
        that is nominated nowhere, or to the slot of the cycle's pod or of one before it (its answer would follow from
        that one's), or that may not run there. It is empty where a plugin's answer about one slot may depend on
        another, or the cycle's pod is not nominated.
        """
        own = self._nomination_of_pod(cycle.pod.metadata.uid, cached)
        if own is None or not pods:
            return []
        taken = {own.slot: own.uid}
        for pod in pods:
            nominee = self._nomination_of_pod(pod.uid, cached)
            if nominee is None or nominee.slot in taken:
                break
            taken[nominee.slot] = nominee.uid
        dry_run = self._dry_run_without_nominations(self._snap.classes[cycle.pod_class], cached, *taken.values())
        slots = np.array(list(taken)[1:], dtype=np.intp)
        if not dry_run.depends_on_own_slot_only:
            return []
        with overlay.SnapshotOverlay(self._snap, overlay.Semantics.DRY_RUN) as over:
            verdicts = dry_run.filter(slots, over)
        assert verdicts.capacity is not None
        refused = np.flatnonzero((verdicts.index != interfaces.PASSES) | (verdicts.capacity < 1))
        admitted: list[int] = slots[: int(refused[0]) if refused.size else slots.size].tolist()
        return admitted

    def _nomination_of_pod(self, uid: str, cached: class_verdicts.ClassVerdicts) -> nominations.Nominee | None:
        """The pod's nomination, where its node is there and PreFilter left it."""
        own = self._snap.nominations.get(uid)
        if own is None or not self._snap.nodes.alive[own.slot]:
            return None
        left = cached.narrowed is None or self._snap.nodes.names[own.slot] in cached.narrowed
        return own if left else None

    def _dry_run_without_nominations(
        self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts, *uids: str
    ) -> dry_run_filter.DryRunFilter:
        """Filters for pods of the class where the nominations of these pods do not count."""
        nominees = nominated_pods.nominees_of_at_least(self._snap, pod_class.priority, *uids)
        return dry_run_filter.DryRunFilter(self._chain, cached, pod_class, self._snap, nominees)
