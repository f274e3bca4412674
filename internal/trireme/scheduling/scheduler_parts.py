"""The parts of an assembled scheduler.

Tests: tests/unit/scheduling/test_assembly.py.
"""

from dataclasses import dataclass
from typing import Generic

from trireme.queueing import scheduling_queue
from trireme.scheduling import (
    attempt_reporter,
    batch_limit,
    binding_cycle,
    event_handlers,
    pacing,
    pending_pods,
    preemption_executor,
    profile_roles,
    queue_executor,
    reserve_calls,
    scheduler,
    scheduler_settings,
    status_outbox,
    waiting_pods,
)
from trireme.scheduling.queue_ports import QueueCallerT
from trireme_kube.componentbase import supervision


@dataclass(frozen=True, slots=True)
class Scheduling(Generic[QueueCallerT]):
    """The parts of a scheduler."""

    roles: profile_roles.ProfileRoles
    queue_executor: queue_executor.QueueExecutor[QueueCallerT]
    queue: scheduling_queue.SchedulingQueue
    pending: pending_pods.PendingPods
    handlers: event_handlers.EventHandlers
    waiting: waiting_pods.WaitingPods
    reporter: attempt_reporter.AttemptReporter
    outbox: status_outbox.StatusOutbox
    reserved: reserve_calls.ReserveCalls
    binding: binding_cycle.BindingCycle
    preemptions: preemption_executor.PreemptionExecutor
    pacer: pacing.Pacer
    limit: batch_limit.BatchLimit
    scheduler: scheduler.Scheduler

    @property
    def settling(self) -> bool:
        """Whether something goes on beside the scheduling cycle that does not wait for other pods."""
        tasks = sum(each.running for each in self.supervisors())
        return tasks > len(self.waiting.pods()) or len(self.outbox) > 0

    def configure(self, settings: scheduler_settings.SchedulerSettings) -> None:
        """Follow other settings, in one step between two scheduling cycles."""
        self.roles.replace(settings.roles)
        self.limit.max_pods = settings.max_pods
        self.pacer.linger_seconds = settings.linger
        self.handlers.pods.set_profiles(settings.scheduler_names)
        self.queue_executor.configure(settings)

    def supervisors(self) -> list[supervision.Supervisor]:
        """The supervisors of the tasks beside the scheduling cycle."""
        return [self.binding.background, self.preemptions.background, self.reserved.background]

    async def close(self) -> None:
        """Cancel the work in progress: pods that are not bound yet are the next leader's to schedule."""
        await self.preemptions.close()
        await self.binding.close()
