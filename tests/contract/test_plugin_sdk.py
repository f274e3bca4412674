"""Plugins written on the Python SDK, asked over gRPC by the very clients that the phases use."""

import asyncio
import math
import subprocess
import sys
import types
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, nullcontext
from pathlib import Path
from typing import Any

import certificates
import grpc
import numpy as np
import pytest
from grpc import aio
from plugin_servers import fill, on_the_sdk

from trireme import sdk
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import (
    remote_bind,
    remote_client,
    remote_connection,
    remote_filter,
    remote_plugins,
    remote_post_filter,
    remote_queue,
    remote_queue_sort,
    remote_reserve,
    remote_score,
)
from trireme.rpc import grpc_server, listen_flags
from trireme.snapshot import classes, snapshot
from trireme.v1 import (
    bind_pb2,
    bind_phase_pb2,
    core_pb2,
    cycle_pb2,
    filter_pb2,
    frontend_pb2,
    frontend_pb2_grpc,
    plugin_pb2,
    snapshot_pb2,
    status_pb2,
)
from trireme.wire import node_columns


class Hosts:
    """What the phases have of one plugin."""

    def __init__(self, config: snapshot_pb2.RemotePlugin) -> None:
        self.config = config
        self.snap = snapshot.Snapshot()
        self.remotes = remote_plugins.RemotePlugins(self.snap)
        self.filter = self.remotes.filter_plugin(config, "p")
        self.score = self.remotes.score_plugin(config, "p")
        self.client = remote_client.connect(config)
        self.queue = remote_queue.RemoteQueuePlugin(self.client)
        self.queue_sort = remote_queue_sort.RemoteQueueSortPlugin(self.client)
        self.reserve = remote_reserve.RemoteReservePlugin(self.client)
        self.post_filter = remote_post_filter.RemotePostFilterPlugin(self.client)
        self.bind = remote_bind.RemoteBindPlugin(self.client)
        self.pod_class: classes.PodClass = fill(self.snap, 4)
        self.table = interfaces.StatusTable()

    async def verdicts(self, state: bytes = b"") -> Any:
        """What Filter says of all nodes: what stands for each, or what became of the question."""
        slots = self.snap.nodes.live_slots()
        answers = remote_filter.RemoteFilterState(state)
        failed = await self.filter.prepare(self.pod_class, self.snap, answers, slots, self.table)
        if failed is not None:
            return failed
        answer = self.filter.filter(self.pod_class, self.snap, answers, slots, self.table)
        assert answer.capacity is not None
        return [
            self.table.statuses[index - 1].message if index else capacity
            for index, capacity in zip(answer.index.tolist(), answer.capacity.tolist(), strict=True)
        ]

    async def scores(self) -> Any:
        """What Score says of all nodes."""
        slots = self.snap.nodes.live_slots()
        prepared = await self.score.prepare(self.pod_class, self.snap, None, slots)
        if prepared.failure is not None or prepared.silent:
            return prepared.failure
        return self.score.score(self.pod_class, self.snap, prepared.state, slots).tolist()

    async def run_post_filter(self, nodes: int, pre_filter: status.Status | None = None) -> Any:
        """What PostFilter says where so many nodes refuse the pod."""
        index, capacity = np.zeros(nodes, dtype=np.int16), np.zeros(nodes, dtype=np.int32)
        refused = node_columns.NodeColumns(0, 0, nodes, None, (), index, capacity)
        cycle = cycle_pb2.Cycle(fence=CYCLE.fence, profile="p", pod_class=self.pod_class.id)
        cycle.pod.metadata.name = "preemptor"
        context: Any = types.SimpleNamespace(cycle=cycle, pre_filter=pre_filter)
        return await self.post_filter.post_filter(context, self.snap, refused)

    async def close(self) -> None:
        """End all connections."""
        await self.remotes.close()
        await self.client.connection.close()


class Stack:
    """Serves plugins and hands out what the phases have of them; everything ends with the test."""

    def __init__(self, stack: AsyncExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder

    async def host(self, plugin: Any) -> Hosts:
        """Serve the plugin, shake hands, and connect."""
        address = await self._stack.enter_async_context(on_the_sdk(plugin, self._folder))
        info = await remote_client.handshake(plugin.info.name, address, deadline_seconds=10)
        config = snapshot_pb2.RemotePlugin(name=info.name, endpoints=[address], deadline_ms=5000, info=info)
        hosts = Hosts(config)
        self._stack.push_async_callback(hosts.close)
        return hosts


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    """What a test serves and connects ends with it."""
    async with AsyncExitStack() as entered:
        yield Stack(entered, tmp_path)


POD = core_pb2.Pod(metadata={"namespace": "shop", "name": "web-1", "labels": {"app": "web"}})
CYCLE = cycle_pb2.Cycle(fence=cycle_pb2.Fence(epoch=4), profile="p", pod=POD)


def item(name: str, **states: bytes) -> bind_pb2.BindItem:
    """A pod to bind, with the states of plugins."""
    return bind_pb2.BindItem(
        pod=cycle_pb2.PodIdentity(namespace="shop", name=name, uid=f"uid-{name}"),
        node_name="node-1",
        state=bind_phase_pb2.PluginStates(plugin_states=states).SerializeToString(),
    )


# Filter and Score.


class PerNode:
    """Answers node by node."""

    info = sdk.Info("PerNode", depends_on=sdk.Dependency.NODE_PODS)

    def pre_filter(self, call: sdk.Call) -> sdk.PreFilter:
        return sdk.PreFilter(nodes={"node-1", "node-2"}, state=call.pod.metadata.namespace.encode())

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        if node.name == "node-0":
            return sdk.unschedulable(f"not for {call.state.decode()}", "taken", by="somebody")
        return {"node-1": 3, "node-2": 2**40}.get(node.name)

    async def score(self, call: sdk.Call, node: sdk.Node) -> int:
        await asyncio.sleep(0)
        return int(node.name[-1]) * 10


async def test_a_plugin_may_answer_node_by_node(stack: Stack) -> None:
    """Broken, the plainest plugin does not work."""
    hosts = await stack.host(PerNode())
    prepared = await hosts.filter.pre_filter(hosts.pod_class, hosts.snap)
    assert prepared.nodes == {"node-1", "node-2"}
    assert await hosts.verdicts(prepared.state.pre_filter) == ["not for shop", 3, 2**31 - 1, 2**31 - 1]
    (refusal,) = hosts.table.statuses
    expected = status.Reason.of("taken", {"by": "somebody"})
    assert refusal == status.unschedulable("PerNode", "not for shop", reasons=(expected,))
    assert await hosts.scores() == [0, 10, 20, 30]


class Vectorised:
    """Answers for all nodes at once."""

    info = sdk.Info("Vectorised", normalization=sdk.Normalization.MAX, node_data=sdk.NodeData.JSON)

    async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        return [None if node.json() == {"a": 1} and not node.labels else sdk.unresolvable("no JSON") for node in nodes]

    def pre_score(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> bytes:
        return str(len(nodes)).encode()

    def score_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> Any:
        return np.arange(len(nodes)) * int(call.state)

    def normalize_scores(self, call: sdk.Call, nodes: Sequence[sdk.Node], raw: Sequence[int]) -> list[int]:
        return [score * 100 // max(raw) for score in raw]


async def test_a_plugin_may_answer_for_all_nodes_at_once(stack: Stack) -> None:
    """Broken, a plugin that asks something else about many nodes asks it once a node."""
    hosts = await stack.host(Vectorised())
    assert await hosts.verdicts() == [2**31 - 1] * 4
    assert await hosts.scores() == [0, 4, 8, 12]
    assert hosts.score.normalization is interfaces.Normalization.CUSTOM
    slots = np.array([1, 3])
    normal = await hosts.score.normalize(
        hosts.pod_class, hosts.snap, remote_score.RemoteScoreState(), slots, np.array([4, 12])
    )
    assert isinstance(normal, np.ndarray)
    assert normal.tolist() == [33, 100]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: 1 / 0, "INTERNAL: plugin Odd: Filter: filter failed: ZeroDivisionError: division by zero"),
        (
            lambda: "no",
            "INTERNAL: plugin Odd: Filter: filter returned 'no': must be None, a number above 0, or a status",
        ),
        (lambda: 0, "INTERNAL: plugin Odd: Filter: filter returned 0"),
        (lambda: True, "INTERNAL: plugin Odd: Filter: filter returned True"),
        (lambda: sdk.SKIP, "INTERNAL: plugin Odd: Filter: filter returned SKIP"),
        (lambda: sdk.error("disk on fire"), "disk on fire"),
    ],
    ids=["an exception", "a text", "no room", "a truth", "a skip", "an error"],
)
async def test_mistakes_of_a_plugin_are_errors_with_a_reason(stack: Stack, answer: Any, words: str) -> None:
    """Broken, the plugin's process ends, or its author looks for the fault in the scheduler."""

    class Odd:
        info = sdk.Info("Odd")

        def filter(self, call: sdk.Call, node: sdk.Node) -> Any:
            return answer()

    hosts = await stack.host(Odd())
    outcome = await hosts.verdicts()
    assert outcome.code is status.Code.ERROR
    assert words in outcome.message
    # And it goes on.
    assert (await hosts.verdicts()).code is status.Code.ERROR


async def test_concurrent_calls_are_limited_as_the_plugin_declares(stack: Stack) -> None:
    """Broken, several replicas that ask at once break a plugin that is not made for it."""

    class OneByOne:
        info = sdk.Info("OneByOne", max_concurrent_calls=1)
        running = most = 0

        async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.005)
            self.running -= 1
            return [None] * len(nodes)

    plugin = OneByOne()
    hosts = await stack.host(plugin)
    others = [Hosts(hosts.config) for _ in range(3)]
    try:
        await asyncio.gather(*(host.verdicts() for host in (hosts, *others) * 3))
    finally:
        for other in others:
            await other.close()
    assert plugin.most == 1


# The queue.


class Queue:
    """Gates and wakes pods."""

    info = sdk.Info(
        "Queue", events=(sdk.Event("Node", "Add"),), pod_fields=("metadata.name", "metadata.labels['gate']")
    )

    def pre_enqueue(self, pod: core_pb2.Pod, profile: str) -> sdk.Status | None:
        assert "other" not in pod.metadata.labels
        return sdk.unresolvable(f"closed in {profile}") if "gate" in pod.metadata.labels else None

    def queueing_hint(self, pod: core_pb2.Pod, event: plugin_pb2.ClusterEvent, old: Any, new: Any) -> bool:
        return old is None and new["metadata"]["name"] == pod.metadata.name


def named(name: str, **labels: str) -> core_pb2.Pod:
    """A pod."""
    return core_pb2.Pod(metadata={"name": name, "namespace": "shop", "labels": labels})


async def test_the_steps_around_the_queue(stack: Stack) -> None:
    """Broken, a remote plugin cannot hold back or wake pods."""
    queue = (await stack.host(Queue())).queue
    pods = [named("a", other="y"), named("b", gate="x")]
    assert await queue.pre_enqueue("p", pods) == [status.SUCCESS, status.unresolvable("Queue", "closed in p")]
    event = plugin_pb2.ClusterEvent(resource="Node", actions=["Add"])
    assert await queue.queueing_hint(event, b"", b'{"metadata":{"name":"b"}}', pods) == [False, True]


async def test_pre_enqueue_knows_which_pod_it_is_about(stack: Stack) -> None:
    """Broken, a plugin names the pod's name in `pod_fields` to know it, and each pod becomes a class of its own."""
    seen: list[core_pb2.Pod] = []

    class Asking:
        info = sdk.Info("Asking", pod_fields=("spec.priority",))

        def pre_enqueue(self, pod: core_pb2.Pod, profile: str) -> None:
            seen.append(pod)

    queue = (await stack.host(Asking())).queue
    metadata = {"name": "a", "namespace": "shop", "uid": "uid-a", "labels": {"app": "web"}}
    pod = core_pb2.Pod(metadata=metadata, spec={"priority": 7, "node_name": "n"})
    assert await queue.pre_enqueue("p", [pod]) == [status.SUCCESS]
    del metadata["labels"]
    assert seen == [core_pb2.Pod(metadata=metadata, spec={"priority": 7})]


async def test_a_hint_knows_the_profile_of_each_pod(stack: Stack) -> None:
    """Broken, a plugin answers with the arguments of another profile, and the pod that an event helps waits on."""
    seen: list[core_pb2.Pod] = []

    class Asking:
        info = sdk.Info("Asking", events=(sdk.Event("Node", "Add"),), pod_fields=("spec.priority",))

        def filter(self, call: sdk.Call, node: sdk.Node) -> None:
            return None

        def queueing_hint(self, pod: core_pb2.Pod, event: plugin_pb2.ClusterEvent, old: Any, new: Any) -> bool:
            seen.append(pod)
            return True

    queue = (await stack.host(Asking())).queue
    pod = core_pb2.Pod(spec={"priority": 7, "scheduler_name": "batch", "node_name": "n"})
    assert await queue.queueing_hint(plugin_pb2.ClusterEvent(resource="Node", actions=["Add"]), b"", b"", [pod])
    assert seen == [core_pb2.Pod(spec={"priority": 7, "scheduler_name": "batch"})]
    assert pod.spec.node_name == "n"


async def test_the_queue_goes_on_without_a_plugin_that_fails(stack: Stack) -> None:
    """Broken, pods vanish in a queue whose plugin is down."""

    class Failing:
        info = sdk.Info("Failing")

        def pre_enqueue(self, pod: core_pb2.Pod, profile: str) -> sdk.Status | None:
            raise OSError("down")

    queue = (await stack.host(Failing())).queue
    (answer,) = await queue.pre_enqueue("p", [POD])
    assert answer.code is status.Code.ERROR
    assert answer.message.startswith('running PreEnqueue plugin "Failing": ')
    assert await queue.queueing_hint(plugin_pb2.ClusterEvent(), b"", b"", [POD]) is None


async def test_a_plugin_orders_pods_by_what_it_reads_of_them(stack: Stack) -> None:
    """Broken, a number, several, or a key in two parts order pods otherwise than the author meant."""

    class Sorting:
        info = sdk.Info("Sorting", pod_fields=("metadata.labels['rank']",))

        def sort_key(self, pod: core_pb2.Pod, profile: str) -> int | tuple[int, ...] | sdk.SortKey:
            answers = {"one": 3, "two": (3, -1 << 63), "parts": sdk.SortKey((1, 2), pod.spec.priority)}
            return answers[pod.metadata.labels["rank"]]

    queue = (await stack.host(Sorting())).queue_sort
    pods = [
        core_pb2.Pod(metadata={"name": rank, "labels": {"rank": rank, "other": "x"}}, spec={"priority": 7})
        for rank in ("one", "two", "parts")
    ]
    assert await queue.sort_keys("p", pods) == [((3,), ()), ((3, -1 << 63), ()), ((1, 2), (7,))]


async def test_a_pod_whose_sort_key_fails_leaves_the_others_their_keys(stack: Stack) -> None:
    """Broken, one odd pod keeps all those out of the queue that the plugin is called about with it."""

    class Sorting:
        info = sdk.Info("Sorting", pod_fields=("metadata.labels['rank']",))

        def sort_key(self, pod: core_pb2.Pod, profile: str) -> int:
            return int(pod.metadata.labels["rank"])

    queue = (await stack.host(Sorting())).queue_sort
    pods = [core_pb2.Pod(metadata={"name": rank, "labels": {"rank": rank}}) for rank in ("3", "odd", "1")]
    first, odd, last = await queue.sort_keys("p", pods)
    assert (first, last) == (((3,), ()), ((1,), ()))
    text = "invalid literal for int() with base 10: 'odd'"
    assert odd == status.error(
        "Sorting", f"running QueueSort plugin: plugin Sorting: QueueSort: sort_key failed: ValueError: {text}"
    )


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("high", id="text"),
        pytest.param(None, id="nothing"),
        pytest.param(1.5, id="fraction"),
        pytest.param(True, id="no number"),
        pytest.param(1 << 63, id="too large"),
        pytest.param((), id="none"),
        pytest.param(tuple(range(17)), id="too many"),
        pytest.param(sdk.SortKey(1, "x"), id="rest"),  # type: ignore[arg-type]
    ],
)
async def test_a_key_that_is_none_is_an_error_that_says_so(stack: Stack, answer: object) -> None:
    """Broken, a mistake of the plugin's author orders pods by chance, or has an error that does not name the method."""

    class Sorting:
        info = sdk.Info("Sorting", pod_fields=("spec.priority",))

        def sort_key(self, pod: core_pb2.Pod, profile: str) -> object:
            return answer

    (failed,) = await (await stack.host(Sorting())).queue_sort.sort_keys("p", [POD])
    assert isinstance(failed, status.Status)
    assert failed.plugin == "Sorting"
    assert f"plugin Sorting: QueueSort: sort_key returned {answer!r}: must be a whole number" in failed.message


# PostFilter, Reserve, Unreserve.


class Reserving:
    """Evicts, reserves and gives back."""

    info = sdk.Info("Reserving")

    def __init__(self) -> None:
        self.given_back: list[str] = []
        self.pods: list[core_pb2.Pod] = []

    def post_filter(self, call: sdk.Call, columns: filter_pb2.NodeColumns) -> Any:
        self.pods.append(call.pod)
        if columns.size != 4:
            return sdk.unschedulable("no way out")
        action = bind_pb2.Action(nominate=bind_pb2.Nominate(node_name="node-1"))
        return filter_pb2.PostFilterResponse(
            status=status_pb2.Status(code=status_pb2.CODE_SUCCESS), actions=[action], nominated_node="node-1"
        )

    def reserve(self, call: sdk.Call, placement: filter_pb2.Placement) -> Any:
        self.pods.append(call.pod)
        if placement.node_name == "full":
            return sdk.unschedulable("no licence left")
        claim = snapshot_pb2.ClusterObject(assumed=True)
        claim.persistent_volume_claim.metadata.name = placement.pod.name
        done = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
        return filter_pb2.Reservation(status=done, assumed=[claim], state=b"licence 7")

    def unreserve(self, call: sdk.Call, placement: filter_pb2.Placement) -> None:
        self.pods.append(call.pod)
        self.given_back.append(placement.pod.name)


async def test_the_steps_after_filter(stack: Stack) -> None:
    """Broken, a remote plugin cannot make room, reserve, or give back."""
    plugin = Reserving()
    hosts = await stack.host(plugin)
    way_out = await hosts.run_post_filter(4)
    assert way_out is not None
    assert (way_out.nominated_node, len(way_out.actions)) == ("node-1", 1)
    none = await hosts.run_post_filter(3, status.unresolvable("X", "no"))
    assert none is not None
    assert (none.status.plugin, list(none.status.messages)) == ("Reserving", ["no way out"])

    placements = [
        filter_pb2.Placement(pod=cycle_pb2.PodIdentity(name=name), node_name=node)
        for name, node in (("a", "node-1"), ("b", "full"))
    ]
    reservations = await hosts.reserve.reserve(CYCLE, placements, hosts.pod_class, hosts.snap)
    assert [entry.status.code for entry in reservations] == [status_pb2.CODE_SUCCESS, status_pb2.CODE_UNSCHEDULABLE]
    assert reservations[0].assumed[0].persistent_volume_claim.metadata.name == "a"
    assert reservations[0].state == b"licence 7"
    await hosts.reserve.unreserve(CYCLE, placements[:1], hosts.pod_class)
    assert plugin.given_back == ["a"]
    preemptor = core_pb2.Pod()
    preemptor.CopyFrom(hosts.pod_class.pod)
    preemptor.metadata.name = "preemptor"
    assert plugin.pods == [preemptor] * 2 + [hosts.pod_class.pod] * 3, "each call has the pod of its class"


# Permit, PreBind, Bind, PostBind.


class Binding:
    """Lets wait, waits, binds and is told."""

    info = sdk.Info("Binding")

    def __init__(self) -> None:
        self.bound: list[str] = []

    def permit(self, call: sdk.Call, item: bind_pb2.BindItem) -> Any:
        waits = {"wait": sdk.Wait(90, "no quota left"), "long": sdk.Wait(math.inf), "short": sdk.Wait(1e-12)}
        return {**waits, "no": sdk.unschedulable("not now")}.get(item.pod.name)

    def pre_bind(self, call: sdk.Call, item: bind_pb2.BindItem) -> Any:
        if item.state != b"licence 7":
            return sdk.SKIP
        awaited = snapshot_pb2.ObjectKey(kind="persistent_volume_claim", name="a")
        return sdk.PreBindWait([awaited], 5, "low tide", state={"licence": 7})

    async def bind(self, call: sdk.Call, item: bind_pb2.BindItem) -> Any:
        if item.pod.name == "other":
            return sdk.SKIP
        if item.pod.name == "boom":
            raise OSError("no answer")
        return None

    def post_bind(self, call: sdk.Call, item: bind_pb2.BindItem) -> None:
        self.bound.append(item.pod.name)


async def bound(bind: remote_bind.RemoteBindPlugin, *items: bind_pb2.BindItem) -> list[Any]:
    """The results of a batch, and what ended it if something did."""
    out: list[Any] = []
    try:
        async with aclosing(bind.bind(CYCLE, items, nullcontext)) as results:
            async for result in results:
                out.append((result.index, result.status.code))  # noqa: PERF401  (what came before an error stays)
    except remote_connection.PluginError as error:
        out.append(str(error))
    return out


@pytest.mark.parametrize("seconds", [0, -1, math.nan, -math.inf])
def test_a_wait_that_does_not_end_after_some_time_is_refused(seconds: float) -> None:
    """Broken, the scheduler refuses the answer, and the author does not see which line made it."""
    with pytest.raises(ValueError, match="more than 0 seconds"):
        sdk.Wait(seconds)
    with pytest.raises(ValueError, match="more than 0 seconds"):
        sdk.PreBindWait([snapshot_pb2.ObjectKey()], seconds)
    with pytest.raises(ValueError, match="names an object"):
        sdk.PreBindWait([], 5)


async def test_the_steps_of_binding(stack: Stack) -> None:
    """Broken, a remote plugin cannot delay, prepare or do the binding."""
    plugin = Binding()
    bind = (await stack.host(plugin)).bind
    permits = await bind.permit(CYCLE, [item("a"), item("wait"), item("no"), item("long"), item("short")])
    assert isinstance(permits, list)
    expected = [
        status_pb2.CODE_SUCCESS,
        status_pb2.CODE_WAIT,
        status_pb2.CODE_UNSCHEDULABLE,
        *[status_pb2.CODE_WAIT] * 2,
    ]
    assert [result.status.code for result in permits] == expected
    assert permits[1].timeout.seconds == 90
    assert [list(result.status.messages) for result in permits[1::2]] == [["no quota left"], []]
    assert permits[3].timeout.seconds == 315_576_000_000  # the most that the message may have
    assert permits[4].timeout.nanos == 1

    done = await bind.pre_bind(CYCLE, [item("a"), item("b", Binding=b"licence 7", Other=b"x")], nullcontext)
    assert isinstance(done, list)
    assert [result.status.code for result in done] == [status_pb2.CODE_SKIP, status_pb2.CODE_WAIT]
    assert done[1].wait_for[0].name == "a"
    assert (list(done[1].status.messages), done[1].timeout.seconds, done[1].state) == (
        ["low tide"],
        5,
        b'{"licence":7}',
    )
    flights = await bind.pre_bind_pre_flight(CYCLE, [item("a"), item("b")])
    assert isinstance(flights, list)
    assert [flight.code for flight in flights] == [status_pb2.CODE_SUCCESS] * 2

    codes = [(0, status_pb2.CODE_SUCCESS), (1, status_pb2.CODE_SKIP)]
    assert await bound(bind, item("a"), item("other")) == codes
    await bind.post_bind(CYCLE, [item("a"), item("b")])
    assert plugin.bound == ["a", "b"]


async def test_an_interrupted_bind_reports_the_results_so_far(stack: Stack) -> None:
    """Broken, a pod whose binding is uncertain counts as bound, or as not bound."""
    bind = (await stack.host(Binding())).bind
    first, second = await bound(bind, item("a"), item("boom"), item("c"))
    assert first == (0, status_pb2.CODE_SUCCESS)
    assert "INTERNAL: plugin Binding: Bind: bind failed: OSError: no answer" in second


# Describing, serving, calling back.


@pytest.mark.parametrize(
    ("methods", "info", "words"),
    [
        ({}, sdk.Info("X"), "plugin X: extension_points: there is none"),
        ({"filter": None, "filter_nodes": None}, sdk.Info("X"), "plugin X: has both filter and filter_nodes"),
        ({"filter": None}, sdk.Info("X", pod_fields=("spec.nope",)), "plugin X: pod_fields: spec.nope: "),
    ],
    ids=["no step", "two methods", "no field"],
)
def test_an_invalid_plugin_description_is_refused_at_the_start(
    methods: dict[str, Any], info: sdk.Info, words: str
) -> None:
    """Broken, a plugin starts that no scheduler takes."""
    plugin = type("Wrong", (), {"info": info, **methods})()
    with pytest.raises(ValueError, match="^" + words):
        sdk.describe(plugin)


def test_main_prints_one_line_for_an_error(tmp_path: Path) -> None:
    """Broken, a plugin that cannot start ends with a traceback."""
    program = tmp_path / "plugin.py"
    program.write_text("from trireme import sdk\nclass P:\n    info = sdk.Info('P')\nraise SystemExit(sdk.main(P()))\n")
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Error: plugin P: extension_points: there is none; allowed: PRE_ENQUEUE (1), ")
    assert ended.stderr.count("\n") == 1


class _Frontend(frontend_pb2_grpc.HandleServiceServicer):
    async def Allow(self, request: frontend_pb2.AllowRequest, context: Any) -> frontend_pb2.AllowResponse:
        await self._check(request.pod, request.plugin, context)
        return frontend_pb2.AllowResponse()

    async def Reject(self, request: frontend_pb2.RejectRequest, context: Any) -> frontend_pb2.RejectResponse:
        assert request.message == "too late"
        await self._check(request.pod, request.plugin, context)
        return frontend_pb2.RejectResponse()

    async def Activate(self, request: frontend_pb2.ActivateRequest, context: Any) -> frontend_pb2.ActivateResponse:
        return frontend_pb2.ActivateResponse(activated=request.pods[:1])

    async def _check(self, pod: cycle_pb2.PodIdentity, plugin: str, context: Any) -> None:
        if (pod.name, plugin) != ("waits", "P"):
            await context.abort(grpc.StatusCode.NOT_FOUND, "it does not wait")


async def test_a_plugin_calls_the_scheduler_back(tmp_path: Path) -> None:
    """Broken, a pod that waits for a plugin waits until it times out."""
    server = aio.server()
    frontend_pb2_grpc.add_HandleServiceServicer_to_server(_Frontend(), server)
    server.add_insecure_port(f"unix:{tmp_path}/frontend.sock")
    await server.start()
    waits, other = (cycle_pb2.PodIdentity(name=name) for name in ("waits", "other"))
    async with sdk.Handle(f"unix:{tmp_path}/frontend.sock", "P") as handle:
        assert await handle.allow(waits)
        assert not await handle.allow(other)
        assert await handle.reject(waits, "too late")
        assert not await handle.reject(other, "too late")
        assert await handle.activate([waits, other]) == [waits]
    await server.stop(0)


async def test_a_plugin_with_tls_accepts_authorized_callers_only(tmp_path: Path) -> None:
    """Broken, pods are decided by whoever listens at the address, or the plugin is asked by whoever finds it."""
    authority = certificates.Authority()
    certificate, key = authority.issue("plugin").write(tmp_path, "plugin")
    client_ca = tmp_path / "ca.crt"
    client_ca.write_bytes(authority.certificate)
    listener = listen_flags.make_listener(
        "127.0.0.1:0",
        certificate=str(certificate),
        private_key=str(key),
        client_ca=str(client_ca),
        identities=("filter",),
    )
    server = grpc_server.ReplicaServer(listener, sdk.services(PerNode()))
    address = (await server.start()).text
    outcomes = []
    try:
        for name in ("filter", "somebody"):
            own_certificate, own_key = authority.issue(name).write(tmp_path, name)
            tls = snapshot_pb2.RemotePluginTls(
                ca_file=str(client_ca), certificate_file=str(own_certificate), private_key_file=str(own_key)
            )
            config = snapshot_pb2.RemotePlugin(name="PerNode", endpoints=[address], deadline_ms=5000, tls=tls)
            snap = snapshot.Snapshot()
            remotes = remote_plugins.RemotePlugins(snap)
            plugin = remotes.filter_plugin(config, "p")
            outcomes.append(await plugin.pre_filter(fill(snap, 1), snap))
            await remotes.close()
    finally:
        await server.stop(0)
    allowed, refused = outcomes
    assert allowed.state.pre_filter == b"shop"
    assert refused.status is not None
    assert "PERMISSION_DENIED: the client's identity is not allowed to call" in refused.status.message
