"""In which order the frontend starts: nobody leads who has not seen the cluster."""

import asyncio
import dataclasses
import types
from typing import Any

import pytest

from trireme.framework import supervision
from trireme.frontend import leading
from trireme.frontend.term import Term
from trireme.kube import resources
from trireme.kube.event_series import ObjectReference


class _Over(Exception):
    """The test has seen what it wanted."""


@dataclasses.dataclass
class Informer:
    """An informer that syncs when the test says so."""

    resource: resources.Resource = resources.PODS
    synced: bool = False


class Recorder:
    """Keeps what is recorded on the Lease."""

    def __init__(self) -> None:
        self.legacy: list[Any] = []

    async def run(self) -> None:
        await asyncio.Event().wait()

    def record_legacy(self, *event: Any) -> None:
        self.legacy.append(event)


class Frontend:
    """A frontend of which only what its start looks at is left."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.informers = [Informer(), Informer(resources.NODES)]

    @property
    def synced(self) -> bool:
        return all(entry.synced for entry in self.informers)

    async def failed(self) -> None:
        await asyncio.Event().wait()


class Leadership(leading.Leadership):
    """A term of which only the order of its start is left."""

    def __init__(self, delayed: bool, elects: bool) -> None:
        profile = types.SimpleNamespace(scheduler_name="batch")
        election = types.SimpleNamespace(leader_elect=elects)
        configuration = types.SimpleNamespace(delay_cache_until_active=delayed, leader_election=election)
        self._completed: Any = types.SimpleNamespace(profiles=[profile], configuration=configuration)
        self.frontend = Frontend()
        self._frontend: Any = self.frontend
        self.story: list[str] = []

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

    def _begin(self, group: asyncio.TaskGroup, term: Term) -> None:
        self.story.append("is followed, synced" if self.frontend.synced else "is followed")

    async def _lead(self, term: Term) -> None:
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
async def test_who_leads_has_seen_the_cluster(delayed: bool, elects: bool, story: list[str]) -> None:
    """Else one that cannot read the cluster takes the Lease from one that can, or nobody is told who has it."""
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
