"""The gRPC edge of bind, called without a network: what it refuses before anything is done, and what it passes on."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, cast

import grpc
import pytest

from tests.helpers import phase_calls
from tests.helpers.virtual_time import on_virtual_time
from trireme.bind import binding_writer, call_results, pre_binder, service, write_turns
from trireme.bind.leadership import Leadership, LeaseReader
from trireme.bind.work_in_flight import WorkInFlight
from trireme.framework import status
from trireme.plugin_kit import bind_phase_plugin
from trireme.plugin_kit.bind_phase_plugin import BindPhasePlugin
from trireme.rpc.fencing import EpochGuard, Leader, Tenure
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, plugin_pb2, snapshot_pb2, status_pb2
from trireme_kube.client.leaderelection.election import LeaseRecord

HASH = 77
STATE = bind_phase_pb2.PluginStates(plugin_states={"P": b"seat 7"}).SerializeToString()


class _Plugin:
    """At all points; each call takes `seconds`, and fails with `failure`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.failure: Exception | None = None
        self.told: list[str] = []
        self.tenures: list[Tenure] = []

    async def _answer(self) -> None:
        await asyncio.sleep(self.seconds)
        if self.failure is not None:
            raise self.failure

    async def permit(self, request: bind_pb2.PermitRequest) -> list[bind_pb2.PermitResult]:
        await self._answer()
        return [bind_pb2.PermitResult(status=_status()) for _ in request.items]

    async def pre_flight(self, request: bind_pb2.PreBindPreFlightRequest) -> list[status_pb2.Status]:
        await self._answer()
        return [_status() for _ in request.items]

    async def pre_bind(self, request: bind_pb2.PreBindRequest) -> list[bind_pb2.PreBindResult]:
        await self._answer()
        return [bind_pb2.PreBindResult(status=_status(), state=item.state) for item in request.items]

    async def bind(
        self, request: bind_pb2.BindRequest, tenure: Tenure
    ) -> AsyncGenerator[Sequence[bind_pb2.BindResult], None]:
        self.tenures.append(tenure)
        for index in range(len(request.items)):
            yield [bind_pb2.BindResult(index=index, status=_status())]
            await self._answer()

    async def post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        await self._answer()
        self.told += [item.pod.name for item in request.items]


class _Actor:
    """Does each action by the pod's name, as an ActionExecutor."""

    def __init__(self) -> None:
        self.failure: Exception | None = None

    async def apply(
        self, actions: Sequence[bind_pb2.Action], tenure: Tenure
    ) -> AsyncGenerator[list[tuple[int, status.Status]], None]:
        if self.failure is not None:
            raise self.failure
        for index, action in enumerate(actions):
            yield [(index, status.error("", "no") if action.pod.name == "fails" else status.SUCCESS)]

    def statistics(self) -> dict[tuple[str, str], int]:
        return {("evict", "success"): 3}


class _Setup:
    """The service of a bind, with one plugin; without leader election unless `reader` reads a Lease."""

    def __init__(self, reader: LeaseReader | None = None) -> None:
        clock = asyncio.get_running_loop().time
        self.in_flight = WorkInFlight(clock)
        self.plugin = _Plugin()
        self.actor = _Actor()
        each = self.plugin
        self.plugins = {
            "P": BindPhasePlugin("P", each.permit, each.pre_bind, each.bind, each.post_bind, each.pre_flight)
        }
        self.pre_binder = pre_binder.PreBinder(write_turns.WriteTurns(write_turns.UNLIMITED), self.in_flight, clock)
        nobody: Any = None
        self.service = service.BindPhase(
            Leadership(EpochGuard(), reader, clock),
            binding_writer.BindingWriter(nobody, self.in_flight, clock=clock, jitter=lambda: 0.0),
            self.pre_binder,
            cast(Any, self.actor),
            self.in_flight,
            lambda _: self.plugins,
            clock=clock,
        )

    async def fence(
        self,
        config_hash: int = HASH,
        configuration: snapshot_pb2.Configuration | None = None,
        *,
        epoch: int = 1,
        seconds: float | None = 5.0,
    ) -> bind_phase_pb2.FenceResponse:
        request = bind_phase_pb2.FenceRequest(
            fence=cycle_pb2.Fence(epoch=epoch), config_hash=config_hash, configuration=configuration
        )
        return await self.service.Fence(request, phase_calls.context(seconds))

    async def call(self, rpc: str, items: Sequence[bind_pb2.BindItem], cycle: cycle_pb2.Cycle | None = None) -> Any:
        """The answer of one of the calls about pods, or the list of answers of a stream."""
        cycle = cycle or _cycle()
        context = phase_calls.context(5.0)
        match rpc:
            case "Permit":
                return await self.service.Permit(bind_pb2.PermitRequest(cycle=cycle, items=items), context)
            case "PostBind":
                return await self.service.PostBind(bind_pb2.PostBindRequest(cycle=cycle, items=items), context)
            case "Bind":
                bound = self.service.Bind(bind_pb2.BindRequest(cycle=cycle, items=items), context)
                return [each async for each in bound]
            case "PreBind":
                part = bind_pb2.PreBindRequest(cycle=cycle, items=items)
                request = bind_phase_pb2.BindPhasePreBindRequest(requests=[part], timeout_ms=2000)
                return [each async for each in self.service.PreBind(request, context)]
            case _:
                flight = bind_pb2.PreBindPreFlightRequest(cycle=cycle, items=items)
                asked = bind_phase_pb2.BindPhasePreBindPreFlightRequest(requests=[flight], timeout_ms=2000)
                return [each async for each in self.service.PreBindPreFlight(asked, context)]

    async def apply(self, *actions: bind_pb2.Action, epoch: int = 1) -> list[tuple[int, str]]:
        request = bind_phase_pb2.ApplyRequest(fence=cycle_pb2.Fence(epoch=epoch), actions=actions)
        answers = [each async for each in self.service.Apply(request, phase_calls.context())]
        return [(result.index, "".join(result.status.messages)) for each in answers for result in each.results]


CALLS = ["Permit", "PreBindPreFlight", "PreBind", "Bind", "PostBind"]
STREAMS = ["PreBindPreFlight", "PreBind", "Bind"]


def _status() -> status_pb2.Status:
    return status_pb2.Status(code=status_pb2.CODE_SUCCESS)


def _cycle(**changed: Any) -> cycle_pb2.Cycle:
    return cycle_pb2.Cycle(**{"fence": cycle_pb2.Fence(epoch=1), "config_hash": HASH, "profile": "p"} | changed)


def _configuration(release: str = "", *profiles: str) -> snapshot_pb2.Configuration:
    points = plugin_pb2.ExtensionPoint
    at = (points.EXTENSION_POINT_PERMIT, points.EXTENSION_POINT_PRE_BIND, points.EXTENSION_POINT_BIND)
    sets = [
        snapshot_pb2.PluginSet(extension_point=point, plugins=[snapshot_pb2.WeightedPlugin(name="P")])
        for point in (*at, points.EXTENSION_POINT_POST_BIND)
    ]
    made = [snapshot_pb2.Profile(scheduler_name=name, plugin_sets=sets) for name in profiles or ("p",)]
    return snapshot_pb2.Configuration(profiles=made, release=release)


def _pod(name: str = "web", **changed: str) -> cycle_pb2.PodIdentity:
    return cycle_pb2.PodIdentity(**{"namespace": "ns", "name": name, "uid": name} | changed)


def _item(pod: cycle_pb2.PodIdentity | None = None, node: str = "node-1", state: bytes = b"") -> bind_pb2.BindItem:
    return bind_pb2.BindItem(pod=pod or _pod(), node_name=node, state=state)


async def _ready() -> _Setup:
    setup = _Setup()
    await setup.fence(configuration=_configuration())
    return setup


async def _refusal(awaited: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(phase_calls.Aborted) as caught:
        await awaited
    return caught.value.code, str(caught.value)


@on_virtual_time
async def test_a_configuration_is_in_force_once_a_leader_has_sent_it() -> None:
    setup = _Setup()
    assert (setup.service.config_hash, setup.service.statistics().configured) == (0, False)
    answer = await setup.fence(configuration=_configuration())
    assert (answer.epoch, answer.drain_ms) == (1, 0)
    assert (setup.service.config_hash, setup.service.statistics().configured) == (HASH, True)
    assert list(setup.service.plugins) == ["P"]
    assert setup.service.statistics().actions == {("evict", "success"): 3}


@on_virtual_time
async def test_a_fence_without_a_configuration_names_the_one_in_force() -> None:
    """Also a hash of 0 names none: it is what a replica has before its first configuration."""
    setup = _Setup()
    for named in (HASH, 0):
        assert (await _refusal(setup.fence(named)))[0] is grpc.StatusCode.FAILED_PRECONDITION
    await setup.fence(configuration=_configuration())
    await setup.fence()
    code, text = await _refusal(setup.fence(HASH + 1))
    assert (code, text.partition(":")[0]) == (grpc.StatusCode.FAILED_PRECONDITION, "config_hash")


@on_virtual_time
async def test_a_configuration_that_is_in_force_is_not_put_in_force_again() -> None:
    """Its plugins keep their connections; another hash is another configuration."""
    setup = await _ready()
    before = setup.service.plugins
    setup.plugins = dict(before)
    await setup.fence(configuration=_configuration())
    assert setup.service.plugins is before
    await setup.fence(HASH + 1, _configuration())
    assert setup.service.plugins is setup.plugins
    assert setup.service.config_hash == HASH + 1


@on_virtual_time
async def test_the_first_configuration_is_taken_whatever_its_hash() -> None:
    setup = _Setup()
    await setup.fence(0, _configuration())
    assert setup.service.statistics().configured


@pytest.mark.parametrize(
    ("configuration", "named"),
    [
        pytest.param(_configuration("99.0.0"), "configuration: the frontend is of release 99.0.0", id="release"),
        pytest.param(snapshot_pb2.Configuration(), "configuration.profiles: there is none", id="no-profile"),
    ],
)
@on_virtual_time
async def test_a_wrong_configuration_leaves_the_one_in_force(
    configuration: snapshot_pb2.Configuration, named: str
) -> None:
    setup = await _ready()
    code, text = await _refusal(setup.fence(HASH + 1, configuration))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith(named)
    assert setup.service.config_hash == HASH
    assert await setup.call("Bind", [_item()])


@on_virtual_time
async def test_a_configuration_with_a_plugin_that_is_not_there_is_refused() -> None:
    setup = _Setup()
    setup.plugins = {}
    code, text = await _refusal(setup.fence(configuration=_configuration()))
    assert (code, text) == (grpc.StatusCode.INVALID_ARGUMENT, "configuration: profile p: no Permit plugin P")


@pytest.mark.parametrize(
    ("seconds", "waited"),
    [
        pytest.param(3.0, 3.0 - service.REPLY_SECONDS, id="until-the-answer-must-leave"),
        pytest.param(None, service.DRAIN_SECONDS, id="without-a-deadline"),
    ],
)
@on_virtual_time
async def test_fence_waits_for_older_work_and_says_what_is_left(seconds: float | None, waited: float) -> None:
    setup = await _ready()
    now = asyncio.get_running_loop().time
    started = now()
    with setup.in_flight.track(Leader("", 1), started + 30.0):
        answer = await setup.fence(epoch=2, seconds=seconds)
    assert now() - started == pytest.approx(waited)
    assert answer.epoch == 2
    assert answer.drain_ms == round((30.0 - waited) * 1000)


@pytest.mark.parametrize("rpc", CALLS)
@on_virtual_time
async def test_a_call_is_refused_before_the_plugins_hear_of_it(rpc: str) -> None:
    """No epoch, an old one, another configuration, a profile that is not there, and pods that name none."""
    setup = _Setup()
    code, text = await _refusal(setup.call(rpc, [_item()], _cycle(config_hash=0)))
    assert (code, text.partition(":")[0]) == (grpc.StatusCode.FAILED_PRECONDITION, "config_hash")
    await setup.fence(configuration=_configuration(), epoch=2)
    setup.plugin.failure = AssertionError("the plugin was called")
    invalid, outdated = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
    fence = cycle_pb2.Fence(epoch=2)
    refused = (
        (invalid, "fence.epoch", _cycle(fence=cycle_pb2.Fence()), _item()),
        (outdated, "epoch 1 is over", _cycle(), _item()),
        (outdated, "config_hash", _cycle(fence=fence, config_hash=HASH + 1), _item()),
        (invalid, "cycle.profile", _cycle(fence=fence, profile="q"), _item()),
        (invalid, "items[1].pod.namespace", _cycle(fence=fence), _item(_pod(namespace="../kube-system"))),
        (invalid, "items[1].pod.name", _cycle(fence=fence), _item(_pod(name="web/status"))),
        (invalid, "items[1].pod.uid", _cycle(fence=fence), _item(_pod(uid=""))),
        (invalid, "items[1].node_name", _cycle(fence=fence), _item(node="")),
        (invalid, "items[1].state", _cycle(fence=fence), _item(state=b"\xff")),
    )
    for code, named, cycle, item in refused:
        found, text = await _refusal(setup.call(rpc, [_item(_pod("other")), item], cycle))
        assert (found, text.partition(":")[0]) == (code, named)
    setup.plugin.failure = None
    await setup.call(rpc, [_item(state=STATE)], _cycle(fence=fence))


@pytest.mark.parametrize("rpc", ["PreBind", "PreBindPreFlight"])
@on_virtual_time
async def test_a_step_before_bind_needs_a_time_out(rpc: str) -> None:
    setup = await _ready()
    calls: dict[str, Any] = {"PreBind": setup.service.PreBind, "PreBindPreFlight": setup.service.PreBindPreFlight}
    request = {
        "PreBind": bind_phase_pb2.BindPhasePreBindRequest(),
        "PreBindPreFlight": bind_phase_pb2.BindPhasePreBindPreFlightRequest(),
    }[rpc]
    answer = calls[rpc](request, phase_calls.context())
    code, text = await _refusal(anext(answer))
    assert (code, text) == (grpc.StatusCode.INVALID_ARGUMENT, "timeout_ms: not set")


@pytest.mark.parametrize("rpc", ["PreBind", "PreBindPreFlight"])
@on_virtual_time
async def test_a_plugin_may_take_the_time_out_of_the_request_over_a_pod(rpc: str) -> None:
    setup = await _ready()
    setup.plugin.seconds = 1.999
    (*_, last) = await setup.call(rpc, [_item()])
    assert last.results[0].index == 0
    assert _code(last.results[0]) == status_pb2.CODE_SUCCESS
    setup.plugin.seconds = 2.001
    (*_, last) = await setup.call(rpc, [_item()])
    assert _code(last.results[0]) == status_pb2.CODE_ERROR


def _code(entry: Any) -> int:
    found: int = (entry.result if hasattr(entry, "result") else entry).status.code
    return found


@on_virtual_time
async def test_results_of_pods_of_several_classes_go_by_their_place_over_all() -> None:
    setup = await _ready()
    parts = [
        bind_pb2.PreBindRequest(cycle=_cycle(), items=[_item(_pod(name)) for name in names])
        for names in (["a", "b"], ["c"])
    ]
    request = bind_phase_pb2.BindPhasePreBindRequest(requests=parts, timeout_ms=2000)
    answers = [each async for each in setup.service.PreBind(request, phase_calls.context())]
    assert sorted(entry.index for each in answers for entry in each.results) == [0, 1, 2]


@pytest.mark.parametrize("rpc", STREAMS)
@on_virtual_time
async def test_a_stream_gives_signs_of_life_between_results(rpc: str) -> None:
    setup = await _ready()
    setup.plugin.seconds = 1.5
    answers = await setup.call(rpc, [_item()])
    assert sorted(len(each.results) for each in answers) == [0, 1]


@pytest.mark.parametrize("rpc", [*STREAMS, "Apply"])
@on_virtual_time
async def test_a_replica_with_too_much_to_do_sends_the_caller_to_another(
    rpc: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = await _ready()
    monkeypatch.setattr(call_results, "WAITING_LIMIT", 0)
    setup.plugin.failure = setup.actor.failure = call_results.BusyError("5 wait already")
    code, text = await _refusal(setup.apply(_nominate()) if rpc == "Apply" else setup.call(rpc, [_item()]))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert text.endswith("already")


@pytest.mark.parametrize("rpc", ["PreBind", "PreBindPreFlight"])
@on_virtual_time
async def test_a_defect_of_a_plugin_is_an_error_of_its_pod(rpc: str) -> None:
    """The call would wait for its result forever."""
    setup = await _ready()
    setup.plugin.failure = KeyError("defect")
    (answer,) = await setup.call(rpc, [_item()])
    assert _code(answer.results[0]) == status_pb2.CODE_ERROR


@on_virtual_time
async def test_bind_says_that_a_result_is_unknown() -> None:
    setup = await _ready()
    setup.plugin.failure = bind_phase_plugin.BindResultUnknown("1 pods may be bound or not")
    code, text = await _refusal(setup.call("Bind", [_item()]))
    assert (code, text) == (grpc.StatusCode.UNAVAILABLE, "1 pods may be bound or not")


@on_virtual_time
async def test_work_may_begin_as_long_as_the_lease_of_the_caller_is_valid() -> None:
    async def read() -> LeaseRecord:
        return LeaseRecord("host-a_1", 15, "", "", 0, 1, {})

    setup = _Setup(LeaseReader("kube-system/trireme", read))
    fence = cycle_pb2.Fence(epoch=1, holder_identity="host-a_1", lease_valid_ms=5000)
    request = bind_phase_pb2.FenceRequest(fence=fence, config_hash=HASH, configuration=_configuration())
    await setup.service.Fence(request, phase_calls.context(5.0))
    now = asyncio.get_running_loop().time()
    await setup.call("Bind", [_item()], _cycle(fence=fence))
    assert [tenure.valid_until for tenure in setup.plugin.tenures] == [now + 5.0]
    code, text = await _refusal(setup.call("Bind", [_item()], _cycle(fence=cycle_pb2.Fence(epoch=2))))
    assert (code, text) == (grpc.StatusCode.FAILED_PRECONDITION, "the caller's lease is not valid any more")


@on_virtual_time
async def test_each_pod_has_its_result() -> None:
    setup = await _ready()
    items = [_item(_pod("a")), _item(_pod("b"))]
    assert [result.status.code for result in (await setup.call("Permit", items)).results] == [1, 1]
    bound = [result for each in await setup.call("Bind", items) for result in each.results]
    assert [(result.index, result.status.code) for result in bound] == [(0, 1), (1, 1)]
    await setup.call("PostBind", items)
    assert setup.plugin.told == ["a", "b"]


@pytest.mark.parametrize("rpc", ["Permit", "PostBind"])
@pytest.mark.parametrize(("seconds", "left"), [(5.0, 5.0), (None, service.PLUGIN_CALL_SECONDS)])
@on_virtual_time
async def test_a_new_leader_waits_for_a_call_of_plugins_until_its_deadline(
    rpc: str, seconds: float | None, left: float
) -> None:
    setup = await _ready()
    setup.plugin.seconds = 1000.0
    items = [_item()]
    context = phase_calls.context(seconds)
    made: Callable[[], Any] = (
        (lambda: setup.service.Permit(bind_pb2.PermitRequest(cycle=_cycle(), items=items), context))
        if rpc == "Permit"
        else (lambda: setup.service.PostBind(bind_pb2.PostBindRequest(cycle=_cycle(), items=items), context))
    )
    call = asyncio.ensure_future(made())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await setup.in_flight.until_drained(Leader("", 2), 0.0) == pytest.approx(left)
    assert await setup.in_flight.until_drained(Leader("", 1), 0.0) == 0.0, "its own leader waits for nothing"
    call.cancel()
    await asyncio.wait((call,))


def _nominate(pod: cycle_pb2.PodIdentity | None = None) -> bind_pb2.Action:
    return bind_pb2.Action(pod=pod or _pod(), nominate=bind_pb2.Nominate(node_name="n"))


@on_virtual_time
async def test_actions_are_done_and_each_has_its_outcome() -> None:
    setup = await _ready()
    claim = bind_pb2.Deallocate(namespace="ns", name="claim", uid="u")
    undo = bind_pb2.UndoPreBind(state=STATE)
    found = await setup.apply(
        _nominate(),
        _nominate(_pod("fails")),
        bind_pb2.Action(pod=_pod(), deallocate=claim),
        bind_pb2.Action(pod=_pod(), undo_pre_bind=undo),
    )
    assert found == [(0, ""), (1, "no"), (2, ""), (3, "")]


_CLAIM = {"namespace": "ns", "name": "claim", "uid": "u"}


@pytest.mark.parametrize(
    ("action", "named"),
    [
        pytest.param(_nominate(_pod(namespace="A")), "actions[1].pod.namespace", id="namespace"),
        pytest.param(_nominate(_pod(name="")), "actions[1].pod.name", id="name"),
        pytest.param(_nominate(_pod(uid="")), "actions[1].pod.uid", id="uid"),
        pytest.param(bind_pb2.Action(pod=_pod()), "actions[1].action", id="no-action"),
        *(
            pytest.param(
                bind_pb2.Action(pod=_pod(), **{kind: {**_CLAIM, field: wrong}}),
                f"actions[1].{kind}",
                id=f"{kind}-{field}",
            )
            for kind in ("deallocate", "remove_claim_user")
            for field, wrong in (("namespace", "../x"), ("name", "a/b"), ("uid", ""))
        ),
        pytest.param(
            bind_pb2.Action(pod=_pod(), undo_pre_bind=bind_pb2.UndoPreBind(state=b"\xff")),
            "actions[1].undo_pre_bind.state",
            id="state",
        ),
    ],
)
@on_virtual_time
async def test_one_invalid_action_ends_the_call_before_any_is_done(action: bind_pb2.Action, named: str) -> None:
    setup = await _ready()
    setup.actor.failure = AssertionError("an action was begun")
    code, text = await _refusal(setup.apply(_nominate(), action))
    assert (code, text.partition(":")[0]) == (grpc.StatusCode.INVALID_ARGUMENT, named)


@on_virtual_time
async def test_actions_of_no_leader_are_refused() -> None:
    setup = _Setup()
    await setup.fence(configuration=_configuration(), epoch=2)
    assert (await _refusal(setup.apply(_nominate(), epoch=0)))[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert (await _refusal(setup.apply(_nominate())))[0] is grpc.StatusCode.FAILED_PRECONDITION


@on_virtual_time
async def test_the_handshake_names_each_plugin_with_the_points_it_serves() -> None:
    setup = _Setup()
    hosted = service.BindPluginService(setup.service)
    context = phase_calls.context()

    async def named() -> dict[str, list[int]]:
        answer = await hosted.GetPluginInfo(plugin_pb2.GetPluginInfoRequest(), context)
        return {each.name: list(each.extension_points) for each in answer.plugins}

    assert await named() == {}
    all_points = setup.plugins["P"]
    setup.plugins["A"] = dataclasses.replace(all_points, name="A", permit=None, bind=None)
    await setup.fence(configuration=_configuration())
    points = plugin_pb2.ExtensionPoint
    only = [points.EXTENSION_POINT_PRE_BIND, points.EXTENSION_POINT_POST_BIND]
    every = [points.EXTENSION_POINT_PERMIT, only[0], points.EXTENSION_POINT_BIND, only[1]]
    assert list((await named()).items()) == [("A", only), ("P", every)]
    code, _ = await _refusal(hosted.Configure(plugin_pb2.ConfigureRequest(), context))
    assert code is grpc.StatusCode.UNIMPLEMENTED
    assert not (await hosted.GetPluginStatistics(plugin_pb2.GetPluginStatisticsRequest(), context)).plugins
