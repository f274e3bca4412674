"""Executes preemptions: the victims that PostFilter chose are deleted while the next pods are scheduled.

Bind deletes the victims, all at once except the last one, and that one only if all others were deleted; a victim that
waits on Permit or is in PreBind returns to the queue instead. Meanwhile the preemptor is held back from the queue, so
that it does not preempt again. The hold ends as soon as the last victim is gone, or is terminating: the event of that
victim's deletion must not find the preemptor held. If a deletion failed, or no event of the last victim will come, the
preemptor is tried again at once; one that fails again and again waits in between (`preemption_retries.py`).

Without the gate SchedulerAsyncPreemption the attempt waits for all of that (`finish`), and no preemptor is held.

Victims count as evicted from the decision on (`ClusterCache.set_evicting`), until they are gone or their deletion
failed. Of two preemptors on one node the first may be woken while the victims of the second are still there, and finds
its room nominated to the other pod; it must know that more room is being made there, or it would preempt elsewhere, in
vain. kube-scheduler, which knows of the victims only from their objects, has that gap. A victim of two preemptors is
evicted once, for both.

Source: pkg/scheduler/framework/preemption/executor.go.
"""

import asyncio
import contextlib
import enum
import itertools
import logging
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from trireme.cache import cluster_cache
from trireme.cache.pod_projection import TERMINATING
from trireme.framework import status
from trireme.queueing import nominator, queued_entity
from trireme.registry.in_tree import PREEMPTION_PLUGIN
from trireme.scheduling import attempt_reporter, call_batches, pods_in_pre_bind, ports, preemption_retries, waiting_pods
from trireme.v1 import bind_pb2, cycle_pb2
from trireme.wire import status as wire_status
from trireme_kube.client.event_series import pod_reference
from trireme_kube.componentbase import klog, supervision

log = logging.getLogger(__name__)


# How long the release of what PreBind had written for a victim may take.
RELEASE_SECONDS = 10.0


class _End(enum.Enum):
    """How the eviction of a victim ended: deleted (or gone before), returned to the queue, or failed."""

    DELETED = enum.auto()
    IN_MEMORY = enum.auto()
    FAILED = enum.auto()


@dataclass(slots=True)
class _Preemption:
    """The preemption for one pod: from the decision until its last victim is seen terminating."""

    key: str  # the preemptor, namespace/name
    rank: call_batches.Rank  # the more important preemptor gets its room first, and of equal ones the first
    victims: tuple[str, ...]  # namespace/name
    last: str  # UID of the victim that goes last
    own: Mapping[
        str, "asyncio.Future[_End]"
    ]  # by UID of the victim: how the evictions end that this preemption executes
    others: Mapping[str, "asyncio.Future[_End]"]  # and those that an earlier preemption executes
    last_turn: bool = False  # all others have been deleted
    done: bool = False  # the last one too, according to bind
    failure: str = "a victim of it stays"  # bind's message, if it failed
    why: str = failure  # the same with the victim's name
    silent: bool = False  # another client deleted the last victim while the pod was held: no event will wake the pod


class PreemptionExecutor:
    """The preemptions under way."""

    def __init__(
        self,
        cache: cluster_cache.ClusterCache,
        nominations: nominator.Nominator,
        waiting: waiting_pods.WaitingPods,
        reporter: attempt_reporter.AttemptReporter,
        apply: call_batches.Send[bind_pb2.Action, bind_pb2.BindResult],
        activate: Callable[[Sequence[tuple[str, str]]], object],
        observer: ports.Observer,
        pre_binding: pods_in_pre_bind.PodsInPreBind,
        version_of: Callable[[str], str],
        held: MutableMapping[str, str],
        retries: preemption_retries.Retries,
    ) -> None:
        """`apply` has bind execute actions; `activate` has pods (key, UID) tried now; `version_of` returns the
        resourceVersion at which a pod (UID) was last seen. `held` receives the pods that are held back: the UID by key.
        `retries` has preemptors tried again whose victims stay.
        """
        self._cache = cache
        self._nominations = nominations
        self._waiting = waiting
        self._reporter = reporter
        self._batches = call_batches.CallBatches(apply)
        self._activate = activate
        self._observer = observer
        self._pre_binding = pre_binding
        self._version_of = version_of
        self._held = held
        self.retries = retries
        # By UID of the preemptor, until its last victim is seen terminating: before that the room looks taken, and the
        # preemptor would have the same victims deleted once more.
        self._preemptions: dict[str, _Preemption] = {}
        # By UID of the victim: how its eviction ends, while that is under way. The first preemption that chose the
        # victim executes it; since none waits for a later one, no two wait for each other.
        self._evictions: dict[str, asyncio.Future[_End]] = {}
        self._turns = itertools.count()
        self.background = supervision.Supervisor()

    def holds(self, uid: str) -> bool:
        """Whether the pod is held back: victims of it are still to be deleted."""
        known = self._preemptions.get(uid)
        if known is None:
            return False
        if not known.last_turn:
            return True
        victim = self._cache.pod(known.last)
        if victim is not None and not (known.done and victim.flags & TERMINATING):
            # While bind deletes it, a terminating victim may be gone in a moment: an attempt now would be in vain.
            return True
        if known.done:
            del self._preemptions[uid]
        return False

    def forget(self, uid: str) -> None:
        """The preemptor is gone."""
        self.retries.forget(uid)
        known = self._preemptions.get(uid)
        if known is not None:
            self._drop_hold(known.key, uid)
            if known.done:
                del self._preemptions[uid]

    def _drop_hold(self, key: str, uid: str) -> None:
        if self._held.get(key) == uid:
            del self._held[key]

    def _is_running(self, uid: str) -> bool:
        """Whether the pod is still on its node and not terminating, as far as is known."""
        victim = self._cache.pod(uid)
        return victim is not None and not victim.flags & TERMINATING

    def victims_of(self, uid: str) -> tuple[str, ...]:
        """The victims (namespace/name) whose deletion is under way for the pod."""
        known = self._preemptions.get(uid)
        return known.victims if known is not None and not known.done else ()

    def start(self, pod: queued_entity.QueuedEntity, node_name: str, victims: Sequence[bind_pb2.Action]) -> None:
        """Execute these evictions for the pod in a task of its own; from now on the pod is held back."""
        if not victims:
            return
        count, preemptor = len(victims), klog.Ref(pod.key)
        _log_target(pod, node_name)
        klog.info(
            log,
            2,
            "Start the preemption asynchronously",
            preemptor=preemptor,
            node=node_name,
            numVictims=count,
            numVictimsToDelete=count,
        )
        known = self._preemptions[pod.uid] = self._begin(pod, victims)
        self._held[pod.key] = pod.uid
        self.retries.begun(pod.uid)
        self.background.start(self._run(pod, node_name, victims, known))

    async def finish(self, pod: queued_entity.QueuedEntity, node_name: str, victims: Sequence[bind_pb2.Action]) -> str:
        """Execute these evictions for the pod, all at once, before anything else is scheduled. Answers what failed;
        empty if nothing did. The pod is not held: it is not in the queue meanwhile.
        """
        if not victims:
            return ""
        _log_target(pod, node_name)
        known, started = self._begin(pod, victims), self._observer.clock()
        ends: Sequence[_End] = (_End.FAILED,)
        try:
            ends = await asyncio.gather(*(self._preempt(pod, node_name, victim, known) for victim in victims))
            if _End.FAILED not in ends:
                await self._clear_nominations(pod, node_name)
        finally:
            self._end(known)
            self._observer.evicted(_kind(pod, node_name), _End.FAILED not in ends, self._observer.clock() - started)
        return known.failure if _End.FAILED in ends else ""

    async def execute(self, actions: Sequence[bind_pb2.Action], rank: call_batches.Rank = call_batches.FIRST) -> str:
        """Execute actions now, or when it is their turn. Answers the first failure; empty if there is none."""
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

    def _begin(self, pod: queued_entity.QueuedEntity, victims: Sequence[bind_pb2.Action]) -> _Preemption:
        """Mark these victims as being evicted from now on."""
        names = tuple(_name(victim) for victim in victims)
        uids = [victim.pod.uid for victim in victims]
        loop = asyncio.get_running_loop()
        others = {uid: self._evictions[uid] for uid in uids if uid in self._evictions}
        own: dict[str, asyncio.Future[_End]] = {}
        for uid in uids:
            victim = self._cache.pod(uid)
            if victim is not None and not victim.evicting:
                own[uid] = self._evictions[uid] = loop.create_future()
                self._cache.set_evicting(uid, True)
        rank = (-pod.record.priority, next(self._turns))
        return _Preemption(pod.key, rank, names, uids[-1], own, others)

    def _end(self, known: _Preemption) -> bool:
        """These evictions are over. Answers whether one of the victims stays."""
        staying = False
        for uid, eviction in known.own.items():
            if self._evictions.get(uid) is eviction:
                del self._evictions[uid]
            if not eviction.done():
                eviction.set_result(_End.FAILED)
            if eviction.result() is _End.FAILED:
                staying = True
                self._cache.set_evicting(uid, False)
        return staying

    async def _run(
        self, pod: queued_entity.QueuedEntity, node_name: str, victims: Sequence[bind_pb2.Action], known: _Preemption
    ) -> None:
        failed, in_memory = True, False
        started = self._observer.clock()
        try:
            await self._clear_nominations(pod, node_name)
            *others, last = victims
            ends = await asyncio.gather(*(self._preempt(pod, node_name, victim, known) for victim in others))
            failed = _End.FAILED in ends
            if not failed:
                self._last_turn(pod, known)
                end = await self._preempt(pod, node_name, last, known)
                failed, in_memory = end is _End.FAILED, end is _End.IN_MEMORY
        finally:
            staying = self._end(known)
            self._last_turn(pod, known)
            known.done = True
            # If the watch was faster than bind, the preemptor may have been tried already, and preempt again.
            newest = self._preemptions.get(pod.uid) is known
            if newest and (failed or in_memory or known.silent or not self._is_running(known.last)):
                del self._preemptions[pod.uid]
                self._drop_hold(pod.key, pod.uid)
            self._observer.preempted(_kind(pod, node_name), not failed, self._observer.clock() - started)
            result = "error" if failed else "success"
            text = "Async Preemption finished completely"
            klog.info(log, 2, text, preemptor=klog.Ref(pod.key), node=node_name, result=result)
        if failed and newest:
            self.retries.failed(pod.key, pod.uid, known.why)
        elif newest:
            self.retries.forget(pod.uid)
            if in_memory or known.silent:
                self._activate([(pod.key, pod.uid)])
        if staying:
            # Other pods nominated for these nodes would wait for the victims in vain, unless they have a retry.
            nodes = {victim.evict.node_name for victim in victims}
            nominated = [other for node in nodes for other in self._nominations.pods_for(node)]
            self._activate([(other.key, other.uid) for other in nominated if other.uid not in self.retries])

    def _last_turn(self, pod: queued_entity.QueuedEntity, known: _Preemption) -> None:
        """All others have been deleted: from now on the last victim decides whether the pod is held."""
        if not known.last_turn:
            known.last_turn = True
            known.silent = self._cache.pod(known.last) is None
            if self._is_running(known.last):
                self._cache.on_deletion(known.last, lambda: self._on_terminating(pod, known))
            elif self._preemptions.get(pod.uid) is known:
                self._drop_hold(pod.key, pod.uid)

    def _on_terminating(self, pod: queued_entity.QueuedEntity, known: _Preemption) -> None:
        """The last victim is terminating. Without effect for a preemption that is over."""
        if self._preemptions.get(pod.uid) is known:
            self._drop_hold(pod.key, pod.uid)

    async def _clear_nominations(self, pod: queued_entity.QueuedEntity, node_name: str) -> None:
        """Clear the nominations of less important pods for the node: they look for another one."""
        actions = []
        for other in self._nominations.pods_for(node_name):
            if other.priority < pod.record.priority:
                namespace, _, name = other.key.partition("/")
                identity = cycle_pb2.PodIdentity(namespace=namespace, name=name, uid=other.uid)
                actions.append(bind_pb2.Action(pod=identity, clear_nomination=bind_pb2.ClearNomination()))
        failure = await self.execute(actions) if actions else ""
        if failure:
            log.warning("cannot clear the nomination of pods on node %s: %s", node_name, failure)

    async def _preempt(
        self, pod: queued_entity.QueuedEntity, node_name: str, victim: bind_pb2.Action, known: _Preemption
    ) -> "_End":
        """Evict one victim, or wait for the preemption that evicts it; how that ended."""
        uid = victim.pod.uid
        eviction = known.own.get(uid)
        if eviction is not None:
            end = await self._evict(pod, node_name, victim, known)
            if not eviction.done():
                eviction.set_result(end)
            return end
        eviction = known.others.get(uid)
        if eviction is None:
            # It has been deleted, though no watch has shown that yet.
            return _End.DELETED
        await asyncio.wait((eviction,))
        return eviction.result()

    async def _room_freed(self, uid: str) -> None:
        """Return once the room of a victim that was not bound yet is free: an attempt before would be in vain."""
        if self._cache.pod(uid) is not None:
            gone = asyncio.Event()
            self._cache.on_deletion(uid, gone.set)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELEASE_SECONDS):
                    await gone.wait()

    async def _evict(
        self, pod: queued_entity.QueuedEntity, node_name: str, victim: bind_pb2.Action, known: _Preemption
    ) -> "_End":
        text = f"Preempted by pod {pod.uid} on node {node_name}"
        if not node_name:
            # A group's victims may be anywhere.
            kind, uid = pod.key.partition("/")[0], victim.evict.preemptor.uid
            text = f"Preempted by {kind} {uid} on node {victim.evict.node_name}"
        uid = victim.pod.uid
        reference = pod_reference(victim.pod.namespace, victim.pod.name, uid, self._version_of(uid))
        end = _End.DELETED
        if self._waiting.preempt(uid, PREEMPTION_PLUGIN, "preempted") or self._pre_binding.cancel(
            uid, f"preempted by {PREEMPTION_PLUGIN}"
        ):
            text += " (in kube-scheduler memory)."
            end = _End.IN_MEMORY
            await self._room_freed(uid)
        elif (placed := self._cache.pod(uid)) is None:
            return end
        else:
            if pod.uid not in self.retries:
                # Otherwise the victim may carry the condition already, and bind has to read it before it writes.
                victim.evict.observed_generation = placed.generation
            failure = await self.execute([victim], known.rank)
            if failure:
                known.failure, known.why = failure, f"pod {_name(victim)} could not be preempted: {failure}"
                log.error("%s", known.why)
                self._reporter.not_preempted(pod, reference, node_name or victim.evict.node_name, failure)
                return _End.FAILED
        name = klog.Ref(_name(victim))
        preemptor = klog.Ref(pod.key)
        klog.info(log, 2, "Preemptor Pod preempted victim Pod", preemptor=preemptor, victim=name, node=node_name)
        self._reporter.preempted(reference, text, pod.record.profile)
        return end


def _kind(pod: queued_entity.QueuedEntity, node_name: str) -> str:
    """The preemptor's kind, as metrics name it. A group's victims are on no one node."""
    return ports.POD if node_name else pod.key.partition("/")[0]


def _name(victim: bind_pb2.Action) -> str:
    return f"{victim.pod.namespace}/{victim.pod.name}"


def _log_target(pod: queued_entity.QueuedEntity, node_name: str) -> None:
    text = "the target node for the preemption is determined"
    klog.info(log, 2, text, **klog.named(log, f"PostFilter.{PREEMPTION_PLUGIN}"), pod=klog.Ref(pod.key), node=node_name)
