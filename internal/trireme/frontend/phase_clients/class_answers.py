"""Caches filter's complete answers about recent classes, so that only changes are sent to and by the phases.

Filter's answer about a class is a column over all slots. The frontend keeps it with the generation it is of; the next
answer comes as a patch to it, from whichever replica, and goes on to score as the same patch where that replica has the
rest. `explain` reads it too: it is why a class is pending.
"""

from collections import OrderedDict

from trireme.results.class_answer import ClassAnswer
from trireme.scheduling import ports

# Classes whose answers are cached; a dropped one is requested completely again.
MAX_CLASSES = 256
# … but no more than so much memory beside what the answers to a few classes take.
MAX_BYTES = 32 << 20
MIN_CLASSES = 4


class ClassAnswers:
    """The answers about recent classes."""

    def __init__(self, max_classes: int = MAX_CLASSES) -> None:
        self._max_classes = max_classes
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

    def get(self, key: ports.ClassKey) -> ClassAnswer | None:
        """What is known of the class, if anything."""
        return self._answers.get(key)

    def clear(self) -> None:
        """Forget all: the generations begin anew."""
        self._answers.clear()

    def _drop_oldest(self) -> None:
        """Drop the answers that were added first while there are too many, or they take too much memory."""
        total = sum(answer.index.nbytes + answer.capacity.nbytes for answer in self._answers.values())
        while len(self._answers) > self._max_classes or (total > MAX_BYTES and len(self._answers) > MIN_CLASSES):
            oldest = self._answers.popitem(last=False)[1]
            total -= oldest.index.nbytes + oldest.capacity.nbytes
