"""The pods of the simulated cluster: where each is there, where the cluster has it, and how many wait or are missing.

Every pod of the cluster is in the table from when the watch shows it to when it shows its end. Here it is on a node, or
it waits for one, or it is missing: the victim of a preemption here that no controller makes again.

Tests: tests/unit/shadow/test_simulated_cluster.py, tests/unit/shadow/test_simulated_cluster_nodes.py,
tests/unit/shadow/test_simulated_cluster_pods.py.
"""

import collections
import contextlib
import dataclasses
import functools
from collections.abc import Iterator

from trireme.cache.pod_projection import TERMINATING, ParsedPod
from trireme.simulation import usage
from trireme.v1 import core_pb2


@dataclasses.dataclass(slots=True)
class SimulatedPod:
    """A pod of the cluster. `node` is its node here, "": none; `since` is when it came there.

    `arrival` in seconds of the clock; None: it had a node when it was first seen, or it follows the other scheduler.
    """

    parsed: ParsedPod
    node: str
    arrival: float | None
    is_bound_there: bool
    since: float = 0.0
    #: How often it lost its node here; each time it gets another UID, as a pod that a controller makes again.
    losses: int = 0
    #: It was evicted here, and nobody makes it again.
    is_missing: bool = False

    @property
    def uid(self) -> str:
        """Its UID here."""
        return f"{self.parsed.uid}~{self.losses}" if self.losses else self.parsed.uid

    @property
    def is_terminating(self) -> bool:
        """Whether it is about to leave the cluster."""
        return bool(self.parsed.flags & TERMINATING)

    @property
    def follows(self) -> bool:
        """Whether it waits for the node that the other scheduler chooses: it has claims."""
        return not self.is_bound_there and not self.node and has_claims(self.parsed.base)

    @property
    def is_pending(self) -> bool:
        """Whether it waits for a node here."""
        return not self.node and not self.is_missing and (self.arrival is not None or self.losses > 0)


class SimulatedPods:
    """The table, with counts that follow each change."""

    def __init__(self) -> None:
        self._pods: dict[str, SimulatedPod] = {}  # by the UID in the cluster
        self._by_uid: dict[str, SimulatedPod] = {}  # by the UID here
        self._on_node: dict[str, dict[str, SimulatedPod]] = {}  # by node here and UID in the cluster
        self._held: collections.Counter[str] = collections.Counter()  # by node in the cluster
        #: Pods that wait for a node, here and in the cluster.
        self.pending_here = 0
        self.pending_there = 0
        #: Pods of the cluster that are not here any more.
        self.missing = 0

    def __iter__(self) -> Iterator[SimulatedPod]:
        """All pods."""
        return iter(self._pods.values())

    def get(self, cluster_uid: str) -> SimulatedPod | None:
        """The pod of this UID in the cluster."""
        return self._pods.get(cluster_uid)

    def here(self, uid: str) -> SimulatedPod | None:
        """The pod of this UID here; None: it left, or has another one since."""
        return self._by_uid.get(uid)

    def cluster_uids(self) -> set[str]:
        """The UIDs in the cluster."""
        return set(self._pods)

    def pods_on_node(self, name: str) -> list[SimulatedPod]:
        """The pods that are on the node here, whether or not the node exists."""
        return list(self._on_node.get(name, {}).values())

    def is_empty_there(self, name: str) -> bool:
        """Whether the cluster has no pod on the node but what a drain leaves there, and pods that are terminating."""
        return not self._held[name]

    def add(self, pod: SimulatedPod) -> None:
        """Add a pod that is new."""
        self._pods[pod.parsed.uid] = pod
        self._enter(pod)

    def remove(self, cluster_uid: str) -> SimulatedPod | None:
        """Remove a pod that left the cluster, and return it; None: it is not known."""
        pod = self._pods.pop(cluster_uid, None)
        if pod is not None:
            self._leave(pod)
        return pod

    @contextlib.contextmanager
    def changing(self, pod: SimulatedPod) -> Iterator[None]:
        """Change the pod's fields within the block: every change of a pod in the table is made so."""
        self._leave(pod)
        yield
        self._enter(pod)

    def _enter(self, pod: SimulatedPod) -> None:
        """Count the pod, and index it."""
        self._count(pod, 1)
        if not pod.is_missing:
            self._by_uid[pod.uid] = pod
        if pod.node:
            self._on_node.setdefault(pod.node, {})[pod.parsed.uid] = pod

    def _leave(self, pod: SimulatedPod) -> None:
        """Count the pod no more."""
        self._count(pod, -1)
        self._by_uid.pop(pod.uid, None)
        if pod.node:
            on_node = self._on_node[pod.node]
            del on_node[pod.parsed.uid]
            if not on_node:
                del self._on_node[pod.node]

    def _count(self, pod: SimulatedPod, sign: int) -> None:
        """Count the pod as it is, or no more (-1)."""
        self.pending_here += sign * pod.is_pending
        self.pending_there += sign * (pod.arrival is not None and not pod.is_bound_there)
        self.missing += sign * pod.is_missing
        node = pod.parsed.node_name
        if node and not pod.is_terminating and is_drained(pod.parsed.base):
            self._held[node] += sign
            if not self._held[node]:
                del self._held[node]


@functools.lru_cache(maxsize=8192)
def has_claims(base: bytes) -> bool:
    """Whether pods of this base claim volumes or devices."""
    spec = core_pb2.Pod.FromString(base).spec
    sources = (volume.volume_source for volume in spec.volumes)
    return bool(spec.resource_claims) or any(
        source.HasField("persistent_volume_claim") or source.HasField("ephemeral") for source in sources
    )


@functools.lru_cache(maxsize=8192)
def controller_kind(base: bytes) -> str:
    """The kind of the controller that owns pods of this base; empty: none does."""
    owners = core_pb2.Pod.FromString(base).metadata.owner_references
    return next((owner.kind for owner in owners if owner.controller), "")


def is_drained(base: bytes) -> bool:
    """Whether a drain of its node evicts pods of this base."""
    return controller_kind(base) not in usage.BOUND_TO_NODE
