"""What remote plugins answer, or do not, where the whole answer is statuses; their set-up; and mode Shadow."""

import asyncio
import copy
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from grpc import aio

from trireme.framework import sort_key, status
from trireme.plugin_api import interfaces, scorers
from trireme.remote import (
    call_parts,
    compared_filters,
    compared_scores,
    comparison_counts,
    plugin_control,
    remote_client,
    remote_connection,
    remote_placement_feasible,
    remote_queue,
    remote_queue_sort,
    remote_reserve,
)
from trireme.rpc import message_sizes
from trireme.v1 import (
    core_pb2,
    cycle_pb2,
    filter_pb2,
    plugin_pb2,
    pod_groups_pb2,
    queue_pb2,
    snapshot_pb2,
    status_pb2,
)

SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
ERROR = status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["broken"])
REFUSED = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, messages=["no"])
WAITS = status_pb2.Status(code=status_pb2.CODE_WAIT, messages=["one more"])
PODS = [core_pb2.Pod(), core_pb2.Pod()]
for _number, _pod in enumerate(PODS):
    _pod.metadata.name = f"p{_number}"
PLACEMENTS = [filter_pb2.Placement(slot=slot) for slot in range(2)]


class Connection:
    """Answers the calls one after the other, or fails; `requests` are those that it got."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []

    async def call(self, _: object, request: bytes, read: Callable[[Any], Any]) -> Any:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        try:
            return read(copy.deepcopy(answer))
        except ValueError as error:
            raise remote_connection.PluginError(f"wrong: {error}") from error


AWAY = remote_connection.PluginError("away")


def client_of(connection: Connection, *, ignore: bool = False) -> remote_client.PluginClient:
    policy = snapshot_pb2.FAILURE_POLICY_IGNORE if ignore else snapshot_pb2.FAILURE_POLICY_FAIL
    config = snapshot_pb2.RemotePlugin(name="Quota", failure_policy=policy)
    calls: Any = connection
    return remote_client.PluginClient(config, lambda: cycle_pb2.Cycle(config_hash=77), calls)


def _reservations(*statuses: status_pb2.Status) -> filter_pb2.ReserveResponse:
    return filter_pb2.ReserveResponse(reservations=[filter_pb2.Reservation(status=each) for each in statuses])


@pytest.mark.parametrize(
    ("answer", "codes", "text"),
    [
        (_reservations(SUCCESS, REFUSED), ["SUCCESS", "UNSCHEDULABLE"], "no"),
        (_reservations(SUCCESS, ERROR), ["SUCCESS", "ERROR"], 'running Reserve plugin "Quota": broken'),
        (_reservations(SUCCESS), ["ERROR", "ERROR"], "reservations: has 1 entries, must have 2"),
        (_reservations(SUCCESS, WAITS), ["ERROR", "ERROR"], "reservations[1].status"),
        (AWAY, ["ERROR", "ERROR"], 'running Reserve plugin "Quota": away'),
    ],
    ids=["answered", "failed", "too few", "a code of another point", "away"],
)
@pytest.mark.parametrize("ignore", [False, True])
async def test_reserve_fails_for_each_pod_or_is_ignored(answer: Any, codes: list[str], text: str, ignore: bool) -> None:
    connection = Connection(answer)
    plugin = remote_reserve.RemoteReservePlugin(client_of(connection, ignore=ignore))
    about: Any = SimpleNamespace(pod=PODS[0], id=1)
    snap: Any = None
    found = await plugin.reserve(cycle_pb2.Cycle(profile="p", state=b"s"), PLACEMENTS, about, snap)
    wanted = ["SUCCESS" if ignore and code == "ERROR" else code for code in codes]
    assert [status_pb2.Code.Name(each.status.code).removeprefix("CODE_") for each in found] == wanted
    if wanted == codes:
        assert text in found[-1].status.messages[0]
    (request,) = map(filter_pb2.ReserveRequest.FromString, connection.requests)
    assert (list(request.placements), request.cycle.profile, request.cycle.state) == (PLACEMENTS, "p", b"")


@pytest.mark.parametrize("answer", [filter_pb2.UnreserveResponse(), AWAY], ids=["answered", "away"])
async def test_unreserve_is_sent_once_and_its_failure_changes_nothing(answer: Any) -> None:
    connection = Connection(answer)
    about: Any = SimpleNamespace(pod=PODS[0], id=1)
    await remote_reserve.RemoteReservePlugin(client_of(connection)).unreserve(cycle_pb2.Cycle(), PLACEMENTS, about)
    (request,) = map(filter_pb2.UnreserveRequest.FromString, connection.requests)
    assert list(request.placements) == PLACEMENTS


@pytest.mark.parametrize(
    ("answer", "codes"),
    [
        (queue_pb2.PreEnqueueResponse(statuses=[REFUSED, SUCCESS]), ["UNSCHEDULABLE", "SUCCESS"]),
        (queue_pb2.PreEnqueueResponse(statuses=[SUCCESS, ERROR]), ["SUCCESS", "ERROR"]),
        (queue_pb2.PreEnqueueResponse(statuses=[SUCCESS]), ["ERROR", "ERROR"]),
        (queue_pb2.PreEnqueueResponse(statuses=[SUCCESS] * 3), ["ERROR", "ERROR"]),
        (AWAY, ["ERROR", "ERROR"]),
    ],
    ids=["answered", "failed", "too few", "too many", "away"],
)
@pytest.mark.parametrize("ignore", [False, True])
async def test_pre_enqueue_fails_for_each_pod_or_is_ignored(answer: Any, codes: list[str], ignore: bool) -> None:
    connection = Connection(answer)
    plugin = remote_queue.RemoteQueuePlugin(client_of(connection, ignore=ignore))
    found = await plugin.pre_enqueue("p", PODS)
    assert [each.code.name for each in found] == ["SUCCESS" if ignore and each == "ERROR" else each for each in codes]
    assert all(
        each.message.startswith('running PreEnqueue plugin "Quota": ') for each in found if each.code.name == "ERROR"
    )
    request = queue_pb2.PreEnqueueRequest.FromString(connection.requests[0])
    assert ([each.metadata.name for each in request.pods], request.profile, request.config_hash) == (
        ["p0", "p1"],
        "p",
        77,
    )


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (queue_pb2.QueueingHintResponse(hints=[queue_pb2.HINT_QUEUE_SKIP, queue_pb2.HINT_QUEUE]), [False, True]),
        (queue_pb2.QueueingHintResponse(hints=[queue_pb2.HINT_QUEUE_SKIP]), None),
        (queue_pb2.QueueingHintResponse(hints=[queue_pb2.HINT_QUEUE_SKIP] * 3), None),
        (AWAY, None),
    ],
    ids=["answered", "too few", "too many", "away"],
)
@pytest.mark.parametrize("ignore", [False, True])
async def test_a_hint_that_fails_has_every_pod_tried(answer: Any, found: list[bool] | None, ignore: bool) -> None:
    """A pod that is not tried again waits forever."""
    connection = Connection(answer)
    plugin = remote_queue.RemoteQueuePlugin(client_of(connection, ignore=ignore))
    event = plugin_pb2.ClusterEvent(resource="Node")
    assert await plugin.queueing_hint(event, b"old", b"new", PODS) == found
    request = queue_pb2.QueueingHintRequest.FromString(connection.requests[0])
    assert (request.plugin, request.event, request.old_json, request.new_json) == ("Quota", event, b"old", b"new")
    assert (len(request.pods), request.config_hash) == (2, 77)


_KEYS = [queue_pb2.SortKey(level=[number]) for number in (5, 6)]


@pytest.mark.parametrize(
    ("answer", "keys"),
    [
        (queue_pb2.QueueSortResponse(keys=_KEYS), [5, 6]),
        (queue_pb2.QueueSortResponse(keys=_KEYS, statuses=[SUCCESS, ERROR]), [5, "broken"]),
        (queue_pb2.QueueSortResponse(keys=_KEYS, statuses=[SUCCESS, REFUSED]), ["statuses[1]", "statuses[1]"]),
        (queue_pb2.QueueSortResponse(keys=_KEYS, statuses=[SUCCESS]), ["statuses: has 1 ", "statuses: has 1 "]),
        (queue_pb2.QueueSortResponse(keys=_KEYS[:1]), ["keys: has 1 entries", "keys: has 1 entries"]),
        (queue_pb2.QueueSortResponse(keys=[_KEYS[0], queue_pb2.SortKey()]), ["keys[1].level", "keys[1].level"]),
        (AWAY, ["away", "away"]),
    ],
)
@pytest.mark.parametrize("ignore", [False, True])
async def test_a_pod_without_a_key_has_an_error_or_is_ordered_as_others(
    answer: Any, keys: list[int | str], ignore: bool
) -> None:
    """Its priority orders it then."""
    connection = Connection(answer)
    pods = copy.deepcopy(PODS)
    pods[1].spec.priority = 9
    found = await remote_queue_sort.RemoteQueueSortPlugin(client_of(connection, ignore=ignore)).sort_keys("p", pods)
    for each, wanted in zip(found, keys, strict=True):
        if isinstance(wanted, int):
            assert each == sort_key.SortKey((wanted,))
        elif ignore:
            assert each is None
        else:
            assert isinstance(each, status.Status)
            assert wanted in each.message
    request = queue_pb2.QueueSortRequest.FromString(connection.requests[0])
    assert [(each.metadata.name, each.spec.priority) for each in request.pods] == [("p0", 0), ("p1", 9)]
    assert (request.profile, request.config_hash) == ("p", 77)


def _steps(count: int) -> list[pod_groups_pb2.PlacementStep]:
    return [pod_groups_pb2.PlacementStep(tried=number) for number in range(count)]


def _tried(count: int, size: int = 1) -> list[remote_placement_feasible.TriedPod]:
    pod = core_pb2.Pod()
    pod.spec.node_name = "x" * size
    fields = pod.SerializeToString()
    return [
        remote_placement_feasible.TriedPod(cycle_pb2.PodIdentity(name=f"p{number}"), fields, f"n{number}")
        for number in range(count)
    ]


def _feasible(*statuses: status_pb2.Status) -> pod_groups_pb2.PlacementFeasibleResponse:
    return pod_groups_pb2.PlacementFeasibleResponse(statuses=statuses)


async def _placement(connection: Connection, steps: int, *, ignore: bool = False) -> list[status.Status]:
    plugin = remote_placement_feasible.RemotePlacementFeasiblePlugin(client_of(connection, ignore=ignore))
    trial = pod_groups_pb2.PlacementFeasibleRequest(cycle=cycle_pb2.Cycle(profile="p"))
    return await plugin.placement_feasible(trial, _tried(steps), _steps(steps))


@pytest.mark.parametrize(
    ("answers", "steps", "fails", "ignored"),
    [
        ([_feasible(SUCCESS, WAITS, SUCCESS)], 3, "swS", "sws"),
        ([_feasible(SUCCESS, REFUSED)], 3, "su", "su"),
        ([_feasible(SUCCESS, ERROR), _feasible(SUCCESS)], 3, "se", "sss"),
        ([_feasible(SUCCESS, ERROR), _feasible(REFUSED)], 3, "se", "ssu"),
        ([_feasible(SUCCESS)], 3, "e", "sss"),
        ([_feasible()], 3, "e", "sss"),
        ([_feasible(REFUSED, SUCCESS)], 3, "e", "sss"),
        ([_feasible(*[SUCCESS] * 4)], 3, "e", "sss"),
        ([_feasible(status_pb2.Status(code=status_pb2.CODE_WAIT), SUCCESS, SUCCESS)], 3, "e", "sss"),
        ([_feasible(status_pb2.Status(code=status_pb2.CODE_SKIP), SUCCESS, SUCCESS)], 3, "e", "sss"),
        ([AWAY], 3, "e", "sss"),
    ],
)
async def test_a_step_that_fails_ends_the_trial_or_lets_its_step_pass(
    answers: list[Any], steps: int, fails: str, ignored: str
) -> None:
    for ignore, wanted in ((False, fails), (True, ignored)):
        found = await _placement(Connection(*answers), steps, ignore=ignore)
        assert "".join(each.code.name[0].lower() for each in found) == wanted.lower()
        assert {each.plugin for each in found} == {"Quota"}
    errors = [each for each in await _placement(Connection(*answers), steps) if each.code is status.Code.ERROR]
    assert all(each.message.startswith("running PlacementFeasible plugin: ") for each in errors)
    assert [reason.code for each in errors for reason in each.reasons] == ["pluginCallFailed"] * len(errors)


async def test_many_steps_are_several_calls_each_with_the_pods_up_to_its_last_step() -> None:
    most = remote_placement_feasible.STEPS_PER_CALL
    connection = Connection(_feasible(*[SUCCESS] * most), _feasible(*[SUCCESS] * 3))
    assert len(await _placement(connection, most + 3)) == most + 3
    requests = [pod_groups_pb2.PlacementFeasibleRequest.FromString(each) for each in connection.requests]
    assert [(len(each.steps), len(each.tried), len(each.pod_fields)) for each in requests] == [
        (most, most - 1, 1),
        (3, most + 2, 1),
    ]
    assert [(each.pod.metadata.name, each.node_name, each.fields) for each in requests[0].tried[:2]] == [
        ("p0", "n0", 0),
        ("p1", "n1", 0),
    ]
    refused = Connection(_feasible(*[SUCCESS] * (most - 1), REFUSED))
    assert len(await _placement(refused, most + 3)) == most


@pytest.mark.parametrize("more", [0, 1])
async def test_a_request_that_no_message_holds_is_not_sent(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Connection(_feasible(SUCCESS, SUCCESS))
    await _placement(sent, 2)
    monkeypatch.setattr(message_sizes, "MAX_PLUGIN_BYTES", len(sent.requests[0]) - more)
    connection = Connection(_feasible(SUCCESS, SUCCESS))
    found = await _placement(connection, 2)
    assert (len(connection.requests), found[0].code.name) == ((0, "ERROR") if more else (1, "SUCCESS"))
    if more:
        assert (
            f"a request of {len(sent.requests[0])} bytes; {len(sent.requests[0]) - 1} are the most" in found[0].message
        )


def _parts(count: int) -> Iterator[tuple[slice, bytes]]:
    return ((slice(number, number + 1), bytes([number])) for number in range(count))


@pytest.mark.parametrize("count", [0, 1, 2, 9, 20])
async def test_each_part_is_called_once_a_few_at_a_time(count: int) -> None:
    running = most = 0
    called: list[tuple[int, bytes]] = []

    async def call(part: slice, content: bytes) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        called.append((part.start, content))

    await call_parts.call_in_parts(_parts(count), call)
    assert sorted(called) == [(number, bytes([number])) for number in range(count)]
    assert most == min(count, call_parts.CONCURRENT_CALLS)


async def test_the_first_part_that_fails_ends_the_others() -> None:
    ended: list[int] = []

    async def call(part: slice, content: bytes) -> None:
        if part.start == 3:
            raise call_parts.PluginFailed("three")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(part.start)

    with pytest.raises(call_parts.PluginFailed, match="three"):
        await call_parts.call_in_parts(_parts(20), call)
    assert sorted(ended) == [0, 1, 2, 4, 5, 6, 7]


class Channel:
    """Serves Configure and Sync as the test says."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.sent: list[Any] = []
        self.cancelled = False

    def unary_unary(self, *_: object, **__: object) -> Callable[..., Any]:
        async def call(request: Any, timeout: float) -> bytes:
            self.sent.append((request, timeout))
            outcome = self.outcomes.pop(0)
            if isinstance(outcome, grpc.StatusCode):
                raise aio.AioRpcError(outcome, aio.Metadata(), aio.Metadata())
            response: bytes = outcome.SerializeToString()
            return response

        return call

    def stream_stream(self, *_: object) -> Callable[..., "Channel"]:
        return lambda requests, timeout: self

    async def read(self) -> object:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, grpc.StatusCode):
            raise aio.AioRpcError(outcome, aio.Metadata(), aio.Metadata())
        return outcome

    def cancel(self) -> None:
        self.cancelled = True


def _refusing(*errors: tuple[str, str]) -> plugin_pb2.ConfigureResponse:
    return plugin_pb2.ConfigureResponse(errors=[plugin_pb2.FieldError(field=at, message=text) for at, text in errors])


@pytest.mark.parametrize(
    ("arguments", "outcome", "refused"),
    [
        (b'{"a":1}', plugin_pb2.ConfigureResponse(), ""),
        (b"", grpc.StatusCode.UNIMPLEMENTED, ""),
        (b"{}", grpc.StatusCode.UNIMPLEMENTED, ""),
        (b'{"a":1}', grpc.StatusCode.UNIMPLEMENTED, "args: the plugin takes none: it does not serve Configure"),
        (b"{}", _refusing(("a", "is\n  wrong")), "a: is wrong"),
        (b"{}", _refusing(("", "wrong"), ("b", "")), "wrong, b: refused without a reason"),
    ],
)
async def test_a_plugin_takes_its_arguments_or_says_what_is_wrong(arguments: bytes, outcome: Any, refused: str) -> None:
    channel: Any = Channel(plugin_pb2.ConfigureResponse(), outcome, plugin_pb2.ConfigureResponse())
    requests = [plugin_pb2.ConfigureRequest(profile=name, args_json=arguments) for name in ("p", "q", "r")]
    configuring = plugin_control.configure(channel, requests, 77, 3.0)
    if refused:
        with pytest.raises(plugin_control.ConfigurationRefused) as raised:
            await configuring
        assert (str(raised.value), raised.value.reason) == (f"profile q: pluginConfig: {refused}", refused)
    else:
        await configuring
    sent = [(request.profile, request.config_hash, timeout) for request, timeout in channel.sent]
    assert sent == [(name, 77, 3.0) for name in ("p", "q", "r")[: 2 if refused else 3]]
    assert [each.config_hash for each in requests] == [0] * 3, "they are sent again with another hash"


@pytest.mark.parametrize("arguments", [b"{}", b'{"a":1}'])
async def test_a_plugin_that_cannot_be_reached_is_not_configured(arguments: bytes) -> None:
    channel: Any = Channel(grpc.StatusCode.UNAVAILABLE)
    with pytest.raises(aio.AioRpcError):
        await plugin_control.configure(channel, [plugin_pb2.ConfigureRequest(args_json=arguments)], 7, 1.0)


@pytest.mark.parametrize(
    ("outcome", "serves"),
    [
        (aio.EOF, True),
        (grpc.StatusCode.INVALID_ARGUMENT, True),
        (grpc.StatusCode.UNIMPLEMENTED, False),
        (grpc.StatusCode.UNAVAILABLE, None),
    ],
)
async def test_whether_a_plugin_follows_the_cluster_is_seen_by_how_a_stream_ends(
    outcome: Any, serves: bool | None
) -> None:
    channel: Any = Channel(outcome)
    if serves is None:
        with pytest.raises(aio.AioRpcError):
            await plugin_control.serves_snapshot_follower(channel, 1.0)
    else:
        assert await plugin_control.serves_snapshot_follower(channel, 1.0) is serves
    assert channel.cancelled


class Shadow:
    """A plugin in mode Shadow that answers about the nodes as the test says."""

    def __init__(self, scores: Sequence[int] | None = (), **more: Any) -> None:
        self.comparisons = comparison_counts.ComparisonCounts()
        self._scores = scores
        self.normalization = scorers.Normalization.NONE
        self.silent = False
        self.found = interfaces.PreFilterResult()
        self.failure: status.Status | None = None
        self.unanswered = False
        self.verdicts: dict[int, int] = {}
        self.__dict__.update(more)

    # At Score

    async def prepare(self, pod_class: object, snap: object, state: Any, slots: Any, table: Any = None) -> Any:
        if table is not None:
            return self.failure
        return SimpleNamespace(failure=self.failure, silent=self.silent, state=None)

    def score(self, *_: object) -> Any:
        return np.array(self._scores or [0, 0, 0], dtype=np.int64)

    async def normalize(self, *_: object) -> Any:
        return status.error("S", "broken") if self._scores is None else np.array(self._scores, dtype=np.int64)

    # At Filter

    async def pre_filter(self, *_: object) -> Any:
        state = SimpleNamespace(unanswered=self.unanswered, read=self._read)
        return SimpleNamespace(
            state=state,
            status=self.found.status,
            skip=self.found.skip,
            nodes=self.found.nodes,
            unanswered=self.found.unanswered,
        )

    def _read(self, slots: Any, table: object) -> Any:
        return SimpleNamespace(index=np.array([self.verdicts.get(slot, 0) for slot in slots.tolist()]))


_CUSTOM = scorers.Normalization.CUSTOM


@pytest.mark.parametrize(
    ("plugin", "weight", "failed", "differed"),
    [
        (Shadow([0, 0, 0]), 1, 0, 0),
        (Shadow([0, 0, 1]), 1, 0, 0),
        (Shadow([5, 0, 1]), 1, 0, 0),
        (Shadow([6, 0, 0]), 1, 0, 1),
        (Shadow([3, 0, 0]), 2, 0, 1),
        (Shadow([6, 0, 0], silent=True), 1, 0, 0),
        (Shadow([6, 0, 0], normalization=_CUSTOM), 1, 0, 1),
        (Shadow(None, normalization=_CUSTOM), 1, 1, 0),
        (Shadow([6, 0, 0], failure=status.error("S", "broken")), 1, 1, 0),
    ],
)
async def test_a_score_in_shadow_differs_where_none_of_the_best_nodes_stays_one(
    plugin: Any, weight: int, failed: int, differed: int
) -> None:
    async def find_totals(profile: str, class_id: int) -> Any:
        return (np.arange(3), np.array([5, 10, 10])) if class_id < 3 else None

    snap: Any = SimpleNamespace(classes={1: None, 2: SimpleNamespace(), 3: SimpleNamespace()})
    second = Shadow([0, 0, 0])
    compared = compared_scores.ComparedScores(snap, {"p": [(plugin, weight), (second, 1)]}, find_totals)  # type: ignore[list-item]
    for class_id in (1, 2, 3, 4):
        await compared.compare("p", class_id)
    counts = plugin.comparisons
    assert (counts.compared, counts.failed, counts.differed) == (1, failed, differed)
    assert (second.comparisons.compared, second.comparisons.differed) == (1, 0)
    compared._count_skipped("p")
    assert (counts.skipped, second.comparisons.skipped) == (1, 1)


_NO = status.unschedulable("S", "no")


@pytest.mark.parametrize(
    ("plugin", "refused"),
    [
        (Shadow(), 0),
        (Shadow(found=interfaces.PreFilterResult(status=_NO)), 3),
        (Shadow(found=interfaces.PreFilterResult(status=status.error("S", "broken"))), None),
        (Shadow(found=interfaces.PreFilterResult(unanswered=True)), None),
        (Shadow(found=interfaces.PreFilterResult(skip=True), verdicts={1: 1}), 0),
        (Shadow(found=interfaces.PreFilterResult(nodes=frozenset({"n1", "n2"}))), 1),
        (Shadow(found=interfaces.PreFilterResult(nodes=frozenset({"n1", "n2"})), verdicts={0: 1, 2: 1}), 2),
        (Shadow(found=interfaces.PreFilterResult(nodes=frozenset())), 3),
        (Shadow(verdicts={0: 1, 2: 2, 3: 1}), 2),
        (Shadow(failure=_NO), None),
        (Shadow(unanswered=True), None),
    ],
)
async def test_a_filter_in_shadow_counts_the_nodes_that_it_alone_would_refuse(plugin: Any, refused: int | None) -> None:
    """Of five nodes one is gone, and one is refused by others."""
    verdicts = SimpleNamespace(refusal=None, index=np.array([0, 0, 0, 1, 0, 0]), capacity=np.array([1, 1, 9, 1, 1, 1]))

    async def evaluate(profile: str, class_id: int) -> Any:
        return verdicts if class_id == 1 else SimpleNamespace(refusal=_NO)

    nodes = SimpleNamespace(
        size=5, alive=np.array([1, 1, 1, 1, 0], dtype=bool), names=[f"n{each}" for each in range(5)]
    )
    snap: Any = SimpleNamespace(classes={1: SimpleNamespace(), 2: SimpleNamespace()}, nodes=nodes)
    second = Shadow()
    compared = compared_filters.ComparedFilters(snap, {"p": [plugin, second]}, evaluate)  # type: ignore[list-item]
    for class_id in (1, 2, 3):
        await compared.compare("p", class_id)
    counts = plugin.comparisons
    assert (counts.compared, counts.failed) == (1, int(refused is None))
    assert (counts.refused_nodes, counts.differed) == (refused or 0, int(bool(refused)))
    assert second.comparisons.compared == 1
    compared._count_skipped("p")
    assert (counts.skipped, second.comparisons.skipped) == (1, 1)
    verdicts.capacity[:] = 0
    await compared.compare("p", 1)
    assert counts.compared == 1, "no node passes"
