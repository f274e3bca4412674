"""The nodes of the simulated cluster, as far as they take pods away: removals, cordons and taints with NoExecute.

The simulated cluster has the cluster's nodes, and other pods on them. What happens to a node happens in both, but the
cluster evicts its own pods alone: what it would have done to the others is decided by what is stored here.

Tests: tests/unit/shadow/test_simulated_cluster_nodes.py.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from trireme.framework import tolerations
from trireme.scheduling import relists
from trireme.v1 import core_pb2
from trireme_kube.client.informers.watch import Event, EventKind

# A pod may be placed so long after a cordon by a decision from before it.
_DECISION_SECONDS = 1.0


class _Taint(NamedTuple):
    """A taint with NoExecute, and when it was seen first, in seconds of the clock."""

    taint: tolerations.Taint
    since: float


class SimulatedNodes:
    """Follows the events of nodes."""

    def __init__(self, clock: Callable[[], float], *, comparing: bool) -> None:
        """`comparing`: tolerations may compare numbers."""
        self._clock = clock
        self._comparing = comparing
        self._uids: dict[str, str] = {}  # by name
        self._cordoned: dict[str, float] = {}  # by name: since when
        self._evicting: dict[str, tuple[_Taint, ...]] = {}  # by name, of nodes with such taints alone
        self._relists = relists.RelistTracker()

    def __contains__(self, name: str) -> bool:
        """Whether there is such a node."""
        return name in self._uids

    @property
    def cordoned(self) -> frozenset[str]:
        """The nodes that are cordoned."""
        return frozenset(self._cordoned)

    @property
    def evicting(self) -> list[str]:
        """The nodes with a taint that has the effect NoExecute."""
        return list(self._evicting)

    def apply(self, events: Sequence[Event[core_pb2.Node]]) -> set[str]:
        """Apply events; returns the nodes that were removed by them, also if one of the same name came since."""
        removed: set[str] = set()

        def remove(name: str) -> None:
            if self._uids.pop(name, None) is not None:
                removed.add(name)
                self._cordoned.pop(name, None)
                self._evicting.pop(name, None)

        for kind, node in events:
            if node is None:
                self._relists.on_list_marker(kind, "nodes", lambda: set(self._uids), remove)
                continue
            name, uid = node.metadata.name, node.metadata.uid
            if kind is EventKind.LISTED:
                self._relists.add("nodes", name)
            if kind is EventKind.DELETED or self._uids.get(name, uid) != uid:
                remove(name)
            if kind is not EventKind.DELETED:
                self._set(node)
        return removed

    def _set(self, node: core_pb2.Node) -> None:
        """Store what is read of the node."""
        name = node.metadata.name
        self._uids[name] = node.metadata.uid
        if node.spec.unschedulable:
            self._cordoned.setdefault(name, self._clock())
        else:
            self._cordoned.pop(name, None)
        since = {each.taint: each.since for each in self._evicting.pop(name, ())}
        taints = [(each.key, each.value, each.effect) for each in node.spec.taints]
        evicting = [taint for taint in taints if taint[2] == tolerations.NO_EXECUTE]
        if evicting:
            now = self._clock()
            self._evicting[name] = tuple(_Taint(taint, since.get(taint, now)) for taint in evicting)

    def may_drain(self, name: str, stated: Sequence[core_pb2.Toleration], placed: float) -> bool:
        """Whether a drain of the cordoned node takes away a pod with these tolerations that came there at `placed`.

        Not one that tolerates the cordon, or that a configuration without NodeUnschedulable placed there after it: it
        would be placed there again, without end.
        """
        is_placed_before = placed <= self._cordoned[name] + _DECISION_SECONDS
        tolerated = tolerations.is_tolerated(stated, tolerations.UNSCHEDULABLE, comparing=self._comparing)
        return is_placed_before and not tolerated

    def eviction_time(self, name: str, stated: Sequence[core_pb2.Toleration], placed: float) -> float:
        """When the node's taints evict a pod with these tolerations that came there at `placed`; infinity: never.

        Source: pkg/controller/tainteviction/taint_eviction.go (processPodOnNode, getMinTolerationTime).
        """
        out, begins = float("inf"), placed
        for taint, since in self._evicting.get(name, ()):
            found = next((each for each in stated if self._tolerates(each, taint)), None)
            begins = max(begins, since)
            if found is None:
                return since
            if found.HasField("toleration_seconds"):
                out = min(out, max(0, found.toleration_seconds))
        return begins + out

    def _tolerates(self, toleration: core_pb2.Toleration, taint: tolerations.Taint) -> bool:
        return tolerations.tolerates(toleration, taint, comparing=self._comparing)
