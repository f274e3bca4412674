"""The assembled scheduler: the same parts for everybody, on ports that may have nothing behind them."""

import asyncio
import contextlib
import dataclasses
import types
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.helpers import frontend_world
from tests.helpers.shadow_cluster import CONFIGURED, Pods, node_event
from tests.helpers.simulated_insight import SimulatedInsight
from trireme.config import scheduler_configuration
from trireme.frontend import app
from trireme.scheduling import in_memory, ports, scheduler_parts, scheduler_settings
from trireme.shadow import cluster_model, settings
from trireme.simulation import known_classes, simulation
from trireme.v1 import bind_pb2, simulation_pb2
from trireme_kube.client.informers.watch import Event, EventKind

# What is behind a port, and no part: with remote plugins the frontend has the others.
_BEHIND_PORTS = frozenset(
    f"trireme.scheduling.{name}" for name in ("in_memory", "pre_enqueue_calls", "queue_sort_keys", "plugin_back_offs")
)


def _fields(value: object) -> Iterator[object]:
    """What the object's attributes hold."""
    names = {name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())}
    for name in names | set(getattr(value, "__dict__", ())):
        with contextlib.suppress(AttributeError):
            yield getattr(value, name)


def _part_types(root: object) -> set[str]:
    """The classes of all objects of scheduling and queueing that the object holds, and those that they hold."""
    found: dict[int, object] = {}
    left = [root]
    while left:
        value = left.pop()
        value = getattr(value, "__self__", value)
        module = type(value).__module__
        if id(value) in found or not module.startswith(("trireme.scheduling", "trireme.queueing")):
            continue
        if module not in _BEHIND_PORTS:
            found[id(value)] = value
            left.extend(_fields(value))
    return {type(value).__qualname__ for value in found.values()}


class Cluster:
    """A cluster of one node of two CPUs, and a scheduler whose writes come back as a watch would show them."""

    def __init__(self, configured: settings.ShadowConfiguration = CONFIGURED) -> None:
        self.bound: dict[str, str] = {}
        self.evicted: list[str] = []
        self.messages: dict[str, str] = {}
        binder = in_memory.Binder(self._on_bound, self._on_action)
        events = in_memory.Events(self.messages.__setitem__)
        self.world = cluster_model.ClusterModel(configured.completed, ports.Effects(binder, events), app.CLOCKS)
        self.scheduling = self.world.scheduling
        self.pods = Pods()
        self.scheduling.handlers.objects.on_nodes([node_event("n0", "2")])

    def _on_bound(self, items: Any) -> None:
        self.bound |= {item.pod.name: item.node_name for item in items}

    def _on_action(self, action: bind_pb2.Action) -> None:
        if action.HasField("evict"):
            self.evicted.append(action.pod.name)

    def show(self, *events: Event[Any]) -> None:
        self.scheduling.handlers.pods.on_pods(events)
        self.world.wake()

    def delete(self, name: str, node: str = "") -> None:
        self.show(self.pods.event(name, node, kind=EventKind.DELETED))

    async def until(self, holds: Callable[[], object]) -> None:
        """Return once it holds. A hang is the test's timeout."""
        while not holds():
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def _cluster() -> AsyncIterator[Cluster]:
    """A cluster whose scheduler runs until the block ends."""
    cluster = Cluster()
    running = asyncio.create_task(cluster.world.run_scheduler())
    try:
        yield cluster
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("gates", [{}, {"GenericWorkload": True}], ids=["pods alone", "pod groups"])
async def test_frontend_shadow_and_simulation_have_the_same_parts(gates: dict[str, bool]) -> None:
    """A part that one of them lacks makes it decide otherwise than the scheduler does."""
    texts = [f"{name}={value}" for name, value in gates.items()]
    frontend = await asyncio.to_thread(_frontend_part_types, [f"--feature-gates={text}" for text in texts])
    assert {"QueueExecutor", "SchedulingQueue", "BindingCycle", "PreemptionExecutor", "Scheduler"} <= frontend
    assert ("PodGroupCycle" in frontend) == bool(gates)
    assert _part_types(Cluster(settings.load("", texts, "")).scheduling) == frontend
    insight = await SimulatedInsight(n0="2").start(gates)
    setup = insight.service._make_simulation_setup(simulation_pb2.SimulateRequest())
    snap = insight.builder.snap
    simulated = simulation.Simulation(snap, setup, known_classes.of_snapshot(snap))
    assert _part_types(simulated._parts) == frontend
    await simulated.close()


def _frontend_part_types(arguments: list[str]) -> set[str]:
    made = frontend_world.World(*arguments)
    try:
        return _part_types(made.frontend.scheduling)
    finally:
        made.close()


async def test_a_pod_is_scheduled_through_ports_in_memory() -> None:
    async with _cluster() as cluster:
        cluster.show(cluster.pods.added("p"))
        await cluster.until(lambda: cluster.bound)
        assert cluster.bound == {"p": "n0"}
        cluster.show(cluster.pods.event("p", "n0"))
        assert cluster.scheduling.pending.uids() == frozenset()


async def test_a_deleted_pod_is_forgotten_by_all_parts() -> None:
    """Memory grows by each pod that came and went, and a pod that waits for a plugin waits for nothing."""
    async with _cluster() as cluster:
        scheduling = cluster.scheduling
        cluster.show(cluster.pods.added("huge", cpu="9"))
        await cluster.until(lambda: scheduling.reporter.last_failure("uid-huge"))
        assert cluster.messages["uid-huge"].startswith("0/1 nodes are available")
        cluster.delete("huge")
        assert scheduling.queue.contents.get("default/huge") is None
        assert scheduling.pending.get("uid-huge") is None
        assert not scheduling.reporter.last_failure("uid-huge")
        assert not scheduling.reporter.has_unwritten("uid-huge")


async def test_a_deleted_preemptor_is_no_longer_gated() -> None:
    async with _cluster() as cluster:
        scheduling = cluster.scheduling
        cluster.show(cluster.pods.added("low", "n0", cpu="2"))
        cluster.show(cluster.pods.added("vip", cpu="2", priority=9))
        await cluster.until(lambda: cluster.evicted)
        assert cluster.evicted == ["low"]
        assert scheduling.preemptions.under_way.still_gates("uid-vip")
        assert scheduling.queue.nominator.node_of("uid-vip") == "n0"
        cluster.delete("vip")
        assert scheduling.queue.held_preemptors == {}
        assert scheduling.queue.nominator.node_of("uid-vip") == ""
        assert not [each for each in scheduling.preemptions.history.after(0) if each.uid != "uid-vip"]


async def test_the_event_of_the_last_victim_lets_the_preemptor_through() -> None:
    async with _cluster() as cluster:
        cluster.show(cluster.pods.added("low", "n0", cpu="2"))
        cluster.show(cluster.pods.added("vip", cpu="2", priority=9))
        await cluster.until(lambda: cluster.evicted)
        await cluster.until(lambda: not cluster.scheduling.settling)
        cluster.delete("low", "n0")
        await cluster.until(lambda: cluster.bound)
        assert cluster.bound == {"vip": "n0"}


@pytest.mark.parametrize(
    ("tasks", "waiting", "unwritten", "settling"),
    [
        ((0, 0, 0), 0, 0, False),
        ((1, 0, 0), 0, 0, True),
        ((0, 1, 0), 0, 0, True),
        ((0, 0, 1), 0, 0, True),
        ((1, 1, 0), 2, 0, False),
        ((1, 1, 1), 2, 0, True),
        ((1, 0, 0), 1, 1, True),
        ((0, 0, 0), 0, 1, True),
    ],
)
def test_only_what_waits_for_other_pods_does_not_settle(
    tasks: tuple[int, ...], waiting: int, unwritten: int, settling: bool
) -> None:
    """A simulation would end before its pods are bound, or never, where one waits on Permit for others."""
    parts: Any = types.SimpleNamespace(
        supervisors=lambda: [types.SimpleNamespace(running=each) for each in tasks],
        waiting=types.SimpleNamespace(pods=lambda: [None] * waiting),
        outbox=[None] * unwritten,
    )
    assert scheduler_parts.Scheduling.settling.__get__(parts) is settling


async def test_a_bound_pod_has_no_failure_any_more() -> None:
    """No matter who bound it: `trireme status` would show a running pod as refused."""
    async with _cluster() as cluster:
        cluster.show(cluster.pods.added("huge", cpu="9"))
        await cluster.until(lambda: cluster.scheduling.reporter.last_failure("uid-huge"))
        cluster.show(cluster.pods.event("huge", "n0", cpu="9"))
        assert not cluster.scheduling.reporter.last_failure("uid-huge")


async def test_other_settings_reach_all_parts() -> None:
    """A reload that leaves a part out has two configurations in force."""
    cluster = Cluster()
    scheduling = cluster.scheduling
    before = scheduler_settings.of_configuration(CONFIGURED.completed)
    roles = dataclasses.replace(before.roles, post_filter={"other": True}, speculating={"other"})
    other = dataclasses.replace(
        before,
        roles=roles,
        scheduler_names=frozenset({"other"}),
        max_pods=7,
        linger=0.75,
        initial_backoff=2.0,
        max_backoff=3.0,
    )
    cluster.show(cluster.pods.added("p"))
    scheduling.configure(other)
    assert (scheduling.roles, scheduling.roles is roles) == (roles, False)
    assert (scheduling.limit.max_pods, scheduling.pacer.linger_seconds) == (7, 0.75)
    assert [scheduling.queue_executor.backoff.duration(failures) for failures in (1, 2)] == [2.0, 3.0]
    assert scheduling.handlers.pods.profiles == {"other"}
    assert scheduling.pending.uids() == frozenset()


def _without(
    profile: scheduler_configuration.CompletedProfile, plugin: str
) -> scheduler_configuration.CompletedProfile:
    """The profile without a plugin."""
    plugins = {
        point: tuple(each for each in configured if each.name != plugin)
        for point, configured in profile.plugins.items()
    }
    return dataclasses.replace(profile, plugins=plugins)


async def test_the_queue_follows_other_plugins_of_a_profile() -> None:
    """Pods would be held back, or be woken, by plugins that are not configured any more."""
    async with _cluster() as cluster:
        queue, before = cluster.scheduling.queue, scheduler_settings.of_configuration(CONFIGURED.completed)
        (profile,) = before.profiles
        gated = cluster.pods.added("gated", schedulingGates=[{"name": "g"}])
        cluster.show(gated, cluster.pods.added("huge", cpu="9"))
        await cluster.until(lambda: queue.statistics().unschedulable)
        changed = dataclasses.replace(before, profiles=(_without(profile, "NodeResourcesFit"),))
        cluster.scheduling.configure(changed)
        cluster.scheduling.handlers.objects.on_nodes([node_event("n1", "16")])
        assert queue.statistics().unschedulable == 1, "the plugin that refused it registers for no event now"
        cluster.scheduling.configure(dataclasses.replace(before, profiles=(_without(profile, "SchedulingGates"),)))
        cluster.show(cluster.pods.added("another", schedulingGates=[{"name": "g"}]))
        await cluster.until(lambda: cluster.bound)
        assert "another" in cluster.bound
