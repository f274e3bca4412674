"""Answers of a plugin that depends on the node alone, shared by the classes whose pods are equal to the plugin.

Pods of a class are equal in every field that any plugin reads. A plugin that reads fewer fields gets the same pod of
many classes, and about a node that has not changed it gives each of them the same answer. So it is called about one of
these classes, and the others find what it answered.

Invariant: an answer is used only for a node that has not changed since the call that gave it began.

The answers about a pod outlive its classes. A plugin whose message says what it saw (a load, a time) gives another
status with each change of a node, so statuses that no node has any more are forgotten from time to time.
"""

import asyncio
import contextlib
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from trireme.plugin_api import interfaces
from trireme.remote import call_parts, remote_connection
from trireme.snapshot import arrays, nodes, snapshot

# Different pods whose answers are known at once; each takes 10 bytes a node for Filter and 16 for Score. A plugin that
# reads so much that there are more would gain little by sharing.
MAX_PODS = 64

# How many statuses a table takes, at least, before the next one is begun with those that nodes still have. Where there
# are many nodes it is a quarter of their number, as each of them may have a status to move.
LEAST_STALE_STATUSES = 64

First = TypeVar("First")
Number = TypeVar("Number", np.int16, np.int64)


class AnswersAboutPod(Generic[First, Number]):
    """What a plugin answered about one pod: its answer to the first call, and a number for each node. Shapes: (slot,).

    The first call is PreFilter or PreScore. `statuses` are those that numbers of Filter refer to. A call of `complete`
    may replace them, and its answer refers to those that are there once it returns.
    """

    __slots__ = ("_as_of", "_failure", "_failures", "_first", "_lock", "_moved", "_numbers", "_state", "statuses")

    def __init__(self, number: type[Number]) -> None:
        self.statuses = interfaces.StatusTable()
        # How many of the statuses came from the table before.
        self._moved = 0
        self._first: First | None = None
        self._state = b""
        self._numbers: npt.NDArray[Number] = np.zeros(0, dtype=number)
        # The snapshot's generation when the call began that gave the number; 0: there is none.
        self._as_of: arrays.Int64Array = np.zeros(0, dtype=np.int64)
        self._lock = asyncio.Lock()
        self._failures = 0
        self._failure: remote_connection.PluginError | call_parts.PluginFailed | None = None

    @property
    def nbytes(self) -> int:
        """Memory of the numbers, in bytes."""
        return self._numbers.nbytes + self._as_of.nbytes

    async def first_answer(self, call: Callable[[], Awaitable[First]], holds: Callable[[First], bool]) -> First:
        """The answer to the first call: the one that is known, or that of `call`, known from now on if it `holds`.

        Raises: PluginError.
        """
        async with self._turn():
            if self._first is not None:
                return self._first
            answer = await call()
            if holds(answer):
                self._first = answer
            return answer

    async def complete(
        self,
        snap: snapshot.Snapshot,
        slots: arrays.SlotArray,
        state: bytes,
        call: Callable[[arrays.SlotArray], Awaitable[npt.NDArray[Number]]],
    ) -> npt.NDArray[Number]:
        """The numbers of the slots, where `call` is made about those whose nodes have none as they are now.

        `state` is that of the first answer: after another one, none is known. Requests at the same time share the calls
        and a failure. A slot that lost its node meanwhile has any number. Shape: as `slots`.

        Raises: PluginError, PluginFailed; OutOfStepError if the snapshot was replaced meanwhile.
        """
        incarnation = snap.incarnation
        async with self._turn():
            snap.check_incarnation(incarnation)
            if state != self._state:
                self._state, self._as_of = state, np.zeros_like(self._as_of)
            self._ensure_capacity(snap.nodes.capacity)
            missing = slots[self._lack_answers(snap.nodes, slots) & arrays.entries_at(snap.nodes.alive, slots)]
            if missing.size:
                self._forget_statuses(snap.nodes, missing)
                generation = snap.generation
                numbers = await call(missing)
                snap.check_incarnation(incarnation)
                self._numbers[missing], self._as_of[missing] = numbers, generation
            found: npt.NDArray[Number] = self._numbers[slots]
            return found

    def numbers_of(self, table: nodes.NodeTable, slots: arrays.SlotArray) -> npt.NDArray[Number]:
        """The numbers of the slots; 0 where there is no answer about the node as it is now. Shape: as `slots`."""
        self._ensure_capacity(table.capacity)
        numbers: npt.NDArray[Number] = self._numbers[slots]
        numbers[self._lack_answers(table, slots)] = 0
        return numbers

    def _lack_answers(self, table: nodes.NodeTable, slots: arrays.SlotArray) -> arrays.BoolArray:
        """Which of the slots hold a node about which there is no answer as it is now. Shape: as `slots`."""
        known = arrays.entries_at(self._as_of, slots)
        changed = arrays.entries_at(table.object_changes.at, slots)
        lack: arrays.BoolArray = (known == 0) | (changed > known)
        return lack

    def _ensure_capacity(self, size: int) -> None:
        if self._as_of.shape[0] < size:
            self._numbers = arrays.grow_last_axis(self._numbers, size)
            self._as_of = arrays.grow_last_axis(self._as_of, size)

    def _forget_statuses(self, table: nodes.NodeTable, missing: arrays.SlotArray) -> None:
        """Begin another table of statuses, if this one took many or may have no room for a call about `missing`.

        It has the statuses of nodes that have an answer, and only of these: `missing` have none as they are now.
        """
        known = len(self.statuses.statuses)
        enough = max(LEAST_STALE_STATUSES, self._as_of.shape[0] // 4)
        full = known + missing.size > interfaces.MAX_STATUSES
        if known - self._moved < (1 if full else enough):
            return
        self._as_of[missing] = 0
        self._as_of[~table.alive[: self._as_of.shape[0]]] = 0
        self._numbers[self._as_of == 0] = interfaces.PASSES
        before, self.statuses = self.statuses, interfaces.StatusTable()
        moved = np.zeros(known + 1, dtype=self._numbers.dtype)
        for number in np.unique(self._numbers).tolist():
            if number:
                moved[number] = self.statuses.intern(before.statuses[number - 1])
        self._numbers = moved[self._numbers]
        self._moved = len(self.statuses.statuses)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One request after the other; those that waited for one that failed fail as it did, without a call."""
        failures = self._failures
        async with self._lock:
            if self._failure is not None and self._failures != failures:
                raise type(self._failure)(str(self._failure))
            try:
                yield
            except (remote_connection.PluginError, call_parts.PluginFailed) as error:
                self._failures += 1
                self._failure = error
                raise


class SharedAnswers(Generic[First, Number]):
    """The answers of one plugin at one extension point, for one profile: by snapshot, and by what it gets of a pod."""

    def __init__(self, number: type[Number]) -> None:
        self._number: type[Number] = number
        # A snapshot that is replaced gets another table, and so has each fork.
        self._by_table: weakref.WeakKeyDictionary[
            nodes.NodeTable, OrderedDict[bytes, AnswersAboutPod[First, Number]]
        ] = weakref.WeakKeyDictionary()

    def about(
        self, snap: snapshot.Snapshot, pod: bytes, used: AnswersAboutPod[First, Number] | None = None
    ) -> AnswersAboutPod[First, Number]:
        """The answers about the pod, as the plugin gets it. Beyond `MAX_PODS` those used longest ago are forgotten.

        `used` are those that a class has: they are taken if these were forgotten.
        """
        of_table = self._by_table.setdefault(snap.nodes, OrderedDict())
        answers = of_table.get(pod)
        if answers is None:
            if len(of_table) >= MAX_PODS:
                of_table.popitem(last=False)
            answers = of_table[pod] = used or AnswersAboutPod(self._number)
        of_table.move_to_end(pod)
        return answers
