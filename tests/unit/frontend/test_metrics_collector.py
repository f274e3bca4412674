"""Metrics that are read from the frontend's parts at each scrape."""

from tests.helpers.frontend_world import one_node
from trireme.frontend.serving import metrics_collector
from trireme_kube.client.events import event_series


def test_events_that_are_not_written_are_in_the_metrics() -> None:
    """Pods without events look like pods that nobody tried, and only a line of the log would say why."""
    with one_node() as world:
        state, recorder = world.frontend_state(), world.frontend.recorder
        instruments = {
            each.name: each for each in metrics_collector.instruments(state, world.frontend.context.completed)
        }
        metric = instruments["trireme_unrecorded_events_total"]
        recorder._queue_limit = 1
        for name in ("a", "b", "c"):
            pod = event_series.ObjectReference("Pod", "default", name, name, "v1", "1")
            recorder.record_scheduled(pod, "node-1", "default-scheduler")
        counts = {sample.labels["reason"]: sample.value for sample in metric.family().samples}
    assert counts == {"dropped": 2, "refused": 0, "unsent": 0}
