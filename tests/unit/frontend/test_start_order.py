"""In which order the frontend starts: nobody leads who has not seen the cluster."""

import asyncio
import dataclasses
import types
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers import virtual_time
from trireme.frontend import leadership_runner
from trireme.frontend.term import Term
from trireme_kube.client.events.event_series import ObjectReference
from trireme_kube.client.informers import resources
from trireme_kube.client.leaderelection import lease_candidate
from trireme_kube.client.rest.errors import ApiUnreachable
from trireme_kube.componentbase import supervision


class _Over(Exception):
    """The test has seen what it wanted."""


@dataclasses.dataclass
class Informer:
    """An informer that syncs when the test says so."""

    resource: resources.Resource = resources.PODS
    synced: bool = False
    absent: bool = False


class Recorder:
    """Keeps what is recorded on the Lease."""

    def __init__(self) -> None:
        self.legacy: list[Any] = []

    async def run(self) -> None:
        await asyncio.Event().wait()

    def record_legacy(self, *event: Any) -> None:
        self.legacy.append(event)


class Frontend:
    """A frontend reduced to what its start looks at."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.informers = [Informer(), Informer(resources.NODES)]

    @property
    def synced(self) -> bool:
        return all(entry.synced for entry in self.informers)

    async def raise_first_failure(self) -> None:
        await asyncio.Event().wait()


class Leadership(leadership_runner.LeadershipRunner):
    """A term reduced to the order of its start."""

    def __init__(self, delayed: bool, elects: bool) -> None:
        profile = types.SimpleNamespace(scheduler_name="batch")
        election = types.SimpleNamespace(leader_elect=elects)
        configuration = types.SimpleNamespace(delay_cache_until_active=delayed, leader_election=election)
        self._completed: Any = types.SimpleNamespace(profiles=[profile], configuration=configuration)
        self.frontend = Frontend()
        self._app: Any = self.frontend
        self.story: list[str] = []
        self.absent_elsewhere: list[resources.Resource] = []

    async def _find_absent(self) -> list[resources.Resource]:
        return self.absent_elsewhere

    def _start_informers(self, group: asyncio.TaskGroup) -> None:
        self.story.append("informers")

        async def sync() -> None:
            for entry in self.frontend.informers:
                await asyncio.sleep(0)
                entry.synced = True

        group.create_task(sync())

    async def elected(self) -> Term:
        self.story.append("elected, synced" if self.frontend.synced else "elected")
        held = ObjectReference("Lease", "kube-system", "kube-scheduler", "u", "coordination.k8s.io/v1", "7")
        return Term(7, "me", lambda: 10.0, lease=held)

    def _start_phase_clients(self, group: asyncio.TaskGroup, term: Term) -> None:
        self.story.append("is followed, synced" if self.frontend.synced else "is followed")

    async def _lead_until_cancelled(self, term: Term) -> None:
        self.story.append("leads, synced" if self.frontend.synced else "leads")
        raise _Over


@pytest.mark.parametrize(
    ("delayed", "elects", "story"),
    [
        (False, True, ["informers", "elected, synced", "is followed, synced", "leads, synced"]),
        (True, True, ["elected", "informers", "is followed", "leads, synced"]),
        (False, False, ["informers", "elected", "is followed", "leads, synced"]),
    ],
    ids=["usually", "delayCacheUntilActive", "without-election"],
)
async def test_a_leader_has_synced_its_informers(delayed: bool, elects: bool, story: list[str]) -> None:
    leadership = Leadership(delayed, elects)
    with pytest.raises(ExceptionGroup) as raised:
        await leadership.run(leadership.elected)
    (ended,) = supervision.ended_tasks(raised.value)
    assert isinstance(ended.__cause__, _Over)
    assert leadership.story == story
    ((lease, kind, reason, text, controller),) = leadership.frontend.recorder.legacy
    assert (lease.kind, kind, reason, text, controller) == (
        "Lease",
        "Normal",
        "LeaderElection",
        "me became leader",
        "batch",
    )


async def test_apis_that_are_not_served_are_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """An operator would look for the reason in ten lines, or find none."""
    leadership = Leadership(False, True)
    leadership.frontend.informers += [Informer(resources.POD_GROUPS, absent=True), Informer(resources.RESOURCE_CLAIMS)]
    leadership.absent_elsewhere = [lease_candidate.CANDIDATES]
    with pytest.raises(ExceptionGroup):
        await leadership.run(leadership.elected)
    assert caplog.messages == [
        "not served by this API server: scheduling.k8s.io/v1beta1/podgroups, "
        "coordination.k8s.io/v1beta1/leasecandidates; off: pod groups, coordinated leader election; "
        "they are looked for again now and then"
    ]


class WrittenInformer(Informer):
    """An informer that catches up at the second attempt."""

    def __init__(self, resource: resources.Resource, caught_up: set[resources.Resource]) -> None:
        super().__init__(resource, True)
        self._caught_up = caught_up
        self._failures = [ApiUnreachable("no answer", sent=True), TimeoutError()]

    async def catch_up(self, deadline: float) -> int:
        """As Informer.catch_up."""
        if self._failures:
            raise self._failures.pop()
        self._caught_up.add(self.resource)
        return 7


@pytest.mark.parametrize(
    ("endpoints", "sole", "story"),
    [
        (("bind:7003",), False, ["drained after 40 s", "caught up"]),
        ((), False, ["caught up", "drained after 40 s"]),
        ((), True, ["drained after 40 s"]),
    ],
    ids=["replicas-that-others-used", "own-replicas", "nobody-else-writes"],
)
def test_a_term_begins_when_what_an_earlier_leader_wrote_is_known(
    endpoints: tuple[str, ...], sole: bool, story: list[str]
) -> None:
    found: list[str] = []
    caught_up: set[resources.Resource] = set()

    class Binders:
        async def wait_until_announced(self, patience: float) -> float:
            """Old work takes ten seconds more."""
            await asyncio.sleep(patience)
            return 10.0

    class Scheduler:
        async def run(self) -> None:
            """Schedule."""
            found.append("schedules")

    kinds = [resources.NODES, *leadership_runner.WRITTEN_BY_LEADERS]
    frontend: Any = types.SimpleNamespace(
        context=types.SimpleNamespace(leader=types.SimpleNamespace(catching_up={}, given_up={})),
        phases=types.SimpleNamespace(links=types.SimpleNamespace(binders=Binders())),
        informers=[WrittenInformer(kind, caught_up) for kind in kinds],
        scheduling=types.SimpleNamespace(scheduler=Scheduler()),
        cluster=types.SimpleNamespace(cache=types.SimpleNamespace(statistics=lambda: "")),
    )
    completed: Any = types.SimpleNamespace(
        trireme=types.SimpleNamespace(phase=lambda name: types.SimpleNamespace(endpoints=endpoints))
    )

    async def main(clock: Callable[[], float]) -> None:
        term = Term(7, "me", lambda: 10.0, sole_writer=sole, predecessor_seconds=30.0)
        unused: Any = None  # nobody is elected here
        leadership: Any = leadership_runner.LeadershipRunner(completed, frontend, unused, unused, unused, clock)
        drain, catch_up, started = leadership._wait_for_predecessors_writes, leadership._catch_up, clock()

        async def note_drain(term: Term) -> None:
            await drain(term)
            found.append(f"drained after {clock() - started:g} s")

        async def note_catch_up() -> None:
            await catch_up()
            found.append("caught up")

        leadership._wait_for_predecessors_writes, leadership._catch_up = note_drain, note_catch_up
        await leadership._lead_until_cancelled(term)

    virtual_time.run(main)
    assert found == [*story, "schedules"]
    assert caught_up == set() if sole else caught_up == leadership_runner.WRITTEN_BY_LEADERS
