"""What the scheduler of a simulation wrote."""

from dataclasses import dataclass, field

from trireme.v1 import cycle_pb2


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that leaves its node, and the pod (or group) that needs the room; none where the node is drained."""

    pod: cycle_pb2.PodIdentity
    node_name: str
    preemptor: cycle_pb2.PodIdentity | None = None


@dataclass(slots=True)
class Writes:
    """What was written so far."""

    #: Node by the pod's UID, in the order of binding.
    bound: dict[str, str] = field(default_factory=dict)
    evicted: list[Eviction] = field(default_factory=list)
    #: The message of the last failed attempt by the pod's UID.
    failures: dict[str, str] = field(default_factory=dict)
