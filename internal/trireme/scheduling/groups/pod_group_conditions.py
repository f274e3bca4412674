"""What is written on groups: the condition that they were scheduled once, and an event if their pods wait in vain.

The condition is written when it changes, and is never reset once the group has been scheduled. The object decides
whether it has: if a client removes the condition, it is written again. Only a write of a moment ago counts before the
object shows it.

Source: pkg/scheduler/schedule_one_podgroup.go updateInitiallyScheduledCondition.

Also change: docs/pod-groups.md.

Tests: tests/unit/scheduling/test_pod_group_conditions.py.
"""

from collections.abc import Callable

from trireme.queueing.groups import queued_group
from trireme.queueing.groups.forest import Group
from trireme.scheduling import ports
from trireme.v1 import bind_pb2, cycle_pb2, meta_pb2, scheduling_pb2
from trireme_kube.apimachinery import event_text
from trireme_kube.client.events.event_recorder import WARNING
from trireme_kube.client.events.event_series import ObjectReference, pod_reference

#: The types of the condition, of PodGroups and of groups of groups.
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
COMPOSITE_INITIALLY_SCHEDULED = "CompositePodGroupInitiallyScheduled"

SCHEDULED_REASON = "Scheduled"

WAITING_FOR_PODS = "WaitingForPods"
WAITING_FOR_GROUP = "WaitingForPodGroup"


# How long a condition that was sent counts though the object does not show it. A write that failed is repeated.
_UNSEEN_SECONDS = 10.0


class PodGroupConditions:
    """Writes the conditions of groups through `send`, and records events of groups that wait."""

    def __init__(
        self,
        send: Callable[[bind_pb2.Action, int], None],
        events: ports.Events,
        now: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._send = send
        self._events = events
        self._now = now
        self._wall = wall
        # By UID: the condition sent last, the object's resourceVersion then, and until when that counts.
        self._sent: dict[str, tuple[meta_pb2.Condition, str, float]] = {}

    def set_error(self, group: Group, text: str) -> None:
        """Send the condition of a group in whose tree objects contradict each other."""
        self.set_condition(group, f"{type(group).__name__}Error", text)

    def set_condition(self, group: Group, reason: str, message: str) -> None:
        """Send the condition for the reason and message with which the group's last attempt ended.

        Nothing is sent if it is there already, or if the group has been scheduled once and failed now.
        """
        metadata, composite = group.metadata, isinstance(group, scheduling_pb2.CompositePodGroup)
        condition_type = COMPOSITE_INITIALLY_SCHEDULED if composite else INITIALLY_SCHEDULED
        shown = next((each for each in group.status.conditions if each.type == condition_type), None)
        known = self._sent_but_not_observed(metadata) or shown
        condition = meta_pb2.Condition(
            type=condition_type,
            status="True" if reason == SCHEDULED_REASON else "False",
            reason=reason,
            message=event_text.cut_to_bytes(message, event_text.MAX_MESSAGE_BYTES),
            observed_generation=metadata.generation,
        )
        if known is not None:
            if known.status == "True" and condition.status != "True":
                return
            condition.last_transition_time.CopyFrom(known.last_transition_time)
            if condition == known:
                return
        if known is None or known.status != condition.status:
            condition.last_transition_time.Clear()
            condition.last_transition_time.seconds = int(self._wall())
        self._sent[metadata.uid] = condition, metadata.resource_version, self._now() + _UNSEEN_SECONDS
        self._send(
            bind_pb2.Action(
                pod=cycle_pb2.PodIdentity(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid),
                set_group_condition=bind_pb2.SetGroupCondition(condition=condition, composite=composite),
            ),
            group.spec.priority,
        )

    def _sent_but_not_observed(self, metadata: meta_pb2.ObjectMeta) -> meta_pb2.Condition | None:
        """The condition that was sent for this version of the object and still counts; None: there is none."""
        condition, version, until = self._sent.get(metadata.uid, (None, "", 0.0))
        return condition if version == metadata.resource_version and self._now() < until else None

    def forget(self, uid: str) -> None:
        """Drop what is known of a group that is deleted."""
        self._sent.pop(uid, None)

    def record_waiting(self, group: queued_group.QueuedPodGroupInfo, missing: str) -> None:
        """Record that the group's pods wait for more members, or for an object that is missing."""
        profile = next(iter(group.waiting.values())).record.profile
        if group.tree is not None:
            metadata = group.tree.message.metadata
            if group.tree.composite:
                text = f'waiting for composite pod group "{group.name}" tree to meet quorum'
            else:
                count, known = group.tree.min_count, group.known[group.name]
                text = f"waiting for minCount ({count}) pods to appear: {known} are there"
            reference = ObjectReference(
                group.group_key.api_kind,
                metadata.namespace,
                metadata.name,
                metadata.uid,
                "scheduling.k8s.io/v1beta1",
                metadata.resource_version,
            )
            self._events.record(reference, WARNING, WAITING_FOR_PODS, "Scheduling", text, profile)
            return
        for pod in group.waiting.values():
            parsed = pod.record.pod.parsed
            regarding = pod_reference(parsed.namespace, parsed.name, parsed.uid, str(parsed.resource_version))
            text = f"waiting {missing}"
            self._events.record(regarding, WARNING, WAITING_FOR_GROUP, "Scheduling", text, profile)
