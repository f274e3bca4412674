"""The writes beside bindings, with a client whose answers the test says: for each pod in order, and none too many."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from tests.helpers.held_entries import held_entries
from tests.helpers.virtual_time import on_virtual_time
from trireme.bind import action_executor, work_in_flight, write_turns
from trireme.framework import status
from trireme.plugin_kit import bind_phase_plugin
from trireme.registry import bind_plugins
from trireme.rpc.fencing import EpochGuard, Tenure
from trireme.v1 import bind_pb2, bind_phase_pb2, core_pb2, cycle_pb2
from trireme_kube.apimachinery.api_writes import Conflict, Gone, Outcome, PodName, Refused, Uncertain, Written

THERE, TERMINATING = Written({"metadata": {}}), Written({"metadata": {"deletionTimestamp": "now"}})
MARK = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "make room"}
MARKED = Written({"metadata": {"generation": 1}, "status": {"conditions": [MARK | {"observedGeneration": 1}]}})
EVICT = bind_pb2.Evict(message="make room")
EVICT_SEEN = bind_pb2.Evict(message="make room", observed_generation=3)


class Writer:
    """Answers each kind of request by the outcomes that the test gives; the last one goes on."""

    def __init__(self, **outcomes: list[Outcome]) -> None:
        self._outcomes = outcomes
        self.log: list[str] = []
        #: How many more requests may end.
        self.may_end = asyncio.Semaphore(100)

    async def _answer(self, kind: str, name: str) -> Outcome:
        self.log.append(f"{kind} {name}")
        await self.may_end.acquire()
        await asyncio.sleep(0.01)
        outcomes = self._outcomes.get(kind, [THERE])
        return outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]

    async def get_pod(self, pod: PodName, _: float) -> Outcome:
        return await self._answer("get", pod.name)

    async def patch_pod_status(self, pod: PodName, *_: Any) -> Outcome:
        return await self._answer("patch", pod.name)

    async def patch(self, path: str, *_: Any) -> Outcome:
        return await self._answer("patch", path)

    async def delete_pod(self, pod: PodName, _: float) -> Outcome:
        return await self._answer("delete", pod.name)


class Bench:
    """An executor for a leader that is in office for a minute."""

    def __init__(self, delay: Callable[[], float] = lambda: 0.0, **outcomes: list[Outcome]) -> None:
        self.clock = asyncio.get_running_loop().time
        self.guard = EpochGuard()
        self.guard.admit(7)
        self.tenure = Tenure(self.guard, self.clock, self.guard.leader, self.clock() + 60.0)
        self.writer = Writer(**outcomes)
        self.in_flight = work_in_flight.WorkInFlight(self.clock)
        self.cancelled: list[str] = []
        self.executor = action_executor.ActionExecutor(
            cast(Any, self.writer),
            self.in_flight,
            write_turns.WriteTurns(write_turns.RateLimit(0.0, delay)),
            cancel_pre_bind=self._cancel_pre_bind,
            clock=self.clock,
            wall=lambda: 0,
        )

    async def _cancel_pre_bind(self, uid: str) -> None:
        self.cancelled.append(uid)

    async def apply(self, *actions: bind_pb2.Action) -> list[status.Status]:
        """The outcomes, in the order of the actions."""
        found = [each async for batch in self.executor.apply(actions, self.tenure) for each in batch]
        return [outcome for _, outcome in sorted(found, key=lambda each: each[0])]


def about(name: str, **fields: Any) -> bind_pb2.Action:
    """An action for a pod."""
    return bind_pb2.Action(pod=cycle_pb2.PodIdentity(namespace="ns", name=name, uid=name), **fields)


def nominate(name: str) -> bind_pb2.Action:
    """A simple write for a pod."""
    return about(name, nominate=bind_pb2.Nominate(node_name="n"))


def texts(outcomes: Sequence[status.Status]) -> list[str]:
    """Empty for a success."""
    return [each.message for each in outcomes]


@pytest.mark.parametrize(
    ("evict", "outcomes", "log", "text"),
    [
        pytest.param(EVICT, {}, ["get", "patch", "delete"], "", id="read-marked-deleted"),
        pytest.param(EVICT, {"get": [Gone("404")]}, ["get"], "", id="gone"),
        pytest.param(EVICT, {"get": [TERMINATING]}, ["get"], "", id="terminating"),
        pytest.param(EVICT, {"get": [Refused("403", 403)]}, ["get"], "403", id="may-not-be-read"),
        pytest.param(EVICT, {"get": [MARKED]}, ["get", "delete"], "", id="marked-already"),
        pytest.param(EVICT, {"patch": [TERMINATING]}, ["get", "patch"], "", id="terminates-meanwhile"),
        pytest.param(EVICT, {"patch": [Refused("422", 422)]}, ["get", "patch"], "422", id="may-not-be-marked"),
        pytest.param(
            EVICT, {"delete": [Conflict("other"), Gone("404")]}, ["get", "patch", "delete"] * 2, "", id="another-pod"
        ),
        pytest.param(EVICT, {"get": [Uncertain("late")]}, ["get"] * action_executor.ROUNDS, "late", id="in-doubt"),
        pytest.param(EVICT_SEEN, {}, ["patch", "delete"], "", id="seen"),
        pytest.param(EVICT_SEEN, {"patch": [Gone("404")]}, ["patch"], "", id="seen-gone"),
        pytest.param(EVICT_SEEN, {"patch": [TERMINATING]}, ["patch"], "", id="seen-terminating"),
        pytest.param(
            EVICT_SEEN,
            {"patch": [Conflict("uid"), THERE]},
            ["patch", "get", "patch", "delete"],
            "",
            id="seen-changed",
        ),
        pytest.param(
            EVICT_SEEN,
            {"patch": [Refused("no", 422)], "get": [Gone("404")]},
            ["patch", "get"],
            "",
            id="seen-refused",
        ),
    ],
)
@on_virtual_time
async def test_an_eviction_writes_no_more_than_it_must(
    evict: bind_pb2.Evict, outcomes: dict[str, list[Outcome]], log: list[str], text: str
) -> None:
    """A pod that is gone or terminating is evicted already; one in doubt is read, so that no other is deleted."""
    bench = Bench(**{kind: list(each) for kind, each in outcomes.items()})
    assert texts(await bench.apply(about("victim", evict=evict))) == [text]
    assert bench.writer.log == [f"{kind} victim" for kind in log]
    assert bench.executor.statistics() == {("evict", "error" if text else "success"): 1}


@on_virtual_time
async def test_an_eviction_in_doubt_is_left_to_the_next_leader() -> None:
    bench = Bench(get=[Uncertain("late")])
    bench.tenure.valid_until = bench.clock() + 0.015
    (outcome,) = await bench.apply(about("victim", evict=EVICT))
    assert outcome.message == "not done: the leader's lease ran out"
    assert [reason.code for reason in outcome.reasons] == ["notBegun"]
    assert len(bench.writer.log) == 2


@pytest.mark.parametrize(
    ("outcomes", "sent", "text", "reason"),
    [
        ([Uncertain("late"), THERE], 2, "", ""),
        ([Uncertain("late")], action_executor.ROUNDS, "late", "unanswered"),
        ([Conflict("changed"), THERE], 1, "changed", "conflict"),
        ([Refused("no", 403)], 1, "no", "refused"),
        ([Gone("404")], 1, "404", "objectNotFound"),
    ],
)
@on_virtual_time
async def test_a_patch_is_sent_again_while_it_is_in_doubt(
    outcomes: list[Outcome], sent: int, text: str, reason: str
) -> None:
    bench = Bench(patch=list(outcomes))
    (outcome,) = await bench.apply(nominate("a"))
    assert (outcome.message, "".join(each.code for each in outcome.reasons)) == (text, reason)
    assert bench.writer.log == ["patch a"] * sent


@on_virtual_time
async def test_a_condition_of_a_group_is_also_sent_again_after_a_conflict() -> None:
    bench = Bench(patch=[Conflict("changed"), Uncertain("late"), THERE])
    group = about("g", set_group_condition=bind_pb2.SetGroupCondition())
    assert texts(await bench.apply(group)) == [""]
    assert bench.writer.log == ["patch /apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups/g/status"] * 3


@on_virtual_time
async def test_a_condition_of_a_group_of_groups_goes_to_the_version_that_is_served() -> None:
    """If this fails, its status is never written on a server of v1.37, or of v1.38."""
    new, old = (
        f"patch /apis/scheduling.k8s.io/{version}/namespaces/ns/compositepodgroups/g/status"
        for version in ("v1beta1", "v1alpha3")
    )
    for outcomes, text, sent in (
        ([THERE], "", [new]),
        ([Gone("404"), Uncertain("late"), THERE], "", [new, old, old]),
        ([Gone("404"), Gone("404")], "404", [new, old]),
    ):
        bench = Bench(patch=list(outcomes))
        group = about("g", set_group_condition=bind_pb2.SetGroupCondition(composite=True))
        assert texts(await bench.apply(group)) == [text]
        assert bench.writer.log == sent
    bench = Bench(patch=[Gone("404"), Gone("404"), THERE])
    assert texts([*await bench.apply(group), *await bench.apply(group)]) == ["404", ""]
    assert bench.writer.log == [new, old, new], "neither version has shown the group"
    bench = Bench(patch=[Gone("404"), THERE, THERE, Gone("404"), THERE, THERE])
    for _ in range(4):
        assert texts(await bench.apply(group)) == [""]
    # The version that was found is requested first from then on.
    assert bench.writer.log == [new, old, old, old, new, new]


@on_virtual_time
async def test_actions_for_one_pod_go_in_order_and_pods_at_once() -> None:
    """Also over calls: a nomination that is cleared does not come back by an older call."""
    bench = Bench()
    bench.writer.may_end = asyncio.Semaphore(0)
    calls = [
        asyncio.create_task(bench.apply(nominate("a"), nominate("a"), nominate("b"))),
        asyncio.create_task(bench.apply(nominate("a"), nominate("c"))),
    ]
    await asyncio.sleep(1.0)
    assert sorted(bench.writer.log) == ["patch a", "patch b", "patch c"]
    for _ in range(5):
        bench.writer.may_end.release()
    await asyncio.gather(*calls)
    assert sorted(bench.writer.log) == ["patch a"] * 3 + ["patch b", "patch c"]


@on_virtual_time
async def test_a_call_waits_for_the_one_before_it_also_when_an_earlier_one_ends() -> None:
    bench = Bench()
    bench.writer.may_end = asyncio.Semaphore(1)
    first, second = (asyncio.create_task(bench.apply(nominate("a"))) for _ in range(2))
    await first
    third = asyncio.create_task(bench.apply(nominate("a")))
    await asyncio.sleep(1.0)
    assert bench.writer.log == ["patch a"] * 2
    for _ in range(2):
        bench.writer.may_end.release()
    await asyncio.gather(second, third)


@on_virtual_time
async def test_a_condition_is_written_to_the_pods_status() -> None:
    bench = Bench()
    condition = core_pb2.PodCondition(type="PodScheduled", status="False")
    assert texts(await bench.apply(about("a", set_condition=bind_pb2.SetCondition(condition=condition)))) == [""]
    assert bench.writer.log == ["patch a"]


@on_virtual_time
async def test_an_action_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcome of a defect is an error, and the pod's next action is done."""

    async def fail(*_: Any) -> Outcome:
        raise KeyError("defect")

    bench = Bench()
    monkeypatch.setattr(bench.writer, "get_pod", fail)
    outcomes = await bench.apply(about("a", evict=EVICT), nominate("a"))
    assert texts(outcomes) == ["internal error: KeyError('defect')", ""]
    assert bench.executor.statistics() == {("evict", "error"): 1, ("nominate", "success"): 1}


@on_virtual_time
async def test_actions_that_have_not_begun_are_dropped_with_their_caller() -> None:
    """A frontend that is gone has decided nothing since; what it wanted next is void."""
    bench = Bench()
    stream = bench.executor.apply([nominate("a"), nominate("b"), nominate("b")], bench.tenure)
    bench.writer.may_end = asyncio.Semaphore(1)
    assert len(await anext(stream)) == 1
    await stream.aclose()
    bench.writer.may_end.release()
    await bench.executor.close(10.0)
    assert bench.writer.log == ["patch a", "patch b"]


@on_virtual_time
async def test_closing_waits_for_writes_and_then_interrupts_them() -> None:
    bench = Bench()
    call = asyncio.create_task(bench.apply(nominate("a")))
    await asyncio.sleep(0)
    await bench.executor.close(10.0)
    assert texts(await call) == [""]
    bench.writer.may_end = asyncio.Semaphore(0)
    call = asyncio.create_task(bench.apply(nominate("b"), nominate("c")))
    await asyncio.sleep(0)
    await bench.executor.close(1.0)
    assert texts(await call) == ["the action was interrupted"] * 2
    # The API server may still execute them.
    bench.guard.admit(8)
    patience = await bench.in_flight.until_drained(bench.guard.leader, 0.0)
    assert patience == pytest.approx(action_executor.ROUND_SECONDS - 1.0, abs=0.1)


@on_virtual_time
async def test_undoing_ends_pre_bind_before_a_turn_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn may be held by the very PreBind that is to end."""
    undone: list[tuple[str, bytes]] = []

    async def unreserve(writer: Any, pod: PodName, state: bytes) -> Outcome | None:
        undone.append((pod.name, state))
        if state == b"refused":
            return Refused("403", 403)
        if state == b"broken":
            raise ValueError("no such state")
        return None

    monkeypatch.setattr(bind_plugins, "unreserve_call", lambda name: unreserve if name != "ARemote" else None)

    def undo(name: str, **states: bytes) -> bind_pb2.Action:
        content = bind_phase_pb2.PluginStates(plugin_states=states).SerializeToString()
        return about(name, undo_pre_bind=bind_pb2.UndoPreBind(state=content))

    no_turn_for = [10.0]
    bench = Bench(lambda: no_turn_for[0])
    call = asyncio.create_task(
        bench.apply(undo("a", B=b"2", A=b"1", ARemote=b"x", AEmpty=b""), nominate("b"), undo("b", A=b"refused", B=b"2"))
    )
    await asyncio.sleep(1.0)
    assert (bench.cancelled, undone) == (["a", "b"], [])
    no_turn_for[0] = 0.0
    assert texts(await call) == ["", "", "403"]
    assert undone == [("a", b"1"), ("a", b"2"), ("b", b"refused")]
    assert texts(await bench.apply(undo("c", A=b"broken"))) == ["undo_pre_bind: no such state"]


@on_virtual_time
async def test_each_round_of_a_plugins_action_holds_up_the_next_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader waits until the last round that began can have no effect, and no round begins after it came."""
    bench = Bench()
    rounds: list[float] = []

    async def execute(_: bind_pb2.Action, context: bind_phase_plugin.ActionContext) -> Outcome:
        while True:
            context.begin_round()
            rounds.append(bench.clock())
            await asyncio.sleep(20.0)

    monkeypatch.setattr(bind_plugins, "action_call", lambda kind: execute if kind == "deallocate" else None)
    call = asyncio.create_task(bench.apply(about("a", deallocate=bind_pb2.Deallocate())))
    await asyncio.sleep(50.0)
    assert len(rounds) == 3
    bench.guard.admit(8)
    patience = await bench.in_flight.until_drained(bench.guard.leader, 5.0)
    assert patience == pytest.approx(rounds[-1] + action_executor.ROUND_SECONDS - bench.clock())
    (outcome,) = await call
    assert outcome.message == "not done: a leader of epoch 8 has taken over from epoch 7"
    assert len(rounds) == 3
    assert texts(await bench.apply(about("b"))) == ["not done: a leader of epoch 8 has taken over from epoch 7"]


@on_virtual_time
async def test_an_action_of_nobody_is_an_error() -> None:
    bench = Bench()
    assert texts(await bench.apply(about("a"))) == ["action: not set"]
    assert bench.executor.statistics() == {("none", "error"): 1}


@on_virtual_time
async def test_nothing_is_kept_of_actions_that_are_over() -> None:
    """Whether they succeeded, failed, were interrupted or abandoned; and each leaves its turn to the next."""
    bench = Bench(patch=[Refused("no", 403), THERE])
    bench.writer.may_end = asyncio.Semaphore(1000)
    fresh = +held_entries(bench.executor, bench.in_flight)
    assert texts(await bench.apply(nominate("a"), nominate("b"))) == ["no", ""]
    stream = bench.executor.apply([nominate("c"), nominate("c"), nominate("d")], bench.tenure)
    await anext(stream)
    await stream.aclose()
    await bench.executor.close(10.0)
    await asyncio.sleep(0)
    assert len(bench.in_flight) == 0
    found = +held_entries(bench.executor, bench.in_flight)
    assert {name: count for name, count in found.items() if count > fresh[name]}.keys() <= {"ActionExecutor._done"}
    for number in range(2 * write_turns.CONCURRENCY):
        assert texts(await bench.apply(nominate(f"p{number}"))) == [""]


@on_virtual_time
async def test_actions_are_counted_by_kind_and_result() -> None:
    bench = Bench(patch=[Refused("no", 403), THERE])
    await bench.apply(nominate("a"), nominate("b"), about("c", clear_nomination=bind_pb2.ClearNomination()))
    counted = bench.executor.statistics()
    assert sum(counted.values()) == 3
    assert counted["clear_nomination", "success"] + counted["nominate", "success"] == 2
    assert counted["nominate", "error"] == 1


@on_virtual_time
async def test_a_round_that_goes_on_holds_up_the_next_leader_until_it_ends() -> None:
    bench = Bench()
    bench.writer.may_end = asyncio.Semaphore(0)
    call = asyncio.create_task(bench.apply(nominate("a")))
    await asyncio.sleep(0.1)
    assert len(bench.in_flight) == 1
    bench.guard.admit(8)
    drained = asyncio.create_task(bench.in_flight.until_drained(bench.guard.leader, 60.0))
    await asyncio.sleep(0.1)
    assert not drained.done()
    bench.writer.may_end.release()
    assert await drained == 0.0
    assert texts(await call) == [""]
