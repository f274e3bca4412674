"""What makes an attempt part of the trial of a pod group: it may be undone, and may be bound to some nodes."""

import dataclasses

import numpy as np

from trireme.results import class_answer
from trireme.results.phase_results import FilterResult


@dataclasses.dataclass(frozen=True, slots=True)
class GroupPlacement:
    """Nodes that a group may go to, and no others; `name` is what they have in common."""

    name: str
    slots: tuple[int, ...]

    def restrict_to_nodes(self, filtered: FilterResult) -> FilterResult:
        """Filter's answer about these nodes alone, as if there were no others."""
        answer = filtered.answer
        inside = np.zeros(answer.index.shape[0], dtype=np.bool_)
        inside[[slot for slot in self.slots if slot < inside.shape[0]]] = True
        overlaid = class_answer.ClassAnswer(
            generation=answer.generation,
            statuses=answer.statuses,
            index=np.where(inside, answer.index, 0).astype(np.int16),
            capacity=np.where(inside, answer.capacity, 0).astype(np.int32),
        )
        return dataclasses.replace(filtered, answer=overlaid, columns=overlaid.to_message(), of_one=True)


@dataclasses.dataclass(frozen=True, slots=True)
class TrialScope:
    """The trial that an attempt is part of: of which PodGroup, and on which nodes (`placement` None: on all).

    The group's members may share claims that are reserved in it.
    """

    pod_group: str
    placement: GroupPlacement | None = None
