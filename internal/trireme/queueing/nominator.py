"""Nominator: which pods are nominated to which node, by preemption or by the API.

A nominated pod counts on its node, for pods of no higher priority, before it is there. The nomination is recorded in
memory first, since the status patch to the API server takes time and the next cycle does not wait; so an update that
names no node, of a pod whose object never named one, leaves the nomination as it is.

Every change goes through `on_change`, so that the mirror of the nominations (the snapshot of filter and score) follows.
While a group is tried the nominations of its own pods are withheld: they do not count against each other, as in
kube-scheduler, where such pods are in no queue.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from trireme.queueing.pod_info import PodInfo


class NominatedPod(NamedTuple):
    """A pod that is nominated to a node, with what others have to know of it."""

    uid: str
    key: str
    class_id: int
    priority: int


# (pod, node before, node after); empty: none.
OnChange = Callable[[NominatedPod, str, str], None]
# Whether the pod of that key and uid still exists and has no node.
StillPending = Callable[[str, str], bool]


def _ignore_change(pod: NominatedPod, before: str, after: str) -> None:
    """Does nothing: the nominations are mirrored nowhere."""


def _always_pending(key: str, uid: str) -> bool:
    """Treats every pod as still there and without a node."""
    return True


class Nominator:
    """Nominations by pod and by node."""

    __slots__ = ("_by_node", "_node_of", "_on_change", "_still_pending", "_withheld")

    def __init__(self, still_pending: StillPending = _always_pending, on_change: OnChange = _ignore_change) -> None:
        self._still_pending = still_pending
        self._on_change = on_change
        self._node_of: dict[str, str] = {}
        self._withheld: frozenset[str] = frozenset()
        # node -> uid -> pod, in the order of nomination
        self._by_node: dict[str, dict[str, NominatedPod]] = {}

    def __len__(self) -> int:
        return len(self._node_of)

    def nominate(self, record: PodInfo, node: str | None = None) -> None:
        """Nominate the pod to `node`, in place of its nomination before; empty: none; None: the node in its status.

        A pod that is gone, or has a node by now, only loses its nomination. Nominations that are withheld during a
        group's trial are notified when it ends.
        """
        new_node = record.nominated_node if node is None else node
        if new_node and not self._still_pending(record.key, record.uid):
            new_node = ""
        before = self._node_of.get(record.uid, "")
        if not new_node and not before:
            return
        pod = NominatedPod(record.uid, record.key, record.class_id, record.priority)
        if before:
            if before == new_node and self._by_node[before][record.uid] == pod:
                return
            self._remove_nomination(record.uid, before)
        if new_node:
            self._node_of[record.uid] = new_node
            self._by_node.setdefault(new_node, {})[record.uid] = pod
        self._notify_unless_withheld(pod, before, new_node)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Follows an update of the object. A nomination that neither object has is left as it is."""
        if old.uid != new.uid:
            self.delete(old.uid)
            self.nominate(new)
        elif not old.nominated_node and not new.nominated_node:
            node = self._node_of.get(old.uid)
            if node is not None:
                self.nominate(new, node)
        else:
            self.nominate(new)

    def delete(self, uid: str) -> None:
        """Drops the nomination of a pod that was assumed, or is gone; without effect if there is none."""
        node = self._node_of.get(uid)
        if node is not None:
            pod = self._by_node[node][uid]
            self._remove_nomination(uid, node)
            self._notify_unless_withheld(pod, node, "")

    def withhold(self, uids: Iterable[str]) -> None:
        """Until `restore_withheld`, the nominations of these pods are removed from whatever mirrors them."""
        uids = frozenset(uids)
        for uid in uids & self._node_of.keys():
            node = self._node_of[uid]
            self._notify_unless_withheld(self._by_node[node][uid], node, "")
        self._withheld = uids

    def restore_withheld(self) -> None:
        """What was withheld is seen again, as it is by now."""
        uids, self._withheld = self._withheld, frozenset()
        for uid in uids & self._node_of.keys():
            node = self._node_of[uid]
            self._notify_unless_withheld(self._by_node[node][uid], "", node)

    def with_nomination(self, record: PodInfo) -> PodInfo:
        """The record, marked as nominated if the pod is, even if its object does not show the nomination yet."""
        known = record.nominated or record.uid not in self._node_of
        return record if known else record._replace(nominated=True)

    def node_of(self, uid: str) -> str:
        """The node that the pod is nominated to; empty: none."""
        return self._node_of.get(uid, "")

    def pods_for(self, node: str) -> list[NominatedPod]:
        """The pods that wait for the node, in the order of nomination."""
        return list(self._by_node.get(node, {}).values())

    def _notify_unless_withheld(self, pod: NominatedPod, before: str, after: str) -> None:
        """Call `on_change`, unless the pod's nomination is withheld."""
        if pod.uid not in self._withheld:
            self._on_change(pod, before, after)

    def _remove_nomination(self, uid: str, node: str) -> None:
        """Remove the nomination from both indexes."""
        del self._node_of[uid]
        pods = self._by_node[node]
        del pods[uid]
        if not pods:
            del self._by_node[node]
