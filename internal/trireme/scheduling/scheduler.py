"""The scheduler of one term of leadership: takes batches from the queue and runs their cycles, one after the other.

It also flushes the queue when back-offs end and when pods have waited for too long, and has filter prepare the classes
that come next.

Tests: tests/unit/scheduling/test_scheduler.py, tests/unit/scheduling/test_speculation.py,
tests/unit/scheduling/test_batches_in_turn.py, tests/unit/scheduling/test_room_for_bindings.py.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Set
from dataclasses import dataclass

from trireme.queueing import remote_calls, scheduling_queue
from trireme.queueing.groups.queued_group import PodGroupBatch
from trireme.queueing.scheduling_queue import PodBatch
from trireme.scheduling import (
    batch_limit,
    batches_in_turn,
    binding_cycle,
    pacing,
    ports,
    preemption_executor,
    scheduling_cycle,
    speculation,
)
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)

# After a pod that came alone, and no other for so long, places for more pods like it are found by speculation.
QUIET_SECONDS = 0.001

# How many of the next classes are prepared, and how many of these at once. Which replica a class goes to is chance:
# with eight for each of four replicas, a slow plugin beside one of them is seldom idle.
NEXT_CLASSES = 32
MAX_PREPARING = 32

# How often a line says that no more pods are placed, because too many are in Bind calls.
NO_ROOM_LOG_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the scheduler has got, for the liveness check."""

    completed: int  # cycles, and actions of PostFilter, for which a cycle may wait
    work_waiting: bool  # a cycle is under way, or could begin: there are pods, all phases, and room for bindings


class Scheduler:
    """The loop that takes batches from the queue and runs their cycles, one by one, while this frontend leads."""

    def __init__(
        self,
        *,
        queue: scheduling_queue.SchedulingQueue,
        evaluators: ports.Evaluators,
        publish: Callable[[], int],
        execute: Callable[[remote_calls.Instructions], None],
        now: Callable[[], float],
        cycle: scheduling_cycle.SchedulingCycle,
        speculations: speculation.Speculation,
        binding: binding_cycle.BindingCycle,
        preemptions: preemption_executor.PreemptionExecutor,
        pacer: pacing.Pacer,
        available: Callable[[], bool],
        wakeup: asyncio.Event,
        limit: batch_limit.BatchLimit,
        speculating: Set[str],
        prepares_ahead: bool,
        in_turn: batches_in_turn.BatchesInTurn,
        run_group: Callable[[PodGroupBatch], Awaitable[None]] | None = None,
    ) -> None:
        """Makes the scheduler.

        `available` returns whether all phases can be called; `wakeup` is set when a change may make a batch possible,
        also by `execute`.
        `speculating` are the profiles whose answers depend on nothing but the cluster; unless `prepares_ahead`, their
        classes are not prepared. `run_group` runs the cycle of a pod group, if there are groups.
        """
        self._queue = queue
        self._evaluators = evaluators
        self._publish = publish
        self._execute = execute
        self._now = now
        self._cycle = cycle
        self._speculation = speculations
        self._binding = binding
        self._preemptions = preemptions
        self._answers = evaluators.answers
        self._pacer = pacer
        self._available = available
        self._limit = limit
        self._speculating = speculating
        self._prepares_ahead = prepares_ahead
        self._in_turn = in_turn
        self._run_group = run_group
        self._wakeup = wakeup
        self._completed = 0
        self._running = self._in_cycle = False
        # Held by each cycle, and by tasks that need that there is none.
        self._turn = asyncio.Lock()
        self._preparing: dict[ports.ClassKey, asyncio.Task[None]] = {}
        # Those of the next classes that replicas have prepared.
        self._prepared: set[ports.ClassKey] = set()

    def progress(self) -> Progress:
        """What has been completed, and whether a cycle could complete or begin.

        None could while a phase is missing: evictions and the other actions of PostFilter wait for bind within a cycle.
        Where a client may send little, those of one cycle may take longer than any cycle does otherwise: each counts.
        """
        can_begin = self._running and self._queue.ready() and self._binding.has_room
        completed = self._completed + self._preemptions.completed_actions
        return Progress(completed, self._available() and (self._in_cycle or can_begin))

    @property
    def in_cycle(self) -> bool:
        """Whether a cycle is under way."""
        return self._in_cycle

    @contextlib.asynccontextmanager
    async def between_cycles(self) -> AsyncIterator[None]:
        """Wait until no cycle is under way; none begins before the block ends. Nothing else waits."""
        async with self._turn:
            yield

    def forget_prepared(self) -> None:
        """Drop what was found in advance: the configuration by which it was found is no longer in force."""
        self._prepared.clear()
        self._speculation.forget()
        for task in self._preparing.values():
            task.cancel()

    async def run(self) -> None:
        """Schedule until cancelled."""
        self._running = True
        async with asyncio.TaskGroup() as group:
            for name, work in (
                ("schedule", self._schedule_batches),
                ("flush back-off", self._flush_backoff),
                ("flush unschedulable", self._flush_unschedulable),
            ):
                group.create_task(supervision.supervise(name, work), name=name)

    async def _schedule_batches(self) -> None:
        """Pop batches and run their cycles, one by one, forever; wait if there is nothing to do, or no room.

        A batch may wait a moment until it is larger, and the next ones are prepared while it is scheduled.
        """
        while True:
            await self._wait_for_room()
            if not (self._queue.ready() and self._available()):
                self._wakeup.clear()
                if not (self._queue.ready() and self._available()):
                    await self._wakeup.wait()
                continue
            delay = self._batch_delay()
            if delay > 0:
                await asyncio.sleep(delay)
                continue
            async with self._turn:
                await self._schedule_next_batch()

    async def _schedule_next_batch(self) -> None:
        """Run the cycles of the batches that are placed in turn, or pop the next batch and run its cycle."""
        ahead = self._in_turn.plan(self._queue.peek_active_classes(self._in_turn.most), self._limit.max_pods)
        if ahead is not None and await self._run_in_turn(ahead):
            return
        batch = self._queue.pop(self._now(), self._limit.max_pods)
        if batch is None:
            return
        # Asked before the cycle, which adds the class to the answers.
        for_more = batch if isinstance(batch, PodBatch) and self._may_speculate(batch) else None
        self._prepare_ahead()
        self._in_cycle = True
        try:
            await self.run_cycle(batch)
        finally:
            self._in_cycle = False
        self._completed += 1
        if for_more is not None:
            await self._speculate(for_more)

    async def _run_in_turn(self, ahead: batches_in_turn.BatchesAhead) -> bool:
        """Run the cycles of the batches that come next together; return whether any was taken from the queue."""
        self._prepare_ahead()
        self._in_cycle = True
        try:
            taken = await self._cycle.run_in_turn(ahead)
        finally:
            self._in_cycle = False
        self._completed += taken
        return bool(taken)

    async def _wait_for_room(self) -> None:
        """Return when more pods may be placed."""
        while not self._binding.has_room:
            try:
                async with asyncio.timeout(NO_ROOM_LOG_SECONDS):
                    await self._binding.wait_for_room()
            except TimeoutError:
                text = "bind has had as many pods as it may for %.0f s; no more pods are placed until some are bound"
                log.warning(text, NO_ROOM_LOG_SECONDS)

    async def run_cycle(self, batch: scheduling_queue.Batch) -> None:
        """Run the scheduling cycle of a batch of pods, or of a pod group."""
        match batch:
            case PodBatch():
                await self._cycle.run(batch)
            case PodGroupBatch():
                assert self._run_group is not None  # only a queue that knows groups hands one out
                await self._run_group(batch)

    def _may_speculate(self, batch: PodBatch) -> bool:
        """Whether places are to be found for more pods like this one: it came alone, and one of its class before it."""
        came_before = (batch.profile, batch.class_id) in self._answers
        return came_before and len(batch.pods) == 1 and batch.profile in self._speculating

    async def _speculate(self, batch: PodBatch) -> None:
        """Find places for more pods like this one, if there are none yet and nothing else to do."""
        if self._speculation.placement((batch.profile, batch.class_id), 1) is not None:
            return
        self._wakeup.clear()
        if self._queue.ready():
            return
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                await self._wakeup.wait()
        except TimeoutError:
            await self._speculation.speculate(batch)

    def _batch_delay(self) -> float:
        """How long to let the next batch grow, in seconds; 0: take it now."""
        ahead = self._queue.peek_next_classes(NEXT_CLASSES * 4)
        if not ahead:
            return 0.0
        first = ahead[0]
        return self._pacer.batch_delay(
            self._in_turn.count_ahead(ahead),
            len(ahead),
            self._now() - first.head.timestamp,
            self._binding.unconfirmed_count,
        )

    def _prepare_ahead(self) -> None:
        """Have replicas of filter compute the columns of the next classes in the background, once for each class.

        Skipped are classes with an answer, pod groups, pods without a class, and classes that are placed in turn.
        Failures are ignored: it only saves time.
        """
        in_turn = self._in_turn.most > 1
        coming = [
            (ahead.head.record.profile, ahead.key)
            for ahead in self._queue.peek_next_classes(NEXT_CLASSES)
            if isinstance(ahead.key, int)
            and (self._prepares_ahead or ahead.head.record.profile not in self._speculating)
            and not (in_turn and self._in_turn.may_take_part(ahead))
        ]
        self._prepared.intersection_update(coming)
        for key in coming:
            if not key[1] or key in self._answers or key in self._preparing or key in self._prepared:
                continue
            if len(self._preparing) >= MAX_PREPARING:
                return
            task = asyncio.create_task(self._prepare_class(key, self._publish()))
            self._preparing[key] = task
            task.add_done_callback(lambda _, key=key: self._preparing.pop(key, None))  # type: ignore[misc]

    async def _prepare_class(self, key: ports.ClassKey, generation: int) -> None:
        """Have filter evaluate the class ahead of its turn; a failure is only logged."""
        try:
            await self._evaluators.prepare(*key, generation)
            self._prepared.add(key)
        except ports.PhaseFault as error:
            log.debug("class %d could not be prepared: %s", key[1], error)

    async def _flush_backoff(self) -> None:
        """Move pods whose back-off is over, once a second forever: back-offs end on whole seconds."""
        while True:
            now = self._now()
            await asyncio.sleep(1.0 - now % 1.0 + 0.001)
            if self._queue.next_backoff() is not None:
                self._execute(self._queue.flush_backoff(self._now()))

    async def _flush_unschedulable(self) -> None:
        """Retry pods that no event woke for long, every FLUSH_PERIOD forever."""
        while True:
            await asyncio.sleep(scheduling_queue.FLUSH_PERIOD)
            self._execute(self._queue.flush_unschedulable(self._now()))
