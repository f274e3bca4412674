"""The binding cycle: from an assumed pod to a bound one, beside the scheduling of the next.

Permit (if a profile has Permit plugins), PreBind (if there is something to prepare), then Bind, in batches as they
were placed, and PostBind (if a profile has PostBind plugins). A pod for which a step fails is unassumed and requeued.
If the result of a write is uncertain, the call is repeated until bind knows it: no pod is forgotten while it might be
bound.
"""

import asyncio
import collections
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

from trireme.cache import cluster_cache, object_waits
from trireme.extenders import extenders, reported_bound
from trireme.framework import cluster_event, status
from trireme.queueing import event_audience, queued_pod, remote_calls, scheduling_queue
from trireme.scheduling import (
    attempt_reporter,
    call_batches,
    calls_to_bind,
    fit_error,
    no_longer_pending,
    pods_in_pre_bind,
    ports,
    post_binding,
    pre_binding,
    profile_roles,
    queue_notifier,
    reserve_calls,
    waiting_pods,
)
from trireme.scheduling.failure import Failure, RefusedPlacement
from trireme.v1 import bind_pb2, cycle_pb2, filter_pb2, resource_pb2
from trireme.wire import status as wire_status
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)

_NO_WAITS: Mapping[str, float] = {}
_NO_MESSAGES: Mapping[str, str] = {}

# The kind of objects whose devices may have to be prepared.
_CLAIM = "resource_claim"


@dataclasses.dataclass(frozen=True, slots=True)
class AssumedPod:
    """A pod that is assumed on a node, with what Reserve left for PreBind; from here on the binding cycle holds it."""

    pod: queued_pod.QueuedPodInfo
    node_name: str
    slot: int
    reserved: bool = False
    pre_bind: bool = False
    state: bytes = b""  # what Reserve gave for PreBind
    prepared: bool = False  # PreBind may have written objects
    permit_seconds: float = 0.0  # waited on Permit
    pre_bind_seconds: float = 0.0  # PreBindPreFlight and PreBind
    node_counts: tuple[int, int] = (0, 0)  # number of nodes, and of feasible ones, for the log

    @property
    def item(self) -> bind_pb2.BindItem:
        """The pod, its node and the state that Reserve left, as requests to bind name it."""
        return bind_pb2.BindItem(pod=self._pod_identity, node_name=self.node_name, state=self.state)

    @property
    def rank(self) -> call_batches.Rank:
        """The order in which pods wait for a call of PreBind: those of the highest priority first."""
        return -self.pod.record.priority, 0

    @property
    def placement(self) -> filter_pb2.Placement:
        """The pod and its slot, as requests to filter (Reserve, Unreserve) name it."""
        return filter_pb2.Placement(pod=self._pod_identity, node_name=self.node_name, slot=self.slot)

    @property
    def _pod_identity(self) -> cycle_pb2.PodIdentity:
        """Namespace, name and UID."""
        parsed = self.pod.record.pod.parsed
        return cycle_pb2.PodIdentity(namespace=parsed.namespace, name=parsed.name, uid=parsed.uid)


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
        self.reported_bound = reported_bound.ReportedBound[tuple[cycle_pb2.Cycle, AssumedPod]](
            self._cache.is_assumed, self._requeue_unconfirmed
        )
        self.background = supervision.Supervisor()
        self._post_binding = post_binding.PostBinding(binder, observer, roles.post_bind, self.background.start)
        # The pods in the binding cycle, by profile.
        self._binding: collections.Counter[str] = collections.Counter()
        self._room = calls_to_bind.RoomForBindings()
        self._permit_turns = calls_to_bind.CallTurns()
        self._bind_turns = calls_to_bind.CallTurns()  # of profiles with remote Bind plugins
        self._extender_turns = asyncio.Semaphore(calls_to_bind.MAX_BOUND_BY_EXTENDERS)

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

    def start(self, cycle: cycle_pb2.Cycle, pods: list[AssumedPod], waits: Mapping[str, float] = _NO_WAITS) -> None:
        """Bind these pods of one class in a task of its own.

        `waits` are the in-tree plugins for which they wait on Permit, each with its timeout in seconds.
        """
        self._binding[cycle.profile] += len(pods)
        untouched = sum(not assumed.reserved for assumed in pods)
        self._observer.on_extension_points_skipped(("Reserve",), status.Code.SUCCESS, cycle.profile, untouched)
        self.background.start(self._permit_then_bind(self._cycle_with_pod_for_remote_plugins(cycle, pods), pods, waits))

    def allow(self, uids: Iterable[str], plugin: str) -> None:
        """The plugin allows all of these pods that wait for it on Permit."""
        for uid in uids:
            self._waiting.allow(uid, plugin)

    async def close(self) -> None:
        """Cancel all bindings under way: the next leader reads from the API server how they ended."""
        self.reported_bound.close()
        await self.background.close()
        await self._pre_binding.close()
        await self._reserved.close()

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

    async def _permit_then_bind(
        self, cycle: cycle_pb2.Cycle, pods: list[AssumedPod], waits: Mapping[str, float]
    ) -> None:
        """Begin the binding cycle: through Permit if a plugin is to be called or waited for, else past it."""
        if cycle.profile in self._roles.permit:
            await self._call_permit_then_bind(cycle, pods, waits)
        elif waits:
            for assumed in pods:
                self._start_wait_on_permit(cycle, assumed, waits)
        else:
            self._observer.on_extension_points_skipped(("Permit",), status.Code.SUCCESS, cycle.profile, len(pods))
            await self._pre_bind_or_bind_permitted(cycle, pods)

    async def _call_permit_then_bind(
        self, cycle: cycle_pb2.Cycle, pods: list[AssumedPod], waits: Mapping[str, float]
    ) -> None:
        """Call the Permit plugins for pods of one class, and go on with those that need not wait.

        Pods that a plugin rejects are requeued; if bind does not answer, all are.

        `waits` are more plugins to wait for, with their timeouts.
        """
        request = bind_pb2.PermitRequest(cycle=cycle, items=[assumed.item for assumed in pods])
        started = self._observer.clock()
        try:
            async with self._permit_turns.turn_for(cycle.profile):
                response = await self._binder.permit(request)
            failed = "" if len(response.results) == len(pods) else "bind answered about other pods than these"
        except ports.PhaseFault as error:
            failed = str(error)
        if failed:
            for assumed in pods:
                why = status.error("", f"running Permit plugins: {failed}")
                self._unassume_and_requeue(cycle, assumed, why, "Permit")
            return
        permitted = []
        for assumed, result in zip(pods, response.results, strict=True):
            answer = wire_status.from_message(result.status)
            seconds = (self._observer.clock() - started) / len(pods)
            self._observer.on_extension_point_run("Permit", answer.code, cycle.profile, seconds)
            timeouts = {wait.plugin: wait.timeout.ToTimedelta().total_seconds() for wait in result.waits}
            if answer.code == status.Code.SUCCESS and not waits:
                permitted.append(assumed)
            elif answer.code in (status.Code.SUCCESS, status.Code.WAIT):
                messages = {wait.plugin: ", ".join(wait.messages) for wait in result.waits}
                self._start_wait_on_permit(cycle, assumed, {**timeouts, **waits}, messages)
            else:
                self._unassume_and_requeue(cycle, assumed, answer, "Permit", _permit_text(answer))
        if permitted:
            await self._pre_bind_or_bind_permitted(cycle, permitted)

    def _start_wait_on_permit(
        self,
        cycle: cycle_pb2.Cycle,
        assumed: AssumedPod,
        waits: Mapping[str, float],
        messages: Mapping[str, str] = _NO_MESSAGES,
    ) -> None:
        """Have one pod wait on Permit in a task of its own; then it is bound, or unassumed and requeued.

        `messages` say why it waits, by plugin.
        """
        started, uid = self._observer.clock(), assumed.pod.uid
        is_gone = self._cache.pod(uid) is None  # deleted while Permit was called
        wait = None if is_gone else self._waiting.begin_wait(uid, assumed.pod.key, waits, messages)

        async def bind_when_allowed() -> None:
            result = no_longer_pending.REMOVED
            if wait is not None:
                result, _ = await asyncio.gather(wait(), self._write_expected_nomination(assumed))
            waited = self._observer.clock() - started
            self._observer.on_permit_wait_ended(result.code, waited)
            if result.code == status.Code.SUCCESS:
                await self._pre_bind_or_bind_permitted(cycle, [dataclasses.replace(assumed, permit_seconds=waited)])
            else:
                waited_for = dataclasses.replace(assumed, permit_seconds=waited)
                self._unassume_and_requeue(cycle, waited_for, result, "Permit", _permit_text(result))

        self.background.start(bind_when_allowed())

    async def _pre_bind_or_bind_permitted(self, cycle: cycle_pb2.Cycle, pods: list[AssumedPod]) -> None:
        """Tell the queue that the attempts are done; pods with PreBind go on in tasks, the others bind together."""
        now = self._now()
        for assumed in pods:
            self._queue.done(assumed.pod.uid, now)
        slow = [assumed for assumed in pods if assumed.pre_bind or cycle.profile in self._roles.pre_bind]
        for assumed in slow:
            self.background.start(self._pre_bind_then_bind(cycle, assumed))
        if len(slow) < len(pods):
            left = len(pods) - len(slow)
            self._observer.on_extension_points_skipped(("PreBindPreFlight",), status.Code.SKIP, cycle.profile, left)
            self._observer.on_extension_points_skipped(("PreBind",), status.Code.SUCCESS, cycle.profile, left)
            await self._bind_once_status_written(
                cycle, [assumed for assumed in pods if assumed not in slow] if slow else pods
            )

    async def _pre_bind_then_bind(self, cycle: cycle_pb2.Cycle, assumed: AssumedPod) -> None:
        """Run PreBindPreFlight, PreBind if that finds work, and bind the pod; requeue it if one of them fails."""
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
                result = no_longer_pending.REMOVED  # while PreBindPreFlight was called
            else:
                result = await self._in_pre_bind.run(assumed.pod.uid, self._run_pre_bind(cycle, assumed, item))
            assumed = dataclasses.replace(assumed, prepared=True)
            self._observer.on_volume_stage_ended("bind", result)
        if failed is None:
            self._observer.on_extension_point_run("PreBind", result.code, cycle.profile, self._observer.clock() - begun)
        if result.code is status.Code.SUCCESS:
            assumed = dataclasses.replace(assumed, pre_bind_seconds=self._observer.clock() - started)
            await self._bind_once_status_written(cycle, [assumed])
        else:
            self._unassume_and_requeue(cycle, assumed, result, "PreBind")

    def pre_bind_wait(self, uid: str) -> pre_binding.PreBindWait | None:
        """What PreBind of the pod waits for; None: it does not wait."""
        return self._pre_binding.wait_of(uid)

    async def _run_pre_bind(
        self, cycle: cycle_pb2.Cycle, assumed: AssumedPod, item: bind_pb2.BindItem
    ) -> status.Status:
        """Run PreBind, and return its result; if it waits for devices, that is an event and is measured by driver."""
        drivers: list[str] = []
        started = self._observer.clock()

        def report_pending_devices(plugin: str, keys: frozenset[object_waits.Key]) -> None:
            claims = [self._cache.get_assumed(*key) for key in keys if key[0] == _CLAIM]
            if claims:
                drivers.extend(
                    name for claim in claims if claim is not None for name in _drivers_to_prepare(claim.resource_claim)
                )
                self._reporter.report_devices_pending(assumed.pod, assumed.node_name)

        result = await self._pre_binding.run(cycle, item, assumed.rank, report_pending_devices)
        if drivers:
            self._observer.on_devices_prepared(cycle.profile, drivers, result, self._observer.clock() - started)
        return result

    async def _write_expected_nomination(self, assumed: AssumedPod) -> None:
        """Write the node into the pod's status as the expected one, because Permit or PreBind may take long."""
        await self._reporter.wait_until_written(assumed.pod.uid)  # an earlier nomination must not come after this one
        if await self._pre_binding.write_nomination(assumed.item, assumed.rank):
            self._reporter.note_nomination_written(assumed.pod, assumed.node_name)

    async def _bind_by_extender(self, cycle: cycle_pb2.Cycle, assumed: AssumedPod) -> None:
        """Have an HTTP extender bind the pod, or the Bind plugins if none is interested or an ignorable one fails.

        The pod stays assumed until the watch shows it bound, since we have only the extender's word (`reported_bound`).
        """
        assert self._http_extenders is not None
        async with self._extender_turns:
            started = self._observer.clock()
            result = await self._http_extenders.bind(cycle.pod_class, assumed.item)
        if result is None:
            await self._bind_by_plugins(cycle, [assumed])
            return
        seconds = self._observer.clock() - started
        self._observer.on_extension_point_run("Bind", result.code, cycle.profile, seconds)
        if result.code == status.Code.SUCCESS:
            self._binding[cycle.profile] -= 1
            self.reported_bound.add(assumed.pod.uid, (cycle, assumed))
            self._report_bound(assumed, seconds)
            self._post_binding.on_bound(cycle, assumed.item)
        else:
            self._unassume_and_requeue(cycle, assumed, result, "Bind")

    def _requeue_unconfirmed(self, bound: tuple[cycle_pb2.Cycle, AssumedPod]) -> None:
        """Unassume and requeue a pod that an extender reported as bound, and that no watch has shown so in time."""
        cycle, assumed = bound
        self._binding[cycle.profile] += 1
        text = f"an extender reported the pod as bound to node {assumed.node_name}, and the pod is still without a node"
        self._unassume_and_requeue(cycle, assumed, status.error("", text), "Bind")

    async def _bind_once_status_written(self, cycle: cycle_pb2.Cycle, pods: list[AssumedPod]) -> None:
        """Bind pods that need no PreBind, at once and together.

        A pod whose condition of an earlier attempt is still to be written is bound after that, in a task of its own.
        """
        later = [assumed for assumed in pods if self._reporter.has_unwritten(assumed.pod.uid)]
        for assumed in later:
            self.background.start(self._bind_when_written(cycle, assumed))
        now = [assumed for assumed in pods if assumed not in later] if later else pods
        if now:
            await self._bind_by_extender_or_plugins(cycle, now)

    async def _bind_when_written(self, cycle: cycle_pb2.Cycle, assumed: AssumedPod) -> None:
        """Bind one pod once the status of its earlier attempt is written."""
        await self._reporter.wait_until_written(assumed.pod.uid)
        await self._bind_by_extender_or_plugins(cycle, [assumed])

    async def _bind_by_extender_or_plugins(self, cycle: cycle_pb2.Cycle, pods: list[AssumedPod]) -> None:
        """Bind the pods: by HTTP extenders if one binds pods of the class, else by the Bind plugins."""
        if self._http_extenders is not None and self._http_extenders.has_binder_for(cycle.pod_class):
            await asyncio.gather(*(self._bind_by_extender(cycle, assumed) for assumed in pods))
            return
        await self._bind_by_plugins(cycle, pods)

    async def _bind_by_plugins(self, cycle: cycle_pb2.Cycle, pods: list[AssumedPod]) -> None:
        """Have bind bind the pods, and act on each result.

        Calls to plugins of others, which may take until their deadline, take turns. Only other pods need room.
        """
        request = bind_pb2.BindRequest(cycle=cycle, items=[assumed.item for assumed in pods])
        turn: contextlib.AbstractAsyncContextManager[object] = contextlib.nullcontext()
        in_room = len(pods)
        if cycle.profile in self._roles.remote_bind:
            turn, in_room = self._bind_turns.turn_for(cycle.profile), 0
        self._room.add(in_room)
        try:
            async with turn:
                async for _ in self._bind_and_report(request, pods):
                    if in_room:
                        in_room -= 1
                        self._room.add(-1)
        finally:
            self._room.add(-in_room)

    async def _bind_and_report(
        self, request: bind_pb2.BindRequest, pods: list[AssumedPod]
    ) -> AsyncIterator[bind_pb2.BindResult]:
        """Have bind bind the pods; yields each result once the pod is reported, or unassumed and requeued."""
        cycle, started = request.cycle, self._observer.clock()
        async for result in self._binder.bind(request):
            assumed = pods[result.index]
            answer = wire_status.from_message(result.status)
            seconds = self._observer.clock() - started
            self._observer.on_extension_point_run("Bind", answer.code, cycle.profile, seconds)
            if answer.code == status.Code.SUCCESS:
                self._binding[cycle.profile] -= 1
                self._report_bound(assumed, seconds)
                self._post_binding.on_bound(cycle, request.items[result.index])
            else:
                self._unassume_and_requeue(cycle, assumed, answer, "Bind")
            yield result

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

    def _unassume_and_requeue(
        self, cycle: cycle_pb2.Cycle, assumed: AssumedPod, why: status.Status, step: str, text: str = ""
    ) -> None:
        """Unassume and requeue a pod that is not bound, and let others try its room.

        `step`: the extension point that the status is of; `text`: the pod's message, if not the status's.

        What PreBind wrote is undone first, in the background. A pod that was refused is not woken by its own removal.
        """
        if assumed.prepared and assumed.state:
            # First undo what PreBind wrote: the next attempt must not take it for its own.
            self.background.start(self._undo_pre_bind_and_requeue(cycle, assumed, why, step, text))
            return
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
        failure = Failure(text or why.message, rejectors, nominated_node="", placement=placement)
        self._reporter.report_failure(assumed.pod, failure)
        if removed is not None:
            # For other pods it is as if a pod had left the node.
            event, started = cluster_event.ASSIGNED_POD_DELETE, self._observer.clock()
            # kube-scheduler runs Permit before it looks at the next pod, so what Permit refuses at once has taken room
            # from nobody. Here others may have been refused for it meanwhile, but none that had a node.
            audience = event_audience.EventAudience(
                exclude_uid=assumed.pod.uid if rejectors else "",
                lacking_room=bool(rejectors) and step == "Permit" and not assumed.permit_seconds,
            )
            instructions = self._queue.on_event(event, removed, None, self._now(), audience)
            self._observer.on_event_handled(event.label, started)
            self._execute(instructions)

    async def _undo_pre_bind_and_requeue(
        self, cycle: cycle_pb2.Cycle, assumed: AssumedPod, why: status.Status, step: str, text: str
    ) -> None:
        """Have what PreBind wrote undone, then unassume and requeue the pod."""
        await self._pre_binding.undo_pre_bind(assumed.item)
        self._unassume_and_requeue(cycle, dataclasses.replace(assumed, prepared=False), why, step, text)


def _permit_text(result: status.Status) -> str:
    """The message of a pod that Permit refused, as if its node were the only one; empty for an error."""
    return fit_error.message(1, None, [(result, 1)], "") if result.is_rejection else ""


def _drivers_to_prepare(claim: resource_pb2.ResourceClaim) -> list[str]:
    """The driver of each device that has to be prepared."""
    return [result.driver for result in claim.status.allocation.devices.results if result.binding_conditions]
