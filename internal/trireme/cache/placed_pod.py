"""What the cluster cache knows of a pod that is on a node: no more than replicas are told, and classes are made of.

There are as many as pods in the cluster, so they are kept small; the cache alone changes them.
"""

from trireme.cache.pod_projection import Labels

NO_SLOT = -1


class PlacedPod:
    """A pod on a node, assumed or bound. Slot NO_SLOT: its node is not known (yet)."""

    __slots__ = (
        "assumed",
        "base",
        "class_id",
        "evicting",
        "flags",
        "generation",
        "key",
        "labels",
        "node_name",
        "row",
        "slot",
        "start",
        "uid",
        "version",
    )

    def __init__(self, key: str, uid: str, node_name: str, base: int, labels: Labels, class_id: int) -> None:
        self.key = key
        self.uid = uid
        self.node_name = node_name
        self.base = base
        self.labels = labels
        self.class_id = class_id
        self.assumed = False
        self.flags = 0
        #: PREEMPTED once the pod's eviction was decided on, whatever its object says yet; otherwise 0.
        self.evicting = 0
        #: As the informer showed it last; 0: it has not yet.
        self.generation = 0
        self.start = 0
        self.row = NO_SLOT
        self.slot = NO_SLOT
        #: The resourceVersion that the informer showed last; 0: none yet.
        self.version = 0

    @property
    def name(self) -> str:
        """The pod's own name."""
        return self.key.partition("/")[2]
