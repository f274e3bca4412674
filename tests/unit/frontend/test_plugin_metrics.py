"""How many pods a remote plugin keeps from being tried is a number that an alert can compare."""

from collections.abc import Mapping, Sequence

import pytest

from tests.helpers.frontend_world import World
from tests.helpers.frontend_world_api import PROFILE
from trireme.framework import sort_key, status
from trireme.frontend.serving import plugin_metrics
from trireme.remote import remote_queue_sort
from trireme.v1 import core_pb2
from trireme_kube.client.informers.watch import EventKind


class Sorter:
    """A plugin that orders the queue, or fails."""

    name = "Sorter"

    def __init__(self) -> None:
        self.failing = True
        self.during_calls: list[Mapping[str, float]] = []
        self.world: World | None = None

    async def sort_keys(self, profile: str, pods: Sequence[core_pb2.Pod]) -> list[remote_queue_sort.Answer]:
        """As RemoteQueueSortPlugin has it."""
        assert self.world is not None
        self.during_calls.append(_held_pods(self.world))
        return [status.error(self.name, "down") if self.failing else sort_key.SortKey((0,)) for _ in pods]


def _held_pods(world: World) -> Mapping[str, float]:
    """By plugin."""
    declared = {entry.name: entry for entry in plugin_metrics.instruments(world.frontend_state())}
    samples = declared["trireme_plugin_held_pods"].family().samples
    return {sample.labels["plugin"]: sample.value for sample in samples}


def test_pods_are_held_until_the_plugin_has_answered(world: World) -> None:
    """If this fails, each repeated call ends the time that an alert has to last, and it never fires."""
    sorter = Sorter()
    sorter.world = world
    world.frontend.scheduling.queue_executor.remote.sort_keys.configure(sorter, [])  # type: ignore[arg-type]
    world.create("p", 1)
    world.create("q", 1)
    assert _held_pods(world) == {"Sorter": 2}
    del sorter.during_calls[:]
    world.loop.advance(30)
    assert sorter.during_calls
    assert all(held == {"Sorter": 2} for held in sorter.during_calls)
    sorter.failing = False
    world.loop.advance(10.1)
    assert _held_pods(world) == {}


def test_a_pod_that_another_call_lets_in_is_not_held_any_more(world: World) -> None:
    """If this fails, a pod that is scheduled counts as held until the back-off of a call that nobody needs ends."""
    sorter = Sorter()
    sorter.world = world
    world.frontend.scheduling.queue_executor.remote.sort_keys.configure(sorter, [])  # type: ignore[arg-type]
    world.create("p", 1)
    world.loop.advance(15.5)  # The last call was half a second ago, and holds a back-off of a second at least.
    sorter.failing = False
    changed = dict(world.api.stored("pods")["p"])
    changed["spec"] = {**changed["spec"], "nodeSelector": {"zone": "z"}}
    world.api.record("pods", EventKind.MODIFIED, changed)
    world.deliver("pods", 1)
    pod = world.frontend.scheduling.queue.contents.get("ns/p")
    assert pod is not None
    assert pod.attempts == 1
    assert _held_pods(world) == {}


def test_a_pod_that_is_deleted_is_not_held_any_more(world: World) -> None:
    """If this fails, the alert goes on about a pod that nobody has any more."""
    sorter = Sorter()
    sorter.world = world
    world.frontend.scheduling.queue_executor.remote.sort_keys.configure(sorter, [])  # type: ignore[arg-type]
    world.create("p", 1)
    world.api.remove("pods", "p")
    world.deliver("pods", 1000)
    world.loop.advance(10.1)
    assert _held_pods(world) == {}


def test_pods_that_wait_for_a_plugin_that_does_not_take_part_are_held(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a plugin that was rejected stops all scheduling, and no alert fires."""
    monkeypatch.setattr(world.frontend.context.membership, "_missing", {PROFILE: "Absent"})
    world.create("p", 1)
    assert _held_pods(world) == {"Absent": 1}
