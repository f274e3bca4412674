"""The scheduling cycle of one batch: filter, place, assume; or say why not.

One batch at a time, so that the outcome is that of one pod after the other. Binding goes on beside it.

Where nothing else is to be done, filter and score are asked about more pods of the class before there are any. Their
answers are good for as long as nothing changes but that pods are placed by them: one that comes until then is as good
as placed, and replicas are told of those that were placed so when they have to be asked again.
"""

import dataclasses
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence

from trireme.cache import cluster_cache, placed_pod
from trireme.extenders import extenders
from trireme.framework import status
from trireme.queueing import queued_pod, scheduling_queue
from trireme.results.phase_results import FilterResult, PlaceResult, PostFilterResult
from trireme.scheduling import batch_limit, binding_cycle, fit_error, outcomes, ports, preempting, reservations
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2
from trireme_kube.componentbase import klog

log = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class _Foreseen:
    """Where the next pods of a class go, in order."""

    about: tuple[str, int]  # profile and class
    revision: int  # the cache's, as long as the answers hold
    filtered: FilterResult
    placed: PlaceResult
    used: int = 0  # pods placed by them

    @property
    def left(self) -> int:
        """For how many more pods they hold."""
        return len(self.placed.slots) - self.used

    def take(self, pods: int) -> PlaceResult:
        """Where the next pods go, which are then assumed there."""
        start, self.used = self.used, self.used + pods
        self.revision += pods
        return dataclasses.replace(self.placed, slots=self.placed.slots[start : self.used])


class SchedulingCycle:
    """Runs batches."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        queue: scheduling_queue.SchedulingQueue,
        evaluators: ports.Evaluators,
        results: outcomes.Outcomes,
        reserved: reservations.Reservations,
        observer: ports.Observer,
        extension: extenders.Extenders | None,
        limit: batch_limit.BatchLimit,
        publish: Callable[[], int],
        now: Callable[[], float],
        binding: binding_cycle.BindingCycle,
        preemptions: preempting.Preempting,
        post_filtering: Mapping[str, bool],
    ) -> None:
        """`post_filtering` are the profiles that have PostFilter plugins, and whether what these decide is carried out
        beside the scheduling of other pods.
        """
        self._cache = cache
        self._queue = queue
        self._evaluators = evaluators
        self._results = results
        self._limit = limit
        self._publish = publish
        self._now = now
        self._observer = observer
        self._reserved = reserved
        self._extension = extension
        self._binding = binding
        self._preemptions = preemptions
        self._post_filtering = post_filtering
        self._foreseen: _Foreseen | None = None
        # The profile and class for whose last pod room had to be made: the next one most likely fits nowhere either.
        self._crowd: tuple[str, int] | None = None

    async def run(self, batch: scheduling_queue.Batch) -> None:
        """Place the pods of the batch, or say of each why not."""
        self._observer.popped(batch.profile, len(batch.pods))
        pods = [pod for pod in batch.pods if self._to_be_tried(pod)]
        if klog.enabled(log, 3):
            for pod in pods:
                klog.info(log, 3, "Attempting to schedule pod", pod=klog.Ref(pod.key))
        try:
            while pods:
                pods = await self._round(batch.profile, batch.class_id, pods)
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            for pod in pods:
                self._results.failed(pod, outcomes.Failure(str(error)))

    def foresees(self, batch: scheduling_queue.Batch) -> bool:
        """Whether it is known where another pod like those of the batch goes."""
        return self._foreseen_for(batch.profile, batch.class_id, 1) is not None

    async def anticipate(self, batch: scheduling_queue.Batch) -> None:
        """Once all of the batch are placed, ask about more pods like them, though there may never be any."""
        if any(self._cache.pod(pod.uid) is None or pod.record.pod.resized for pod in batch.pods):
            return
        profile, class_id = about = batch.profile, batch.class_id
        before, self._foreseen = self._foreseen, None
        wanted = self._limit.for_speculation(0 if before is None or before.about != about else before.used)
        generation, revision = self._publish(), self._cache.revision
        try:
            filtered = await self._evaluators.filter(profile, class_id, wanted, generation)
            if filtered.refuses(self._cache.slot_of("")) or filtered.needs_reserve:
                return
            count = self._limit.for_place(filtered, wanted)
            placed = await self._evaluators.place(profile, class_id, count, filtered, ())
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            log.debug("class %d could not be asked about ahead: %s", class_id, error)
            return
        if placed.slots:
            self._foreseen = _Foreseen(about, revision, filtered, placed)

    def _foreseen_for(self, profile: str, class_id: int, pods: int) -> _Foreseen | None:
        """The answers that are there for so many pods of the class, if they still hold."""
        known = self._foreseen
        if known is None or known.about != (profile, class_id) or known.left < pods:
            return None
        return known if known.revision == self._cache.revision else None

    def _to_be_tried(self, pod: queued_pod.QueuedPodInfo) -> bool:
        pending = pod.record.pod
        if pending.parsed.flags:
            self._results.skipped(pod)
            return False
        if not pending.class_id:
            self._results.failed(pod, outcomes.Failure(pending.invalid))
            return False
        if self._cache.pod(pod.uid) is not None and not pending.resized:
            self._queue.done(pod.uid, self._now())
            return False
        return self._still_wanted(pod)

    async def _round(
        self, profile: str, class_id: int, pods: list[queued_pod.QueuedPodInfo]
    ) -> list[queued_pod.QueuedPodInfo]:
        """Place as many of the pods as one answer allows; answers those that are left."""
        if self._limit.for_filter(class_id, len(pods)) < len(pods):
            return await self._first_round(profile, class_id, pods)
        if pods[0].record.nominated and len(pods) > 1:
            return await self._nominated_round(profile, class_id, pods)
        started = self._observer.clock()
        nominated_node = self._queue.nominator.node_of(pods[0].uid) if len(pods) == 1 else ""
        known = None if nominated_node else self._foreseen_for(profile, class_id, len(pods))
        if known is not None:
            return await self._place_as_foreseen(known, pods)
        generation = self._publish()
        if not self._cache.node_count:
            self._fail_all(pods, outcomes.Failure(fit_error.NO_NODES, unschedulable=True, nominated_node=""))
            return []
        slot = self._cache.slot_of(nominated_node)
        nominee = named(pods[0]) if nominated_node else None
        # An extender that does not want the node has all others to choose from.
        alone = placed_pod.NO_SLOT if self._extension is not None else slot
        crowd = not nominated_node and self._crowd == (profile, class_id)
        preemptors = self._preemptors(profile, pods) if crowd else ()
        filtered = await self._evaluators.filter(profile, class_id, len(pods), generation, nominee, alone, preemptors)
        extra_scores: Sequence[int] = ()
        if self._extension is not None and not filtered.refuses(slot):
            try:
                filtered, extra_scores = await self._extension.consult(pods[0].uid, class_id, filtered, slot)
            except extenders.ExtenderError as error:
                self._fail_all(pods, outcomes.Failure(str(error), nominated_node=""))
                return []
        if filtered.refuses(slot):
            left = await self._refused(profile, class_id, generation, pods, filtered)
            self._observer.refused(profile, len(pods) - len(left), self._observer.clock() - started, filtered)
            return [pod for pod in left if self._still_wanted(pod)]
        if crowd:
            self._crowd = None
        if pods[0].record.pod.resized:
            # The kubelet resizes it where it is. kube-scheduler's cache refuses to assume it, and so it is tried again.
            first = pods[0]
            text = f"pod {first.uid}({first.key}) is in the cache, so can't be assumed"
            self._fail_all(pods, outcomes.Failure(text))
            return []
        if filtered.answer.admits(slot):
            # The node that the pod is nominated for is taken without a look at other nodes.
            placed = PlaceResult((slot,), None, False)
            looked_at = (1, 1)
        else:
            count = self._limit.for_place(filtered, len(pods))
            looked_at = outcomes.looked_at(filtered.answer, self._cache.node_count)
            placed = await self._evaluators.place(profile, class_id, count, filtered, extra_scores)
        if placed.failure is not None:
            self._fail_all(pods, outcomes.Failure(placed.failure.message, nominated_node=""))
            return []
        if not placed.slots:
            raise ports.PhaseFault("score placed none of the pods, though filter found nodes for them")
        self._observer.placed(profile, len(placed.slots), self._observer.clock() - started, filtered, placed)
        return await self._bind_placed(profile, class_id, pods, filtered, placed, looked_at)

    async def _first_round(
        self, profile: str, class_id: int, pods: list[queued_pod.QueuedPodInfo]
    ) -> list[queued_pod.QueuedPodInfo]:
        """As _round, of the first pod alone."""
        first, *left = pods
        return [*await self._round(profile, class_id, [first]), *left]

    async def _nominated_round(
        self, profile: str, class_id: int, pods: list[queued_pod.QueuedPodInfo]
    ) -> list[queued_pod.QueuedPodInfo]:
        """As _round, of pods that are nominated for a node: as many as may have it are asked about at once."""
        slots = self._different_slots(pods) if self._extension is None else []
        if len(slots) < 2:
            return await self._first_round(profile, class_id, pods)
        started = self._observer.clock()
        asked = [named(pod) for pod in pods[: len(slots)]]
        filtered = await self._evaluators.filter_nominated(profile, class_id, self._publish(), asked, slots)
        if not filtered.admitted:
            return await self._first_round(profile, class_id, pods)
        placed = PlaceResult(tuple(slots[: filtered.admitted]), None, False)
        self._observer.placed(profile, filtered.admitted, self._observer.clock() - started, filtered, placed)
        pods, left = pods[: filtered.admitted], pods[filtered.admitted :]
        return [*await self._bind_placed(profile, class_id, pods, filtered, placed, (1, 1)), *left]

    def _different_slots(self, pods: list[queued_pod.QueuedPodInfo]) -> list[int]:
        """The slots of the nodes that the first of the pods are nominated for, as long as each is another one."""
        slots: list[int] = []
        for pod in pods[: batch_limit.MAX_NOMINATED]:
            slot = self._cache.slot_of(self._queue.nominator.node_of(pod.uid))
            if slot == placed_pod.NO_SLOT or slot in slots:
                break
            slots.append(slot)
        return slots

    async def _place_as_foreseen(
        self, known: _Foreseen, pods: list[queued_pod.QueuedPodInfo]
    ) -> list[queued_pod.QueuedPodInfo]:
        """Nothing is asked, so nothing happens in between; answers those of the pods that are left."""
        started = self._observer.clock()
        filtered, again = known.filtered, known.used > 0
        placed = known.take(len(pods))
        looked_at = outcomes.looked_at(filtered.answer, self._cache.node_count)
        left = await self._bind_placed(*known.about, pods, filtered, placed, looked_at)
        if known.revision != self._cache.revision:
            # Not all of them could be assumed.
            self._foreseen = None
        seconds = self._observer.clock() - started
        self._observer.placed(known.about[0], len(pods), seconds, filtered, placed, again)
        return left

    async def _bind_placed(
        self,
        profile: str,
        class_id: int,
        pods: list[queued_pod.QueuedPodInfo],
        filtered: FilterResult,
        placed: PlaceResult,
        looked_at: tuple[int, int],
    ) -> list[queued_pod.QueuedPodInfo]:
        """Assume those of the pods that have a place, reserve for them and have them bound; answers those left."""
        generation = filtered.answer.generation
        cycle = self._evaluators.cycle(profile, class_id, generation)
        assumed = self._assume(pods[: len(placed.slots)], placed.slots, generation, looked_at)
        if filtered.needs_reserve and assumed:
            assumed = await self._reserve(cycle, assumed, filtered.needs_pre_bind)
        if assumed:
            self._binding.start(cycle, assumed)
        return [pod for pod in pods if self._cache.pod(pod.uid) is None and self._still_wanted(pod)]

    def _assume(
        self, pods: list[queued_pod.QueuedPodInfo], slots: tuple[int, ...], generation: int, looked_at: tuple[int, int]
    ) -> list[binding_cycle.Assumed]:
        assumed = []
        for pod, slot in zip(pods, slots, strict=True):
            node_name = self._cache.node_at(slot, generation)
            if node_name is None or not self._still_wanted(pod):
                # The node, or the pod, went away meanwhile: what is left of the batch is tried anew.
                continue
            pending = pod.record.pod
            self._cache.assume(pod.key, pod.uid, node_name, pending.base, pending.parsed.labels, pending.class_id)
            self._queue.nominator.delete(pod.uid)
            assumed.append(binding_cycle.Assumed(pod, node_name, slot, looked_at=looked_at))
        return assumed

    async def _reserve(
        self, cycle: cycle_pb2.Cycle, assumed: list[binding_cycle.Assumed], pre_bind: bool
    ) -> list[binding_cycle.Assumed]:
        """Reserve for the pods; answers those for which it succeeded. The others go back."""
        started = self._observer.clock()
        answers = await self._reserved.reserve(cycle, [one.placement for one in assumed])
        seconds = (self._observer.clock() - started) / len(assumed)
        kept = []
        for one, answer in zip(assumed, answers, strict=True):
            code = answer.code if isinstance(answer, status.Status) else status.Code.SUCCESS
            self._observer.point("Reserve", code, cycle.profile, seconds)
            if isinstance(answer, bytes):
                kept.append(dataclasses.replace(one, reserved=True, pre_bind=pre_bind, state=answer))
                continue
            self._reserved.unreserve(cycle, [one.placement])
            self._cache.forget(one.pod.uid)
            self._observer.volume_stage("assume", answer)
            self._results.failed(one.pod, not_reserved(answer))
        return kept

    def _still_wanted(self, pod: queued_pod.QueuedPodInfo) -> bool:
        """Whether the pod is still to be placed. One that was deleted meanwhile is let go."""
        if not pod.in_attempt:
            self._queue.done(pod.uid, self._now())
        return pod.in_attempt

    async def _refused(
        self,
        profile: str,
        class_id: int,
        generation: int,
        pods: list[queued_pod.QueuedPodInfo],
        filtered: FilterResult,
    ) -> list[queued_pod.QueuedPodInfo]:
        """Run PostFilter for the first pod, and for those behind it as far as there are answers for them. If there
        is none, that holds for all of them; answers those that are left.
        """
        answer, left = filtered.answer, pods
        index = answer.index.copy() if len(filtered.post_filter) > 1 else answer.index
        for number, said in enumerate(filtered.post_filter or (None,)):
            # The answers go on as long as each pod is nominated as they say.
            if number and (not left or left[0] is not pods[number]):
                break
            if said is not None and said.HasField("slot"):
                index[said.slot] = said.status_index
            if filtered.refusal is not None:
                refusals = [(filtered.refusal, self._cache.node_count)]
            else:
                refusals = fit_error.counted(answer.statuses, index)
            first, before = left[0], len(left)
            left = await self._refuse_first(profile, class_id, generation, left, filtered, refusals, said)
            node = "" if said is None else said.post_filter.nominated_node
            if not node or len(left) != before - 1 or self._queue.nominator.node_of(first.uid) != node:
                break
            left = [pod for pod in left if self._still_wanted(pod)]
        return left

    async def _refuse_first(
        self,
        profile: str,
        class_id: int,
        generation: int,
        pods: list[queued_pod.QueuedPodInfo],
        filtered: FilterResult,
        refusals: list[tuple[status.Status, int]],
        said: filter_pb2.WayOut | None,
    ) -> list[queued_pod.QueuedPodInfo]:
        """Run PostFilter for the first pod, unless filter did, and execute its result. Answers those that are left."""
        for refusal, _ in refusals:
            if refusal.code == status.Code.ERROR:
                self._observer.volume_stage("predicate", refusal)
                self._fail_all(pods, outcomes.Failure(refusal.message, nominated_node=""))
                return []
        result = PostFilterResult("", (), "")
        if profile in self._post_filtering:
            asked = self._observer.clock()
            if said is not None:
                result, seconds = PostFilterResult.from_message(said.post_filter), said.duration_us / 1_000_000
            else:
                result = await self._post_filter(profile, class_id, generation, pods[0], filtered)
                seconds = self._observer.clock() - asked
            handled = 1 if result.actions or result.nominated_node else len(pods)
            self._observer.post_filtered(profile, result, handled, seconds)
            _log_post_filter(pods[0].key, result)
        if not result.actions and not result.nominated_node:
            if profile in self._post_filtering:
                _log_no_candidate(pods[0].key, result)
            self._fail_all(pods, self._unschedulable(filtered, refusals, result))
            return []
        first, *left = pods
        self._crowd = None if self._extension is not None else (profile, class_id)
        result = await self._execute(first, result, self._post_filtering[profile])
        self._results.failed(first, self._unschedulable(filtered, refusals, result))
        return left

    def _unschedulable(
        self, filtered: FilterResult, refusals: list[tuple[status.Status, int]], result: PostFilterResult
    ) -> outcomes.Failure:
        rejectors, pending_plugins = outcomes.rejectors_of(refusals)
        return outcomes.Failure(
            fit_error.message(self._cache.node_count, filtered.refusal, refusals, result.message),
            rejectors | filtered.narrowed_by,
            pending_plugins,
            result.nominated_node,
            unschedulable=True,
        )

    def _preemptors(self, profile: str, pods: list[queued_pod.QueuedPodInfo]) -> list[core_pb2.Pod]:
        """The pods that PostFilter is run for with Filter: only one where what it decides is waited for."""
        count = self._limit.for_post_filter(self._post_filtering[profile])
        first = list(itertools.takewhile(lambda pod: not self._queue.nominator.node_of(pod.uid), pods[:count]))
        return [self._preemptor(pod) for pod in first]

    async def _post_filter(
        self, profile: str, class_id: int, generation: int, pod: queued_pod.QueuedPodInfo, filtered: FilterResult
    ) -> PostFilterResult:
        trim = None if self._extension is None else self._extension.trimming(pod.uid, class_id)
        try:
            return await self._evaluators.post_filter(
                profile, class_id, generation, self._preemptor(pod), filtered, trim
            )
        except extenders.ExtenderError as error:
            return PostFilterResult(f"preemption: {error}", (), None, status.Code.ERROR)

    def _preemptor(self, pod: queued_pod.QueuedPodInfo) -> core_pb2.Pod:
        """The pod as PostFilter knows it. Its nomination counts, whether or not its object shows it yet: who does
        not know of the room that is being made for a pod has more made elsewhere.
        """
        preemptor = named(pod)
        preemptor.status.nominated_node_name = self._queue.nominator.node_of(pod.uid)
        return preemptor

    async def _execute(
        self, pod: queued_pod.QueuedPodInfo, result: PostFilterResult, asynchronous: bool
    ) -> PostFilterResult:
        """Execute PostFilter's result. Making room on a node may take its time; all else is done before the pod waits.
        Answers what is left to be done beside other pods, or an error where victims stay.
        """
        node, victims = result.nominated_node or "", [action for action in result.actions if action.HasField("evict")]
        others = [action for action in result.actions if not action.HasField("evict")]
        failed = await self._preemptions.carry_out(others) if others else ""
        if failed:
            log.warning("what PostFilter decided for pod %s failed: %s", pod.key, failed)
        if asynchronous:
            self._preemptions.start(pod, node, victims)
            return dataclasses.replace(result, actions=victims)
        failed = await self._preemptions.finish(pod, node, victims)
        if failed:
            result = PostFilterResult(f"preemption: {failed}", (), None, status.Code.ERROR)
            _log_post_filter(pod.key, result)
        return dataclasses.replace(result, actions=())

    def _fail_all(self, pods: list[queued_pod.QueuedPodInfo], failure: outcomes.Failure) -> None:
        for pod in pods:
            self._results.failed(pod, failure)


def _log_post_filter(key: str, result: PostFilterResult) -> None:
    text = "Status after running PostFilter plugins for pod"
    if result.code is status.Code.ERROR:
        klog.error(log, text, logger="UnhandledError", pod=klog.Ref(key), status=result.message)
    elif klog.enabled(log, 5):
        klog.info(log, 5, text, pod=klog.Ref(key), status=result.message)


def _log_no_candidate(key: str, result: PostFilterResult) -> None:
    """Preemption was tried in vain; of a pod that may not preempt its event says why."""
    if klog.enabled(log, 2) and "not eligible" not in result.message:
        text = "No preemption candidate is found; preemption is not helpful for scheduling"
        klog.info(log, 2, text, **klog.named(log, "PostFilter.DefaultPreemption"), pod=klog.Ref(key))


def named(pod: queued_pod.QueuedPodInfo) -> core_pb2.Pod:
    """What makes the pod another one than others of its class: name, UID and nomination."""
    parsed = pod.record.pod.parsed
    out = core_pb2.Pod()
    out.metadata.namespace, out.metadata.name, out.metadata.uid = parsed.namespace, parsed.name, parsed.uid
    out.status.nominated_node_name = parsed.nominated_node
    return out


def not_reserved(refusal: status.Status) -> outcomes.Failure:
    if not refusal.rejected:
        return outcomes.Failure(refusal.message, nominated_node="")
    # A refusal is told as if the one node that was chosen were all there is.
    rejectors, pending_plugins = outcomes.rejectors_of([(refusal, 1)])
    text = fit_error.message(1, None, [(refusal, 1)], "")
    return outcomes.Failure(text, rejectors, pending_plugins, nominated_node="", unschedulable=True)
