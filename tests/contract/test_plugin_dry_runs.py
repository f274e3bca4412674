"""Preemption asks plugins that are services: over real gRPC, about nodes as if pods were gone from them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.contract.plugin_servers import on_the_sdk
from tests.helpers import phase_calls
from tests.helpers.phase_calls import context
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme import sdk
from trireme.filter import service
from trireme.remote import remote_client, remote_plugins
from trireme.v1 import filter_pb2, filter_phase_pb2, plugin_pb2, snapshot_pb2
from trireme.wire import identities

PREEMPTOR = 100


class Guarded:
    """Refuses a node for as long as one of the pods that guard it is there."""

    def __init__(self) -> None:
        self.info = sdk.Info("Guarded", depends_on=sdk.Dependency.NODE_PODS)
        self.guards: dict[str, set[str]] = {}
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.while_asked: Callable[[], None] = lambda: None

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        gone = {pod.metadata.uid for pod in call.removed_pods}
        assert all(pod.spec.node_name == node.name for pod in call.removed_pods)
        self.asked.append((node.name, tuple(sorted(gone))))
        self.while_asked()
        return sdk.unschedulable("guarded") if self.guards.get(node.name, set()) - gone else None


class Crowded:
    """Lets no more than one other pod back to a node."""

    def __init__(self) -> None:
        self.info = sdk.Info("Guarded", depends_on=sdk.Dependency.NODE_PODS)
        self.asked: list[tuple[str, int, int]] = []
        self.while_asked: Callable[[], None] = lambda: None

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        self.asked.append((node.name, len(call.added_pods), len(call.removed_pods)))
        self.while_asked()
        return sdk.unschedulable("two pods of the class") if len(call.added_pods) > 1 else None


class Cluster:
    """Nodes of 4 CPUs with a pod of every priority below 100 that is asked for, and the filter phase on them."""

    def __init__(self, plugin: Any, config: snapshot_pb2.RemotePlugin, *nodes: str) -> None:
        self.plugin = plugin
        self.builder = SnapshotBuilder()
        for name in nodes:
            self.builder.set_node(name, allocatable={"cpu": "4", "pods": "110"})
        self.builder.add_class(PREEMPTOR, pod_of({**requesting(cpu="1"), "priority": 100}))
        self.remotes = remote_plugins.RemotePlugins(self.builder.snap)
        self.phase = service.FilterPhase(self.builder.snap, self.remotes.make_filter_plugin)
        self._config = config

    async def serve(self) -> None:
        """Configures the phase."""
        message = phase_calls.configuration(["NodeResourcesFit", "Guarded"], [])
        message.remote_plugins.append(self._config)
        point = message.profiles[0].plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_POST_FILTER)
        point.plugins.add(name="DefaultPreemption")
        await phase_calls.greet(self.phase, message)

    async def preempt(self) -> filter_pb2.PostFilterResponse:
        """Filter, and PostFilter of what it answered."""
        await self.serve()
        cycle = phase_calls.cycle(self.builder, PREEMPTOR)
        cycle.pod.metadata.uid = "me"
        filtered = await self.phase.Filter(filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle, count=1), context())
        self.plugin.asked.clear()
        request = filter_phase_pb2.RunPostFilterRequest(
            cycle=cycle, columns=filtered.columns, preemptors=[identities.preemptor(cycle.pod, cycle.generation)]
        )
        return (await self.phase.RunPostFilter(request, context())).results[0].answer

    async def preempt_for_a_group(self, members: int, node: str) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        """As the frontend does: with all who may go hidden, the members are on the node; who has to go then?"""
        await self.serve()
        listing = filter_phase_pb2.ListPodGroupVictimsRequest(
            cycle=phase_calls.cycle(self.builder, PREEMPTOR), priority=PREEMPTOR
        )
        listing.members.add(pod_class=PREEMPTOR)
        listed = await self.phase.ListPodGroupVictims(listing, context())
        table = self.builder.snap.pods
        self.builder.remove(*range(table.size))
        request = filter_phase_pb2.ReprievePodGroupVictimsRequest(priority=PREEMPTOR, victims=listed.victims)
        for row in self.builder.place(PREEMPTOR, *[node] * members):
            member = request.placed.add(pod_class=PREEMPTOR, slot=self.builder.snap.nodes.slot_of_name[node])
            member.pod.uid = table.uids[row]
        request.cycle.CopyFrom(phase_calls.cycle(self.builder, PREEMPTOR))
        self.plugin.asked.clear()
        return await self.phase.ReprievePodGroupVictims(request, context())


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Any]:
    """Opens a cluster; it ends with the test."""
    async with AsyncExitStack() as stack:

        async def open_cluster(
            *nodes: str, policy: Any = snapshot_pb2.FAILURE_POLICY_FAIL, plugin: Any = None
        ) -> Cluster:
            plugin = plugin or Guarded()
            address = await stack.enter_async_context(on_the_sdk(plugin, tmp_path))
            info = await remote_client.handshake("Guarded", address, deadline_seconds=10)
            config = snapshot_pb2.RemotePlugin(
                name="Guarded", endpoints=[address], deadline_ms=5000, info=info, failure_policy=policy
            )
            made = Cluster(plugin, config, *nodes)
            stack.push_async_callback(made.remotes.connections.close)
            return made

        yield open_cluster


def _victims(answer: filter_pb2.PostFilterResponse) -> set[str]:
    return {action.pod.uid for action in answer.actions}


async def test_the_pods_that_a_plugin_wants_gone_go_and_the_others_stay(opened: Any) -> None:
    """Reprieve asks the real Filter: without the plugin nobody had to go, or the wrong pods would."""
    cluster: Cluster = await opened("n0", "n1")
    rows = {}
    for number, priority in enumerate((10, 20, 30), start=1):
        cluster.builder.add_class(number, pod_of({**requesting(cpu="1"), "priority": priority}))
        rows[priority] = cluster.builder.place(number, "n0", "n1")
    uid = {(priority, node): f"uid-{rows[priority][node]}" for priority in rows for node in (0, 1)}
    cluster.plugin.guards = {"n0": {uid[30, 0]}, "n1": {uid[20, 1], uid[10, 1]}}
    answer = await cluster.preempt()
    # On n1 two would have to go, but the most important of them matters less.
    assert answer.nominated_node == "n1"
    assert _victims(answer) == {uid[20, 1], uid[10, 1]}
    everybody = tuple(sorted(uid[priority, 0] for priority in rows))
    assert ("n0", everybody) in cluster.plugin.asked


async def test_a_node_that_a_plugin_refuses_in_any_case_is_no_candidate(opened: Any) -> None:
    """Evicting would be in vain: the pod is told so in the plugin's words."""
    cluster: Cluster = await opened("n0")
    cluster.builder.add_class(1, pod_of({**requesting(cpu="4"), "priority": 10}))
    cluster.builder.place(1, "n0")
    cluster.plugin.guards = {"n0": {"somebody who stays"}}
    answer = await cluster.preempt()
    assert not answer.actions
    assert list(answer.status.messages) == ["preemption: 0/1 nodes are available: 1 guarded."]


async def test_dry_runs_restart_when_the_snapshot_changes(opened: Any) -> None:
    """A victim that is gone by the time the plugin answers must not be evicted, nor its row be somebody else's."""
    cluster: Cluster = await opened("n0")
    cluster.builder.add_class(1, pod_of({**requesting(cpu="2"), "priority": 10}))
    first, second = cluster.builder.place(1, "n0", "n0")
    moved = []

    def move_on() -> None:
        if not moved:
            moved.append(True)
            cluster.builder.remove(first)

    async def preempt() -> filter_pb2.PostFilterResponse:
        cluster.plugin.guards = {"n0": {f"uid-{second}"}}
        return await cluster.preempt()

    asked_before = len(cluster.plugin.asked)
    cluster.plugin.while_asked = lambda: None if not cluster.plugin.asked[-1][1] else move_on()
    answer = await preempt()
    assert moved
    assert len(cluster.plugin.asked) > asked_before
    assert _victims(answer) == {f"uid-{second}"}


async def test_a_failed_dry_run_follows_the_failure_policy(opened: Any) -> None:
    """By its policy; a service that is down must not have pods evicted that it might refuse to make room for."""
    cluster: Cluster = await opened("n0")
    cluster.builder.add_class(1, pod_of({**requesting(cpu="4"), "priority": 10}))
    cluster.builder.place(1, "n0")

    def fail() -> None:
        if cluster.plugin.asked[-1][1]:
            raise OSError("down")

    cluster.plugin.while_asked = fail
    answer = await cluster.preempt()
    assert not answer.actions
    assert "down" in answer.status.messages[0]


async def test_remote_plugins_decide_which_victims_of_a_group_are_reprieved(opened: Any) -> None:
    """There is room for two of the three; the plugin, which saw the node without any, wants but one beside the members.

    It is asked about each member beside those before it: of the first all members are gone, of the second one is.
    """
    cluster: Cluster = await opened("n0", "n1", plugin=Crowded())
    rows = {}
    for number, priority in enumerate((10, 20, 30), start=1):
        cluster.builder.add_class(number, pod_of({**requesting(cpu="1"), "priority": priority}))
        (rows[priority],) = cluster.builder.place(number, "n0")
    (elsewhere,) = cluster.builder.place(1, "n1")
    answer = await cluster.preempt_for_a_group(2, "n0")
    assert [action.pod.uid for action in answer.actions] == [f"uid-{rows[20]}", f"uid-{rows[10]}"]
    assert f"uid-{elsewhere}" not in {action.pod.uid for action in answer.actions}
    asked = [each for each in cluster.plugin.asked if each[1:] != (0, 0)]
    one, two = [("n0", 1, 2), ("n0", 1, 1)], [("n0", 2, 2), ("n0", 2, 1)]
    assert asked == [*one, *two, *two]


async def test_group_preemption_restarts_when_the_snapshot_changes(opened: Any) -> None:
    """Earlier rows and generations are somebody else's."""
    cluster: Cluster = await opened("n0", plugin=Crowded())
    cluster.builder.add_class(1, pod_of({**requesting(cpu="1"), "priority": 10}))
    cluster.builder.place(1, "n0", "n0")
    moved = []

    def move_on() -> None:
        if not moved and cluster.plugin.asked[-1][1] == 2:
            moved.append(True)
            cluster.builder.set_node("n1", allocatable={"cpu": "4", "pods": "110"})

    cluster.plugin.while_asked = move_on
    answer = await cluster.preempt_for_a_group(1, "n0")
    assert moved
    assert len(answer.actions) == 1
    assert [each for each in cluster.plugin.asked if each[0] == "n0" and each[1] == 2] == [("n0", 2, 1)] * 2
