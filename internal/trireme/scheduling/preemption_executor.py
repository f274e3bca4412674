"""Preempting: what PostFilter decided is carried out beside the scheduling of the next pods.

Victims are deleted by bind, all at once but for the last one, and that one only if all others went; one that waits on
Permit or is in PreBind is taken back to the queue instead. Meanwhile the preemptor is held back from the queue, so that
it does not preempt again. It is let go as soon as the last victim is gone, or has been told to go and takes its time:
the event of that victim's deletion must not find it held back. Where something failed, or nothing will be heard of the
last victim, it is tried again at once; who fails again and again waits in between (`preemption_retries.py`).

Without the gate SchedulerAsyncPreemption the attempt waits for all of that (`finish`), and nothing is held.

From the decision on victims count as preempted (`ClusterCache.set_evicting`), until they are gone or it failed. Of two
preemptors with room on one node the first may be woken while the victims of the second still stand, and finds its room
promised away; it must know that more is being made there, or it would preempt again elsewhere, in vain. kube-scheduler,
which knows of the victims only once their objects say so, has that gap. A victim of two preemptors is evicted once, for
both.

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
from trireme.framework.plugin_spec import Role
from trireme.queueing import nominator, queued_entity
from trireme.registry.in_tree import IN_TREE
from trireme.scheduling import attempt_reporter, call_batches, pods_in_pre_bind, ports, preemption_retries, waiting_pods
from trireme.v1 import bind_pb2, cycle_pb2
from trireme.wire import status as wire_status
from trireme_kube.client.event_series import pod_reference
from trireme_kube.componentbase import klog, supervision

log = logging.getLogger(__name__)

NAME = IN_TREE.name_of(Role.PREEMPTION)

# To give back what PreBind had written for a victim.
TAKING_BACK_SECONDS = 10.0


class _End(enum.Enum):
    """How it went with one victim: deleted (or gone before), taken back to the queue, or it stays."""

    DELETED = enum.auto()
    IN_MEMORY = enum.auto()
    FAILED = enum.auto()


@dataclass(slots=True)
class _Preemption:
    """One preemptor's: from the decision until its last victim is seen to go."""

    key: str  # the preemptor, namespace/name
    rank: call_batches.Rank  # the more important preemptor gets its room first, and of equal ones the first
    victims: tuple[str, ...]  # namespace/name
    last: str  # UID of the victim that goes last
    own: Mapping[str, "asyncio.Future[_End]"]  # by UID of the victim: how it ends, of those that this one sees to
    others: Mapping[str, "asyncio.Future[_End]"]  # and of those that an earlier preemption sees to
    last_turn: bool = False  # all others have been deleted
    done: bool = False  # the last one too, as bind says
    failure: str = "a victim of it stays"  # what bind said, where it failed
    why: str = failure  # the same with the victim's name
    unheard: bool = False  # the last one went, by somebody else's doing, while the pod was held: no event will wake it


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
        """`apply` has bind carry out actions; `activate` has pods (key, UID) tried now; `version_of` gives the
        resourceVersion that a pod (UID) was seen at last. `held` is kept to what is held back whatever is asked: by key
        the UID. `retries` has those tried again whose victims stay.
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
        # By UID of the preemptor. Kept until its last victim is seen to go: before that the room looks taken, and
        # who looked again would have the same victims deleted once more.
        self._preemptions: dict[str, _Preemption] = {}
        # By UID of the victim: how it ends, where that is under way. Who decided first sees to it; as nobody ever waits
        # for a later decision, no two wait for each other.
        self._evictions: dict[str, asyncio.Future[_End]] = {}
        self._turns = itertools.count()
        self.background = supervision.Supervisor()

    def holds(self, uid: str) -> bool:
        """Whether the pod is to be held back: victims of it are still to be deleted."""
        known = self._preemptions.get(uid)
        if known is None:
            return False
        if not known.last_turn:
            return True
        victim = self._cache.pod(known.last)
        if victim is not None and not (known.done and victim.flags & TERMINATING):
            # While bind is at it, one that is being deleted may be gone in a moment: who tried now would try in vain.
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

    def _stands(self, uid: str) -> bool:
        """Whether the pod is where it was, as far as is known."""
        victim = self._cache.pod(uid)
        return victim is not None and not victim.flags & TERMINATING

    def victims_of(self, uid: str) -> tuple[str, ...]:
        """The victims (namespace/name) whose deletion is under way for the pod."""
        known = self._preemptions.get(uid)
        return known.victims if known is not None and not known.done else ()

    def start(self, pod: queued_entity.QueuedEntity, node_name: str, victims: Sequence[bind_pb2.Action]) -> None:
        """Carry out these evictions for the pod, in a task of its own; from now on the pod is held back."""
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
        """Carry out these evictions for the pod, all at once, before anything else is scheduled; answers what failed,
        empty where nothing did. The pod is not held: it is not in the queue meanwhile.
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
        """Carry out actions now, or when it is their turn; answers what failed first, empty where nothing did."""
        for result in await self._batches.execute(actions, rank):
            said = wire_status.from_message(result.status)
            if said.code is not status.Code.SUCCESS:
                return said.message
        return ""

    async def close(self) -> None:
        """Give up what is under way: whoever leads next decides anew."""
        self.retries.close()
        await self.background.close()
        await self._batches.close()

    def _begin(self, pod: queued_entity.QueuedEntity, victims: Sequence[bind_pb2.Action]) -> _Preemption:
        """From now on these victims are on their way out."""
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
        """Nobody sees to these victims any more; answers whether one of them stays."""
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
            # Where the watch was faster than bind, the preemptor may have been tried and be preempting again.
            newest = self._preemptions.get(pod.uid) is known
            if newest and (failed or in_memory or known.unheard or not self._stands(known.last)):
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
            if in_memory or known.unheard:
                self._activate([(pod.key, pod.uid)])
        if staying:
            # Who was told to wait for the victims would wait in vain; who could not have them deleted waits for that.
            nodes = {victim.evict.node_name for victim in victims}
            promised = [other for node in nodes for other in self._nominations.pods_for(node)]
            self._activate([(other.key, other.uid) for other in promised if other.uid not in self.retries])

    def _last_turn(self, pod: queued_entity.QueuedEntity, known: _Preemption) -> None:
        """All others have been deleted: from now on the last victim says whether the pod is held."""
        if not known.last_turn:
            known.last_turn = True
            known.unheard = self._cache.pod(known.last) is None
            if self._stands(known.last):
                self._cache.on_deletion(known.last, lambda: self._going(pod, known))
            elif self._preemptions.get(pod.uid) is known:
                self._drop_hold(pod.key, pod.uid)

    def _going(self, pod: queued_entity.QueuedEntity, known: _Preemption) -> None:
        """The last victim goes. Of a preemption that is over nobody wants to know."""
        if self._preemptions.get(pod.uid) is known:
            self._drop_hold(pod.key, pod.uid)

    async def _clear_nominations(self, pod: queued_entity.QueuedEntity, node_name: str) -> None:
        """Less important pods that were promised the node look for another one."""
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
        """Have one victim go, or wait until somebody else had it go; how that ended."""
        uid = victim.pod.uid
        eviction = known.own.get(uid)
        if eviction is not None:
            end = await self._evict(pod, node_name, victim, known)
            if not eviction.done():
                eviction.set_result(end)
            return end
        eviction = known.others.get(uid)
        if eviction is None:
            # It has been deleted, though nobody has seen that yet.
            return _End.DELETED
        await asyncio.wait((eviction,))
        return eviction.result()

    async def _room_freed(self, uid: str) -> None:
        """Return once the room of a victim that is on no node yet is free: who tried before would try in vain."""
        if self._cache.pod(uid) is not None:
            gone = asyncio.Event()
            self._cache.on_deletion(uid, gone.set)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TAKING_BACK_SECONDS):
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
        if self._waiting.preempt(uid, NAME, "preempted") or self._pre_binding.cancel(uid, f"preempted by {NAME}"):
            text += " (in kube-scheduler memory)."
            end = _End.IN_MEMORY
            await self._room_freed(uid)
        elif (placed := self._cache.pod(uid)) is None:
            return end
        else:
            if pod.uid not in self.retries:
                # Else the victim may be marked already, and bind is to look before it writes.
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
    klog.info(log, 2, text, **klog.named(log, f"PostFilter.{NAME}"), pod=klog.Ref(pod.key), node=node_name)
