"""A remote QueueSort plugin of a simulated frontend, and how the pods of its queue stand."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.helpers.frontend_world import World
from tests.helpers.frontend_world_api import PROFILE
from trireme.framework import sort_key, status
from trireme.frontend import queue_plugin_calls
from trireme.queueing import scheduling_queue, states
from trireme.remote import remote_queue_sort
from trireme.scheduling import queue_executor
from trireme.v1 import core_pb2


class Sorter:
    """A plugin that orders pods by `levels`; calls about `failing` names fail, and there are no keys for `keyless`."""

    name = "Sorter"

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        self.failing: set[str] = set()
        self.keyless: set[str] = set()
        self.ignores_failure = False
        self.calls: list[list[str]] = []

    async def sort_keys(self, profile: str, pods: Sequence[core_pb2.Pod]) -> list[remote_queue_sort.Answer]:
        """As RemoteQueueSortPlugin has it."""
        assert profile == PROFILE
        names = [pod.metadata.name for pod in pods]
        self.calls.append(names)
        failed = self.failing.intersection(names)
        return [
            self._failure() if failed or name in self.keyless else sort_key.SortKey((self.levels.get(name, 0),))
            for name in names
        ]

    def _failure(self) -> status.Status | None:
        return None if self.ignores_failure else status.error(self.name, "far:1: UNAVAILABLE: refused")

    def called_about(self) -> list[str]:
        """The pods of all calls, in order."""
        return [name for names in self.calls for name in names]


def add_sorter(world: World) -> Sorter:
    """The plugin orders the queue from the start."""
    sorter = Sorter()
    plugin: Any = sorter
    executor(world).remote.sort_keys.configure(plugin, [])
    return sorter


def executor(world: World) -> queue_executor.QueueExecutor[queue_plugin_calls.QueuePluginCaller]:
    return world.frontend.scheduling.queue_executor


def configure_sorter(world: World, sorter: Sorter | None, basis: str = "", *, anew: bool = True) -> None:
    """Another plugin orders the queue from now on, or none."""
    plugin: Any = sorter

    async def configure() -> None:
        pods = world.frontend.scheduling.queue.contents.pods()
        executor(world).remote.sort_keys.configure(plugin, pods, basis, anew=anew)

    world.loop.run_until_complete(configure())
    world.loop.settle()


def state_of(world: World, name: str) -> states.QueueState:
    found = world.frontend.scheduling.queue.contents.get(f"ns/{name}")
    assert found is not None
    return found.state


def levels_of(world: World) -> Mapping[str, tuple[int, ...]]:
    pods = world.frontend.scheduling.queue.contents.waiting_pods()
    return {pod.key.removeprefix("ns/"): pod.record.level for pod in pods}


def pop_all(world: World) -> list[str]:
    """The names of the pods in the active queue, in the order in which they are tried."""
    queue, names = world.frontend.scheduling.queue, []
    while (batch := queue.pop(world.now(), 10)) is not None:
        assert isinstance(batch, scheduling_queue.PodBatch)
        names += [pod.key.removeprefix("ns/") for pod in batch.pods]
    return names


def held_pods(world: World) -> Mapping[str, int]:
    return executor(world).remote.pre_enqueue_calls.held_pods()
