"""The state that HTTP pages read: the frontend's records, and what runs beside them.

Tests: tests/unit/frontend/test_scheduler_status.py, tests/unit/frontend/test_pending_report.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trireme.cache import absent_apis
from trireme.config import commandline
from trireme.frontend import configuration_reloader, reconfiguration, wake_up_check
from trireme.frontend.app import App
from trireme.frontend.frontend_parts import ClusterState, FrontendContext, PhaseClients, Scheduling
from trireme.frontend.phase_clients import local_phases
from trireme.frontend.serving.pending_report import PendingReport
from trireme.v1 import scheduler_status_pb2
from trireme_kube.client.events import event_recorder
from trireme_kube.client.informers import informer, resources
from trireme_kube.componentbase import clocks


@dataclass(frozen=True, slots=True)
class FrontendState:
    """What the serving endpoints read of the frontend.

    `plugins` are the remote plugins as `trireme status` shows them; `candidate_synced` returns whether the informer
    of our LeaseCandidate has synced, `lease_error` why the last request for the Lease failed (empty: it did not),
    `events` the counters of the recorder of events.
    """

    context: FrontendContext
    cluster: ClusterState
    phases: PhaseClients
    scheduling: Scheduling
    informers: Sequence[informer.Informer[Any]]
    local: local_phases.LocalPhases
    plugins: Callable[[], list[scheduler_status_pb2.PluginStatus]] = list
    candidate_synced: Callable[[], bool] = lambda: False
    lease_error: Callable[[], str] = str
    events: Callable[[], event_recorder.EventStatistics] = event_recorder.EventStatistics
    #: The configuration in force; None: that of `context`, which cannot be reloaded.
    configuration: reconfiguration.Reconfiguration | None = None
    reloads: Callable[[], configuration_reloader.ReloadStatistics] = configuration_reloader.ReloadStatistics
    #: The check of waiting pods; None: there is no insight.
    wake_ups: wake_up_check.WakeUpCheck | None = None
    #: APIs beside those of the informers that the API server does not serve.
    absent_elsewhere: Callable[[], list[resources.Resource]] = list

    @property
    def completed(self) -> commandline.CompletedConfig:
        """The configuration in force."""
        return self.context.completed if self.configuration is None else self.configuration.current

    @property
    def synced(self) -> bool:
        """Whether every informer has synced."""
        return all(entry.synced for entry in self.informers)

    def absent_apis(self) -> list[resources.Resource]:
        """The APIs that the API server does not serve, though they would be read."""
        return [*absent_apis.find(self.informers), *self.absent_elsewhere()]

    def local_phase_statistics(self) -> list[local_phases.LocalPhaseStatistics]:
        """The state of our own phases, also of those that stand in for configured ones."""
        standing_in = [each for own in self.phases.fallbacks.values() for each in own.statistics()]
        return [*self.local.statistics(), *standing_in]

    def to_wall(self, moment: float) -> float:
        """Convert a moment of the queue's clock to the wall clock. Units: Unix seconds."""
        return clocks.to_wall(moment, self.context.clocks.now(), self.context.clocks.wall())

    def pending_report(self) -> PendingReport:
        """What pods wait for now."""
        scheduling = self.scheduling
        return PendingReport(
            queue=scheduling.queue,
            cache=self.cluster.cache,
            waiting=scheduling.waiting,
            reporter=scheduling.reporter,
            binding=scheduling.binding,
            preemptions=scheduling.preemptions,
            pre_enqueue_plugins=scheduling.queue_executor.pre_enqueue,
            remote_queue=scheduling.queue_executor.remote,
            membership=self.context.membership,
            leading=self.context.leader.leading,
            synced=self.synced,
            missing=self.phases.links.missing(),
            to_wall=self.to_wall,
            wall_now=self.context.clocks.wall(),
        )


def state_of_app(
    app: App,
    local: local_phases.LocalPhases,
    plugins: Callable[[], list[scheduler_status_pb2.PluginStatus]] = list,
    candidate_synced: Callable[[], bool] = lambda: False,
    lease_error: Callable[[], str] = str,
) -> FrontendState:
    """The state of the frontend; `local` are its own phases."""
    return FrontendState(
        app.context,
        app.cluster,
        app.phases,
        app.scheduling,
        app.informers,
        local,
        plugins,
        candidate_synced,
        lease_error,
        app.recorder.statistics,
        wake_ups=app.wake_up_check,
    )
