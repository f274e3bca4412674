"""PendingPod: the object of a pod that has no node yet, as the scheduler needs it."""

from dataclasses import dataclass
from typing import NamedTuple

from trireme.cache.pod_projection import ParsedPod
from trireme.framework.sort_key import SortKey


class GivenSortKey(NamedTuple):
    """The key that a remote QueueSort plugin gave a pod, and for what: a pod of another class is to have another."""

    key: SortKey
    class_id: int
    #: Which description, instance and configuration of the plugin gave it.
    epoch: int


@dataclass(slots=True)
class PendingPod:
    """A pod without a node; or one that runs, whose resize is deferred until there is room for it.

    Class 0: its fields cannot be read, and `invalid` names them.
    """

    parsed: ParsedPod
    base: int
    class_id: int
    invalid: str = ""
    #: None: the pod is ordered by its priority.
    given_sort_key: GivenSortKey | None = None

    @property
    def has_deferred_resize(self) -> bool:
        """It has a node already: room is made for it there, and it is not bound."""
        return bool(self.parsed.node_name)
