"""A queueing hint that is wrong: insight finds the pod that waits though it fits, and the pod is woken."""

import asyncio
import contextlib
import dataclasses
import pathlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.contract.frontend_with_phases import Cluster, Server, node
from tests.helpers import polling
from trireme.config import trireme_configuration
from trireme.framework.cluster_event import ClusterEvent
from trireme.frontend import wake_up_check
from trireme.frontend.serving import frontend_state, scheduler_status
from trireme.queueing.hints.queueing_hint_map import HintAnswer
from trireme.queueing.states import Unschedulable
from trireme.v1 import scheduler_status_pb2

# More than a check takes.
_CPU_SECONDS = 10.0


def _helps_nobody(event: ClusterEvent, old: Any, new: Any, pods: Sequence[Any]) -> Sequence[HintAnswer]:
    """A hint of a plugin whose author forgot something."""
    return [HintAnswer.SKIP for _ in pods]


class _World:
    """A leader with all phases and insight, and a node with room for one pod."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.queue = cluster.frontend.scheduling.queue
        assert cluster.frontend.wake_up_check is not None
        self.check = cluster.frontend.wake_up_check

    def break_hints(self, plugin: str) -> None:
        """The hints of the plugin answer Skip whatever happens."""
        executor = self.cluster.frontend.scheduling.queue_executor
        executor.hints.registrations.replace(
            {
                profile: [
                    dataclasses.replace(each, hint=_helps_nobody) if each.plugin == plugin else each for each in found
                ]
                for profile, found in executor.registrations().items()
            }
        )

    async def refused(self, name: str) -> None:
        """Create a pod, and wait until it was refused."""
        self.cluster.create(name, "1")
        await polling.until(lambda: self.waits(name))

    def waits(self, name: str) -> bool:
        found = self.queue.contents.get(f"ns/{name}")
        return found is not None and isinstance(found.state, Unschedulable)

    async def until_in_step(self) -> None:
        """Insight follows."""
        insight = self.cluster.frontend.phases.links.insight
        assert insight is not None
        await polling.until(lambda: insight.replicas.available)

    def missed(self) -> tuple[dict[str, float], dict[str, float]]:
        """What the metric counts, by plugin and by what found it."""
        counter = self.cluster.frontend.context.metrics.instruments.missed_wake_ups
        return counter.totals("plugin"), counter.totals("found_by")

    def status(self) -> scheduler_status_pb2.SchedulerStatus:
        """What `trireme status` shows."""
        return scheduler_status.status(frontend_state.state_of_app(self.cluster.frontend, self.cluster.local))


@contextlib.asynccontextmanager
async def _scheduling(folder: pathlib.Path, does: str) -> AsyncIterator[_World]:
    """A world whose pods that fit are woken, or only reported."""
    insight = trireme_configuration.Insight(endpoints=(f"unix:{folder}/insight-0.sock",), missed_wake_ups=does)
    cluster = Cluster(insight)
    links = cluster.frontend.phases.links
    assert links.insight is not None
    cluster.deliver_nodes([node("full", 1)])
    followers: dict[str, Any] = {"filter": links.filters, "score": links.scores, "bind": links.binders}
    async with contextlib.AsyncExitStack() as stack, cluster.scheduling():
        for phase, replicas in {**followers, "insight": links.insight.replicas}.items():
            server = Server(cluster, phase, folder, 0)
            await server.start()
            stack.push_async_callback(server.stop)
            replicas.set_endpoints([server.address])
        world = _World(cluster)
        await world.until_in_step()
        cluster.create("first", "1")
        await cluster.until_bound(1, 20)
        yield world


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding is confirmed at once."""
    monkeypatch.setattr(wake_up_check, "CONFIRM_SECONDS", 0.01)


async def test_a_pod_whose_hint_is_wrong_is_woken_and_shown_with_what_happened(tmp_path: pathlib.Path) -> None:
    """If this fails, the pod waits five minutes, and nobody learns whose hint is wrong."""
    async with _scheduling(tmp_path, trireme_configuration.WAKE) as world:
        world.break_hints("NodeResourcesFit")
        await world.refused("second")
        world.cluster.deliver_nodes([node("new", 9)])
        assert world.waits("second")
        await world.check.check(_CPU_SECONDS)
        await world.cluster.until_bound(2, 20)
        assert world.cluster.bound["uid-second"] == "new"
        assert world.missed() == ({"NodeResourcesFit": 1}, {"insight": 1})
        status = world.status()
        (found,) = status.missed_wake_ups
        assert (found.pod.name, list(found.plugins), found.node_name) == ("second", ["NodeResourcesFit"], "new")
        assert (found.woken, found.pod_count, found.event_count) == (True, 1, 1)
        assert [(each.label, each.object_name) for each in found.events] == [("NodeAdd", "new")]
        assert (status.wake_up_check.missed_total, status.wake_up_check.checked_groups) == (1, 1)
        moves = world.queue.contents.transitions_of("ns/second")
        assert "MissedWakeUp" in [each.cause for each in moves]


async def test_a_pod_that_fits_waits_on_if_the_configuration_says_so(tmp_path: pathlib.Path) -> None:
    """It is counted once, not at each check."""
    async with _scheduling(tmp_path, trireme_configuration.REPORT) as world:
        world.break_hints("NodeResourcesFit")
        await world.refused("second")
        world.cluster.deliver_nodes([node("new", 9)])
        await world.check.check(_CPU_SECONDS)
        await world.check.check(_CPU_SECONDS)
        assert world.waits("second")
        assert [each.woken for each in world.check.history] == [False]
        assert world.missed() == ({"NodeResourcesFit": 1}, {"insight": 1})


async def test_a_pod_that_does_not_fit_or_that_an_event_wakes_is_not_reported(tmp_path: pathlib.Path) -> None:
    """If this fails, an alert fires where nothing is wrong."""
    async with _scheduling(tmp_path, trireme_configuration.WAKE) as world:
        await world.refused("second")
        await world.check.check(_CPU_SECONDS)
        assert world.waits("second")
        checking = asyncio.create_task(world.check.check(_CPU_SECONDS))
        world.cluster.deliver_nodes([node("new", 9)])
        await world.cluster.until_bound(2, 20)
        await checking
        assert not world.check.history
        assert world.status().wake_up_check.problem == ""


async def test_without_an_answer_of_insight_the_status_says_why(tmp_path: pathlib.Path) -> None:
    async with _scheduling(tmp_path, trireme_configuration.WAKE) as world:
        await world.refused("second")
        insight = world.cluster.frontend.phases.links.insight
        assert insight is not None
        insight.replicas.set_endpoints([])
        await world.check.check(_CPU_SECONDS)
        assert world.status().wake_up_check.problem == "no replica of insight is in step"
