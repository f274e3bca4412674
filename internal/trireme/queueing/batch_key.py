"""The key that the pods of a batch share: their class, or the group that is scheduled as one.

Tests: tests/unit/scheduling/test_pod_group_cycle.py, tests/unit/queueing/test_group_state_machine.py.
"""

import dataclasses

POD_GROUP = "PodGroup"
COMPOSITE_POD_GROUP = "CompositePodGroup"

# Number of the class in the cache's registry.
ClassId = int


@dataclasses.dataclass(frozen=True, slots=True)
class GroupKey:
    """Names a PodGroup or CompositePodGroup; `name` is namespace/name."""

    name: str
    composite: bool = False

    @classmethod
    def parse(cls, text: str) -> "GroupKey":
        """The key that `str` wrote."""
        kind, _, name = text.partition("/")
        return cls(name, kind == COMPOSITE_POD_GROUP.lower())

    @property
    def api_kind(self) -> str:
        """Its kind in the API."""
        return COMPOSITE_POD_GROUP if self.composite else POD_GROUP

    @property
    def kind(self) -> str:
        """The name of its kind in messages and metrics."""
        return self.api_kind.lower()

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


BatchKey = ClassId | GroupKey
