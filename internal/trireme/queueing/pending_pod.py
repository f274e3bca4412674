"""PendingPod: what the frontend keeps of a pod that has no node yet, beside what the queue orders it by."""

from dataclasses import dataclass

from trireme.cache.pod_projection import ParsedPod


@dataclass(slots=True)
class PendingPod:
    """A pod without a node, as its object says; or one that runs, whose resize is deferred until there is room for it.
    Class 0: its fields cannot be read, and `invalid` says which.
    """

    parsed: ParsedPod
    base: int
    class_id: int
    invalid: str = ""

    @property
    def resized(self) -> bool:
        """It has a node already: room is made for it there, and it is not bound."""
        return bool(self.parsed.node_name)
