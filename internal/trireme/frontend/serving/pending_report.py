"""What each pending pod waits for, in words and as data: the lines of `trireme status`.

Every pending pod waits for exactly one thing at a time: a gate, a time, an event, a plugin's Permit, the victims of its
preemption, its group, an unavailable service, its turn; or it is being scheduled or bound. The queue knows where the
pod is; the other parts are read at the moment of the request.

Also change: protos/trireme/v1/scheduler_explanation.proto (the messages).

Tests: tests/unit/frontend/test_pending_report.py.
"""

import datetime
import re
from collections.abc import Callable, Hashable, Iterable, Sequence

from trireme.cache import cluster_cache, pod_projection
from trireme.framework import event_phrases
from trireme.frontend import plugin_membership, queue_plugin_calls
from trireme.queueing import batch_key, pre_enqueue, queue_status, queued_pod, scheduling_queue
from trireme.queueing.states import (
    Active,
    BackOff,
    Gated,
    GroupInFlight,
    PreEnqueuePending,
    Unschedulable,
    WaitingForGroup,
)
from trireme.registry import in_tree
from trireme.scheduling import (
    attempt_reporter,
    binding_cycle,
    plugin_back_offs,
    preemption_executor,
    waiting_pods,
)
from trireme.v1 import cycle_pb2, decision_explanation_pb2
from trireme.v1.scheduler_explanation_pb2 import AlikePods, PendingPod, PodWait
from trireme.wire import status as wire_status
from trireme_kube.apimachinery import golang

# What the pod waits for, as data and in words.
Waits = tuple[PodWait, str]

# States in which all pods of a class share everything that is reported.
_ALIKE = (Active, BackOff, Unschedulable, Gated, PreEnqueuePending)


_BEING_DELETED = "is being deleted, and not tried"

# What may be a name or a UID.
_WORD = re.compile(r"[\w.-]+")
# A time or a count, and no part of a name or an address.
_NUMBER = re.compile(r"(?<![\w.:/-])\d+(?::\d+)*(?![\w.:/-])")


class PendingReport:
    """Reports what pending pods wait for, as it is at one moment; made anew for each request."""

    def __init__(
        self,
        *,
        queue: scheduling_queue.SchedulingQueue,
        cache: cluster_cache.ClusterCache,
        waiting: waiting_pods.WaitingPods,
        reporter: attempt_reporter.AttemptReporter,
        binding: binding_cycle.BindingCycle,
        preemptions: preemption_executor.PreemptionExecutor,
        pre_enqueue_plugins: pre_enqueue.LocalPreEnqueuePlugins,
        remote_queue: queue_plugin_calls.QueuePluginCaller,
        membership: plugin_membership.PluginMembership,
        leading: bool,
        synced: bool,
        missing: Sequence[str],
        to_wall: Callable[[float], float],
        wall_now: float,
    ) -> None:
        """`leading`, `synced` and `missing` (the phases that cannot be called) are the present state.

        `to_wall` converts the queue's clock to the wall clock, which shows `wall_now`.
        """
        self._queue = queue
        self._cache = cache
        self._reporter = reporter
        self._binding = binding
        self._preemptions = preemptions
        self._pre_enqueue = pre_enqueue_plugins
        self._remote_queue = remote_queue
        self._membership = membership
        self._leading = leading
        self._synced = synced
        self._missing = tuple(missing)
        self._to_wall = to_wall
        self._wall_now = wall_now
        self._permits = {pod.uid: pod for pod in waiting.pods()}
        self._leaving: dict[str, list[str]] | None = None

    def entry_of(self, pod: queued_pod.QueuedPodInfo) -> PendingPod:
        """The entry of one pod."""
        status = self._queue.contents.status_of(pod)
        waits, summary = self._what_it_waits_for(pod, status)
        return PendingPod(
            pod=_identity_of(pod),
            profile=pod.record.profile,
            pod_class=pod.record.class_id,
            priority=pod.record.priority,
            place=status.state.label,
            waits_for=waits,
            summary=summary,
            waiting_since_ms=round(pod.waiting_since(self._to_wall) * 1000),
            since_ms=self._to_wall_ms(status.since),
            attempts=status.attempts,
        )

    def entries_by_class(self, pods: Iterable[queued_pod.QueuedPodInfo]) -> list[AlikePods]:
        """One entry for all pods of one class that wait for the same; in the order of their first.

        Failures are the same if only the pod's name, times and counts differ; `summary` and `waitsFor` are those of the
        example.
        """
        by_circumstances: dict[Hashable, list[queued_pod.QueuedPodInfo]] = {}
        for pod in pods:
            by_circumstances.setdefault(self._shared_facts(pod), []).append(pod)
        alike: dict[tuple[int, str], list[queued_pod.QueuedPodInfo]] = {}
        waits: dict[tuple[int, str], Waits] = {}
        for same in by_circumstances.values():
            first = same[0]
            for_what, summary = self._what_it_waits_for(first, self._queue.contents.status_of(first))
            failed = for_what.because or for_what.until_ms
            key = (first.record.class_id, _without_details(summary, first) if failed else summary)
            alike.setdefault(key, []).extend(same)
            waits.setdefault(key, (for_what, summary))
        return [
            AlikePods(
                count=len(same),
                example=_identity_of(same[0]),
                pod_class=key[0],
                place=same[0].state.label,
                waits_for=waits[key][0],
                summary=waits[key][1],
                waiting_since_ms=round(min(pod.waiting_since(self._to_wall) for pod in same) * 1000),
                since_ms=self._to_wall_ms(min(pod.timestamp for pod in same)),
                min_attempts=min(pod.attempts for pod in same),
                max_attempts=max(pod.attempts for pod in same),
            )
            for key, same in alike.items()
        ]

    def _to_wall_ms(self, moment: float) -> int:
        """A moment of the queue's clock in milliseconds since 1970."""
        return round(self._to_wall(moment) * 1000)

    def _shared_facts(self, pod: queued_pod.QueuedPodInfo) -> Hashable:
        """Return the facts by which pods wait for the same, so that of very many pods only one for each is examined.

        A pod whose circumstances are its own (nominated, preempting, under way) gets its UID: it shares with none.
        """
        preemptions = self._preemptions
        if not isinstance(pod.state, _ALIKE) or self._nominated_node(pod):
            return pod.uid
        if preemptions.under_way.victims_of(pod.uid) or preemptions.retries.delayed_retry(pod.uid):
            return pod.uid
        pending = pod.record.pod
        parsed = pending.parsed
        failed = self._failed_call(pod) if isinstance(pod.state, PreEnqueuePending | Active) else None
        until = 0 if failed is None else int(failed.until)
        error: tuple[str, ...] = failed[:2] if failed is not None else ()
        if isinstance(pod.state, BackOff):
            until = int(pod.state.until)
            error = (self._reporter.last_failure(pod.uid),)
        gate = pod.gated_by, pod.gate_reason
        waits = type(pod.state), until, error, gate, pod.rejectors, parsed.gates, parsed.group
        return pod.record.class_id, _is_being_deleted(pod), *waits

    def _what_it_waits_for(self, pod: queued_pod.QueuedPodInfo, status: queue_status.QueueStatus) -> Waits:
        """What the pod waits for, by its state in the queue: as data, and as a sentence without its subject."""
        retries = self._preemptions.retries
        if not pod.popped and _is_being_deleted(pod):
            return PodWait(kind="deletion"), _BEING_DELETED
        match status.state:
            case Active() | PreEnqueuePending():
                return self._waits_to_be_tried(pod)
            case BackOff(moment):
                until = self._to_wall(moment)
                why = self._reporter.last_failure(pod.uid)
                text = f"backs off after a failed attempt, until {_time_of_day(until)}"
                wait = PodWait(kind="time", until_ms=_in_ms(until), because=why, refusals=self._refusals(pod))
                return wait, f"{text}: {why}" if why else text
            case Gated() | Unschedulable() if retry := retries.delayed_retry(status.root or pod.uid):
                why, until = retry[0], self._to_wall(retry[1])
                wait = PodWait(kind="time", until_ms=_in_ms(until), because=why)
                return wait, f"{why}; is tried again at {_time_of_day(until)}"
            case Gated() as gate:
                return self._waits_at_gate(pod, status, gate)
            case Unschedulable():
                return self._waits_for_event(pod, status)
            case WaitingForGroup() | GroupInFlight():
                return _waits_for_group(status)
            case _:
                return self._waits_in_attempt(pod)

    def _waits_to_be_tried(self, pod: queued_pod.QueuedPodInfo) -> Waits:
        """A pod in the active queue, or on its way there. A standby tries none: the leader may have refused it."""
        if not self._leading:
            return PodWait(kind="leadership"), "is pending; the leader alone knows why"
        if isinstance(pod.state, Active):
            return self._waits_in_active_queue(pod)
        return self._waits_for_pre_enqueue_calls(pod)

    def _waits_for_pre_enqueue_calls(self, pod: queued_pod.QueuedPodInfo) -> Waits:
        """A pod for which remote plugins are called before the queue: which ones, or which failed and until when."""
        if failed := self._failed_call(pod):
            until = self._to_wall(failed.until)
            waits = PodWait(kind="plugin", plugins=[failed.plugin], because=failed.error, until_ms=_in_ms(until))
            text = f"plugin {failed.plugin} failed: {failed.error}; is tried again at {_time_of_day(until)}"
            return waits, text
        plugins = self._remote_queue.pre_enqueue_plugins(pod.record.profile)
        sorter = self._remote_queue.sort_keys.plugin if self._remote_queue.sort_keys.lacks_key(pod) else ""
        if not plugins:
            text = f"waits for plugin {sorter} to give it a place in the queue"
            return PodWait(kind="queueSort", plugins=[sorter]), text
        agree = "agrees" if len(plugins) == 1 else "agree"
        text = f"may enter the queue if {_all_text(plugins)} {agree}"
        wait = PodWait(kind="preEnqueue", plugins=plugins)
        return wait, f"{text}, and {sorter} gives it a place" if sorter else text

    def _failed_call(self, pod: queued_pod.QueuedPodInfo) -> plugin_back_offs.FailedCall | None:
        """The failed call of a remote plugin that the pod, or its place, waits for, unless it is being retried."""
        if isinstance(pod.state, Active):
            return self._remote_queue.sort_keys.last_failure(pod.uid)
        return self._remote_queue.pre_enqueue_calls.last_failure(pod.uid)

    def _waits_in_active_queue(self, pod: queued_pod.QueuedPodInfo) -> Waits:
        """A pod in the active queue: what it waits for, and whether it keeps an earlier place."""
        waits, text = self._waits_for_its_turn()
        failed = self._failed_call(pod)
        if failed is None:
            return waits, text
        until = self._to_wall(failed.until)
        waits.plugins.append(failed.plugin)
        waits.because, waits.until_ms = failed.error, _in_ms(until)
        place = f"keeps its place, as plugin {failed.plugin} failed: {failed.error}"
        return waits, f"{text}; {place}; the plugin is called again at {_time_of_day(until)}"

    def _waits_for_its_turn(self) -> Waits:
        """A pod in the active queue of a leader: it waits for its turn, or for the caches or a phase."""
        if not self._synced:
            return PodWait(kind="caches"), "waits until the caches are synced"
        if self._missing:
            return self._waits_for_service(self._missing)
        return PodWait(kind="turn"), "waits for its turn"

    def _waits_for_service(self, missing: Sequence[str]) -> Waits:
        """A pod that cannot be tried because these phases are missing."""
        names = " and ".join(missing)
        text = f"waits for {names}, which {'is' if len(missing) == 1 else 'are'} not available"
        return PodWait(kind="service", names=missing), text

    def _waits_at_gate(self, pod: queued_pod.QueuedPodInfo, status: queue_status.QueueStatus, gate: Gated) -> Waits:
        """What a pod waits for that a PreEnqueue plugin, or a missing one, holds back."""
        if gate.plugin == in_tree.PREEMPTION_PLUGIN:
            # A group preempts as one.
            preemptor = status.root or pod.uid
            return self._waits_for_victims(self._preemptions.under_way.victims_of(preemptor), self._nominated_node(pod))
        if gate.plugin == self._membership.missing_plugin(pod.record.profile):
            why = "does not take part yet"
            if self._membership.is_rejected(gate.plugin):
                why = "was rejected"
            elif self._membership.is_unsynced(gate.plugin):
                why = "has not acknowledged the snapshot of the cluster yet"
            text = f"waits for the plugin {gate.plugin}, which {why}"
            return PodWait(kind="plugin", plugins=[gate.plugin]), text
        waits = PodWait(
            kind="gate", plugins=[gate.plugin], events=status.events, because=gate.reason, group=status.group
        )
        text = f"is held back by {gate.plugin}"
        for names in self._pre_enqueue.waits_for(pod).values():
            waits.names.extend(names)
            text += f": {', '.join(names)}"
        if gate.reason:
            text += f": {gate.reason}"
        if status.group:
            text += f", with its {_root_group_name(status)}"
        return waits, text

    def _waits_for_event(self, pod: queued_pod.QueuedPodInfo, status: queue_status.QueueStatus) -> Waits:
        """A refused pod: its victims, or the plugins that refused it and the events that may help."""
        node = self._nominated_node(pod)
        victims = self._preemptions.under_way.victims_of(pod.uid) or self._victims_on(node)
        if victims:
            return self._waits_for_victims(victims, node)
        events = event_phrases.likely_first(status.events)
        waits = PodWait(kind="event", plugins=status.rejectors, events=events, refusals=self._refusals(pod))
        longest = golang.format_duration(round(self._queue.max_in_unschedulable_seconds * 1e9))
        when = f"when {event_phrases.events_summary(events)}" if events else f"after {longest}"
        text = f"was refused by {', '.join(status.rejectors)}; is tried again {when}"
        return waits, text

    def _refusals(self, pod: queued_pod.QueuedPodInfo) -> list[decision_explanation_pb2.DecisionRefusal]:
        """The statuses of the pod's last attempt, for programs."""
        return [
            decision_explanation_pb2.DecisionRefusal(status=wire_status.to_message(status), node_count=nodes)
            for status, nodes in self._reporter.last_statuses(pod.uid)
        ]

    def _waits_for_victims(self, victims: Sequence[str], node: str) -> Waits:
        """A preemptor: the victims that are still to go."""
        where = f" on node {node}" if node else ""
        text = f"waits until {', '.join(victims) or 'its victims'}{where} made room"
        return PodWait(kind="preemption", names=victims, node_name=node), text

    def _waits_in_attempt(self, pod: queued_pod.QueuedPodInfo) -> Waits:
        """Say how far the attempt at a pod is that is not in the queue: tried, waiting on Permit, or being bound.

        A pod that nothing happens to because a phase is missing waits for that phase; one that is being deleted is not
        tried.
        """
        placed = self._cache.pod(pod.uid)
        node = "" if placed is None else placed.node_name
        permit = self._permits.get(pod.uid)
        if permit is not None and permit.plugins:
            return self._waits_on_permit(permit, node)
        if placed is not None and not pod.record.pod.has_deferred_resize:
            if "bind" in self._missing:
                return self._waits_for_service(("bind",))
            if pod.uid in self._binding.reported_bound:
                text = f"was bound to node {node} according to an extender; waits until the API server shows it"
                return PodWait(kind="binding", node_name=node), text
            return self._waits_in_binding(pod.uid, node)
        if _is_being_deleted(pod):
            return PodWait(kind="deletion"), _BEING_DELETED
        missing = [phase for phase in self._missing if phase != "bind"]
        return self._waits_for_service(missing) if missing else (PodWait(kind="attempt"), "is being tried")

    def _waits_on_permit(self, wait: waiting_pods.WaitingPod, node: str) -> Waits:
        """A pod that waits on Permit: for which plugins, until when, and their messages."""
        until = self._wall_now + wait.seconds_left
        waits = PodWait(kind="permit", plugins=wait.plugins, node_name=node, until_ms=_in_ms(until))
        text = (
            f"waits for {' and '.join(wait.plugins)} to permit node {node}, until {_time_of_day(until)} at the latest"
        )
        said = [
            message if len(wait.plugins) == 1 else f"{plugin}: {message}" for plugin, message in wait.messages.items()
        ]
        if said:
            waits.because = "; ".join(said)
            text += f": {waits.because}"
        return waits, text

    def _waits_in_binding(self, uid: str, node: str) -> Waits:
        """A pod that is being bound, or that a PreBind plugin has wait for objects."""
        wait = self._binding.pre_bind_wait(uid)
        if wait is None:
            return PodWait(kind="binding", node_name=node), f"is being bound to node {node}"
        objects, until = list(wait.objects), self._wall_now + wait.seconds_left
        waits = PodWait(
            kind="preBind",
            plugins=[wait.plugin],
            names=objects,
            node_name=node,
            until_ms=_in_ms(until),
            because=wait.message,
        )
        longest = f"until {_time_of_day(until)} at the latest"
        text = f"waits for {', '.join(objects)} before it is bound to node {node}, {longest}: {wait.plugin}"
        if wait.message:
            text += f": {wait.message}"
        return waits, text

    def _nominated_node(self, pod: queued_pod.QueuedPodInfo) -> str:
        """The node that the pod is nominated to; empty: none."""
        return self._queue.nominator.node_of(pod.uid)

    def _victims_on(self, node: str) -> Sequence[str]:
        """Pods that were preempted and are still on the node."""
        if not node:
            return ()
        if self._leaving is None:
            self._leaving = {}
            for placed in self._cache.pods():
                if placed.flags & pod_projection.PREEMPTED:
                    self._leaving.setdefault(placed.node_name, []).append(placed.key)
        return self._leaving.get(node, ())


def _identity_of(pod: queued_pod.QueuedPodInfo) -> cycle_pb2.PodIdentity:
    namespace, _, name = pod.key.rpartition("/")
    return cycle_pb2.PodIdentity(namespace=namespace, name=name, uid=pod.uid)


def _in_ms(moment: float) -> int:
    return round(moment * 1000)


def _is_being_deleted(pod: queued_pod.QueuedPodInfo) -> bool:
    """Whether a pod without a node is being deleted: it is not tried any more."""
    pending = pod.record.pod
    return bool(pending.parsed.flags & pod_projection.TERMINATING) and not pending.has_deferred_resize


def _all_text(names: Sequence[str]) -> str:
    """The names, all of which have to do something, as part of a sentence."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _time_of_day(moment: float) -> str:
    """The moment (Unix seconds) as a time of day in UTC."""
    return f"{datetime.datetime.fromtimestamp(moment, datetime.UTC):%H:%M:%S} UTC"


def _waits_for_group(status: queue_status.QueueStatus) -> Waits:
    """A member of a group: the group's missing object, or the group that is being scheduled without it."""
    if isinstance(status.state, WaitingForGroup):
        text = f"waits {status.state.missing}"
    else:
        text = f"waits while its {_root_group_name(status)} is being scheduled"
    return PodWait(kind="group", group=status.group), text


def _root_group_name(status: queue_status.QueueStatus) -> str:
    root = batch_key.GroupKey.parse(status.root)
    return f"{root.api_kind} {root.name}"


def _without_details(text: str, pod: queued_pod.QueuedPodInfo) -> str:
    own = (pod.key.rpartition("/")[2], pod.uid)
    return _NUMBER.sub("", _WORD.sub(lambda word: "" if word[0] in own else word[0], text))
