"""Makes a scheduling queue of its parts.

Tests: tests/unit/scheduling/test_assembly.py.
"""

from trireme.queueing.active import ActiveQueue
from trireme.queueing.backoff import BackoffPolicy, BackoffQueue
from trireme.queueing.groups.group_settings import GroupSettings
from trireme.queueing.groups.group_transitions import GroupTransitions
from trireme.queueing.groups.member_pre_enqueue_calls import MemberPreEnqueueCaller
from trireme.queueing.groups.queue_groups import QueueGroups
from trireme.queueing.groups.queued_group import PodGroups
from trireme.queueing.hints.hint_evaluation import HintEvaluator
from trireme.queueing.in_flight_events import InFlightEvents
from trireme.queueing.nominator import Nominator
from trireme.queueing.pre_enqueue import PreEnqueue
from trireme.queueing.remote_calls import RemoteCalls
from trireme.queueing.scheduling_queue import DEFAULT_MAX_IN_UNSCHEDULABLE, SchedulingQueue
from trireme.queueing.transitions import Transitions
from trireme.queueing.unschedulable import UnschedulablePods

_DEFAULT_POLICY = BackoffPolicy()


def build_queue(
    hints: HintEvaluator,
    pre_enqueue: PreEnqueue,
    *,
    policy: BackoffPolicy = _DEFAULT_POLICY,
    max_in_unschedulable: float = DEFAULT_MAX_IN_UNSCHEDULABLE,
    nominator: Nominator | None = None,
    groups: GroupSettings | None = None,
) -> SchedulingQueue:
    """An empty queue. `groups`: it knows pod groups; otherwise each pod is scheduled by itself."""
    # A nominator without nominations has the length 0.
    nominator = Nominator() if nominator is None else nominator
    events, calls = InFlightEvents(), RemoteCalls()
    active, backoff, unschedulable = ActiveQueue(), BackoffQueue(policy), UnschedulablePods()
    transitions = Transitions(
        active,
        backoff,
        unschedulable,
        events=events,
        pre_enqueue=pre_enqueue,
        policy=policy,
        nominator=nominator,
        calls=calls,
    )
    queue_groups = None
    if groups is not None:
        registry = PodGroups(composite=groups.composite)
        caller = MemberPreEnqueueCaller(calls, events)
        group_transitions = GroupTransitions(
            registry, transitions, caller, groups, events=events, nominator=nominator, pre_enqueue=pre_enqueue
        )
        queue_groups = QueueGroups(
            groups,
            registry,
            group_transitions,
            transitions=transitions,
            registrations=hints.registrations,
            nominator=nominator,
            calls=calls,
        )
    return SchedulingQueue(
        transitions,
        active,
        backoff,
        unschedulable,
        in_flight_events=events,
        hints=hints,
        nominator=nominator,
        calls=calls,
        max_in_unschedulable=max_in_unschedulable,
        groups=queue_groups,
    )
