"""PostFilter for pods that no node takes: plugins make room, mostly by preemption, or change what stands in the way.

PostFilter runs for several pods of a class in one call, each as if those before it were nominated by their results.
Pods of the class that preempted last most likely fit nowhere either: for these the call of Filter runs PostFilter too.

Source: pkg/scheduler/schedule_one.go schedulingCycle, pkg/scheduler/framework/preemption.

Tests: tests/unit/scheduling/test_post_filtering.py, tests/unit/scheduling/test_preemptors_together.py,
tests/unit/scheduling/test_post_filter_failures.py.
"""

import dataclasses
import itertools
import logging
from collections.abc import Mapping, Sequence

from trireme.cache import cluster_cache
from trireme.evaluation.preemption import post_filter_context
from trireme.extenders import extenders
from trireme.framework import status
from trireme.queueing import nominator, queued_pod
from trireme.registry import in_tree
from trireme.scheduling import attempt, attempt_reporter, batch_limit, ports, preemption_executor
from trireme.scheduling.refusal import Refusal
from trireme.v1 import core_pb2
from trireme.wire.phase_answers import FilterAnswer
from trireme.wire.post_filter_result import PostFilterResult
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)


class PostFilters:
    """Runs PostFilter for pods that Filter refused, executes its results (evictions, nominations), and reports them."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        nominations: nominator.Nominator,
        evaluators: ports.Evaluators,
        reporter: attempt_reporter.AttemptReporter,
        observer: ports.Observer,
        http_extenders: extenders.Extenders | None,
        limit: batch_limit.BatchLimit,
        preemptions: preemption_executor.PreemptionExecutor,
        asynchronous: Mapping[str, bool],
    ) -> None:
        """Take the profiles that have PostFilter plugins as `asynchronous`, with whether evictions are.

        Asynchronous evictions are executed while other pods are scheduled.
        """
        self._cache = cache
        self._nominations = nominations
        self._evaluators = evaluators
        self._reporter = reporter
        self._observer = observer
        self._http_extenders = http_extenders
        self._limit = limit
        self._preemptions = preemptions
        self._asynchronous = asynchronous
        # The class whose last pod preempted: the next one most likely fits nowhere either.
        self._last_preempting_class: ports.ClassKey | None = None

    def expects_preemption(self, class_key: ports.ClassKey, pods: Sequence[queued_pod.QueuedPodInfo]) -> bool:
        """Whether PostFilter most likely has to run for the first of these pods."""
        if self._last_preempting_class != class_key:
            return False
        return len(pods) > 1 or not self._nominations.node_of(pods[0].uid)

    def expect_no_preemption(self) -> None:
        """Expect no preemption any more: a pod for which PostFilter was expected to run fits after all."""
        self._last_preempting_class = None

    def preemptors(self, profile: str, pods: Sequence[queued_pod.QueuedPodInfo]) -> list[core_pb2.Pod]:
        """The pods that PostFilter runs for in one call: the first ones that are not nominated."""
        count = self._limit.for_post_filter(self._asynchronous[profile])
        first = itertools.takewhile(lambda pod: not self._nominations.node_of(pod.uid), pods[:count])
        return [self._pod_with_nomination(pod) for pod in first]

    def preemptors_after_refusal(self, profile: str, pod: queued_pod.QueuedPodInfo) -> list[core_pb2.Pod]:
        """The pod that PostFilter runs for in the call of Filter, after its nominated node has refused it."""
        if self._http_extenders is not None or profile not in self._asynchronous:
            return []
        return [self._pod_with_nomination(pod)]

    async def run(
        self, class_key: ports.ClassKey, pods: list[queued_pod.QueuedPodInfo], filtered: FilterAnswer
    ) -> list[queued_pod.QueuedPodInfo]:
        """Run PostFilter for the first of the pods that Filter refused, and execute its results.

        Results that came with Filter's answer are taken from there. If PostFilter does not help the first pod, it helps
        none. Returns the pods that are left. Raises: PhaseFault, PhaseUnavailable.
        """
        refusal = Refusal.of(filtered, self._cache.node_count)
        if refusal.error is not None:
            return self._fail_attempts(pods, refusal, refusal.error)
        if class_key[0] not in self._asynchronous:
            self._reporter.report_failures(pods, refusal.as_failure(nominated_node=""))
            return []
        results = PostFilterResult.from_messages(filtered.post_filter_results)
        results = results or await self._call_post_filter(class_key, pods, filtered)
        left, changed = pods, dict[int, status.Status]()
        for number, result in enumerate(results):
            # Each result assumes that the pods before are nominated by the results before. Where that does not hold, it
            # says nothing about the pods that are left, and no later one does.
            if not left or left[0] is not pods[number]:
                break
            if result.changed is not None:
                # The pod before is nominated to this node, which refuses for another reason since.
                changed.update((result.changed,))
                refusal = Refusal.of(filtered, self._cache.node_count, changed)
                if refusal.error is not None:
                    return self._fail_attempts(left, refusal, refusal.error)
            first, before = left[0], len(left)
            left = await self._end_attempt(class_key, left, refusal, result)
            node = result.nominated_node
            if not node or len(left) != before - 1 or self._nominations.node_of(first.uid) != node:
                break
            left = [pod for pod in left if pod.in_attempt]
        return left

    def _fail_attempts(
        self, pods: list[queued_pod.QueuedPodInfo], refusal: Refusal, error: status.Status
    ) -> list[queued_pod.QueuedPodInfo]:
        """End the attempts of the pods by a plugin's error; none is left."""
        self._observer.on_volume_stage_ended("predicate", error)
        self._reporter.report_failures(pods, refusal.as_failure())
        return []

    async def _end_attempt(
        self,
        class_key: ports.ClassKey,
        pods: list[queued_pod.QueuedPodInfo],
        refusal: Refusal,
        result: PostFilterResult,
    ) -> list[queued_pod.QueuedPodInfo]:
        """End the attempt of the first pod: execute its result, and report the failure. Returns the pods that are left.

        A result that neither nominates nor acts holds for all of them: all are reported, and none is left.
        """
        profile, _ = class_key
        helpful = bool(result.actions or result.nominated_node)
        self._observer.on_post_filter_run(profile, result, 1 if helpful else len(pods), result.seconds)
        _log_post_filter_status(pods[0].key, result)
        if not helpful:
            _log_no_candidate(pods[0].key, result)
            self._reporter.report_failures(
                pods, refusal.as_failure(result.message, result.nominated_node, result.refusals)
            )
            return []
        first, *left = pods
        self._last_preempting_class = None if self._http_extenders is not None else class_key
        result = await self._execute_result(first, result, self._asynchronous[profile])
        self._reporter.report_failure(first, refusal.as_failure(result.message, result.nominated_node, result.refusals))
        return left

    async def _call_post_filter(
        self, class_key: ports.ClassKey, pods: Sequence[queued_pod.QueuedPodInfo], filtered: FilterAnswer
    ) -> list[PostFilterResult]:
        """Have filter run the PostFilter plugins for the first pods, at least for one; returns a result for each.

        With extenders that preempt it is one pod: filter lists candidates, the extenders trim them, filter selects. An
        extender that fails and is not ignorable makes the result an error.
        """
        profile, class_id = class_key
        generation, started = filtered.columns.generation, self._observer.clock()
        trim = None if self._http_extenders is None else self._http_extenders.candidate_trimmer(pods[0].uid, class_id)
        if trim is None:
            preemptors = self.preemptors(profile, pods) or [self._pod_with_nomination(pods[0])]
            found = await self._evaluators.run_post_filter(profile, class_id, generation, preemptors, filtered)
            return PostFilterResult.from_messages(found.results)
        about = profile, class_id, generation, self._pod_with_nomination(pods[0]), filtered
        listed = await self._evaluators.list_preemption_candidates(*about)
        if not listed.candidates:
            result = PostFilterResult.from_message(listed.answer)
        else:
            try:
                left = await trim(listed.candidates)
                selected = await self._evaluators.select_preemption_candidate(*about, left)
                result = PostFilterResult.from_message(selected.answer)
            except extenders.ExtenderError as error:
                result = _failed_result(str(error), "extenderFailed")
        return [dataclasses.replace(result, seconds=self._observer.clock() - started)]

    def _pod_with_nomination(self, pod: queued_pod.QueuedPodInfo) -> core_pb2.Pod:
        """The pod for PostFilter, with its nomination, whether or not the pod's object shows that yet.

        Otherwise PostFilter would make room for the pod a second time, on another node.
        """
        preemptor = attempt.identifying_fields(pod)
        preemptor.status.nominated_node_name = self._nominations.node_of(pod.uid)
        return preemptor

    async def _execute_result(
        self, pod: queued_pod.QueuedPodInfo, result: PostFilterResult, asynchronous: bool
    ) -> PostFilterResult:
        """Execute PostFilter's result; return it with the evictions that go on, or an error where victims stay.

        Evictions may go on beside the scheduling of other pods; all else is done before the pod returns to the queue.
        """
        node, victims = result.nominated_node or "", [action for action in result.actions if action.HasField("evict")]
        others = [action for action in result.actions if not action.HasField("evict")]
        failed = await self._preemptions.execute(others) if others else ""
        if failed:
            log.warning("what PostFilter decided for pod %s failed: %s; its next attempt tries again", pod.key, failed)
        if asynchronous:
            self._preemptions.evict_in_background(pod, node, victims)
            return dataclasses.replace(result, actions=victims)
        failed = await self._preemptions.evict(pod, node, victims)
        if failed:
            result = _failed_result(failed, "evictionFailed")
            _log_post_filter_status(pod.key, result)
        return dataclasses.replace(result, actions=())


def _failed_result(detail: str, code: str) -> PostFilterResult:
    """The result of a PostFilter that failed in the frontend, with the code that says in what."""
    text = f"{post_filter_context.TEXT_PREFIX}{detail}"
    failed = status.error("", text, reasons=(status.Reason(code),))
    return PostFilterResult(text, (), None, status.Code.ERROR, refusals=(failed,))


def _log_post_filter_status(key: str, result: PostFilterResult) -> None:
    """Log what PostFilter answered: an error always, the rest from -v=5 on."""
    text = "Status after running PostFilter plugins for pod"
    if result.code is status.Code.ERROR:
        klog.error(log, text, logger="UnhandledError", pod=klog.Ref(key), status=result.message)
    elif klog.enabled(log, 5):
        klog.info(log, 5, text, pod=klog.Ref(key), status=result.message)


def _log_no_candidate(key: str, result: PostFilterResult) -> None:
    """Preemption was tried in vain. If the pod may not preempt at all, its event has the reason instead."""
    if klog.enabled(log, 2) and "not eligible" not in result.message:
        text = "No preemption candidate is found; preemption is not helpful for scheduling"
        klog.info(log, 2, text, **klog.named(log, f"PostFilter.{in_tree.PREEMPTION_PLUGIN}"), pod=klog.Ref(key))
