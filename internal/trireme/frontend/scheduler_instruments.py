"""The instruments of `scheduler_metrics`: names, help texts, labels and buckets.

Source: pkg/scheduler/metrics/metrics.go.

Also change: docs/runbooks/README.md.
Also change: deploy/chart/files/rules.yaml, docs/metrics_remarks.yaml (alerts, remarks).

Tests: tests/unit/frontend/test_scheduler_metrics.py, tests/unit/frontend/test_start_with_each_gate.py.
"""

from collections.abc import Iterable

from trireme.framework.plugin_spec import Role
from trireme.registry.in_tree import IN_TREE
from trireme_kube.componentbase.metrics.instruments import BETA, STABLE, Counter, Histogram, Instrument, exponential

_VOLUMES_PLUGIN = IN_TREE.name_of(Role.VOLUMES)
_MILLISECONDS = exponential(0.001, 2, 15)
_TENTHS_OF_MILLISECONDS = exponential(0.0001, 2, 12)
_PLUGIN_SECONDS = exponential(0.00001, 1.5, 20)
_REQUEST_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class SchedulerInstruments:
    """The counters and histograms that `SchedulerMetrics` records in: each metric's name, help and labels."""

    def __init__(self, *, groups: bool, placements: bool) -> None:
        """`groups`: there are groups of pods; `placements`: they may have to be in one domain."""
        self._declare_attempt_metrics()
        self._declare_framework_metrics()
        self._declare_volume_metrics()
        self._declare_trireme_metrics()
        if groups:
            self._declare_group_metrics()
        if placements:
            self._declare_placement_metrics()
        self._declare_api_request_metrics()

    def _declare_attempt_metrics(self) -> None:
        """Declare the metrics of attempts at pods: results, durations, preemption, batches."""
        self.schedule_attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by result: 'unschedulable' means that a pod could not be scheduled, 'error' "
            "that something within the scheduler failed.",
            ("result", "profile"),
            STABLE,
        )
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time from taking a pod from the queue to its being bound or refused.",
            _MILLISECONDS,
            ("result", "profile"),
            STABLE,
        )
        self.algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time to find a pod's node: its share of its batch.",
            _MILLISECONDS,
            (),
            BETA,
        )
        self.sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from when a pod could first be tried to its being bound, by the number of attempts.",
            exponential(0.01, 2, 20),
            ("attempts",),
            BETA,
        )
        self.attempts_of_bound = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that it took to schedule a pod.",
            exponential(1, 2, 5),
            (),
            STABLE,
        )
        self.after_flush = Counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods scheduled after no event but the time limit had woken them; many mean that a hint misses something.",
        )
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts_total", "Attempts to preempt for a pod.", (), STABLE
        )
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims", "Victims of preemption.", exponential(1, 2, 7), (), STABLE
        )
        self.preemptions = Counter(
            "scheduler_preemption_goroutines_execution_total",
            "Asynchronous evictions for a pod, by outcome.",
            ("result",),
        )
        self.preemption_seconds = Histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Time that the evictions for a pod took.",
            exponential(0.01, 2, 20),
            ("result",),
        )
        self.batch_attempts = Counter(
            "scheduler_batch_attempts_total",
            "Pods by whether they were placed by the evaluation made for a pod before them (hint_used) or by one of "
            "their own (no_hint).",
            ("profile", "result"),
        )
        self.stored_results = Counter(
            "scheduler_store_schedule_results_total",
            "Evaluations of pods that were placed, by whether they are kept for the pods of the class behind them "
            "(stored), or the class goes one by one (pod_not_batchable).",
            ("profile", "result"),
        )

    def _declare_placement_metrics(self) -> None:
        """Declare the metrics of groups' placements; made only if groups may have to be in one domain."""
        self.generated_placements = Counter(
            "scheduler_generated_placements_total", "Placements generated for groups of pods.", ("profile", "entity")
        )
        self.placement_evaluations = Counter(
            "scheduler_placement_evaluations_total",
            "Placements that a group of pods was tried in, by whether it fitted.",
            ("result", "profile", "entity"),
        )
        self.placement_seconds = Histogram(
            "scheduler_placement_evaluation_duration_seconds",
            "Time to try a group of pods in one placement.",
            _MILLISECONDS,
            ("result", "profile", "entity"),
        )

    def _declare_group_metrics(self) -> None:
        """Declare the metrics of attempts at pod groups, and of preemption by how it is done for them."""
        self.group_attempts = Counter(
            "scheduler_podgroup_schedule_attempts_total",
            "Attempts to schedule groups of pods, by result.",
            ("result", "profile", "entity"),
        )
        self.group_attempt_seconds = Histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Time of an attempt to schedule a group of pods.",
            _MILLISECONDS,
            ("result", "profile", "entity"),
        )
        self.group_algorithm_seconds = Histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Time to find the nodes of a group of pods.",
            _MILLISECONDS,
            ("profile", "entity"),
        )
        self.group_preemption_attempts = Counter(
            "scheduler_workload_preemption_attempts_total",
            "Attempts to preempt for a group of pods.",
            ("preemptor", "result"),
        )
        self.group_preemption_victims = Histogram(
            "scheduler_workload_preemption_victims",
            "Victims of preemption for a group of pods.",
            exponential(1, 2, 11),
            ("preemptor",),
        )
        self.disruptions = Histogram(
            "scheduler_preemption_workload_disruptions",
            "Victims of one preemption for a group of pods: groups that are evicted whole, and pods that go alone.",
            exponential(1, 2, 11),
            ("preemptor", "victim"),
        )
        self.budget_violations = Counter(
            "scheduler_preemption_pdb_violations_total",
            "Victims for which a disruption budget had nothing left.",
            ("preemptor",),
        )
        self.evaluation_seconds = Histogram(
            "scheduler_preemption_evaluation_duration_seconds",
            "Time to find the victims.",
            exponential(0.001, 2, 16),
            ("preemptor", "result"),
        )
        self.execution_seconds = Histogram(
            "scheduler_preemption_execution_duration_seconds",
            "Time that the evictions took.",
            exponential(0.001, 2, 16),
            ("preemptor", "result"),
        )

    def _declare_framework_metrics(self) -> None:
        """Declare the metrics of plugins and extension points, hints, events, and waits on Permit."""
        self.point_seconds = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Time for all plugins of an extension point: a pod's share of its batch.",
            _TENTHS_OF_MILLISECONDS,
            ("extension_point", "status", "profile"),
            STABLE,
        )
        self.plugin_seconds = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Time of a plugin at an extension point, of one call in ten, and of those that are traced.",
            _PLUGIN_SECONDS,
            ("plugin", "extension_point", "status"),
            BETA,
        )
        self.plugin_evaluations = Counter(
            "scheduler_plugin_evaluation_total",
            "Attempts to schedule pods in which the plugin took part, by extension point (PreFilter, Filter, PreScore "
            "and Score).",
            ("plugin", "extension_point", "profile"),
            BETA,
        )
        self.hint_seconds = Histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Time of a plugin's queueing hint: a pod's share if one call was about several pods.",
            _PLUGIN_SECONDS,
            ("plugin", "event", "hint"),
        )
        self.event_seconds = Histogram(
            "scheduler_event_handling_duration_seconds",
            "Time to handle a change in the cluster.",
            _TENTHS_OF_MILLISECONDS,
            ("event",),
        )
        self.permit_wait_seconds = Histogram(
            "scheduler_permit_wait_duration_seconds", "Time spent waiting on Permit.", _MILLISECONDS, ("result",), BETA
        )

    def _declare_volume_metrics(self) -> None:
        """Declare the metrics of volumes and devices."""
        self.volume_errors = Counter(
            "scheduler_volume_scheduling_stage_error_total",
            f"Errors of {_VOLUMES_PLUGIN} by stage: predicate (Filter), assume (Reserve), bind (PreBind).",
            ("operation",),
        )
        self.device_attempts = Counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Devices that had to be prepared before a pod was bound, by outcome.",
            ("profile", "driver", "status"),
        )
        self.device_seconds = Histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time spent in PreBind waiting for devices to be prepared.",
            exponential(0.1, 2, 14),
            ("profile", "driver", "status"),
        )
        self.volume_cache = Counter(
            "scheduler_volume_binder_cache_requests_total",
            "Requests to the volume binder's cache. There is none, here or in kube-scheduler: it never moves.",
            ("operation",),
        )

    def _declare_trireme_metrics(self) -> None:
        """Declare the metrics that kube-scheduler does not have."""
        self.batch_size = Histogram(
            "trireme_batch_size_pods",
            "Pods in a batch from the queue; batches of pod groups are not counted here.",
            exponential(1, 2, 11),
            ("profile",),
        )
        self.missed_wake_ups = Counter(
            "trireme_missed_wake_ups_total",
            "Pods that fitted though no event had woken them, by each plugin that had refused them: found while they "
            "waited (insight), or scheduled after no event but the time limit had woken them (flush).",
            ("plugin", "found_by"),
        )
        self.rpc_seconds = Histogram(
            "trireme_rpc_duration_seconds",
            "Time until a phase answered, including retries at other replicas, by gRPC code.",
            exponential(0.0001, 2, 18),
            ("phase", "rpc", "code"),
        )

    def _declare_api_request_metrics(self) -> None:
        """Declare the metrics of requests to the API server, as client-go has them."""
        self.requests = Counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "method", "host"),
        )
        self.request_seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            _REQUEST_SECONDS,
            ("verb", "host"),
        )
        self.throttle_seconds = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
            _REQUEST_SECONDS,
            ("verb", "host"),
        )

    def all(self) -> Iterable[Instrument]:
        """All instruments."""
        return [value for value in vars(self).values() if isinstance(value, Instrument)]
