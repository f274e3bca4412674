"""Which batches of several classes are placed in turn: by one call of filter and one of score for all of them.

Real clusters have pods of many kinds, down to one class for each pod, and a call costs more than what it computes. So
batches whose pods take nothing from each other but resources of their nodes are popped together and placed one after
the other, each as if the pods before it were on their nodes. The decisions are those of one batch after the other.

Here is decided which pods may take part, by what they are; filter and score end early where more is needed, and how
many batches are tried together the next time follows from that.

Tests: tests/unit/scheduling/test_batches_in_turn.py.
"""

from collections.abc import Set

from trireme.cache import cluster_cache
from trireme.queueing import scheduling_queue
from trireme.v1 import core_pb2

# Batches that are placed together, at most, and at most so many entries of columns (nodes times classes) in a call.
MAX_BATCHES = 32
MAX_ENTRIES = 400_000
# Pods that are placed together: as many as a batch under load, and then some.
MAX_PODS = 64


class BatchesInTurn:
    """Decides how many batches are placed in turn, and which."""

    def __init__(self, cache: cluster_cache.ClusterCache, profiles: Set[str]) -> None:
        """`profiles`: those whose answers depend on nothing but the cluster: no service takes part."""
        self._cache = cache
        self._profiles = profiles
        self._most = MAX_BATCHES

    @property
    def most(self) -> int:
        """How many batches may be tried together now; 1: each by itself."""
        return max(min(self._most, MAX_ENTRIES // max(self._cache.node_count, 1)), 1)

    def may_take_part(self, batch: scheduling_queue.PodBatch) -> bool:
        """Whether the batch's pods may take nothing from others but resources, and others nothing else from them."""
        first = batch.pods[0].record
        if first.nominated or first.pod.has_deferred_resize:
            return False
        return self.may_class_take_part(batch.profile, batch.class_id)

    def may_class_take_part(self, profile: str, class_id: int) -> bool:
        """As `may_take_part`, of pods that are not nominated; class 0 is none."""
        return bool(class_id) and profile in self._profiles and takes_resources_only(self._cache.registry[class_id].pod)

    def note_placed(self, tried: int, placed: int) -> None:
        """So many batches were tried together, and so many of them were placed before the call ended.

        The more the better: twice as many are tried the next time as were placed.
        """
        self._most = MAX_BATCHES if placed == tried else max(min(2 * placed, MAX_BATCHES), 1)

    def note_single(self) -> None:
        """A batch was placed by itself: the next two are tried together again."""
        self._most = max(self._most, 2)


def takes_resources_only(pod: core_pb2.Pod) -> bool:
    """Whether a pod with this spec takes nothing but resources of its node, and is placed without regard to other pods.

    It may say yes where filter or score know better: by default constraints, existing pods, or devices.
    """
    spec = pod.spec
    if spec.affinity.HasField("pod_affinity") or spec.affinity.HasField("pod_anti_affinity"):
        return False
    if spec.topology_spread_constraints or spec.resource_claims or spec.host_network or spec.node_name:
        return False
    if spec.HasField("scheduling_group") or any(volume.HasField("volume_source") for volume in spec.volumes):
        return False
    containers = (*spec.containers, *spec.init_containers)
    return not any(port.host_port for container in containers for port in container.ports)
