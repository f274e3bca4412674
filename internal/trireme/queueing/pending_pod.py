"""PendingPod: the object of a pod that has no node yet, as the scheduler needs it."""

from dataclasses import dataclass

from trireme.cache.pod_projection import ParsedPod


@dataclass(slots=True)
class PendingPod:
    """A pod without a node; or one that runs, whose resize is deferred until there is room for it.

    Class 0: its fields cannot be read, and `invalid` names them.
    """

    parsed: ParsedPod
    base: int
    class_id: int
    invalid: str = ""

    @property
    def has_deferred_resize(self) -> bool:
        """It has a node already: room is made for it there, and it is not bound."""
        return bool(self.parsed.node_name)
