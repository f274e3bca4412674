"""Metrics of a phase's process.

All phases show what remote plugins do; filter, score and insight also how they follow the frontend and what they cache;
bind has its own beside (`bind/metrics.py`).

The numbers live in the statistics of the objects that count; here they are only read, when somebody asks.

Also change: internal/trireme/sdk/metrics.py (the metrics that the scheduler shows too).
Also change: internal/trireme/bind/metrics.py (metrics of both).
Also change: internal/trireme/remote/remote_health.py (states of answers in metrics).
Also change: docs/operating-plugins.md.
Also change: docs/runbooks/README.md.
Also change: deploy/chart/files/rules.yaml, docs/metrics_remarks.yaml (alerts, remarks).
Also change: internal/trireme/frontend/serving/metrics_collector.py (metrics of both).

Tests: tests/contract/test_replica_metrics.py.
"""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from trireme.remote import comparison_counts, remote_breaker, remote_connection, remote_health
from trireme.rpc import follower
from trireme.rpc.listen_flags import ListenError
from trireme_kube.componentbase import event_loop, supervision
from trireme_kube.componentbase.metrics import process_metrics
from trireme_kube.componentbase.metrics.instruments import CountedElsewhere, Gauge, Instrument, Reading, Registry
from trireme_kube.componentbase.tls import certificate_expiry

Remotes = Callable[[], Mapping[str, remote_connection.ConnectionStatistics]]


@contextlib.asynccontextmanager
async def serve(
    listen: str,
    instruments: Iterable[Instrument],
    not_ready: Callable[[], str],
    expiries: certificate_expiry.Expiries,
    supervisor: supervision.Supervisor,
) -> AsyncIterator[None]:
    """Serve metrics and probes at `listen` (empty: nowhere): these, and those of the process.

    `not_ready` says what is missing. In any case the log warns of certificates that expire.

    Raises: ListenError where the address cannot be listened on.
    """
    if not listen:
        async with expiries.watched(supervisor):
            yield
        return
    # An HTTP server, which takes longer to load than the phase itself, and is nothing to a frontend's own phases.
    from trireme_kube.componentbase.server import plain_server

    registry = Registry()
    registry.add(*instruments, *process_metrics.instruments(), *expiries.instruments)
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(plain_server.serve(listen, registry, not_ready))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ListenError(f"--metrics-listen: {listen}: {reason}") from error
        loop = event_loop.EventLoopMetrics()
        registry.add(*loop.instruments())
        await stack.enter_async_context(loop.measured(supervisor))
        await stack.enter_async_context(expiries.watched(supervisor))
        yield


def serve_follower(
    listen: str,
    phase: str,
    follow: follower.Follower,
    remotes: Remotes,
    own: Callable[[], Any],
    more: Iterable[Instrument] = (),
    *,
    expiries: certificate_expiry.Expiries,
    supervisor: supervision.Supervisor,
) -> contextlib.AbstractAsyncContextManager[None]:
    """`serve` for filter, score and insight (`phase`).

    `own` answers its statistics, a record of numbers; `more` are other instruments of its own.
    """

    def why_not_ready() -> str:
        return "" if follow.statistics().generation else "no frontend has brought a snapshot yet"

    instruments = (*follower_instruments(phase, follow, remotes, own), *more)
    return serve(listen, instruments, why_not_ready, expiries, supervisor)


def follower_instruments(
    phase: str, follow: follower.Follower, remotes: Remotes, own: Callable[[], Any]
) -> Iterable[Instrument]:
    """All that filter, score and insight (`phase`) show beside what every process does."""
    return (*_snapshot_instruments(follow), *plugin_instruments(remotes), *_statistics_instruments(phase, own))


def _snapshot_instruments(follow: follower.Follower) -> Iterable[Instrument]:
    """How the process follows the frontend: generation, epoch, streams, deltas, refused calls."""

    def reading_of(attribute: str) -> Reading:
        return lambda: {(): getattr(follow.statistics(), attribute)}

    yield Gauge("trireme_snapshot_generation", "Generation of the snapshot.", reading_of("generation"))
    yield Gauge("trireme_epoch", "Epoch of the frontend that is followed.", reading_of("epoch"))
    yield CountedElsewhere("trireme_snapshot_streams_total", "Snapshot streams opened.", reading_of("streams"))
    yield CountedElsewhere("trireme_snapshot_deltas_total", "Deltas applied.", reading_of("deltas"))
    yield CountedElsewhere(
        "trireme_stale_calls_total",
        "Calls refused for want of the snapshot or configuration named.",
        reading_of("refused"),
    )


def plugin_instruments(remotes: Remotes) -> Iterable[Instrument]:
    """Yield the metrics of calls to remote plugins, with the state of their circuit breakers by RPC."""
    labels = ("plugin",)

    def by_plugin(attribute: str) -> Reading:
        return lambda: {(name,): float(getattr(entry, attribute)) for name, entry in remotes().items()}

    def by_breaker(read: Callable[[remote_health.BreakerStatistics], float]) -> Reading:
        return lambda: {
            (name, rpc): read(breaker) for name, entry in remotes().items() for rpc, breaker in entry.breakers.items()
        }

    def calls_by_result() -> Mapping[tuple[str, str], float]:
        return {
            (name, result): count
            for name, entry in remotes().items()
            for result, count in (
                ("answered", entry.answered),
                ("failed", entry.failed),
                ("not_called", entry.not_called),
            )
        }

    yield CountedElsewhere(
        "trireme_plugin_calls_total",
        "Calls of remote plugins by result, once each however many endpoints were tried.",
        calls_by_result,
        ("plugin", "result"),
    )
    yield Gauge(
        "trireme_plugin_breaker_open",
        "Whether an RPC of a remote plugin is not called for a while, after failures.",
        by_breaker(lambda breaker: float(breaker.state is not remote_breaker.State.CLOSED)),
        ("plugin", "rpc"),
        transient=True,
    )
    yield CountedElsewhere(
        "trireme_plugin_breaker_opened_total",
        "Times that the circuit breaker of an RPC of a remote plugin opened.",
        by_breaker(lambda breaker: float(breaker.opened)),
        ("plugin", "rpc"),
    )
    yield CountedElsewhere(
        "trireme_plugin_hedged_calls_total",
        "Calls of a remote plugin that were also made at a second endpoint because the first one took long.",
        by_plugin("hedged"),
        labels,
    )
    yield CountedElsewhere(
        "trireme_plugin_bypassed_calls_total",
        "Calls of a remote plugin that were not made because it had used up its budget.",
        by_plugin("bypassed"),
        labels,
    )
    yield Gauge(
        "trireme_plugin_over_budget",
        "1 while a remote plugin is not called because it has used up its budget, else 0.",
        by_plugin("over_budget"),
        labels,
        transient=True,
    )
    yield from _comparison_instruments(remotes)
    yield Gauge(
        "trireme_plugin_calls_in_flight",
        "Calls that a plugin has now.",
        by_plugin("in_flight"),
        labels,
        transient=True,
    )
    yield Gauge(
        "trireme_plugin_calls_waiting",
        "Calls that wait for their turn.",
        by_plugin("waiting"),
        labels,
        transient=True,
    )


def _comparison_instruments(remotes: Remotes) -> Iterable[Instrument]:
    """Yield the metrics of plugins in shadow mode."""

    def compared_only() -> Iterable[tuple[str, comparison_counts.ComparisonCounts]]:
        return ((name, entry.comparisons) for name, entry in remotes().items() if entry.comparisons is not None)

    def comparisons() -> Mapping[tuple[str, str], float]:
        return {
            (name, result): float(count)
            for name, counts in compared_only()
            for result, count in (
                ("same", counts.compared - counts.differed - counts.failed),
                ("different", counts.differed),
                ("failed", counts.failed),
                ("skipped", counts.skipped),
            )
        }

    yield CountedElsewhere(
        "trireme_plugin_shadow_comparisons_total",
        "Comparisons of a plugin in shadow mode with the plugins that count, for a class of pods: at filter different "
        "means that it refuses a node that they let pass, at score that another node would be the best.",
        comparisons,
        ("plugin", "result"),
    )
    yield CountedElsewhere(
        "trireme_plugin_shadow_refused_nodes_total",
        "Nodes that a plugin in shadow mode refuses and the plugins that count let pass, in all comparisons.",
        lambda: {(name,): float(counts.refused_nodes) for name, counts in compared_only()},
        ("plugin",),
    )


def _statistics_instruments(phase: str, own: Callable[[], Any]) -> Iterable[Instrument]:
    """A gauge for each number of the phase's own statistics, or a counter where it is a "total".

    Each field has its help text, and whether it counts what has happened so far, as metadata.
    """

    def reading_of(attribute: str) -> Reading:
        return lambda: {(): getattr(own(), attribute)}

    for field in dataclasses.fields(own()):
        name, text = f"trireme_{phase}_{field.name}", field.metadata["help"]
        if field.metadata.get("total"):
            yield CountedElsewhere(f"{name}_total", text, reading_of(field.name))
        else:
            yield Gauge(name, text, reading_of(field.name))
