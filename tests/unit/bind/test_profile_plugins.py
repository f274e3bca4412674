"""The plugin host: kube-scheduler's rules for several plugins at one point."""

import dataclasses
from collections.abc import AsyncGenerator, Sequence

import pytest
from google.protobuf import duration_pb2

from trireme.bind import profile_plugins
from trireme.plugin_kit.bind_phase_plugin import BindPhasePlugin
from trireme.rpc.fencing import EpochGuard, Leader, Tenure
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, plugin_pb2, snapshot_pb2, status_pb2
from trireme.v1.status_pb2 import (
    CODE_ERROR,
    CODE_PENDING,
    CODE_SKIP,
    CODE_SUCCESS,
    CODE_UNSCHEDULABLE,
    CODE_WAIT,
)

Code = status_pb2.Code.ValueType
TENURE = Tenure(EpochGuard(), lambda: 0.0, Leader("", 0), 1.0)


class _Plugin:
    """Answers what it was made with, by pod name (else success), and remembers what it was asked."""

    def __init__(self, name: str, **answers: tuple[Code, str]) -> None:
        self.name = name
        self.answers = answers
        self.asked: list[list[str]] = []
        self.states: list[bytes] = []
        self.seconds = 60
        self.keeps_state = True

    def _status(self, item: bind_pb2.BindItem) -> status_pb2.Status:
        code, message = self.answers.get(item.pod.name, (CODE_SUCCESS, ""))
        return status_pb2.Status(code=code, messages=[message] if message else [])

    def _ask(self, items: Sequence[bind_pb2.BindItem]) -> None:
        self.asked.append([item.pod.name for item in items])
        for item in items:
            self.states.append(bind_phase_pb2.PluginStates.FromString(item.state).plugin_states.get(self.name, b""))

    async def permit(self, request: bind_pb2.PermitRequest) -> list[bind_pb2.PermitResult]:
        self._ask(request.items)
        results = [bind_pb2.PermitResult(status=self._status(item)) for item in request.items]
        for result in results:
            result.timeout.seconds = self.seconds
        return results

    async def pre_bind_pre_flight(self, request: bind_pb2.PreBindPreFlightRequest) -> list[status_pb2.Status]:
        self._ask(request.items)
        return [self._status(item) for item in request.items]

    async def pre_bind(self, request: bind_pb2.PreBindRequest) -> list[bind_pb2.PreBindResult]:
        self._ask(request.items)
        return [
            bind_pb2.PreBindResult(
                status=self._status(item),
                wait_for=[snapshot_pb2.ObjectKey(kind="persistent_volume_claim", name="data")],
                state=f"{self.name} {item.pod.name}".encode() if self.keeps_state else b"",
            )
            for item in request.items
        ]

    async def bind(
        self, request: bind_pb2.BindRequest, tenure: Tenure
    ) -> AsyncGenerator[Sequence[bind_pb2.BindResult], None]:
        self._ask(request.items)
        for index in reversed(range(len(request.items))):
            yield [bind_pb2.BindResult(index=index, status=self._status(request.items[index]))]

    async def post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        self._ask(request.items)

    def hosted(self) -> BindPhasePlugin:
        return BindPhasePlugin(
            self.name, self.permit, self.pre_bind, self.bind, self.post_bind, self.pre_bind_pre_flight
        )


def chain(*plugins: _Plugin) -> profile_plugins.ProfilePlugins:
    names = [snapshot_pb2.WeightedPlugin(name=plugin.name) for plugin in plugins]
    points = (
        plugin_pb2.EXTENSION_POINT_PERMIT,
        plugin_pb2.EXTENSION_POINT_PRE_BIND,
        plugin_pb2.EXTENSION_POINT_BIND,
        plugin_pb2.EXTENSION_POINT_POST_BIND,
    )
    sets = [snapshot_pb2.PluginSet(extension_point=point, plugins=names) for point in points]
    configuration = snapshot_pb2.Configuration(
        profiles=[snapshot_pb2.Profile(scheduler_name="default-scheduler", plugin_sets=sets)]
    )
    return profile_plugins.by_profile(configuration, {plugin.name: plugin.hosted() for plugin in plugins})[
        "default-scheduler"
    ]


def items(*names: str) -> list[bind_pb2.BindItem]:
    return [bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(name=name, uid=name), node_name="n") for name in names]


async def test_a_plugin_that_waits_without_a_state_keeps_what_reserve_returned() -> None:
    """If this fails, a plugin does not know at its second PreBind what it has reserved."""
    plugin = _Plugin("A", a=(CODE_WAIT, ""))
    plugin.keeps_state = False
    item = items("a")[0]
    item.state = bind_phase_pb2.PluginStates(plugin_states={"A": b"seat 7"}).SerializeToString()
    for _ in range(2):
        request = bind_pb2.PreBindRequest(items=[item])
        item.state = (await profile_plugins.pre_bind(chain(plugin), request)).results[0].state
    assert plugin.states == [b"seat 7", b"seat 7"]


async def test_permit_ends_with_the_first_refusal() -> None:
    """A refused pod is not shown to later plugins; the others are."""
    first, second = _Plugin("A", b=(CODE_UNSCHEDULABLE, "not now")), _Plugin("B")
    response = await profile_plugins.permit(chain(first, second), bind_pb2.PermitRequest(items=items("a", "b")))
    assert second.asked == [["a"]]
    assert [result.status.code for result in response.results] == [CODE_SUCCESS, CODE_UNSCHEDULABLE]
    assert (response.results[1].status.plugin, list(response.results[1].status.messages)) == ("A", ["not now"])


async def test_permit_calls_the_plugins_after_one_that_waits() -> None:
    """A pod waits for all plugins that asked for it; a later refusal ends the waiting."""
    first, second = (
        _Plugin("A", a=(CODE_WAIT, ""), b=(CODE_WAIT, "")),
        _Plugin("B", a=(CODE_WAIT, ""), b=(CODE_ERROR, "x")),
    )
    first.seconds, second.seconds = 20 * 60, 30
    response = await profile_plugins.permit(chain(first, second), bind_pb2.PermitRequest(items=items("a", "b")))
    waiting, failed = response.results
    assert waiting.status.code == CODE_WAIT
    assert [(wait.plugin, wait.timeout.seconds) for wait in waiting.waits] == [("A", 900), ("B", 30)]
    assert waiting.timeout.seconds == 30
    assert waiting.status.messages == ['one or more plugins asked to wait and no plugin rejected pod "a"']
    assert failed.status.code == CODE_ERROR
    assert (failed.status.plugin, list(failed.status.messages)) == ("B", ["x"])


@pytest.mark.parametrize("code", [CODE_ERROR, CODE_UNSCHEDULABLE, CODE_PENDING], ids=["error", "refusal", "pending"])
async def test_pre_bind_ends_with_the_first_that_is_no_success(code: Code) -> None:
    """A pod that is refused is told in the name of the plugin that refused it, and later plugins do not work for it."""
    second = _Plugin("B")
    made = chain(_Plugin("A", a=(code, "x")), second)
    response = await profile_plugins.pre_bind(made, bind_pb2.PreBindRequest(items=items("a", "b")))
    status = response.results[0].status
    assert (status.code, list(status.messages), status.plugin) == (code, ["x"], "A")
    assert second.asked == [["b"]]


async def test_pre_bind_skips_only_what_all_plugins_skip() -> None:
    """SKIP tells the frontend that nothing was there to do; one plugin that worked is work."""
    skip = (CODE_SKIP, "")
    first, second = _Plugin("A", a=skip, b=skip), _Plugin("B", a=skip)
    response = await profile_plugins.pre_bind(chain(first, second), bind_pb2.PreBindRequest(items=items("a", "b")))
    assert [result.status.code for result in response.results] == [CODE_SKIP, CODE_SUCCESS]


async def test_there_is_work_where_any_plugin_has_some() -> None:
    skip = (CODE_SKIP, "")
    first = _Plugin("A", none=skip, second=skip, refused=(CODE_UNSCHEDULABLE, "x"))
    second = _Plugin("B", none=skip, first=skip)
    request = bind_pb2.PreBindPreFlightRequest(items=items("none", "first", "second", "refused"))
    response = await profile_plugins.pre_bind_pre_flight(chain(first, second), request)
    codes = [status.code for status in response.statuses]
    assert codes == [CODE_SKIP, CODE_SUCCESS, CODE_SUCCESS, CODE_UNSCHEDULABLE]
    assert (response.statuses[3].plugin, list(response.statuses[3].messages)) == ("A", ["x"])
    assert second.asked == [["none", "first", "second"]]


async def test_a_plugin_without_a_pre_flight_has_work() -> None:
    plugin = BindPhasePlugin("A", pre_bind=_Plugin("A").pre_bind)
    (status,) = await plugin.pre_bind_pre_flight(bind_pb2.PreBindPreFlightRequest(items=items("a")))
    assert status.code == CODE_SUCCESS


async def test_pre_bind_that_waits_is_called_again_with_its_state() -> None:
    """What a plugin gave as state comes back to it alone, through the frontend and through any replica."""
    first, second = _Plugin("A"), _Plugin("B", a=(CODE_WAIT, ""))
    third = _Plugin("C")
    made = chain(first, second, third)
    response = await profile_plugins.pre_bind(made, bind_pb2.PreBindRequest(items=items("a")))
    (result,) = response.results
    assert (result.status.code, result.status.plugin) == (CODE_WAIT, "B")
    assert [key.name for key in result.wait_for] == ["data"]
    assert third.asked == []
    again = items("a")
    again[0].state = result.state
    second.answers = {}
    response = await profile_plugins.pre_bind(made, bind_pb2.PreBindRequest(items=again))
    assert response.results[0].status.code == CODE_SUCCESS
    assert (first.states, second.states, third.states) == ([b"", b""], [b"", b"B a"], [b""])


async def collect(made: profile_plugins.ProfilePlugins, request: bind_pb2.BindRequest) -> dict[int, status_pb2.Status]:
    found: dict[int, status_pb2.Status] = {}
    async for results in profile_plugins.bind(made, request, TENURE):
        for result in results:
            assert result.index not in found
            found[result.index] = result.status
    return found


async def test_bind_goes_on_to_the_next_plugin_for_what_was_skipped() -> None:
    """Each pod is bound by the first plugin that takes it, and counted as the caller counts."""
    skip = (CODE_SKIP, "")
    first, second = _Plugin("A", b=skip, d=skip), _Plugin("B", d=(CODE_ERROR, "full"))
    found = await collect(chain(first, second), bind_pb2.BindRequest(items=items("a", "b", "c", "d")))
    assert second.asked == [["b", "d"]]
    assert {index: status.code for index, status in found.items()} == {
        0: CODE_SUCCESS,
        1: CODE_SUCCESS,
        2: CODE_SUCCESS,
        3: CODE_ERROR,
    }
    assert (found[3].plugin, list(found[3].messages)) == ("B", ["full"])


async def test_results_keep_their_index_when_a_plugin_skips_pods() -> None:
    """CallResults arrive in any order; whose result it is must not depend on it."""
    skip = (CODE_SKIP, "")
    made = chain(_Plugin("A", a=skip, b=skip), _Plugin("B", a=(CODE_ERROR, "full")))
    found = await collect(made, bind_pb2.BindRequest(items=items("a", "b")))
    assert (found[0].code, found[1].code) == (CODE_ERROR, CODE_SUCCESS)


async def test_a_pod_skipped_by_every_bind_plugin_is_an_error() -> None:
    """A pod must not vanish between plugins that all skip it."""
    found = await collect(chain(_Plugin("A", a=(CODE_SKIP, ""))), bind_pb2.BindRequest(items=items("a", "b")))
    assert (found[0].code, found[1].code) == (CODE_ERROR, CODE_SUCCESS)
    assert [reason.code for reason in found[0].reasons] == ["noBindPlugin"]


async def test_a_plugin_is_not_called_when_none_of_the_pods_is_left_for_it() -> None:
    refused = (CODE_ERROR, "x")
    first, second = _Plugin("A", a=refused), _Plugin("B")
    made = chain(first, second)
    await profile_plugins.permit(made, bind_pb2.PermitRequest(items=items("a")))
    await profile_plugins.pre_bind_pre_flight(made, bind_pb2.PreBindPreFlightRequest(items=items("a")))
    await profile_plugins.pre_bind(made, bind_pb2.PreBindRequest(items=items("a")))
    await collect(made, bind_pb2.BindRequest(items=items("a", "b")))
    assert second.asked == []


async def test_a_plugin_may_answer_about_several_pods_at_once() -> None:
    async def bind(request: bind_pb2.BindRequest, _: Tenure) -> AsyncGenerator[Sequence[bind_pb2.BindResult], None]:
        codes = (CODE_SKIP, CODE_SUCCESS, CODE_SKIP)
        results = [bind_pb2.BindResult(index=at, status=status_pb2.Status(code=code)) for at, code in enumerate(codes)]
        yield results[: len(request.items)]

    made = dataclasses.replace(chain(_Plugin("A")), bind=(("A", bind), ("B", _Plugin("B").bind)))
    found = await collect(made, bind_pb2.BindRequest(items=items("a", "b", "c")))
    assert {index: status.code for index, status in found.items()} == dict.fromkeys(range(3), CODE_SUCCESS)


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        pytest.param((30, 5), (30, 5), id="as-asked"),
        pytest.param((0, 5), (0, 5), id="less-than-a-second"),
        pytest.param((-1, 0), (0, 0), id="negative"),
        pytest.param((900, 5), (900, 0), id="too-long"),
    ],
)
async def test_a_pod_waits_for_permit_neither_a_negative_time_nor_too_long(
    asked: tuple[int, int], waited: tuple[int, int]
) -> None:
    async def permit(_: bind_pb2.PermitRequest) -> Sequence[bind_pb2.PermitResult]:
        timeout = duration_pb2.Duration(seconds=asked[0], nanos=asked[1])
        return [bind_pb2.PermitResult(status=status_pb2.Status(code=CODE_WAIT), timeout=timeout)]

    made = dataclasses.replace(chain(), permit=(("A", permit),))
    (result,) = (await profile_plugins.permit(made, bind_pb2.PermitRequest(items=items("a")))).results
    assert (result.timeout.seconds, result.timeout.nanos) == waited


async def test_post_bind_calls_every_plugin() -> None:
    """All of them hear of all pods."""
    plugins = (_Plugin("A"), _Plugin("B"))
    await profile_plugins.post_bind(chain(*plugins), bind_pb2.PostBindRequest(items=items("a", "b")))
    assert [plugin.asked for plugin in plugins] == [[["a", "b"]]] * 2


@pytest.mark.parametrize("known", [False, True], ids=["unknown-plugin", "not-at-this-point"])
def test_a_plugin_that_is_not_there_is_refused(known: bool) -> None:
    """A profile that names it would run without it."""
    sets = [
        snapshot_pb2.PluginSet(
            extension_point=plugin_pb2.EXTENSION_POINT_PERMIT, plugins=[snapshot_pb2.WeightedPlugin(name="Gate")]
        )
    ]
    configuration = snapshot_pb2.Configuration(profiles=[snapshot_pb2.Profile(scheduler_name="s", plugin_sets=sets)])
    plugins = {"Gate": BindPhasePlugin("Gate", bind=_Plugin("Gate").bind)} if known else {}
    with pytest.raises(ValueError, match="profile s: no Permit plugin Gate"):
        profile_plugins.by_profile(configuration, plugins)


def test_only_plugins_that_write_take_turns() -> None:
    """A plugin that calls its own service would wait for the API server's rate limit."""
    plugins = [_Plugin("A"), _Plugin("B")]
    hosted = {plugin.name: dataclasses.replace(plugin.hosted(), writes=plugin.name == "B") for plugin in plugins}
    names = [snapshot_pb2.WeightedPlugin(name=plugin.name) for plugin in plugins]
    sets = [snapshot_pb2.PluginSet(extension_point=plugin_pb2.EXTENSION_POINT_PRE_BIND, plugins=names)]
    profile = snapshot_pb2.Profile(scheduler_name="p", plugin_sets=sets)
    made = profile_plugins.by_profile(snapshot_pb2.Configuration(profiles=[profile]), hosted)
    assert made["p"].writing == {"B"}


async def test_a_batch_of_pods_that_are_all_skipped_is_no_sign_of_life() -> None:
    """An empty batch is what a heartbeat is."""
    made = chain(_Plugin("A", a=(CODE_SKIP, "")), _Plugin("B"))
    batches = [len(batch) async for batch in profile_plugins.bind(made, bind_pb2.BindRequest(items=items("a")), TENURE)]
    assert batches == [1]
