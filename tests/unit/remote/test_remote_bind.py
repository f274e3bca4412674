"""What a remote plugin answers in the binding cycle: read as it is, ignored by its policy, or refused as wrong."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from trireme.framework import status
from trireme.remote import remote_bind, remote_client, remote_connection
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, snapshot_pb2, status_pb2

SUCCESS, SKIP, WAIT = status_pb2.CODE_SUCCESS, status_pb2.CODE_SKIP, status_pb2.CODE_WAIT
ERROR = status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["broken"])
CYCLE = cycle_pb2.Cycle(profile="p")
ITEMS = [
    bind_pb2.BindItem(
        pod=cycle_pb2.PodIdentity(namespace="ns", name=name),
        node_name="n",
        state=bind_phase_pb2.PluginStates(plugin_states={"Quota": name.encode(), "Other": b"x"}).SerializeToString(),
    )
    for name in ("a", "b")
]
DURING: Any = None


class Connection:
    """Answers each call with the messages that the test gives, or fails; keeps the last request."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.failure: Exception | None = None
        self.request = b""

    async def call(self, _: object, request: bytes, read: Callable[[Any], Any], *__: object) -> Any:
        self.request = request
        if self.failure is not None:
            raise self.failure
        try:
            return read(self.answers[0])
        except ValueError as error:
            raise remote_connection.PluginError(f"wrong: {error}") from error

    async def call_stream(self, _: object, request: bytes, *__: object) -> AsyncIterator[Any]:
        self.request = request
        for each in self.answers:
            yield each


def plugin(connection: Connection, *, ignore: bool = False) -> remote_bind.RemoteBindPlugin:
    policy = snapshot_pb2.FAILURE_POLICY_IGNORE if ignore else snapshot_pb2.FAILURE_POLICY_FAIL
    config = snapshot_pb2.RemotePlugin(name="Quota", failure_policy=policy)
    calls: Any = connection
    return remote_bind.RemoteBindPlugin(remote_client.PluginClient(config, cycle_pb2.Cycle, calls))


def _seconds(result: Any, seconds: float) -> Any:
    result.timeout.FromNanoseconds(int(seconds * 1e9))
    return result


def permit(code: "status_pb2.Code.ValueType", seconds: float = 0.0) -> bind_pb2.PermitResult:
    result: bind_pb2.PermitResult = _seconds(bind_pb2.PermitResult(status=status_pb2.Status(code=code)), seconds)
    return result


def pre_bind(
    code: "status_pb2.Code.ValueType", seconds: float = 0.0, waits_for: Sequence[tuple[str, str]] = ()
) -> bind_pb2.PreBindResult:
    result: bind_pb2.PreBindResult = _seconds(bind_pb2.PreBindResult(status=status_pb2.Status(code=code)), seconds)
    for kind, name in waits_for:
        result.wait_for.add(kind=kind, namespace="ns", name=name)
    return result


async def test_each_plugin_gets_its_own_part_of_the_state() -> None:
    connection = Connection()
    connection.answers = [bind_pb2.PermitResponse(results=[permit(SUCCESS)] * 2)]
    await plugin(connection).permit(CYCLE, ITEMS)
    sent = bind_pb2.PermitRequest.FromString(connection.request)
    assert [(item.pod.name, item.node_name, item.state) for item in sent.items] == [("a", "n", b"a"), ("b", "n", b"b")]


@pytest.mark.parametrize(
    ("results", "wrong"),
    [
        ([permit(SUCCESS), permit(WAIT, 1.0)], ""),
        ([permit(SUCCESS), permit(WAIT, 1e-9)], ""),
        ([permit(SUCCESS), permit(WAIT)], "results[1].timeout: CODE_WAIT needs one above 0"),
        ([permit(WAIT, -1.0), permit(SUCCESS)], "results[0].timeout: CODE_WAIT needs one above 0"),
        ([permit(SUCCESS)], "results: has 1 entries, must have 2"),
        ([permit(SUCCESS), permit(SKIP)], "results[1].status.code: Skip does not belong here"),
    ],
)
@pytest.mark.parametrize("ignore", [False, True])
async def test_a_pod_waits_on_permit_only_for_a_while(
    results: list[bind_pb2.PermitResult], wrong: str, ignore: bool
) -> None:
    connection = Connection()
    connection.answers = [bind_pb2.PermitResponse(results=results)]
    found = await plugin(connection, ignore=ignore).permit(CYCLE, ITEMS)
    if not wrong:
        assert isinstance(found, list)
        assert [each.status.code for each in found] == [SUCCESS, WAIT]
    elif ignore:
        assert found is None
    else:
        assert isinstance(found, status.Status)
        assert wrong in found.message


@pytest.mark.parametrize(
    ("result", "wrong"),
    [
        (pre_bind(WAIT, 1.0, [("pod", "x")]), ""),
        (pre_bind(WAIT, 1.0, [("resource_claim", "x"), ("pod", "y")]), ""),
        (pre_bind(SUCCESS), ""),
        (pre_bind(SKIP), ""),
        (pre_bind(WAIT, 0.0, [("pod", "x")]), "results[0].timeout: CODE_WAIT needs one above 0"),
        (pre_bind(WAIT, 1.0), "results[0].wait_for: CODE_WAIT needs an object to wait for"),
        (pre_bind(WAIT, 1.0, [("pod", "x"), ("cloud", "y")]), "results[0].wait_for[1].kind: 'cloud' is not known here"),
        (pre_bind(WAIT, 1.0, [("pod", "x"), ("pod", "")]), "results[0].wait_for[1].name is not set"),
    ],
)
async def test_a_pod_waits_in_pre_bind_only_for_what_there_may_be(result: bind_pb2.PreBindResult, wrong: str) -> None:
    connection = Connection()
    connection.answers = [bind_pb2.PreBindResponse(results=[result])]
    found = await plugin(connection).pre_bind(CYCLE, ITEMS[:1], DURING)
    if wrong:
        assert isinstance(found, status.Status)
        assert wrong in found.message
    else:
        assert isinstance(found, list)
        assert [each.status.code for each in found] == [result.status.code]


@pytest.mark.parametrize("ignore", [False, True])
async def test_the_error_about_one_pod_fails_that_pod_alone_or_none(ignore: bool) -> None:
    """In kube-scheduler's words; where failures are ignored, the plugin has let the pod pass."""
    connection, code = Connection(), SUCCESS if ignore else status_pb2.CODE_ERROR
    tried = plugin(connection, ignore=ignore)
    connection.answers = [bind_pb2.PreBindResponse(results=[bind_pb2.PreBindResult(status=ERROR), pre_bind(SUCCESS)])]
    found = await tried.pre_bind(CYCLE, ITEMS, DURING)
    assert isinstance(found, list)
    assert [each.status.code for each in found] == [code, SUCCESS]
    text = "" if ignore else 'running PreBind plugin "Quota": broken'
    assert "".join(found[0].status.messages) == text
    connection.answers = [
        bind_pb2.PreBindPreFlightResponse(statuses=[ERROR, status_pb2.Status(code=SKIP)]),
    ]
    statuses = await tried.pre_bind_pre_flight(CYCLE, ITEMS)
    assert isinstance(statuses, list)
    assert [each.code for each in statuses] == [code, SKIP]
    bound = bind_pb2.BindResult(index=1, status=ERROR)
    connection.answers = [
        bind_pb2.BindResponse(results=[bound]),
        bind_pb2.BindResponse(results=[bind_pb2.BindResult(index=0, status=status_pb2.Status(code=SUCCESS))]),
    ]
    ended = [each async for each in tried.bind(CYCLE, ITEMS, DURING)]
    assert [(each.index, each.status.code) for each in ended] == [(1, code), (0, SUCCESS)]


@pytest.mark.parametrize("ignore", [False, True])
async def test_a_call_that_fails_fails_all_pods_or_none(ignore: bool) -> None:
    connection = Connection()
    tried = plugin(connection, ignore=ignore)
    connection.failure = remote_connection.PluginError("down")
    for found in (
        await tried.permit(CYCLE, ITEMS),
        await tried.pre_bind_pre_flight(CYCLE, ITEMS),
        await tried.pre_bind(CYCLE, ITEMS, DURING),
    ):
        assert found is None if ignore else isinstance(found, status.Status) and "down" in found.message
    connection.failure = remote_connection.NotCalled("open")
    found = await tried.pre_bind(CYCLE, ITEMS, DURING)
    assert found is None if ignore else isinstance(found, status.Status) and found.reasons == (status.NOT_CALLED,)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [((0,), "without a result for 1 of 2 pods"), ((), "2 of 2 pods"), ((0, 0), "results.index: 0"), ((7,), "index: 7")],
)
async def test_a_binding_without_one_result_for_each_pod_has_an_open_fate(indexes: Sequence[int], text: str) -> None:
    """Whatever the policy: it may have happened."""
    connection = Connection()
    results = [bind_pb2.BindResult(index=index, status=status_pb2.Status(code=SUCCESS)) for index in indexes]
    connection.answers = [bind_pb2.BindResponse(results=results)]
    with pytest.raises(remote_connection.PluginError, match=text):
        _ = [each async for each in plugin(connection, ignore=True).bind(CYCLE, ITEMS, DURING)]


@pytest.mark.parametrize(("ignore", "items", "logged"), [(False, 2, 1), (True, 2, 0), (False, 0, 0)])
async def test_a_failure_after_the_binding_is_logged_once_unless_it_is_ignored(
    ignore: bool, items: int, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    connection = Connection()
    connection.failure = remote_connection.PluginError("down")
    await plugin(connection, ignore=ignore).post_bind(CYCLE, ITEMS[:items])
    assert len(caplog.records) == logged
