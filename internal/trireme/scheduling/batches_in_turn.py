"""Which batches of several classes are placed in turn: by one call of filter and one of score for all of them.

Real clusters have pods of many kinds, down to one class for each pod, and a call costs more than what it computes. So
places are found together for the batches that come next, if their pods take nothing from each other but resources of
their nodes, or claims of their own: each as if the pods before it were on their nodes. A batch leaves the queue when
its places are known. The decisions are those of one batch after the other.

A pod that comes alone is placed by the same calls if it is the first of its class, as the pods before it were: they
compute less for such a class, and keep nothing of it.

Here is decided which classes may take part, by what their pods are; filter and score end early where more is needed,
and how many are tried together the next time follows from that.

Tests: tests/unit/scheduling/test_batches_in_turn.py.
"""

import itertools
import sys
from collections.abc import Sequence, Set
from dataclasses import dataclass

from trireme.cache import cluster_cache
from trireme.framework import pod_takings
from trireme.queueing import active, queued_pod
from trireme.v1 import core_pb2

# Batches that are placed together, at most, and at most so many entries of columns (nodes times classes) in a call.
MAX_BATCHES = 32
MAX_ENTRIES = 400_000
# Pods that are placed together: as many as a batch under load, and then some.
MAX_PODS = 64
# After a call that placed one class or none, so many batches are placed each by itself; twice as many the next time.
FIRST_PAUSE = 8
MAX_PAUSE = 512
# After so many pods in a row that came alone, each the first of its class, the next such pod is placed by these calls
# too: for a class that never comes again they compute less and keep nothing.
FIRSTS_IN_ROW = 4


@dataclass(frozen=True, slots=True)
class BatchesAhead:
    """The batches that come next: their profile, and of each its class and how many pods it has."""

    profile: str
    classes: Sequence[tuple[int, int]]


class BatchesInTurn:
    """Decides how many batches are placed in turn, and which."""

    def __init__(self, cache: cluster_cache.ClusterCache, profiles: Set[str]) -> None:
        """`profiles`: those whose answers depend on nothing but the cluster: no service takes part."""
        self._cache = cache
        self._profiles = profiles
        self._most = MAX_BATCHES
        # How many batches are still to be placed each by itself, and how many it was the last time.
        self._pause_left = self._pause = 0
        self._firsts_in_row = 0

    @property
    def most(self) -> int:
        """How many batches may be tried together now; 1: each by itself."""
        if self._pause_left:
            return 1
        return max(min(self._most, MAX_ENTRIES // max(self._cache.node_count, 1)), 1)

    def plan(self, ahead: Sequence[active.NextClass], max_pods: int) -> BatchesAhead | None:
        """What of the classes ahead in the queue is placed in turn; None: the first is placed by itself.

        `max_pods` is how many pods the queue hands out at most. Later pods of a class that has more come before those
        of other classes.
        """
        if not ahead:
            return None
        self._count_firsts(ahead[0])
        if self.most < 2:
            return None
        classes: list[tuple[int, int]] = []
        pods = 0
        profile = ahead[0].head.record.profile
        for each in ahead[: self.most]:
            if each.head.record.profile != profile or not self.may_take_part(each):
                break
            assert isinstance(each.key, int)  # as it may take part
            count = min(each.waiting, max_pods, MAX_PODS)
            classes.append((each.key, count))
            pods += count
            if count < each.waiting or pods >= MAX_PODS:
                break
        least = 1 if self._firsts_in_row > FIRSTS_IN_ROW else 2
        return BatchesAhead(profile, classes) if len(classes) >= least else None

    def _count_firsts(self, ahead: active.NextClass) -> None:
        """Count the pods in a row that are each the first of their class, up to the one that comes next."""
        if not self.may_take_part(ahead):
            self._firsts_in_row = 0
            return
        assert isinstance(ahead.key, int)  # as it may take part
        entry = self._cache.registry[ahead.key]
        self._firsts_in_row = self._firsts_in_row + 1 if ahead.waiting == 1 and not entry.tried else 0
        entry.tried = True

    def count_ahead(self, ahead: Sequence[active.NextClass]) -> int:
        """How many pods of the classes ahead would be placed together now, or of the first one by itself."""
        together = itertools.takewhile(self.may_take_part, ahead[: self.most])
        return max(ahead[0].waiting, sum(each.waiting for each in together))

    def may_take_part(self, ahead: active.NextClass) -> bool:
        """Whether the class's pods may take nothing from others but on their nodes, and others nothing from them."""
        head = ahead.head
        if not isinstance(head, queued_pod.QueuedPodInfo) or not isinstance(ahead.key, int) or not ahead.key:
            return False
        first = head.record
        if first.profile not in self._profiles or first.nominated or first.pod.has_deferred_resize:
            return False
        entry = self._cache.registry[ahead.key]
        if entry.most_in_turn is None:
            entry.most_in_turn = most_in_turn(entry.pod)
        return ahead.waiting <= entry.most_in_turn

    def note_placed(self, tried: int, placed: int) -> None:
        """So many batches were tried together, and so many of them were placed.

        A batch that was tried in turn by itself, in vain, has the next ones tried by calls of their own.

        The more the better: twice as many are tried the next time as were placed. Where it was one or none, calls that
        say so would cost more than they save: there is a pause.
        """
        if tried == 1:  # which tells nothing about several together
            if not placed:
                self._firsts_in_row = 0
            return
        if placed > 1:
            self._pause = 0
            self._most = MAX_BATCHES if placed == tried else min(2 * placed, MAX_BATCHES)
            return
        self._pause = self._pause_left = min(max(2 * self._pause, FIRST_PAUSE), MAX_PAUSE)
        self._most = 2

    def note_single(self) -> None:
        """A batch was tried by itself."""
        self._pause_left = max(self._pause_left - 1, 0)


def most_in_turn(pod: core_pb2.Pod) -> int:
    """How many pods with this spec may wait together to be placed in turn.

    Filter ends before several pods of a class that take the same ports of their nodes, or share claims.
    """
    if not takes_from_own_node_only(pod):
        return 0
    return 1 if pod_takings.has_claims(pod.spec) or pod_takings.host_ports(pod.spec) else sys.maxsize


def takes_from_own_node_only(pod: core_pb2.Pod) -> bool:
    """Whether a pod with this spec takes nothing but from its node, and is placed without regard to other pods.

    It may say yes where filter or score know better: by default constraints, existing pods, shared claims or devices.
    """
    spec = pod.spec
    if spec.affinity.HasField("pod_affinity") or spec.affinity.HasField("pod_anti_affinity"):
        return False
    if spec.topology_spread_constraints or spec.node_name or spec.HasField("scheduling_group"):
        return False
    return not any(volume.HasField("volume_source") and not _is_claim(volume.volume_source) for volume in spec.volumes)


def _is_claim(source: core_pb2.VolumeSource) -> bool:
    return source.HasField("persistent_volume_claim") or source.HasField("ephemeral")
