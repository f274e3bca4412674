"""ActiveQueue: pods by the levels of QueueSort's order, handed out as batches of one class.

Pods of one *level* (by default: of one priority) are grouped by class, and are in order within it. The classes of a
level take turns: the class with the earliest turn gives one batch. The turn of a class is the timestamp of its first
pod, or the time of its own last batch if that is later. So a class that has just given a batch comes after all classes
that were waiting by then, and before all that arrive later: no pod waits behind more than one batch of each other
class, and no stream of new classes starves an old one. Where every class has one pod this is the order of the keys.

A group of pods is queued like a pod, in a class of its own: both are a `QueuedEntity`.

With another QueueSort than the one by priority, a level is the part of the plugin's key that the plugin declares equal
for batches; by default the whole key. Then only pods with equal keys are in one batch, and batches follow the plugin's
order exactly.

Heaps hold tuples and are repaired lazily: a pod that is taken out leaves its entry behind, which is skipped when it
comes up (its `container` or `stamp` no longer agree) and swept when such entries outnumber the rest.

Tests: tests/unit/queueing/test_active.py, tests/unit/queueing/test_batch_order.py.
"""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from trireme.framework.sort_key import SortNumbers
from trireme.queueing.batch_key import BatchKey
from trireme.queueing.queued_entity import QueuedEntity

Turn = tuple[float, int]
_NEVER: Turn = (float("-inf"), 0)
# Dead entries are swept once they are as many as the living, and more than so many.
_SLACK = 64
_SERVED_SLACK = 256


class NextClass(NamedTuple):
    """A class, or group, that comes next: its first entity, and how many wait at that level."""

    key: BatchKey
    head: QueuedEntity
    waiting: int


class ClassPods:
    """The waiting pods of one class at one priority level, in the order in which they are tried."""

    __slots__ = ("alive", "heap", "key", "level_queue", "served", "turn")

    def __init__(self, level_queue: "LevelQueue", key: BatchKey, served: Turn) -> None:
        self.level_queue = level_queue
        self.key = key
        self.heap: list[tuple[SortNumbers, float, int, QueuedEntity]] = []
        self.alive = 0
        self.served = served
        self.turn: Turn = _NEVER

    def __lt__(self, other: "ClassPods") -> bool:
        """Heaps compare them at equal turns: the pods that a class had and those that it has now, in either order."""
        return False

    def head(self) -> QueuedEntity:
        """The first entity; there must be one."""
        heap = self.heap
        while True:
            entry = heap[0]
            entity = entry[3]
            if entity.container is self and entity.stamp == entry[2]:
                return entity
            heapq.heappop(heap)

    def current_turn(self) -> Turn:
        """When it is this class's turn: by its first entity's age, or its last batch, whichever is later."""
        head = self.head()
        return max((head.timestamp, head.stamp), self.served)

    def discard(self, entity: QueuedEntity) -> None:
        """Takes the entity out, from wherever it is among those of its class."""
        entity.container = None
        self.alive -= 1
        self.level_queue.on_removed(self)
        if len(self.heap) > 2 * self.alive + _SLACK:
            self.heap = [entry for entry in self.heap if entry[3].container is self and entry[3].stamp == entry[2]]
            heapq.heapify(self.heap)
        # By another QueueSort the next entity may be older than the first was; where it is younger, the turn is put
        # off once it comes.
        if self.alive and (turn := self.current_turn()) < self.turn:
            self.level_queue.push_turn(self, turn)

    def take(self, limit: int) -> list[QueuedEntity]:
        """Takes out the first entity, and those after it up to `limit`.

        None of them is exclusive, unless it is alone; nominated and other pods are not together. The caller lowers
        the queue's `size`.
        """
        batch = [self.head()]
        heap = self.heap
        heapq.heappop(heap)
        first = batch[0].record
        if not first.exclusive:
            room = limit - 1
            while room > 0 and heap:
                _, _, stamp, entity = heap[0]
                if entity.container is not self or entity.stamp != stamp:
                    heapq.heappop(heap)
                    continue
                if entity.record.exclusive or entity.record.nominated != first.nominated:
                    break
                heapq.heappop(heap)
                batch.append(entity)
                room -= 1
        for entity in batch:
            entity.container = None
        self.alive -= len(batch)
        return batch

    def __iter__(self) -> Iterator[QueuedEntity]:
        return (entity for _, _, stamp, entity in self.heap if entity.container is self and entity.stamp == stamp)


class LevelQueue:
    """All classes of one level."""

    __slots__ = ("classes", "level", "owner", "served", "served_limit", "size", "turns")

    def __init__(self, owner: "ActiveQueue", level: SortNumbers) -> None:
        self.owner = owner
        self.level = level
        self.classes: dict[BatchKey, ClassPods] = {}
        self.turns: list[tuple[float, int, ClassPods]] = []
        # When classes without a pod here had their last batch. Deleted once no pod waits from before.
        self.served: dict[BatchKey, Turn] = {}
        self.served_limit = _SERVED_SLACK
        self.size = 0

    def add(self, entity: QueuedEntity, key: BatchKey) -> None:
        """Takes the entity in, among those of its class."""
        class_pods = self.classes.get(key)
        if class_pods is None:
            served = self.served.pop(key, _NEVER)
            class_pods = self.classes[key] = ClassPods(self, key, served)
        heap = class_pods.heap
        heapq.heappush(heap, (entity.record.rest, entity.timestamp, entity.stamp, entity))
        class_pods.alive += 1
        entity.container = class_pods
        self.size += 1
        if heap[0][3] is entity:
            turn = max((entity.timestamp, entity.stamp), class_pods.served)
            if turn != class_pods.turn:
                self.push_turn(class_pods, turn)

    def on_removed(self, class_pods: ClassPods) -> None:
        """Count that an entity was taken out of `class_pods`; removes what became empty by it."""
        self.size -= 1
        self.owner.size -= 1
        if not class_pods.alive:
            self._remove_class(class_pods)
        if not self.size:
            self.owner.remove_level(self)

    def next_class(self) -> ClassPods:
        """The class whose turn it is; the queue of the level must not be empty."""
        turns = self.turns
        while True:
            time, stamp, class_pods = turns[0]
            if not class_pods.alive or class_pods.turn != (time, stamp):
                heapq.heappop(turns)
                continue
            due = class_pods.current_turn()
            if due == class_pods.turn:
                return class_pods
            class_pods.turn = due
            heapq.heapreplace(turns, (*due, class_pods))

    def take(self, limit: int, served: Turn) -> list[QueuedEntity]:
        """Takes out the next batch; `served` is the turn that its class has then."""
        class_pods = self.next_class()
        batch = class_pods.take(limit)
        self.size -= len(batch)
        class_pods.served = served
        if class_pods.alive:
            class_pods.turn = class_pods.current_turn()
            heapq.heapreplace(self.turns, (*class_pods.turn, class_pods))
        else:
            self._remove_class(class_pods)
        return batch

    def next_classes(self, count: int) -> Iterator[NextClass]:
        """The classes of the next batches, in order. Cost: O(count log count), not the number of classes."""
        turns = self.turns
        front = [(*turns[0][:2], 0)] if turns else []
        seen: set[BatchKey] = set()
        while front and len(seen) < count:
            time, stamp, index = heapq.heappop(front)
            class_pods = turns[index][2]
            if class_pods.alive and class_pods.turn == (time, stamp) and class_pods.key not in seen:
                seen.add(class_pods.key)
                yield NextClass(class_pods.key, class_pods.head(), class_pods.alive)
            for child in (2 * index + 1, 2 * index + 2):
                if child < len(turns):
                    heapq.heappush(front, (*turns[child][:2], child))

    def push_turn(self, class_pods: ClassPods, turn: Turn) -> None:
        """Enter when the class's turn is; its earlier entry in the heap counts no more."""
        class_pods.turn = turn
        heapq.heappush(self.turns, (*turn, class_pods))
        if len(self.turns) > 2 * len(self.classes) + _SLACK:
            self.turns = [(*class_pods.turn, class_pods) for class_pods in self.classes.values()]
            heapq.heapify(self.turns)

    def _remove_class(self, class_pods: ClassPods) -> None:
        """Remove a class without pods, but remember its turn for a while: it may come back."""
        del self.classes[class_pods.key]
        self.served[class_pods.key] = class_pods.served
        if len(self.served) > self.served_limit and self.classes:
            oldest = self.next_class().turn
            self.served = {key: turn for key, turn in self.served.items() if turn > oldest}
            self.served_limit = 2 * len(self.served) + _SERVED_SLACK


class ActiveQueue:
    """The pods that may be tried now, by priority level and class. `size` is their number."""

    __slots__ = ("_level_queues", "_levels", "_stale", "size")

    def __init__(self) -> None:
        self._level_queues: dict[SortNumbers, LevelQueue] = {}
        # A heap of the levels that have a queue, and of those in `_stale`, whose queue is gone.
        self._levels: list[SortNumbers] = []
        self._stale: set[SortNumbers] = set()
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[QueuedEntity]:
        return (
            entity
            for level_queue in self._level_queues.values()
            for class_pods in level_queue.classes.values()
            for entity in class_pods
        )

    def add(self, entity: QueuedEntity, key: BatchKey) -> None:
        """Takes the entity in, where its record, timestamp and stamp order it among those of this key."""
        level = entity.record.level
        level_queue = self._level_queues.get(level)
        if level_queue is None:
            level_queue = self._level_queues[level] = LevelQueue(self, level)
            if level in self._stale:
                self._stale.remove(level)
            else:
                heapq.heappush(self._levels, level)
        level_queue.add(entity, key)
        self.size += 1

    def take(self, limit: int, now: float, stamp: int) -> list[QueuedEntity]:
        """Takes out the next batch; there must be an entity. `stamp` is that of this pop."""
        level_queue = self._first_level()
        batch = level_queue.take(limit, (now, stamp))
        self.size -= len(batch)
        if not level_queue.size:
            self.remove_level(level_queue)
        return batch

    def next_batch(self) -> NextClass:
        """The class whose pods `take` returns next; there must be an entity."""
        class_pods = self._first_level().next_class()
        return NextClass(class_pods.key, class_pods.head(), class_pods.alive)

    def next_classes(self, count: int) -> list[NextClass]:
        """The classes of the next batches, at most `count`, in order, but for classes whose first pods have gone."""
        found: list[NextClass] = []
        for level in sorted(self._level_queues):
            found.extend(self._level_queues[level].next_classes(count - len(found)))
            if len(found) >= count:
                break
        return found

    def remove_level(self, level_queue: LevelQueue) -> None:
        """Remove the queue of a level, which has become empty."""
        del self._level_queues[level_queue.level]
        if self._levels[0] == level_queue.level:
            heapq.heappop(self._levels)
        else:
            self._stale.add(level_queue.level)
            if len(self._stale) > len(self._level_queues) + _SLACK:
                # Nothing is taken from a standby's queue, so its heap would grow with each level that ever was.
                self._levels = sorted(self._level_queues)
                self._stale.clear()

    def _first_level(self) -> LevelQueue:
        """The queue of the level that comes first; there must be an entity."""
        while True:
            level_queue = self._level_queues.get(self._levels[0])
            if level_queue is not None:
                return level_queue
            self._stale.remove(heapq.heappop(self._levels))
