"""The frontend's metrics of its own calls to remote plugins: of QueueSort, PreEnqueue and queueing hints.

Filter, score, insight and bind serve the same metrics of theirs (`phase_metrics.plugin_instruments`).

Also change: deploy/chart/files/rules.yaml (alerts).
Also change: docs/runbooks/README.md (the metrics).
"""

import collections
from collections.abc import Iterable, Mapping

from trireme.frontend.serving.frontend_state import FrontendState
from trireme.phases import phase_metrics
from trireme_kube.componentbase.metrics.instruments import Gauge, Instrument, Values


def instruments(state: FrontendState) -> Iterable[Instrument]:
    """Yield the metrics of the calls, with the number of pods that a plugin keeps out of the queue by failing."""

    def held_pods_by_plugin() -> Mapping[Values, float]:
        held = collections.Counter(state.scheduling.queue_executor.remote.pre_enqueue_calls.held_pods())
        for (profile, plugin), pods in state.scheduling.queue.statistics().refused_by.items():
            if plugin == state.context.membership.missing_plugin(profile):
                held[plugin] += pods
        return {(plugin,): float(pods) for plugin, pods in held.items()}

    yield from phase_metrics.plugin_instruments(state.scheduling.queue_executor.remote.statistics)
    yield Gauge(
        "trireme_plugin_held_pods",
        "Pods that are not tried because a remote plugin with the failure policy Fail cannot be called: it does not "
        "take part, or its last call of PreEnqueue or QueueSort about them failed; and pods that are tried in their "
        "earlier place, because the call of QueueSort for another one failed.",
        held_pods_by_plugin,
        ("plugin",),
        transient=True,
    )
