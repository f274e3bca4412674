"""The scheduling cycle of one batch: attempts, until each pod is placed or has failed.

One batch at a time, so that the outcome is that of one pod after the other. Each attempt is committed at once: what it
placed is bound, beside the next scheduling cycle; if no node takes the pods, PostFilter runs.

Before an attempt makes its calls there are two shorter ways: pods that are nominated for different nodes are tried on
these alone, in one call, and pods whose places are known by speculation need none.

Batches of several classes whose pods take nothing but resources from each other are placed in turn, by one call of each
phase for all of them (`batches_in_turn`).

Tests: tests/unit/scheduling/test_scheduling_cycle_batches.py, tests/unit/scheduling/test_batches_in_turn.py,
tests/unit/scheduling/test_speculation.py.
"""

import logging
from collections.abc import Callable

from trireme.cache import cluster_cache
from trireme.cache.pod_projection import TERMINATING
from trireme.framework import status
from trireme.queueing import queued_pod, scheduling_queue
from trireme.scheduling import (
    attempt,
    attempt_reporter,
    batches_in_turn,
    binding_cycle,
    ports,
    post_filtering,
    speculation,
)
from trireme.scheduling.failure import Failure
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)


class SchedulingCycle:
    """Runs the scheduling cycle of a batch: attempts until each of its pods is placed, refused or failed."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        queue: scheduling_queue.SchedulingQueue,
        attempts: attempt.AttemptRunner,
        speculations: speculation.Speculation,
        post_filters: post_filtering.PostFilters,
        reporter: attempt_reporter.AttemptReporter,
        observer: ports.Observer,
        now: Callable[[], float],
        binding: binding_cycle.BindingCycle,
        in_turn: batches_in_turn.BatchesInTurn,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._attempts = attempts
        self._speculation = speculations
        self._post_filters = post_filters
        self._reporter = reporter
        self._observer = observer
        self._now = now
        self._binding = binding
        self._in_turn = in_turn

    async def run(self, batch: scheduling_queue.PodBatch) -> None:
        """Place the pods of the batch, or give each a reason."""
        await self._run(batch, self._begin(batch))

    async def run_in_turn(self, ahead: batches_in_turn.BatchesAhead) -> int:
        """Find places for the batches that come next, and take each from the queue to its places; returns how many.

        It ends before a batch that has no places, or is not the next one any more: that stays in the queue.
        """
        started = self._now()
        try:
            choices = await self._attempts.find_places_in_turn(ahead)
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            log.warning("pods of several classes cannot be placed together; they are placed apart: %s", error)
            choices = []
        taken = 0
        for (class_id, _), choice in zip(ahead.classes, choices, strict=False):
            wanted = len(choice.placed.slots)
            if not wanted or not self._is_next(class_id):
                break
            # Their attempt began with the call.
            batch = self._queue.pop(started, wanted)
            assert isinstance(batch, scheduling_queue.PodBatch)  # as it is the next one
            taken += 1
            pods = self._begin(batch)
            if not pods:
                break
            class_key = ahead.profile, class_id
            made = await self._attempts.attempt_with_places(class_key, pods, choice)
            left = self._in_attempt(await self._commit(class_key, made, self._observer.clock()))
            await self._run(batch, left)
            if left or len(pods) < wanted:
                break  # the places after these were found beside all of them
        self._in_turn.note_placed(len(ahead.classes), taken)
        return taken

    def _is_next(self, class_id: int) -> bool:
        """Whether the next batch of the queue is still of the class, and may be placed in turn."""
        ahead = self._queue.peek_next_batch()
        return ahead is not None and ahead.key == class_id and self._in_turn.may_take_part(ahead)

    def _begin(self, batch: scheduling_queue.PodBatch) -> list[queued_pod.QueuedPodInfo]:
        """The pods of the batch that are to be tried; the attempts of the others end."""
        self._observer.on_batch_popped(batch.profile, batch.pods)
        pods = [pod for pod in batch.pods if self._may_be_tried(pod)]
        if klog.enabled(log, 3):
            for pod in pods:
                klog.info(log, 3, "Attempting to schedule pod", pod=klog.Ref(pod.key))
        return pods

    async def _run(self, batch: scheduling_queue.PodBatch, pods: list[queued_pod.QueuedPodInfo]) -> None:
        """Make attempts until no pod is left."""
        class_key = batch.profile, batch.class_id
        try:
            while pods:
                pods = await self._attempt_and_commit(class_key, pods)
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            self._reporter.report_failures(pods, Failure(str(error), reasons=(status.Reason("phaseFailed"),)))

    def _may_be_tried(self, pod: queued_pod.QueuedPodInfo) -> bool:
        """Whether the pod is to be tried. If it is being deleted, invalid or assumed already, its attempt ends here."""
        pending = pod.record.pod
        if pending.parsed.flags & TERMINATING:
            self._reporter.report_skipped(pod)
            return False
        if not pending.class_id:
            self._reporter.report_failure(pod, Failure(pending.invalid, reasons=(status.Reason("podInvalid"),)))
            return False
        if self._cache.pod(pod.uid) is not None and not pending.has_deferred_resize:
            self._queue.done(pod.uid, self._now())
            return False
        return self._keep_in_attempt_unless_deleted(pod)

    async def _attempt_and_commit(
        self, class_key: ports.ClassKey, pods: list[queued_pod.QueuedPodInfo]
    ) -> list[queued_pod.QueuedPodInfo]:
        """Make one attempt and commit it. Answers the pods that are left."""
        started = self._observer.clock()
        made = await self._make_attempt(class_key, pods)
        self._in_turn.note_single()
        left = await self._commit(class_key, made, started)
        return self._in_attempt([*left, *pods[len(made.pods) :]])

    def _in_attempt(self, pods: list[queued_pod.QueuedPodInfo]) -> list[queued_pod.QueuedPodInfo]:
        """Those of the pods that are still to be placed."""
        return [pod for pod in pods if self._keep_in_attempt_unless_deleted(pod)]

    async def _make_attempt(self, class_key: ports.ClassKey, pods: list[queued_pod.QueuedPodInfo]) -> attempt.Attempt:
        """Make an attempt for the first of the pods, as many as it can take, by the shortest way.

        Nominated pods are tried on their nodes first; a speculative placement is used if nothing has changed since;
        otherwise filter is called, with the pods as preemptors if the pod before them preempted.
        """
        nominated = bool(self._queue.nominator.node_of(pods[0].uid))
        if nominated and (len(pods) == 1 or pods[0].record.nominated):
            made = await self._attempts.attempt_nominated(class_key, pods)
            if made is not None:
                return made
            refused = self._post_filters.preemptors_after_refusal(class_key[0], pods[0])
            return await self._attempts.attempt(class_key, pods[:1], preemptors=refused)
        if pods[0].record.nominated:
            pods = pods[:1]
        if len(pods) > 1 or not nominated:
            known = self._speculation.placement(class_key, len(pods))
            if known is not None:
                return await self._attempt_speculative(known, pods)
        expected = self._post_filters.expects_preemption(class_key, pods)
        preemptors = self._post_filters.preemptors(class_key[0], pods) if expected else ()
        made = await self._attempts.attempt(class_key, pods, preemptors=preemptors)
        if expected and made.placed is not None:
            self._post_filters.expect_no_preemption()
        return made

    async def _attempt_speculative(
        self, known: speculation.SpeculativePlacement, pods: list[queued_pod.QueuedPodInfo]
    ) -> attempt.Attempt:
        """Make an attempt of speculative places. No call is made, so nothing can change in between."""
        started, reused = self._observer.clock(), known.used > 0
        placed = known.take_places(len(pods))
        node_counts = attempt.node_counts_for_log(known.filtered, self._cache.node_count)
        made = await self._attempts.assume_and_reserve(
            known.class_key, pods, attempt.NodeChoice(known.filtered, placed, node_counts)
        )
        self._speculation.drop_unless_current(known)
        seconds = self._observer.clock() - started
        self._observer.on_pods_placed(known.class_key[0], len(pods), seconds, known.filtered, placed, reused)
        return made

    async def _commit(
        self, class_key: ports.ClassKey, made: attempt.Attempt, started: float
    ) -> list[queued_pod.QueuedPodInfo]:
        """Have pods that were placed bound, or run PostFilter for those refused; returns those still to be tried."""
        if made.error is not None:
            self._reporter.report_failures(made.pods, made.error)
            return []
        if made.refused is not None:
            left = await self._post_filters.run(class_key, made.pods, made.refused)
            seconds = self._observer.clock() - started
            self._observer.on_pods_refused(class_key[0], len(made.pods) - len(left), seconds, made.refused)
            return left
        if made.placed is not None:
            for pod, failure in made.placed.unreserved:
                self._reporter.report_failure(pod, failure)
            if made.placed.assumed:
                self._binding.start(made.placed.cycle, made.placed.assumed)
        return [pod for pod in made.pods if self._cache.pod(pod.uid) is None]

    def _keep_in_attempt_unless_deleted(self, pod: queued_pod.QueuedPodInfo) -> bool:
        """Whether the pod is still to be placed; ends the attempt of a pod that was deleted meanwhile."""
        if not pod.in_attempt:
            self._queue.done(pod.uid, self._now())
        return pod.in_attempt
