"""Remote plugins in the bind phase, without a network: what a failed call is for each pod, and what is read back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest

from tests.helpers.virtual_time import on_virtual_time
from trireme.bind import binding_retries, remote_bind_plugins
from trireme.bind.work_in_flight import WorkInFlight
from trireme.plugin_kit.bind_phase_plugin import BindPhasePlugin, BindResultUnknown
from trireme.remote import remote_client
from trireme.remote.remote_connection import During, PluginError
from trireme.rpc.fencing import EpochGuard, Leader, Tenure
from trireme.v1 import bind_pb2, cycle_pb2, plugin_pb2, snapshot_pb2, status_pb2
from trireme.v1.status_pb2 import CODE_ERROR, CODE_SKIP, CODE_SUCCESS
from trireme_kube.apimachinery import api_writes

DEADLINE_SECONDS = 4.0
POINTS = plugin_pb2.ExtensionPoint
ITEMS = [
    bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(namespace="ns", name=name, uid=f"uid-{name}"), node_name="node-1")
    for name in ("a", "b", "c")
]


class _Plugin:
    """A connection on which each call has `answers`, one message after the other, and then fails with `failure`."""

    deadline_seconds = DEADLINE_SECONDS

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.failure: Exception | None = None
        self.seconds = 0.0
        self.turn = asyncio.Event()
        self.turn.set()
        self.called: list[str] = []

    async def call(
        self, method: Any, _: bytes, read: Callable[[Any], Any], during: During = contextlib.nullcontext
    ) -> Any:
        self.called.append(method.name)
        with during():
            await asyncio.sleep(self.seconds)
            if self.failure is not None:
                raise self.failure
            return read(self.answers[0])

    async def call_stream(self, method: Any, _: bytes, during: During) -> AsyncIterator[Any]:
        await self.turn.wait()
        with during():
            self.called.append(method.name)
            for answer in self.answers:
                yield answer
            await asyncio.sleep(self.seconds)
            if self.failure is not None:
                raise self.failure


class _Writer:
    """Finds of each pod what `found` has; else that it is not bound."""

    def __init__(self) -> None:
        self.found: dict[str, api_writes.SettledBinding] = {}
        self.read: list[tuple[api_writes.PodName, str, float]] = []

    async def settle_binding(self, pod: api_writes.PodName, node: str, deadline: float) -> api_writes.SettledBinding:
        self.read.append((pod, node, deadline))
        return self.found.get(pod.name, api_writes.Unbound("no node"))


class _Setup:
    """A bind with remote plugins, and its leader."""

    def __init__(self) -> None:
        self.clock = asyncio.get_running_loop().time
        self.in_flight = WorkInFlight(self.clock)
        self.writer = _Writer()
        self.connection = _Plugin()
        self.guard = EpochGuard()
        self.guard.admit(7)
        self.tenure = Tenure(self.guard, self.clock, self.guard.leader, self.clock() + 60.0)
        self.remotes = remote_bind_plugins.RemoteBindPlugins(
            cast(Any, self), cast(Any, self.writer), self.in_flight, self.clock
        )

    def make_client(self, config: snapshot_pb2.RemotePlugin) -> remote_client.PluginClient:
        """As PluginConnections."""
        return remote_client.PluginClient(config, cycle_pb2.Cycle, cast(Any, self.connection))

    def plugin(self, *points: plugin_pb2.ExtensionPoint.ValueType, ignore: bool = False) -> BindPhasePlugin:
        policy = snapshot_pb2.FAILURE_POLICY_IGNORE if ignore else snapshot_pb2.FAILURE_POLICY_FAIL
        info = plugin_pb2.PluginInfo(name="Quota", extension_points=points)
        config = snapshot_pb2.RemotePlugin(name="Quota", failure_policy=policy, info=info if points else None)
        return self.remotes.plugins_of([config])["Quota"]

    async def bind(self, *, ignore: bool = False, into: dict[int, status_pb2.Status] | None = None) -> dict[int, Any]:
        """The statuses by index; with `into` also those that came before an error."""
        found = {} if into is None else into
        call = self.plugin(ignore=ignore).bind
        assert call is not None
        async for results in call(bind_pb2.BindRequest(items=ITEMS), self.tenure):
            for result in results:
                assert result.index not in found
                found[result.index] = result.status
        return found

    async def left_for_successor(self) -> float:
        """For how many seconds a new leader has to count with work of this one."""
        return await self.in_flight.until_drained(Leader("", 8), 0.0)


def _answer(*indexes: int, code: status_pb2.Code.ValueType = CODE_SUCCESS) -> bind_pb2.BindResponse:
    status = status_pb2.Status(code=code, messages=["full"] if code == CODE_ERROR else [])
    return bind_pb2.BindResponse(results=[bind_pb2.BindResult(index=index, status=status) for index in indexes])


def _codes(found: dict[int, Any]) -> dict[int, int]:
    return {index: status.code for index, status in sorted(found.items())}


@pytest.mark.parametrize(
    ("point", "attribute"),
    [
        (POINTS.EXTENSION_POINT_PERMIT, "permit"),
        (POINTS.EXTENSION_POINT_PRE_BIND, "pre_bind"),
        (POINTS.EXTENSION_POINT_BIND, "bind"),
        (POINTS.EXTENSION_POINT_POST_BIND, "post_bind"),
    ],
)
@on_virtual_time
async def test_a_plugin_has_the_calls_of_the_points_that_it_serves(
    point: plugin_pb2.ExtensionPoint.ValueType, attribute: str
) -> None:
    plugin = _Setup().plugin(point)
    served = [name for name in ("permit", "pre_bind", "bind", "post_bind") if getattr(plugin, name) is not None]
    assert (plugin.name, served) == ("Quota", [attribute])


@on_virtual_time
async def test_every_plugin_of_the_configuration_is_made() -> None:
    made = _Setup().remotes.plugins_of([snapshot_pb2.RemotePlugin(name=name) for name in ("A", "B")])
    assert [(name, plugin.name) for name, plugin in made.items()] == [("A", "A"), ("B", "B")]


@pytest.mark.parametrize(("ignore", "permit", "other"), [(False, CODE_ERROR, CODE_ERROR), (True, 1, CODE_SKIP)])
@on_virtual_time
async def test_where_a_call_fails_each_pod_gets_that(ignore: bool, permit: int, other: int) -> None:
    """A failure that is ignored lets the pod pass Permit, and is no work before Bind."""
    setup = _Setup()
    setup.connection.failure = PluginError("away")
    plugin = setup.plugin(ignore=ignore)
    assert plugin.permit is not None
    assert plugin.pre_bind is not None
    permitted = [each.status for each in await plugin.permit(bind_pb2.PermitRequest(items=ITEMS))]
    asked = await plugin.pre_bind_pre_flight(bind_pb2.PreBindPreFlightRequest(items=ITEMS))
    prepared = [each.status for each in await plugin.pre_bind(bind_pb2.PreBindRequest(items=ITEMS))]
    for statuses, code, running in (
        (permitted, permit, "Permit plugin"),
        (asked, other, "PreBindPreFlight"),
        (prepared, other, "PreBind plugin"),
    ):
        assert [status.code for status in statuses] == [code] * 3
        if not ignore:
            assert {"".join(status.messages) for status in statuses} == {f'running {running} "Quota": away'}


@on_virtual_time
async def test_the_answers_of_a_plugin_are_passed_on() -> None:
    setup = _Setup()
    plugin = setup.plugin()
    skips, works = status_pb2.Status(code=CODE_SKIP), status_pb2.Status(code=CODE_SUCCESS)
    assert plugin.permit is not None
    assert plugin.pre_bind is not None
    assert plugin.post_bind is not None
    setup.connection.answers = [bind_pb2.PermitResponse(results=[bind_pb2.PermitResult(status=works)] * 3)]
    assert [each.status for each in await plugin.permit(bind_pb2.PermitRequest(items=ITEMS))] == [works] * 3
    setup.connection.answers = [bind_pb2.PreBindPreFlightResponse(statuses=[works, skips, works])]
    asked = await plugin.pre_bind_pre_flight(bind_pb2.PreBindPreFlightRequest(items=ITEMS))
    assert [each.code for each in asked] == [CODE_SUCCESS, CODE_SKIP, CODE_SUCCESS]
    results = [bind_pb2.PreBindResult(status=each, state=b"s") for each in (works, skips, works)]
    setup.connection.answers = [bind_pb2.PreBindResponse(results=results)]
    prepared = await plugin.pre_bind(bind_pb2.PreBindRequest(items=ITEMS))
    assert [(each.status.code, each.state) for each in prepared] == [(each.status.code, each.state) for each in results]
    await plugin.post_bind(bind_pb2.PostBindRequest(items=ITEMS))
    assert setup.connection.called[-1] == "PostBind"


@on_virtual_time
async def test_a_new_leader_waits_for_what_a_plugin_may_still_write() -> None:
    """Also when its caller has gone: it may go on until its deadline, and a request of it a moment longer."""
    setup = _Setup()
    setup.connection.seconds = 1000.0
    plugin = setup.plugin()
    assert plugin.pre_bind is not None
    cycle = cycle_pb2.Cycle(fence=cycle_pb2.Fence(epoch=7))
    prepared = asyncio.ensure_future(plugin.pre_bind(bind_pb2.PreBindRequest(cycle=cycle, items=ITEMS)))
    bound = asyncio.ensure_future(setup.bind())
    await asyncio.sleep(0.5)
    assert len(setup.in_flight) == 2
    left = DEADLINE_SECONDS + binding_retries.SETTLE_SECONDS - 0.5
    assert await setup.left_for_successor() == pytest.approx(left)
    for call in (prepared, bound):
        call.cancel()
        await asyncio.wait((call,))
        assert await setup.left_for_successor() == pytest.approx(left)
    assert await setup.in_flight.until_drained(setup.guard.leader, 0.0) == 0.0, "its own leader waits for nothing"


@on_virtual_time
async def test_results_come_as_the_plugin_sends_them_and_no_pod_is_read() -> None:
    setup = _Setup()
    setup.connection.answers = [_answer(2, code=CODE_ERROR), _answer(0), _answer(1, code=CODE_SKIP)]
    found = await setup.bind()
    assert list(found) == [2, 0, 1]
    assert _codes(found) == {0: CODE_SUCCESS, 1: CODE_SKIP, 2: CODE_ERROR}
    assert setup.writer.read == []
    assert await setup.left_for_successor() == 0.0


@pytest.mark.parametrize("ignore", [False, True], ids=["fail", "ignore"])
@on_virtual_time
async def test_pods_without_a_result_are_read_back(ignore: bool) -> None:
    """One that is bound is a success; another fails, or goes to the next binder where failures are ignored."""
    setup = _Setup()
    setup.connection.answers = [_answer(1)]
    setup.connection.failure = PluginError("capsized")
    setup.writer.found = {"a": api_writes.Written({})}
    found = await setup.bind(ignore=ignore)
    assert _codes(found) == {0: CODE_SUCCESS, 1: CODE_SUCCESS, 2: CODE_SKIP if ignore else CODE_ERROR}
    if not ignore:
        assert list(found[2].messages) == ['running Bind plugin "Quota": capsized']
    deadline = binding_retries.READ_DEADLINE_SECONDS
    assert setup.writer.read == [
        (api_writes.PodName("ns", name, f"uid-{name}"), "node-1", deadline) for name in ("a", "c")
    ]


@on_virtual_time
async def test_pods_that_cannot_be_read_may_be_bound_or_not() -> None:
    """The others have their results before the call ends."""
    setup = _Setup()
    setup.connection.failure = PluginError("capsized")
    setup.writer.found = {"a": api_writes.Uncertain("?"), "b": api_writes.Written({}), "c": api_writes.Uncertain("?")}
    found: dict[int, status_pb2.Status] = {}
    with pytest.raises(BindResultUnknown, match=r"^2 pods may be bound or not: capsized$"):
        await setup.bind(into=found)
    assert _codes(found) == {1: CODE_SUCCESS}


@on_virtual_time
async def test_a_plugin_binds_nothing_for_a_leader_that_is_not_in_office() -> None:
    setup = _Setup()
    setup.guard.admit(8)
    found = await setup.bind()
    _assert_not_begun(list(found.values()))
    assert [reason.code for reason in found[0].reasons] == ["notBegun"]
    assert (setup.connection.called, setup.writer.read) == ([], [])


@on_virtual_time
async def test_a_plugin_is_not_called_for_a_leader_that_was_deposed_while_it_waited_for_its_turn() -> None:
    setup = _Setup()
    setup.connection.turn.clear()
    call = asyncio.ensure_future(setup.bind())
    await asyncio.sleep(0.1)
    setup.guard.admit(8)
    setup.connection.turn.set()
    _assert_not_begun(list((await call).values()))
    assert setup.connection.called == []


def _assert_not_begun(statuses: Sequence[Any]) -> None:
    assert [status.code for status in statuses] == [CODE_ERROR] * 3
    for status in statuses:
        assert "not bound: a leader of epoch 8 has taken over from epoch 7" in status.messages[0]
