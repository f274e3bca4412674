"""The binding cycle: from an assumed pod to a bound one, while the next pods are scheduled.

`BindingCycle._run` has its steps in order: Permit, PreBind, Bind, PostBind. Pods of one class share each call; a pod
that has to wait goes on alone, so that no other waits for it. A pod for which a step fails is unassumed and requeued.
If the result of a write is uncertain, the call is repeated until bind knows it: no pod is forgotten while it might be
bound.

Source: pkg/scheduler/schedule_one.go (bindingCycle).

Tests: tests/unit/scheduling/test_binding_cycle.py, tests/unit/scheduling/test_attempt_metrics.py,
tests/unit/scheduling/test_room_for_bindings.py, tests/unit/scheduling/test_never_lost.py.
"""

import asyncio
import collections
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from trireme.cache import cluster_cache, object_waits
from trireme.extenders import extenders, reported_bound
from trireme.framework import cluster_event, status
from trireme.queueing import event_audience, remote_calls, scheduling_queue
from trireme.scheduling import (
    attempt_reporter,
    bind_calls,
    bind_limits,
    fit_error,
    pending_pod_removal,
    pods_in_pre_bind,
    ports,
    post_binding,
    pre_binding,
    profile_roles,
    queue_notifier,
    reserve_calls,
    waiting_pods,
)
from trireme.scheduling.assumed_pod import AssumedPod
from trireme.scheduling.failure import Failure, RefusedPlacement
from trireme.v1 import bind_pb2, cycle_pb2, resource_pb2
from trireme.wire import status as wire_status
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)


# The kind of objects whose devices may have to be prepared.
_CLAIM = "resource_claim"

# Returns how the wait of one pod on Permit ended.
PermitWait = Callable[[], Coroutine[Any, Any, status.Status]]


class BindingCycle:
    """Binds what was placed while others are scheduled: Permit, PreBind, Bind, PostBind; undoes it where one fails."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        queue: scheduling_queue.SchedulingQueue,
        reporter: attempt_reporter.AttemptReporter,
        reserved: reserve_calls.ReserveCalls,
        observer: ports.Observer,
        http_extenders: extenders.Extenders | None,
        execute: Callable[[remote_calls.Instructions], None],
        now: Callable[[], float],
        log: ports.BindingLog,
        binder: ports.Binder,
        waiting: waiting_pods.WaitingPods,
        pre_binding: pre_binding.PreBinding,
        in_pre_bind: pods_in_pre_bind.PodsInPreBind,
        roles: profile_roles.ProfileRoles,
        until_claim_shown: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._reporter = reporter
        self._execute = execute
        self._now = now
        self._observer = observer
        self._reserved = reserved
        self._http_extenders = http_extenders
        self._log = log
        self._binder = binder
        self._waiting = waiting
        self._pre_binding = pre_binding
        self._in_pre_bind = in_pre_bind
        self._roles = roles
        self._until_claim_shown = until_claim_shown
        self.reported_bound = reported_bound.ReportedBound[tuple[cycle_pb2.Cycle, AssumedPod]](
            self._cache.is_assumed, self._requeue_unconfirmed
        )
        self.background = supervision.Supervisor()
        self._shared_calls = bind_calls.SharedBindCalls(binder, self.background.start)
        self._post_binding = post_binding.PostBinding(binder, observer, roles.post_bind, self.background.start)
        # The pods in the binding cycle, by profile.
        self._binding: collections.Counter[str] = collections.Counter()
        self._room = bind_limits.RoomForBindings()
        self._permit_turns = bind_limits.CallTurns()
        self._bind_turns = bind_limits.CallTurns()  # of profiles with remote Bind plugins
        self._extender_turns = asyncio.Semaphore(bind_limits.MAX_BOUND_BY_EXTENDERS)

    @property
    def binding_count(self) -> int:
        """The number of pods in the binding cycle, those that wait there included."""
        return self._binding.total()

    def profiles_in_use(self) -> frozenset[str]:
        """The profiles of the pods in the binding cycle."""
        return frozenset(profile for profile, count in self._binding.items() if count)

    @property
    def unconfirmed_count(self) -> int:
        """How many of them no watch has shown on their node yet. For a pod that it has shown, bind need not answer."""
        return min(self._binding.total(), self._cache.assumed_count)

    @property
    def has_room(self) -> bool:
        """Whether more pods may be placed."""
        return self._room.has_room

    async def wait_for_room(self) -> None:
        """Return when more pods may be placed."""
        await self._room.wait()

    def pre_bind_wait(self, uid: str) -> pre_binding.PreBindWait | None:
        """What PreBind of the pod waits for; None: it does not wait."""
        return self._pre_binding.wait_of(uid)

    def start(self, cycle: cycle_pb2.Cycle, pods: list[AssumedPod]) -> None:
        """Bind these pods of one class in a task of its own."""
        self._binding[cycle.profile] += len(pods)
        untouched = sum(not assumed.reserved for assumed in pods)
        self._observer.record_skipped_extension_points(("Reserve",), status.Code.SUCCESS, cycle.profile, untouched)
        self.background.start(self._run(self._cycle_with_pod_for_remote_plugins(cycle, pods), pods))

    async def close(self) -> None:
        """Cancel all bindings under way: the next leader reads from the API server how they ended."""
        self.reported_bound.close()
        await self.background.close()
        await self._pre_binding.close()
        await self._reserved.close()

    async def _run(
        self,
        cycle: cycle_pb2.Cycle,
        pods: Sequence[AssumedPod],
        *,
        permitted: bool = False,
        wait: PermitWait | None = None,
    ) -> None:
        """Bind pods of one class, or undo what was done for those that a step refuses.

        A pod that has to wait leaves the batch in step 1: for it this runs again, with that pod alone. Then
        `permitted` is set, and `wait`, if not None, is its wait on Permit.
        """
        # 1. Permit plugins admit pods, hold them, or refuse them. Those that wait for nothing go on together.
        if not permitted:
            pods = await self._permit(cycle, pods)

        # 2. A pod that is held waits until all plugins allow it.
        if wait is not None:
            pods = await self._wait_on_permit(cycle, pods[0], wait)

        if not pods:
            return

        # 3. The attempt is over for the queue: it need no longer record events for these pods.
        now = self._now()
        for assumed in pods:
            self._queue.done(assumed.pod.uid, now)

        # 4. PreBind prepares the node, volumes and devices, which may take minutes.
        if permitted and self._has_pre_bind(cycle, pods[0]):
            pods = await self._pre_bind(cycle, pods[0])
        else:
            self._observer.record_skipped_extension_points(
                ("PreBindPreFlight",), status.Code.SKIP, cycle.profile, len(pods)
            )
            self._observer.record_skipped_extension_points(("PreBind",), status.Code.SUCCESS, cycle.profile, len(pods))

        # 5. The condition of an earlier attempt is written before the binding, not after it. Of pods that go on
        # together nothing is unwritten.
        if pods:
            await self._reporter.wait_until_written(pods[0].pod.uid)

        # 6. Whatever they waited for, no pod is bound to a node that is gone.
        pods = await self._without_lost_nodes(cycle, pods)
        if not pods:
            return

        # 7. Bind plugins bind the pods, or the HTTP extender that binds pods of their class.
        async for assumed, item, seconds in self._bind(cycle, pods):
            # 8. PostBind plugins are notified.
            self._report_bound(assumed, seconds)
            self._post_binding.on_bound(cycle, item)

    # 1 and 2: Permit

    async def _permit(self, cycle: cycle_pb2.Cycle, pods: Sequence[AssumedPod]) -> list[AssumedPod]:
        """Call the Permit plugins, and return the pods that go on together.

        Pods that a plugin rejects are requeued. Pods that have to wait go on in tasks of their own: on Permit, in
        PreBind, for a condition to be written, or for an extender.
        """
        if cycle.profile in self._roles.permit:
            admitted = await self._call_permit(cycle, pods)
        else:
            self._observer.record_skipped_extension_points(("Permit",), status.Code.SUCCESS, cycle.profile, len(pods))
            admitted = [(assumed, None) for assumed in pods]
        all_alone = self._is_bound_by_extender(cycle)
        together = []
        for assumed, wait in admitted:
            waits_later = self._has_pre_bind(cycle, assumed) or self._reporter.has_unwritten(assumed.pod.uid)
            if wait is not None or waits_later or all_alone:
                self.background.start(self._run(cycle, [assumed], permitted=True, wait=wait))
            else:
                together.append(assumed)
        return together

    async def _call_permit(
        self, cycle: cycle_pb2.Cycle, pods: Sequence[AssumedPod]
    ) -> list[tuple[AssumedPod, PermitWait | None]]:
        """Call the Permit plugins; return the pods that they do not reject, each with its wait if it has to wait."""
        request = bind_pb2.PermitRequest(cycle=cycle, items=[assumed.item for assumed in pods])
        started = self._observer.clock()
        try:
            async with self._permit_turns.turn_for(cycle.profile):
                response = await self._binder.permit(request)
            failed = "" if len(response.results) == len(pods) else ports.OTHER_PODS
        except ports.PhaseFault as error:
            failed = str(error)
        if failed:
            for assumed in pods:
                why = status.error("", f"running Permit plugins: {failed}", reasons=(status.Reason("phaseFailed"),))
                await self._undo(cycle, assumed, why, "Permit")
            return []
        admitted: list[tuple[AssumedPod, PermitWait | None]] = []
        for assumed, result in zip(pods, response.results, strict=True):
            answer = wire_status.from_message(result.status)
            seconds = (self._observer.clock() - started) / len(pods)
            self._observer.on_extension_point_run("Permit", answer.code, cycle.profile, seconds)
            timeouts = {wait.plugin: wait.timeout.ToTimedelta().total_seconds() for wait in result.waits}
            if answer.code == status.Code.SUCCESS:
                admitted.append((assumed, None))
            elif answer.code == status.Code.WAIT:
                messages = {wait.plugin: ", ".join(wait.messages) for wait in result.waits}
                admitted.append((assumed, self._begin_permit_wait(assumed, timeouts, messages)))
            else:
                await self._undo(cycle, assumed, answer, "Permit", _permit_text(answer))
        return admitted

    def _begin_permit_wait(
        self, assumed: AssumedPod, waits: Mapping[str, float], messages: Mapping[str, str]
    ) -> PermitWait:
        """Begin the pod's wait for these plugins at once, so that an early Allow or Reject finds it.

        `messages` say why it waits, by plugin.
        """
        if self._cache.pod(assumed.pod.uid) is None:
            return _wait_of_removed_pod  # deleted while Permit was called
        wait = self._waiting.begin_wait(assumed.pod.uid, assumed.pod.key, waits, messages)

        async def nominate_and_wait() -> status.Status:
            result, _ = await asyncio.gather(wait(), self._write_expected_nomination(assumed))
            return result

        return nominate_and_wait

    async def _wait_on_permit(self, cycle: cycle_pb2.Cycle, assumed: AssumedPod, wait: PermitWait) -> list[AssumedPod]:
        """Wait until the pod is allowed, and return it; none if it is rejected, or its node goes."""
        started, name = self._observer.clock(), assumed.node_name

        def fail() -> None:
            self._waiting.fail(assumed.pod.uid, "", _node_not_found(name), _node_gone(name))

        drop_callback = self._cache.call_on_node_removal(name, fail)
        if not self._cache.has_node(name):  # removed while Permit was called
            fail()
        try:
            result = await wait()
        finally:
            drop_callback()
        waited = self._observer.clock() - started
        self._observer.on_permit_wait_ended(result.code, waited)
        assumed = dataclasses.replace(assumed, permit_seconds=waited)
        if result.code == status.Code.SUCCESS:
            return [assumed]
        await self._undo(cycle, assumed, result, "Permit", _permit_text(result))
        return []

    # 4: PreBind

    def _has_pre_bind(self, cycle: cycle_pb2.Cycle, assumed: AssumedPod) -> bool:
        return assumed.pre_bind or cycle.profile in self._roles.pre_bind

    async def _pre_bind(self, cycle: cycle_pb2.Cycle, assumed: AssumedPod) -> list[AssumedPod]:
        """Run PreBindPreFlight, and PreBind if that finds work; return the pod, or none if one of them fails."""
        item = assumed.item
        started = self._observer.clock()
        work = await self._pre_binding.has_work(cycle, item, assumed.rank)
        begun = self._observer.clock()
        failed = work if isinstance(work, status.Status) else None
        code = failed.code if failed is not None else status.Code.SUCCESS if work else status.Code.SKIP
        self._observer.on_extension_point_run("PreBindPreFlight", code, cycle.profile, begun - started)
        result = failed or status.SUCCESS
        if work is True:
            await self._write_expected_nomination(assumed)
            if self._cache.pod(assumed.pod.uid) is None:
                result = pending_pod_removal.REMOVED  # while PreBindPreFlight was called
            else:
                result = await self._in_pre_bind.run(assumed.pod.uid, self._run_pre_bind(cycle, assumed, item))
            assumed = dataclasses.replace(assumed, prepared=True)
            self._observer.on_volume_stage_ended("bind", result)
        if failed is None:
            self._observer.on_extension_point_run("PreBind", result.code, cycle.profile, self._observer.clock() - begun)
        if result.code is status.Code.SUCCESS:
            return [dataclasses.replace(assumed, pre_bind_seconds=self._observer.clock() - started)]
        await self._undo(cycle, assumed, result, "PreBind")
        return []

    async def _run_pre_bind(
        self, cycle: cycle_pb2.Cycle, assumed: AssumedPod, item: bind_pb2.BindItem
    ) -> status.Status:
        """Run PreBind, and return its result; if it waits for devices, that is an event and is measured by driver."""
        drivers: list[str] = []
        started = self._observer.clock()

        def on_wait(plugin: str, keys: frozenset[object_waits.Key]) -> None:
            self._in_pre_bind.set_plugin(assumed.pod.uid, plugin)
            claims = [self._cache.get_assumed(*key) for key in keys if key[0] == _CLAIM]
            if claims:
                drivers.extend(
                    name for claim in claims if claim is not None for name in _drivers_to_prepare(claim.resource_claim)
                )
                self._reporter.report_devices_pending(assumed.pod, assumed.node_name)

        result = await self._pre_binding.run(cycle, item, assumed.rank, on_wait, self._cache.has_node)
        if drivers:
            self._observer.on_devices_prepared(cycle.profile, drivers, result, self._observer.clock() - started)
        return result

    async def _write_expected_nomination(self, assumed: AssumedPod) -> None:
        """Write the node into the pod's status as the expected one, because Permit or PreBind may take long."""
        await self._reporter.wait_until_written(assumed.pod.uid)  # an earlier nomination must not come after this one
        if await self._pre_binding.write_nomination(assumed.item, assumed.rank):
            self._reporter.note_nomination_written(assumed.pod, assumed.node_name)

    # 6 and 7: Bind

    async def _without_lost_nodes(self, cycle: cycle_pb2.Cycle, pods: Sequence[AssumedPod]) -> list[AssumedPod]:
        """Return the pods whose node exists; requeue the others."""
        left = []
        for assumed in pods:
            if self._cache.has_node(assumed.node_name):
                left.append(assumed)
            else:
                reasons = (_node_gone(assumed.node_name),)
                why = status.error("", _node_not_found(assumed.node_name), reasons=reasons)
                await self._undo(cycle, assumed, why, "Bind")
        return left

    def _is_bound_by_extender(self, cycle: cycle_pb2.Cycle) -> bool:
        return self._http_extenders is not None and self._http_extenders.has_binder_for(cycle.pod_class)

    async def _bind_by_extender(self, cycle: cycle_pb2.Cycle, assumed: AssumedPod) -> bool:
        """Have an HTTP extender bind the pod; False: none is interested, or an ignorable one failed.

        The pod stays assumed until the watch shows it bound, since we have only the extender's word (`reported_bound`).
        """
        assert self._http_extenders is not None
        async with self._extender_turns:
            started = self._observer.clock()
            result = await self._http_extenders.bind(cycle.pod_class, assumed.item)
        if result is None:
            return False
        seconds = self._observer.clock() - started
        self._observer.on_extension_point_run("Bind", result.code, cycle.profile, seconds)
        if result.code == status.Code.SUCCESS:
            self._binding[cycle.profile] -= 1
            self.reported_bound.add(assumed.pod.uid, (cycle, assumed))
            self._report_bound(assumed, seconds)
            self._post_binding.on_bound(cycle, assumed.item)
        else:
            await self._undo(cycle, assumed, result, "Bind")
        return True

    def _requeue_unconfirmed(self, bound: tuple[cycle_pb2.Cycle, AssumedPod]) -> None:
        """Unassume and requeue a pod that an extender reported as bound, and that no watch has shown so in time."""
        cycle, assumed = bound
        self._binding[cycle.profile] += 1
        text = f"an extender reported the pod as bound to node {assumed.node_name}, and the pod is still without a node"
        reasons = (status.Reason.of("boundByExtender", {"node": assumed.node_name}),)
        self.background.start(self._undo(cycle, assumed, status.error("", text, reasons=reasons), "Bind"))

    async def _bind(
        self, cycle: cycle_pb2.Cycle, pods: Sequence[AssumedPod]
    ) -> AsyncIterator[tuple[AssumedPod, bind_pb2.BindItem, float]]:
        """Have the Bind plugins bind the pods; yields each that is bound, its item, and the seconds that it took.

        Of a class with an HTTP extender that binds, the pod goes to that first. Calls to remote plugins, which may take
        until their deadline, take turns, one for each class. Only other pods count as in Bind calls (`has_room`).
        """
        if self._is_bound_by_extender(cycle) and await self._bind_by_extender(cycle, pods[0]):
            return
        request = bind_pb2.BindRequest(cycle=cycle, items=[assumed.item for assumed in pods])
        turn: contextlib.AbstractAsyncContextManager[object] = contextlib.nullcontext()
        in_calls, bind = len(pods), self._shared_calls.bind
        if cycle.profile in self._roles.remote_bind:
            turn, in_calls, bind = self._bind_turns.turn_for(cycle.profile), 0, self._binder.bind
        self._room.add(in_calls)
        try:
            async with turn:
                started = self._observer.clock()
                async for result in bind(request):
                    assumed = pods[result.index]
                    answer = wire_status.from_message(result.status)
                    seconds = self._observer.clock() - started
                    self._observer.on_extension_point_run("Bind", answer.code, cycle.profile, seconds)
                    if answer.code == status.Code.SUCCESS:
                        self._binding[cycle.profile] -= 1
                        yield assumed, request.items[result.index], seconds
                    else:
                        await self._undo(cycle, assumed, answer, "Bind")
                    if in_calls:
                        in_calls -= 1
                        self._room.add(-1)
        finally:
            self._room.add(-in_calls)

    def _report_bound(self, assumed: AssumedPod, bind_seconds: float) -> None:
        """Report that the pod is bound, and how long that took."""
        self._log.add_bound(
            assumed.pod,
            self._now(),
            permit_seconds=assumed.permit_seconds,
            pre_bind_seconds=assumed.pre_bind_seconds,
            bind_seconds=bind_seconds,
        )
        self._reporter.report_bound(assumed.pod, assumed.node_name, assumed.node_counts)

    # A pod that is not bound

    async def _undo(
        self, cycle: cycle_pb2.Cycle, assumed: AssumedPod, why: status.Status, step: str, text: str = ""
    ) -> None:
        """Undo, last step first, what was done for a pod that is not bound; requeue it, and let others try its room.

        `step`: the extension point that the status is of; `text`: the pod's message, if not the status's.
        """
        if assumed.prepared and assumed.state:
            # The next attempt must not take what PreBind wrote for its own.
            await self._pre_binding.undo_pre_bind(assumed.item)
            await self._until_claims_shown(assumed.pod.uid)
        self._binding[cycle.profile] -= 1
        if assumed.reserved:
            self._reserved.unreserve(cycle, [assumed.placement])
        placed = self._cache.pod(assumed.pod.uid)
        removed = None
        if placed is not None and placed.assumed:
            pod = self._cache.registry[placed.class_id].pod
            removed = queue_notifier.PodInEvent(pod, placed.key, placed.uid, placed.node_name, "")
            self._cache.forget(placed.uid)
        rejectors = frozenset({why.plugin}) if why.is_rejection and why.plugin else frozenset()
        placement = RefusedPlacement(step, assumed.node_name, why) if why.plugin else None
        failure = Failure(text or why.message, rejectors, nominated_node="", placement=placement, refusals=((why, 1),))
        self._reporter.report_failure(assumed.pod, failure)
        if removed is not None:
            # kube-scheduler runs Permit before it looks at the next pod, so what Permit refuses at once has taken room
            # from nobody. Here others may have been refused for it meanwhile, but none that had a node.
            # A pod that was refused is not woken by its own removal.
            audience = event_audience.EventAudience(
                exclude_uid=assumed.pod.uid if rejectors else "",
                lacking_room=bool(rejectors) and step == "Permit" and not assumed.permit_seconds,
            )
            self._notify_of_removal(removed, audience)

    async def _until_claims_shown(self, uid: str) -> None:
        """Return once the cache shows what PreBind wrote into the pod's claims.

        A claim keeps its devices when the pod is no longer its user. They must stay assumed until the cache shows them,
        or another pod gets them too.
        """
        for entry in self._cache.objects_assumed_for(uid):
            claim = entry.resource_claim.metadata
            # One without a version was made for the pod, and is deleted by now; other kinds are no devices.
            if claim.resource_version:
                await self._until_claim_shown(claim.namespace, claim.name)

    def _notify_of_removal(self, removed: queue_notifier.PodInEvent, audience: event_audience.EventAudience) -> None:
        """Wake pods that wait for room: for them it is as if a pod had left the node."""
        event, started = cluster_event.ASSIGNED_POD_DELETE, self._observer.clock()
        instructions = self._queue.on_event(event, removed, None, self._now(), audience)
        self._observer.on_event_handled(event.label, started)
        self._execute(instructions)

    def _cycle_with_pod_for_remote_plugins(self, cycle: cycle_pb2.Cycle, pods: list[AssumedPod]) -> cycle_pb2.Cycle:
        """The cycle for calls to bind; with the fields of the pods' class if the profile has remote plugins."""
        if cycle.profile not in self._roles.remote:
            return cycle
        # By the class that the pod has now: classes change while Reserve is called.
        placed = next((found for each in pods if (found := self._cache.pod(each.pod.uid)) is not None), None)
        if placed is None:
            return cycle  # all of them were deleted
        own = cycle_pb2.Cycle()
        own.CopyFrom(cycle)
        own.pod.CopyFrom(self._cache.registry[placed.class_id].pod)
        return own


async def _wait_of_removed_pod() -> status.Status:
    return pending_pod_removal.REMOVED


def _node_gone(name: str) -> status.Reason:
    return status.Reason.of("nodeGone", {"node": name})


def _node_not_found(name: str) -> str:
    return f'node "{name}" not found'


def _permit_text(result: status.Status) -> str:
    """The message of a pod that Permit refused, as if its node were the only one; empty for an error."""
    return fit_error.message(1, None, [(result, 1)], "") if result.is_rejection else ""


def _drivers_to_prepare(claim: resource_pb2.ResourceClaim) -> list[str]:
    return [result.driver for result in claim.status.allocation.devices.results if result.binding_conditions]
