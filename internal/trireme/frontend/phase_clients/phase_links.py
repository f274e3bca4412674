"""The links to the replicas of all three phases, and of insight where it runs.

Also change: internal/trireme/config/service_tls.py (its fields).

Tests: tests/unit/frontend/test_phase_links.py, tests/contract/test_endpoints_that_change.py.
"""

from collections.abc import Callable
from typing import NamedTuple

from trireme.config import commandline
from trireme.frontend.phase_clients import bind_phase_client, follower_replicas, insight_replicas, replica_link
from trireme.rpc import dialing
from trireme.v1 import bind_phase_pb2, cycle_pb2
from trireme_kube.componentbase import supervision


class PhaseLinks(NamedTuple):
    """The replicas of each phase, and of insight; without endpoints of insight there are none."""

    filters: follower_replicas.FollowerReplicas
    scores: follower_replicas.FollowerReplicas
    binders: bind_phase_client.BindPhaseClient
    insight: insight_replicas.InsightReplicas | None = None

    def followers(self) -> dict[str, follower_replicas.FollowerReplicas]:
        """The replicas that follow the cluster, by the name of their service."""
        insight = {} if self.insight is None else {"insight": self.insight.replicas}
        return {"filter": self.filters, "score": self.scores, **insight}

    def available(self) -> bool:
        """Whether every phase can be called."""
        return self.filters.available and self.scores.available and self.binders.available

    def missing(self) -> list[str]:
        """The phases that cannot be called."""
        named = (("filter", self.filters), ("score", self.scores), ("bind", self.binders))
        return [name for name, phase in named if not phase.available]

    def supervisors(self) -> list[supervision.Supervisor]:
        """The supervisors of the links' tasks."""
        return [self.binders.supervisor, *(each.supervisor for each in self.followers().values())]

    def restart(self) -> None:
        """Send all replicas the new configuration, before they are called again."""
        for each in self.followers().values():
            each.restart()
        self.binders.announce_again()

    async def close(self) -> None:
        """End all links."""
        for each in self.followers().values():
            await each.close()
        await self.binders.close()


def make_links(
    completed: commandline.CompletedConfig,
    source: replica_link.StreamSource,
    *,
    fence: Callable[[], cycle_pb2.Fence],
    fence_request: Callable[[], bind_phase_pb2.FenceRequest],
    config_hash: Callable[[], int],
    clock: Callable[[], float],
    wake: Callable[[], None],
) -> PhaseLinks:
    """Links to no replicas yet. `source` is where streams begin, `wake` is called when a phase may be available.

    Raises: ListenError: a certificate of the configuration cannot be used.
    """
    own = completed.trireme
    shared: dict[str, replica_link.ReplicaLink] = {}
    filters, scores = (
        follower_replicas.FollowerReplicas(
            name, source, _make_dialer(completed, name), own.phase(name).deadline.seconds, clock, wake, shared=shared
        )
        for name in ("filter", "score")
    )
    binders = bind_phase_client.BindPhaseClient(
        fence, fence_request, _make_dialer(completed, "bind"), own.phases.bind.deadline.seconds, wake, config_hash
    )
    insight = None
    if own.insight.endpoints:
        dialer, deadline = _make_dialer(completed, "insight"), own.insight.deadline.seconds
        insight = insight_replicas.InsightReplicas(source, dialer, deadline, clock)
    return PhaseLinks(filters, scores, binders, insight)


def _make_dialer(completed: commandline.CompletedConfig, service: str) -> dialing.Dialer:
    """Make the connector to the replicas of a service, by the TLS settings; insight has its own identities."""
    config = completed.trireme
    tls = config.tls
    if not tls.enabled:
        return dialing.Dialer()
    identities = config.identities(service)
    path, own = ("insight", config.insight) if service == "insight" else (f"phases.{service}", config.phase(service))
    field = f"{path if own.allowed_identities else 'tls'}.allowedIdentities"
    return dialing.Dialer(
        dialing.TlsSettings(tls.ca_file, tls.cert_file, tls.key_file, identities, identities_field=field)
    )
