"""The queue's memory of its last moves, and the exception that tells them.

One ring for all pods, so that keeping it costs one append per move; a pod's story is read out of it only when somebody
asks. The exception for a transition that cannot be carries it: how the pod came to be there is what one needs to know.
"""

from collections import deque
from typing import Final, NamedTuple

from trireme.queueing.queued_pod import Place, QueuedPodInfo

DEFAULT_LENGTH = 4096

# Why a pod left the queue for good.
DELETED: Final = "deleted"
BOUND: Final = "bound"


class Transition(NamedTuple):
    """One move of a pod."""

    at: float
    key: str
    uid: str
    to: Place
    #: The event's label, or what the caller did.
    cause: str

    def __str__(self) -> str:
        return f"{self.at:.3f} {self.key} ({self.uid}) to {self.to.value}: {self.cause}"


class TransitionLog:
    """The last moves of all pods."""

    __slots__ = ("_moves",)

    def __init__(self, length: int = DEFAULT_LENGTH) -> None:
        self._moves: deque[tuple[float, str, str, Place, str]] = deque(maxlen=length)

    def tell(self, now: float, pod: QueuedPodInfo, to: Place, cause: str) -> None:
        """Records a move."""
        record = pod.record
        self._moves.append((now, record.key, record.uid, to, cause))

    def of(self, key: str) -> list[Transition]:
        """What is remembered of the pods of that name, oldest first."""
        return [Transition(*move) for move in self._moves if move[1] == key]


class ImpossibleTransition(RuntimeError):
    """A pod was asked to do what it cannot from where it is: a defect of the caller or of the queue.

    Attributes: `key`; `story`, the pod's last moves.
    """

    def __init__(self, pod: QueuedPodInfo, wanted: str, story: TransitionLog) -> None:
        self.key = pod.record.key
        self.story = story.of(self.key)
        moves = "".join(f"\n  {move}" for move in self.story)
        super().__init__(f"{self.key} ({pod.record.uid}) is {pod.place.value}, cannot {wanted}; its story:{moves}")
