"""Caches filter's complete answers about recent classes, so that only changes are sent to and by the phases.

Filter's answer about a class is a column over all slots. The frontend keeps it with the generation it is of; the next
answer comes as a patch to it, from whichever replica, and goes on to score as the same patch where that replica has the
rest. `explain` reads it too: it is why a class is pending.

Also change: internal/trireme/evaluation/column_cache.py (caches of answers by class).

Tests: tests/unit/frontend/test_class_answers.py, tests/unit/frontend/test_reconfiguration.py.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from trireme.scheduling import ports
from trireme.wire import node_columns

# Classes whose answers are cached; a dropped one is requested completely again.
MAX_CLASSES = 256
# … but no more than so much memory beside what the answers to a few classes take.
MAX_BYTES = 32 << 20
MIN_CLASSES = 4
# Memory is measured once for so many classes that are added, as each answer has to be looked at.
_MEASURED_ONCE_IN = 16


@dataclass(slots=True)
class ClassAnswer:
    """Filter's answer about a class, complete, and the replica that gave it."""

    columns: node_columns.NodeColumns = field(default_factory=node_columns.NodeColumns)
    # The replica, and which of its streams; it alone can answer by a patch.
    source: tuple[str, int] | None = None

    def base_generation_for(self, replica: tuple[str, int]) -> int:
        """The generation that this replica may patch: each numbers statuses for itself. 0: it answers completely."""
        return self.columns.generation if self.source == replica else 0


class ClassAnswers:
    """The answers about recent classes."""

    def __init__(self, max_classes: int = MAX_CLASSES) -> None:
        self._max_classes = max_classes
        self._added = 0
        self._answers: OrderedDict[ports.ClassKey, ClassAnswer] = OrderedDict()

    def __contains__(self, key: object) -> bool:
        return key in self._answers

    def get_or_add(self, key: ports.ClassKey) -> ClassAnswer:
        """What is known of the class, made if nothing is."""
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = ClassAnswer()
            self._drop_oldest()
        self._answers.move_to_end(key)
        return answer

    def get(self, key: ports.ClassKey) -> node_columns.NodeColumns | None:
        """What is known of the class, if anything."""
        answer = self._answers.get(key)
        return None if answer is None else answer.columns

    def has(self, key: ports.ClassKey, columns: node_columns.NodeColumns) -> bool:
        """Whether these are the class's columns, and not those of one pod, or a changed copy."""
        return self.get(key) is columns

    def clear(self) -> None:
        """Forget all: the generations begin anew, or the configuration changed, and with it perhaps the answers."""
        self._answers.clear()

    def _drop_oldest(self) -> None:
        """Drop the answers that were used longest ago while there are too many, or they take too much memory."""
        self._added += 1
        while len(self._answers) > self._max_classes:
            self._answers.popitem(last=False)
        if self._added % _MEASURED_ONCE_IN:
            return
        total = sum(answer.columns.nbytes for answer in self._answers.values())
        while total > MAX_BYTES and len(self._answers) > MIN_CLASSES:
            total -= self._answers.popitem(last=False)[1].columns.nbytes
