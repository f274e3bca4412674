"""What /readyz checks of this frontend beside its election: whether it can schedule, and what is wrong if it goes on.

A check fails where nothing can be scheduled; a warning is about what changes nothing yet. Each text names what is wrong
(a collection, a replica, a clock) and the page that says what to do.

Also change: docs/troubleshooting.md, docs/deployment.md.

Tests: tests/contract/test_serving_access.py, tests/e2e/test_e2e_wrong_installations.py.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping

from trireme.frontend import api_server_check
from trireme.frontend.phase_clients import unavailability
from trireme.frontend.serving.frontend_state import FrontendState
from trireme.v1 import scheduler_status_pb2
from trireme_kube.client.informers import informer
from trireme_kube.componentbase import documents
from trireme_kube.componentbase.metrics.instruments import Gauge
from trireme_kube.componentbase.server import health


def problems(checks: Iterable[health.Check]) -> Iterator[scheduler_status_pb2.ReadinessProblem]:
    """The checks that fail or warn, for `trireme status`."""
    for check in checks:
        problem = check.problem()
        if text := problem or check.warning():
            yield scheduler_status_pb2.ReadinessProblem(check=check.name, text=text, fails=bool(problem))


class Readiness:
    """The checks of a frontend, and the metric of its clock."""

    def __init__(self, state: FrontendState, api_server: api_server_check.ApiServerCheck) -> None:
        self._state = state
        self._api_server = api_server
        self.clock_instrument = Gauge(
            "trireme_api_server_clock_ahead_seconds",
            "How far the clock of this host is ahead of the API server's; below 0: behind.",
            self._clock_reading,
            transient=True,
        )

    def checks(self, *, coordinated: bool) -> list[health.Check]:
        """The checks, kube-scheduler's first; `coordinated`: the API server chooses the leader."""
        phases = [
            health.Check(phase, functools.partial(self._phase_problem, phase), quiet=True)
            for phase in ("filter", "score", "bind")
        ]
        return [
            health.Check("sched-handler-sync", self._sync_problem),
            *([health.Check("informer-sync", self._candidacy_problem)] if coordinated else []),
            *phases,
            health.Check("permissions", self._catching_up_problem, quiet=True, warning=self._permissions_warning),
            health.Check("clock", str, quiet=True, warning=self._api_server.clock_problem),
            health.Check("api-server-version", str, quiet=True, warning=self._api_server.version_problem),
        ]

    def lease_warning(self) -> str:
        """Why the Lease cannot be read or written; empty: it can."""
        error = self._state.lease_error()
        return f"the last request for the Lease {self._state.context.leader.lease} failed: {error}" if error else ""

    def _sync_problem(self) -> str:
        """Which collections have not been listed, and why; empty: all have."""
        missing = [entry.statistics() for entry in self._state.informers if not entry.synced]
        if not missing:
            return ""
        names = "; ".join(f"{each.name}: {each.last_error}" if each.last_error else each.name for each in missing)
        return f"handlers are not fully synchronized: {names}"

    def _candidacy_problem(self) -> str:
        """The problem while the informer of our LeaseCandidate has not synced; empty: none."""
        return "" if self._state.candidate_synced() else "1 informers not started yet: [*v1beta1.LeaseCandidate]"

    def _phase_problem(self, phase: str) -> str:
        """The problem of a phase. A frontend that does not lead calls no phase, so it misses none."""
        phases = self._state.phases
        if not self._state.context.leader.leading or phase not in phases.links.missing():
            return ""
        replicas = (
            phases.links.binders.statistics() if phase == "bind" else phases.links.followers()[phase].statistics()
        )
        why = unavailability.reasons(phases.lookups.get(phase, {}).values(), replicas)
        text = f"no replica of {phase} is available{f': {why}' if why else ''}"
        return documents.with_page(text, documents.NOTHING_IS_SCHEDULED)

    def _catching_up_problem(self) -> str:
        """Why a new leader schedules nothing yet; empty: it does, or has not failed."""
        waits = self._state.context.leader.catching_up.items()
        return "; ".join(f"{name}: {problem}" for name, problem in waits)

    def _permissions_warning(self) -> str:
        """Which collections may not be read any more; what changes in them is not seen."""
        found = [entry.statistics() for entry in self._state.informers if entry.synced]
        denied = [each for each in found if each.denied]
        warnings = {each.name: f"{each.name} {_state_of(each)}: {each.last_error}" for each in denied}
        for name, why in self._state.context.leader.given_up.items():
            warnings.setdefault(name, f"{name} may lack what an earlier leader wrote last: {why}")
        return "; ".join(warnings.values())

    def _clock_reading(self) -> Mapping[tuple[str, ...], float]:
        ahead = self._api_server.clock_ahead_seconds
        return {} if ahead is None else {(): ahead}


def _state_of(denied: informer.InformerStatistics) -> str:
    """What is known of a collection that may not be read; an API that was not served counted as empty."""
    return "is as it was listed before" if denied.lists else "was never listed, and counts as empty"
