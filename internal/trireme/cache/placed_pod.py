"""The cluster cache's entry of a pod on a node: only what deltas and classes need.

There is one per pod in the cluster, so entries are small; only the cache modifies them.

Tests: tests/unit/scheduling/test_pod_group_trial_marks.py.
"""

from trireme.cache.pod_projection import Labels

NO_SLOT = -1


class PlacedPod:
    """A pod on a node, assumed or bound. Slot NO_SLOT: its node is unknown."""

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
        #: PREEMPTED once its eviction is decided, before its object shows that; else 0.
        self.evicting = 0
        #: The latest from the informer; 0 before the first.
        self.generation = 0
        self.start = 0
        self.row = NO_SLOT
        self.slot = NO_SLOT
        #: The latest resourceVersion from the informer; 0 before the first.
        self.version = 0

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.key.partition("/")[2]
