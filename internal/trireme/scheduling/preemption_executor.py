"""Executes preemptions: the victims that PostFilter chose are deleted while the next pods are scheduled.

Bind deletes the victims, all at once except the last one, and that one only if all others were deleted; a victim that
waits on Permit or is in PreBind returns to the queue instead. Meanwhile the preemptor is gated in the queue, so
that it does not preempt again. The gate ends as soon as the last victim is gone, or is terminating: the event of that
victim's deletion must not find the preemptor gated. If a deletion failed, or no event of the last victim will come, the
preemptor is tried again at once; one that fails again and again waits in between (`preemption_retries.py`).

Without the gate SchedulerAsyncPreemption the attempt waits for all of that (`finish`), and no preemptor is gated.

Victims count as evicted from the decision on (`ClusterCache.set_evicting`), until they are gone or their deletion
failed. The first of two preemptors on one node may be woken while the victims of the second are still there, and finds
its room nominated to the other pod; it must know that more room is being made there, or it would preempt elsewhere, in
vain. kube-scheduler, which knows of the victims only from their objects, has that gap. A victim of two preemptors is
evicted once, for both.

Source: pkg/scheduler/framework/preemption/executor.go.

Tests: tests/unit/scheduling/test_preemption_executor.py, tests/unit/scheduling/test_preemption_failures.py.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Collection, MutableMapping, Sequence

from trireme.cache import cluster_cache
from trireme.cache.pod_projection import TERMINATING
from trireme.framework import status
from trireme.queueing import nominator, queued_entity
from trireme.registry.in_tree import PREEMPTION_PLUGIN
from trireme.scheduling import (
    attempt_reporter,
    item_batches,
    pods_in_pre_bind,
    ports,
    preemption_history,
    preemption_retries,
    waiting_pods,
)
from trireme.scheduling.preemptions_under_way import EvictionResult, Preemption, PreemptionsUnderWay
from trireme.v1 import bind_pb2, cycle_pb2
from trireme.wire import status as wire_status
from trireme_kube.client.events.event_series import pod_reference
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)


# How long the release of what PreBind had written for a victim may take.
RELEASE_SECONDS = 10.0


class PreemptionExecutor:
    """Executes PostFilter's decisions: evictions, nominations."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        nominations: nominator.Nominator,
        waiting: waiting_pods.WaitingPods,
        reporter: attempt_reporter.AttemptReporter,
        apply: item_batches.SendBatch[bind_pb2.Action, bind_pb2.BindResult],
        activate: Callable[[Sequence[tuple[str, str]]], object],
        observer: ports.Observer,
        pre_binding: pods_in_pre_bind.PodsInPreBind,
        version_of: Callable[[str], str],
        held_preemptors: MutableMapping[str, str],
        retries: preemption_retries.PreemptionRetries,
        under_way: PreemptionsUnderWay,
        history: preemption_history.PreemptionHistory,
    ) -> None:
        """Take what executes evictions, and what observes them.

        `apply` has bind execute actions; `activate` has pods (key, UID) tried now; `version_of` returns the
        resourceVersion at which a pod (UID) was last seen. `held_preemptors` receives the pods that are gated: the UID
        by key. `retries` has preemptors tried again whose victims stay. `under_way` holds the preemptions until
        they are over, and `history` remembers what is decided.
        """
        self._cache = cache
        self._nominations = nominations
        self._waiting = waiting
        self._reporter = reporter
        self._batches = item_batches.ItemBatches(apply)
        self._activate = activate
        self._observer = observer
        self._pre_binding = pre_binding
        self._version_of = version_of
        self._held_preemptors = held_preemptors
        self.retries = retries
        self.under_way = under_way
        self.history = history
        # By UID of the victim: how its eviction ends, while that is under way. The first preemption that chose the
        # victim executes it; since none waits for a later one, no two wait for each other.
        self._evictions: dict[str, asyncio.Future[EvictionResult]] = {}
        self._turns = itertools.count()
        self.background = supervision.Supervisor()

    @property
    def completed_actions(self) -> int:
        """How many evictions and other actions bind has executed so far, with success or without."""
        return self._batches.answered

    def forget(self, uid: str) -> None:
        """The preemptor is gone: its preemption no longer gates it, and is not retried."""
        self.retries.forget(uid)
        preemption = self.under_way.get(uid)
        if preemption is not None:
            self._stop_gating(preemption.key, uid)
            if preemption.finished:
                self.under_way.drop(uid)

    def _stop_gating(self, key: str, uid: str) -> None:
        """Let the queue evaluate the preemptor again: it is not gated by its preemption any more."""
        if self._held_preemptors.get(key) == uid:
            del self._held_preemptors[key]

    def _victim_remains(self, uid: str) -> bool:
        """Whether the pod is still on its node and not terminating, as far as the cache knows."""
        victim = self._cache.pod(uid)
        return victim is not None and not victim.flags & TERMINATING

    def evict_in_background(
        self,
        pod: queued_entity.QueuedEntity,
        node_name: str,
        victims: Sequence[bind_pb2.Action],
        nodes: Collection[str] = (),
    ) -> None:
        """Start these evictions for the pod in a task of its own; without victims it does nothing.

        For a group `node_name` is empty, and `nodes` are those that its members are nominated to.

        From now on the pod is gated: it is tried again when its last victim is seen to leave, or when the evictions
        fail. An earlier preemption of the same pod goes on, but no longer gates it.
        """
        if not victims:
            return
        count, preemptor = len(victims), klog.Ref(pod.key)
        _log_target_node(pod, node_name)
        klog.info(
            log,
            2,
            "Start the preemption asynchronously",
            preemptor=preemptor,
            node=node_name,
            numVictims=count,
            numVictimsToDelete=count,
        )
        preemption = self._register_preemption(pod, node_name, victims)
        self.under_way.begin(pod.uid, preemption)
        self._held_preemptors[pod.key] = pod.uid
        self.retries.on_preemption(pod.uid)
        self.background.start(self._run_in_background(pod, node_name, victims, nodes, preemption))

    async def evict(
        self,
        pod: queued_entity.QueuedEntity,
        node_name: str,
        victims: Sequence[bind_pb2.Action],
        nodes: Collection[str] = (),
    ) -> str:
        """Execute these evictions for the pod, all at once, before anything else is scheduled.

        Nodes are as in `evict_in_background`.

        Returns the failure; empty if there was none. The pod is not gated: it is not in the queue meanwhile.
        """
        if not victims:
            return ""
        _log_target_node(pod, node_name)
        preemption, started = self._register_preemption(pod, node_name, victims), self._observer.clock()
        results: Sequence[EvictionResult] = (EvictionResult.FAILED,)
        try:
            results = await asyncio.gather(
                *(self._evict_once(pod, node_name, victim, preemption) for victim in victims)
            )
            if EvictionResult.FAILED not in results:
                await self._clear_lower_nominations(pod, nodes or (node_name,))
        finally:
            self._conclude_preemption(preemption)
            self._observer.on_evictions_ended(
                _preemptor_kind(pod, node_name), EvictionResult.FAILED not in results, self._observer.clock() - started
            )
        return preemption.failure if EvictionResult.FAILED in results else ""

    async def execute(self, actions: Sequence[bind_pb2.Action], rank: item_batches.Rank = item_batches.FIRST) -> str:
        """Execute actions now, or when it is their turn; return the first failure, empty if there is none."""
        for result in await self._batches.execute(actions, rank):
            answer = wire_status.from_message(result.status)
            if answer.code is not status.Code.SUCCESS:
                return answer.message
        return ""

    async def close(self) -> None:
        """Cancel what is under way: the next leader decides again."""
        self.retries.close()
        await self.background.close()
        await self._batches.close()

    def _register_preemption(
        self, pod: queued_entity.QueuedEntity, node_name: str, victims: Sequence[bind_pb2.Action]
    ) -> Preemption:
        """Note in the cache that these victims are being evicted; the condition DisruptionTarget is written by bind."""
        self.history.add(pod, node_name, victims)
        names = tuple(_victim_name(victim) for victim in victims)
        uids = [victim.pod.uid for victim in victims]
        loop = asyncio.get_running_loop()
        others = {uid: self._evictions[uid] for uid in uids if uid in self._evictions}
        own: dict[str, asyncio.Future[EvictionResult]] = {}
        for uid in uids:
            victim = self._cache.pod(uid)
            if victim is not None and not victim.evicting:
                own[uid] = self._evictions[uid] = loop.create_future()
                self._cache.set_evicting(uid, True)
        rank = (-pod.record.priority, next(self._turns))
        return Preemption(pod.key, rank, names, uids[-1], own, others)

    def _conclude_preemption(self, preemption: Preemption) -> bool:
        """End the preemption, whatever its evictions are; return whether one of the victims stays."""
        staying = False
        for uid, eviction in preemption.own.items():
            if self._evictions.get(uid) is eviction:
                del self._evictions[uid]
            if not eviction.done():
                eviction.set_result(EvictionResult.FAILED)
            if eviction.result() is EvictionResult.FAILED:
                staying = True
                self._cache.set_evicting(uid, False)
        return staying

    async def _run_in_background(
        self,
        pod: queued_entity.QueuedEntity,
        node_name: str,
        victims: Sequence[bind_pb2.Action],
        nodes: Collection[str],
        preemption: Preemption,
    ) -> None:
        """Evict the victims; the preemptor is tried by an event of the last victim, or at once if none will come."""
        failed, requeued = True, False
        started = self._observer.clock()
        try:
            # Until then lower pods are nominated to the room that is made.
            await self._clear_lower_nominations(pod, nodes or (node_name,))
            result = await self._evict_last_after_others(pod, node_name, victims, preemption)
            failed, requeued = result is EvictionResult.FAILED, result is EvictionResult.REQUEUED
        finally:
            # Also if it was cancelled or raised: then it counts as failed.
            staying = self._conclude_preemption(preemption)
            preemption.finished = True
            # If the watch was faster than bind, the preemptor may have been tried already, and preempt again.
            newest = self.under_way.get(pod.uid) is preemption
            if not newest:
                preemption.stop_waiting()
            elif failed or requeued or not self._victim_remains(preemption.last_victim):
                self.under_way.drop(pod.uid)
                self._stop_gating(pod.key, pod.uid)
            self._observer.on_background_evictions_ended(
                _preemptor_kind(pod, node_name), not failed, self._observer.clock() - started
            )
            outcome = "error" if failed else "success"
            text = "Async Preemption finished completely"
            klog.info(log, 2, text, preemptor=klog.Ref(pod.key), node=node_name, result=outcome)
        # A later preemption of the same pod decides itself what becomes of it.
        if failed and newest:
            self.retries.on_failure(pod.key, pod.uid, preemption.named_failure)
        elif newest:
            self.retries.forget(pod.uid)
            if requeued or preemption.unnoticed:
                self._activate([(pod.key, pod.uid)])
        if staying:
            self._activate_pods_nominated_for_nodes_of(victims)

    async def _evict_last_after_others(
        self,
        pod: queued_entity.QueuedEntity,
        node_name: str,
        victims: Sequence[bind_pb2.Action],
        preemption: Preemption,
    ) -> EvictionResult:
        """Evict all victims but the last concurrently, then the last one; return how that ended.

        If another victim failed, the last one stays: its event would have the preemptor tried too early.
        """
        *others, last = victims
        results = await asyncio.gather(*(self._evict_once(pod, node_name, victim, preemption) for victim in others))
        if EvictionResult.FAILED in results:
            return EvictionResult.FAILED
        self._on_others_deleted(pod, preemption)
        return await self._evict_once(pod, node_name, last, preemption)

    def _activate_pods_nominated_for_nodes_of(self, victims: Sequence[bind_pb2.Action]) -> None:
        """Activate all pods nominated for the nodes of victims that stay: they would wait for them in vain.

        A pod that has a retry is tried then.
        """
        nodes = {victim.evict.node_name for victim in victims}
        nominated = [other for node in nodes for other in self._nominations.pods_for(node)]
        self._activate([(other.key, other.uid) for other in nominated if other.uid not in self.retries])

    def _on_others_deleted(self, pod: queued_entity.QueuedEntity, preemption: Preemption) -> None:
        """Let the last victim decide from now on whether the pod is gated: all others have been deleted."""
        preemption.others_deleted = True
        preemption.unnoticed = self._cache.pod(preemption.last_victim) is None
        if self._victim_remains(preemption.last_victim):
            preemption.stop_waiting = self._cache.call_on_deletion(
                preemption.last_victim, lambda: self._on_last_victim_terminating(pod, preemption)
            )
        else:
            self._on_last_victim_terminating(pod, preemption)

    def _on_last_victim_terminating(self, pod: queued_entity.QueuedEntity, preemption: Preemption) -> None:
        """Let the pod be tried: the last victim is terminating. Without effect for a preemption that is over."""
        if self.under_way.get(pod.uid) is preemption:
            self._stop_gating(pod.key, pod.uid)

    async def _clear_lower_nominations(self, pod: queued_entity.QueuedEntity, nodes: Collection[str]) -> None:
        """Clear the nominations of pods of lower priority for these nodes: they are scheduled elsewhere."""
        actions = []
        for other in (other for node_name in sorted(set(nodes)) for other in self._nominations.pods_for(node_name)):
            if other.priority < pod.record.priority:
                namespace, _, name = other.key.partition("/")
                identity = cycle_pb2.PodIdentity(namespace=namespace, name=name, uid=other.uid)
                actions.append(bind_pb2.Action(pod=identity, clear_nomination=bind_pb2.ClearNomination()))
        failure = await self.execute(actions) if actions else ""
        if failure:
            text = "cannot clear the nomination of pods on %s: %s; it stays until they are scheduled"
            log.warning(text, ", ".join(nodes), failure)

    async def _evict_once(
        self, pod: queued_entity.QueuedEntity, node_name: str, victim: bind_pb2.Action, preemption: Preemption
    ) -> EvictionResult:
        """Evict one victim, or wait for the other preemption that evicts it already; return how that ended."""
        uid = victim.pod.uid
        eviction = preemption.own.get(uid)
        if eviction is not None:
            result = await self._evict_victim(pod, node_name, victim, preemption)
            if not eviction.done():
                eviction.set_result(result)
            return result
        eviction = preemption.shared.get(uid)
        if eviction is None:
            # It has been deleted, though no watch has shown that yet.
            return EvictionResult.DELETED
        await asyncio.wait((eviction,))
        return eviction.result()

    async def _wait_until_unbound_victim_is_gone(self, uid: str) -> None:
        """Return once a victim that was not bound yet has left the cache, or after RELEASE_SECONDS.

        An attempt of the preemptor before that would fail: the victim still takes its room.
        """
        if self._cache.pod(uid) is not None:
            gone = asyncio.Event()
            stop_waiting = self._cache.call_on_deletion(uid, gone.set)
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RELEASE_SECONDS):
                        await gone.wait()
            finally:
                stop_waiting()

    async def _evict_victim(
        self, pod: queued_entity.QueuedEntity, node_name: str, victim: bind_pb2.Action, preemption: Preemption
    ) -> EvictionResult:
        """Evict one victim: requeue it where it is not bound yet, else have bind delete it. Events report either.

        A victim that has left the cache counts as deleted, without an event. A failure is kept in `preemption`,
        reported, and answered as FAILED.
        """
        text = f"Preempted by pod {pod.uid} on node {node_name}"
        if not node_name:
            # A group's victims may be anywhere.
            kind, uid = pod.key.partition("/")[0], victim.evict.preemptor.uid
            text = f"Preempted by {kind} {uid} on node {victim.evict.node_name}"
        uid = victim.pod.uid
        reference = pod_reference(victim.pod.namespace, victim.pod.name, uid, self._version_of(uid))
        result = EvictionResult.DELETED
        reason = status.Reason("preempted")
        if self._waiting.fail(uid, PREEMPTION_PLUGIN, "preempted", reason) or self._pre_binding.fail(
            uid, f"preempted by {PREEMPTION_PLUGIN}", reason
        ):
            text += " (in kube-scheduler memory)."
            result = EvictionResult.REQUEUED
            await self._wait_until_unbound_victim_is_gone(uid)
        elif (placed := self._cache.pod(uid)) is None:
            return result
        else:
            if pod.uid not in self.retries:
                # Otherwise the victim may carry the condition already, and bind has to read it before it writes.
                victim.evict.observed_generation = placed.generation
            failure = await self.execute([victim], preemption.rank)
            if failure:
                preemption.failure, preemption.named_failure = (
                    failure,
                    f"pod {_victim_name(victim)} could not be preempted: {failure}",
                )
                log.error("%s; pod %s is tried again", preemption.named_failure, pod.key)
                self._reporter.report_not_preempted(pod, reference, node_name or victim.evict.node_name, failure)
                return EvictionResult.FAILED
        name = klog.Ref(_victim_name(victim))
        preemptor = klog.Ref(pod.key)
        klog.info(log, 2, "Preemptor Pod preempted victim Pod", preemptor=preemptor, victim=name, node=node_name)
        self._reporter.report_preempted(reference, text, pod.record.profile)
        return result


def _preemptor_kind(pod: queued_entity.QueuedEntity, node_name: str) -> str:
    """The preemptor's kind, as metrics name it. A group's victims are on no one node."""
    return ports.POD if node_name else pod.key.partition("/")[0]


def _victim_name(victim: bind_pb2.Action) -> str:
    return f"{victim.pod.namespace}/{victim.pod.name}"


def _log_target_node(pod: queued_entity.QueuedEntity, node_name: str) -> None:
    """Log the node where room is made, as kube-scheduler does."""
    text = "the target node for the preemption is determined"
    klog.info(log, 2, text, **klog.named(log, f"PostFilter.{PREEMPTION_PLUGIN}"), pod=klog.Ref(pod.key), node=node_name)
