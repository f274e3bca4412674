"""The binder: never two bindings of one pod at a time, nothing begun for who may not, nothing lost."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from tests.helpers import virtual_time
from tests.helpers.held_entries import held_entries
from trireme.bind.binding_retries import BOUND, POST_DEADLINE_SECONDS, READ_BACK, SETTLE_SECONDS, WAITS_SECONDS
from trireme.bind.binding_writer import BindingWriter
from trireme.bind.call_results import LINGER_SECONDS, WAITING_LIMIT, BusyError, CallResults
from trireme.bind.work_in_flight import WorkInFlight
from trireme.framework import status
from trireme.plugin_kit.pod_binder import BindOutcome, BindTarget
from trireme.rpc.fencing import EpochGuard, Leader, Tenure
from trireme_kube.apimachinery import api_writes

Clock = Callable[[], float]


class _Pods:
    """An API server: each POST takes `seconds`, and its outcome is what `answers` has for the pod, or success."""

    def __init__(self, seconds: float = 0.01) -> None:
        self.seconds = seconds
        self.answers: dict[str, list[api_writes.Outcome]] = {}
        self.readings: dict[str, list[api_writes.SettledBinding]] = {}
        self.posts: list[tuple[str, str]] = []
        self.deadlines: list[float] = []
        self.at_once = self.most_at_once = 0

    async def bind(self, pod: api_writes.PodName, node: str, deadline: float) -> api_writes.Outcome:
        self.posts.append((pod.uid, node))
        self.deadlines.append(deadline)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once -= 1
        answers = self.answers.get(pod.uid)
        return answers.pop(0) if answers else api_writes.Written({})

    async def settle_binding(self, pod: api_writes.PodName, node: str, deadline: float) -> api_writes.SettledBinding:
        await asyncio.sleep(self.seconds)
        return self.readings[pod.uid].pop(0)


class _Setup:
    """A binder on a fake API server, and a leader in office."""

    def __init__(self, clock: Clock, concurrency: int = 64) -> None:
        self.clock = clock
        self.pods = _Pods()
        self.in_flight = WorkInFlight(clock)
        self.guard = EpochGuard()
        self.guard.admit(7)
        self.binder = BindingWriter(self.pods, self.in_flight, clock=clock, jitter=lambda: 0.0, concurrency=concurrency)

    def tenure(self, seconds: float = 60.0) -> Tenure:
        return Tenure(self.guard, self.clock, self.guard.leader, self.clock() + seconds)

    async def bind(self, targets: list[BindTarget], tenure: Tenure | None = None) -> list[BindOutcome]:
        found: dict[int, BindOutcome] = {}
        async for batch in self.binder.bind(targets, tenure or self.tenure()):
            for index, outcome in batch:
                assert index not in found
                found[index] = outcome
        return [found[index] for index in range(len(targets))]


def target(uid: str, node: str = "node-a") -> BindTarget:
    return BindTarget(api_writes.PodName("default", f"pod-{uid}", uid), node)


def run(main: Callable[[_Setup], Awaitable[None]], concurrency: int = 64) -> None:
    async def inner(clock: Clock) -> None:
        setup = _Setup(clock, concurrency)
        await main(setup)
        await setup.binder.close(1.0)
        await asyncio.sleep(0)
        statistics = setup.binder.statistics()
        assert (statistics.in_flight, statistics.waiting) == (0, 0)
        kept = [
            name for name, count in held_entries(setup.binder).items() if count and name.startswith("BindingWriter")
        ]
        assert not kept, "of each pod something would be kept"
        # All turns are free again.
        targets = [target(f"last-{number}") for number in range(2 * concurrency)]
        assert await setup.bind(targets, setup.tenure()) == [BOUND] * len(targets)
        # What was broken off is listed until its deadline.
        assert await setup.in_flight.until_drained(Leader("", 1 << 62), 60.0) == 0.0
        assert len(setup.in_flight) == 0

    virtual_time.run(inner)


def reason(outcome: BindOutcome) -> str:
    assert isinstance(outcome, status.Status)
    assert outcome.code is status.Code.ERROR
    return outcome.reasons[0].code


def test_a_batch_is_bound_concurrently_within_the_bound() -> None:
    """200 pods are bound 64 at a time: neither one by one, nor all at once."""

    async def main(setup: _Setup) -> None:
        started = setup.clock()
        outcomes = await setup.bind([target(f"u{number}") for number in range(200)])
        assert outcomes == [BOUND] * 200
        assert setup.pods.most_at_once == 64
        assert setup.clock() - started < 0.1

    run(main)


def test_results_come_while_others_are_under_way() -> None:
    """A slow pod does not hold back the results of the others."""

    async def main(setup: _Setup) -> None:
        setup.pods.answers["slow"] = [api_writes.Uncertain("no answer")]
        setup.pods.readings["slow"] = [api_writes.Uncertain("x"), api_writes.Uncertain("x"), api_writes.Written({})]
        batches = [
            [index for index, _ in batch]
            async for batch in setup.binder.bind([target("slow"), target("u1"), target("u2")], setup.tenure())
        ]
        assert batches == [[1, 2], [0]]

    run(main)


def test_a_second_call_joins_a_binding_under_way() -> None:
    """A repeated call for the same pod and node posts nothing and gets the same outcome."""

    async def main(setup: _Setup) -> None:
        first, second = await asyncio.gather(setup.bind([target("u1")]), setup.bind([target("u1")]))
        assert first == second == [BOUND]
        assert setup.pods.posts == [("u1", "node-a")]
        assert setup.binder.statistics().joined == 1

    run(main)


def test_one_pod_twice_in_a_batch_is_posted_once() -> None:
    """A caller's mistake does not bind twice either."""

    async def main(setup: _Setup) -> None:
        assert await setup.bind([target("u1"), target("u1")]) == [BOUND, BOUND]
        assert len(setup.pods.posts) == 1

    run(main)


def test_another_node_is_refused_while_a_binding_is_under_way() -> None:
    """Two nodes for one pod at a time can only be a fault: the second is told at once, and nothing is posted for it."""

    async def main(setup: _Setup) -> None:
        first, second = await asyncio.gather(setup.bind([target("u1")]), setup.bind([target("u1", "node-b")]))
        assert first == [BOUND]
        assert isinstance(second[0], status.Status)
        assert second[0].reasons == (status.Reason.of("alreadyBinding", {"node": "node-a"}),)
        assert setup.pods.posts == [("u1", "node-a")]

    run(main)


def test_a_lost_reply_is_read_back() -> None:
    """A POST without an answer that took effect is a success, and the pod is not posted again."""

    async def main(setup: _Setup) -> None:
        setup.pods.answers["u1"] = [api_writes.Uncertain("connection reset")]
        setup.pods.readings["u1"] = [api_writes.Written({})]
        assert await setup.bind([target("u1")]) == [READ_BACK]
        assert len(setup.pods.posts) == 1
        assert setup.binder.statistics().read_back == 1

    run(main)


def test_a_caller_that_goes_away_leaves_a_begun_binding_to_its_end() -> None:
    """A call that is cancelled does not cancel its POSTs; a repeated call finds them, and the rest is dropped."""

    async def main(setup: _Setup) -> None:
        targets = [target(f"u{number}") for number in range(3)]

        async def gone() -> None:
            async with aclosing(setup.binder.bind(targets, setup.tenure())) as batches:
                async for _ in batches:
                    pass

        caller = asyncio.create_task(gone())
        await asyncio.sleep(0.005)
        caller.cancel()
        assert await setup.bind(targets[:1]) == [BOUND]
        assert setup.pods.posts == [("u0", "node-a")]
        assert setup.binder.statistics().joined == 1

    run(main, concurrency=1)


def test_nothing_begins_after_the_lease_ran_out() -> None:
    """A pod that waits for its turn past the end of the leader's lease is certainly not bound."""

    async def main(setup: _Setup) -> None:
        outcomes = await setup.bind([target(f"u{number}") for number in range(3)], setup.tenure(0.015))
        assert outcomes[:2] == [BOUND, BOUND]
        assert reason(outcomes[2]) == "notBegun"
        assert isinstance(outcomes[2], status.Status)
        assert outcomes[2].message == "not bound: the leader's lease ran out"
        assert setup.pods.deadlines == [pytest.approx(0.015), pytest.approx(0.005)]

    run(main, concurrency=1)


def test_nothing_begins_after_a_successor_was_seen() -> None:
    """Pods of a deposed leader that wait for a turn are dropped at once."""

    async def main(setup: _Setup) -> None:
        binding = asyncio.create_task(setup.bind([target(f"u{number}") for number in range(3)]))
        await asyncio.sleep(0.005)
        setup.guard.admit(8)
        assert await setup.in_flight.until_drained(setup.guard.leader, 1.0) == 0.0
        outcomes = await binding
        assert [outcome is BOUND for outcome in outcomes] == [True, False, False]
        assert len(setup.pods.posts) == 1

    run(main, concurrency=1)


def test_a_successor_takes_over_a_binding_that_it_wants_too() -> None:
    """A pod that waits in a deposed leader's name is bound where its successor asks for the same node."""

    async def main(setup: _Setup) -> None:
        old = asyncio.create_task(setup.bind([target("u0"), target("u1")]))
        await asyncio.sleep(0.005)
        setup.guard.admit(8)
        assert await setup.bind([target("u1")], setup.tenure()) == [BOUND]
        assert await old == [BOUND, BOUND]

    run(main, concurrency=1)


def test_the_deadline_of_a_post_ends_with_the_lease() -> None:
    """Waiting for the rate limit or for a slow server does not outlive the right to write."""

    async def main(setup: _Setup) -> None:
        await setup.bind([target("u1")], setup.tenure(3.0))
        await setup.bind([target("u2")], setup.tenure(300.0))
        assert setup.pods.deadlines == [pytest.approx(3.0), POST_DEADLINE_SECONDS]

    run(main)


def test_an_unknown_outcome_is_reported_as_unknown() -> None:
    """Where neither the POST nor the readings are answered, the caller must not hear a failure."""

    async def main(setup: _Setup) -> None:
        setup.pods.seconds = 5.0
        setup.pods.answers["u1"] = [api_writes.Uncertain("no answer")]
        setup.pods.readings["u1"] = [api_writes.Uncertain("no answer")] * 20
        (outcome,) = await setup.bind([target("u1")])
        assert isinstance(outcome, api_writes.Uncertain)
        assert setup.binder.statistics().unknown == 1

    run(main)


def test_a_fault_of_the_writer_is_an_open_fate_and_spares_the_rest() -> None:
    """An exception that nobody foresaw must not pass for a failure, nor stop the worker."""

    async def main(setup: _Setup) -> None:
        outcomes = await setup.bind([target("u0"), target("u1")])
        assert outcomes == [BOUND, BOUND]
        setup.pods.answers["u2"] = [api_writes.Uncertain("no answer")]
        outcomes = await setup.bind([target("u2"), target("u3")])  # u2 has no reading to answer: KeyError
        assert isinstance(outcomes[0], api_writes.Uncertain)
        assert outcomes[1] == BOUND

    run(main, concurrency=1)


@pytest.mark.slow
def test_a_request_beyond_the_limit_is_refused_before_any_write() -> None:
    """The queue is bounded; the caller goes to another replica."""

    async def main(setup: _Setup) -> None:
        first = asyncio.create_task(setup.bind([target(f"u{number}") for number in range(WAITING_LIMIT + 2)]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting = setup.binder.statistics().waiting
        assert waiting >= WAITING_LIMIT
        with pytest.raises(BusyError, match=f"{waiting} bindings wait already"):
            await setup.bind([target("late")])
        assert "late" not in dict(setup.pods.posts)
        assert setup.binder.statistics().waiting == waiting
        await first
        assert await setup.bind([target("late")]) == [BOUND]

    run(main, concurrency=2)


@pytest.mark.slow
def test_an_idle_binder_takes_a_call_of_any_size() -> None:
    """A call of more pods than the queue takes is accepted when nothing else waits."""

    async def main(setup: _Setup) -> None:
        outcomes = await setup.bind([target(f"u{number}") for number in range(WAITING_LIMIT + 1)])
        assert outcomes == [BOUND] * (WAITING_LIMIT + 1)

    run(main, concurrency=1000)


@pytest.mark.parametrize("bound", [True, False], ids=["bound before", "not bound"])
def test_a_repeated_request_reads_the_pod_where_it_may_not_post(bound: bool) -> None:
    """A pod that an earlier call bound must not pass for unbound because the Lease ran out before the second."""

    async def main(setup: _Setup) -> None:
        setup.pods.readings["u1"] = [api_writes.Written({})] if bound else [api_writes.Unbound("no node")] * 2
        asked = BindTarget(target("u1").pod, "node-a", outcome_unknown=True)
        (outcome,) = await setup.bind([asked], setup.tenure(-1.0))
        assert outcome == READ_BACK if bound else reason(outcome) == "unanswered"
        assert setup.pods.posts == []

    run(main)


def test_a_repeated_request_that_joins_brings_its_doubt_along() -> None:
    """The API server refuses this POST, but that of the replica that was called before may bind the pod yet."""

    async def main(setup: _Setup) -> None:
        setup.pods.seconds = 1.0
        setup.pods.answers["u1"] = [api_writes.Refused("not now", 403)]
        setup.pods.readings["u1"] = [api_writes.Written({})]
        first = asyncio.create_task(setup.bind([target("u1")]))
        await asyncio.sleep(0.5)
        repeated = BindTarget(target("u1").pod, "node-a", outcome_unknown=True)
        assert await setup.bind([repeated]) == [READ_BACK]
        assert await first == [READ_BACK]

    run(main)


def test_each_outcome_is_counted_once() -> None:
    async def main(setup: _Setup) -> None:
        setup.pods.answers = {
            "refused": [api_writes.Refused("no", 403)],
            "lost": [api_writes.Uncertain("late")],
            "elsewhere": [api_writes.Conflict("assigned")],
        }
        setup.pods.readings = {"lost": [api_writes.Written({})], "elsewhere": [api_writes.Conflict("assigned")]}
        names = ("good", "refused", "lost", "elsewhere")
        await setup.bind([target(name) for name in names])
        statistics = setup.binder.statistics()
        assert (statistics.bound, statistics.failed, statistics.unknown) == (2, 2, 0)
        assert (statistics.posts, statistics.read_back, statistics.joined) == (4, 1, 0)
        assert statistics.conflicts == 1
        assert (statistics.in_flight, statistics.waiting) == (0, 0)

    run(main)


def test_a_pod_that_is_refused_for_another_node_has_one_result() -> None:
    """The outcome of the binding under way is not the call's too."""

    async def main(setup: _Setup) -> None:
        first = asyncio.create_task(setup.bind([target("u1")]))
        await asyncio.sleep(0.005)
        setup.pods.seconds = 1.0
        refused, other = await setup.bind([target("u1", "node-b"), target("u2")])
        assert reason(refused) == "alreadyBinding"
        assert other is BOUND
        assert await first == [BOUND]

    run(main)


def test_a_repeated_request_that_joins_one_that_waits_brings_its_doubt_along() -> None:
    """The other replica's POST may have bound the pod: a refusal of ours says nothing then."""

    async def main(setup: _Setup) -> None:
        setup.pods.answers["u2"] = [api_writes.Refused("forbidden", 403)]
        setup.pods.readings["u2"] = [api_writes.Written({})]
        calls = [asyncio.create_task(setup.bind([target(name)])) for name in ("u1", "u2")]
        await asyncio.sleep(0.001)
        again = dataclasses.replace(target("u2"), outcome_unknown=True)
        assert await setup.bind([again]) == [READ_BACK]
        assert [await call for call in calls] == [[BOUND], [READ_BACK]]

    run(main, concurrency=1)


def test_several_calls_together_keep_within_the_bound() -> None:
    async def main(setup: _Setup) -> None:
        calls = []
        for number in range(4):
            calls.append(asyncio.create_task(setup.bind([target(f"{number}-{each}") for each in "abc"])))
            await asyncio.sleep(0.001)
        await asyncio.gather(*calls)
        assert setup.pods.most_at_once == 2
        assert len(setup.pods.posts) == 12

    run(main, concurrency=2)


def test_a_pod_that_was_read_unbound_is_posted_again_after_a_wait() -> None:
    async def main(setup: _Setup) -> None:
        setup.pods.answers["u1"] = [api_writes.Uncertain("late")] * 3
        setup.pods.readings["u1"] = [api_writes.Unbound("no node")] * 3
        started = setup.clock()
        assert await setup.bind([target("u1")]) == [BOUND]
        assert len(setup.pods.posts) == 4
        assert setup.clock() - started == pytest.approx(sum(WAITS_SECONDS) + 7 * setup.pods.seconds)

    run(main)


def test_closing_waits_for_bindings_and_then_interrupts_them() -> None:
    """An interrupted one may have taken effect: its outcome is unknown, and a new leader waits for it."""

    async def main(setup: _Setup) -> None:
        await setup.binder.close(1.0)
        first = asyncio.create_task(setup.bind([target("u1")]))
        await asyncio.sleep(0)
        started = setup.clock()
        await setup.binder.close(10.0)
        assert setup.clock() - started == pytest.approx(setup.pods.seconds)
        assert await first == [BOUND]
        setup.pods.seconds = 5.0
        late = asyncio.create_task(setup.bind([target("u2")]))
        await asyncio.sleep(0)
        await setup.binder.close(1.0)
        assert await late == [api_writes.Uncertain("the binding was interrupted")]
        patience = await setup.in_flight.until_drained(Leader("", 8), 0.0)
        assert patience == pytest.approx(POST_DEADLINE_SECONDS + SETTLE_SECONDS - 1.0)
        setup.pods.seconds = 0.01

    run(main)


def test_a_binding_that_one_of_two_callers_still_waits_for_is_begun() -> None:
    async def main(setup: _Setup) -> None:
        before = asyncio.create_task(setup.bind([target("u0")]))
        first, second = (asyncio.create_task(setup.bind([target("u1")])) for _ in range(2))
        await asyncio.sleep(0.001)
        first.cancel()
        assert await before == await second == [BOUND]

    run(main, concurrency=1)


def test_nothing_is_sent_for_a_binding_that_nobody_waits_for() -> None:
    """Also not to find out what became of it: a call that is repeated does."""

    async def main(setup: _Setup) -> None:
        setup.pods.readings["u1"] = [api_writes.Written({})]
        before = asyncio.create_task(setup.bind([target("u0")]))
        gone = asyncio.create_task(setup.bind([dataclasses.replace(target("u1"), outcome_unknown=True)]))
        await asyncio.sleep(0.001)
        gone.cancel()
        await before
        await setup.bind([target("u2")])
        assert setup.pods.posts == [("u0", "node-a"), ("u2", "node-a")]
        assert len(setup.pods.readings["u1"]) == 1

    run(main, concurrency=1)


def test_a_call_that_joins_without_a_doubt_brings_none() -> None:
    """A refusal is the outcome of both, and the pod is not read."""

    async def main(setup: _Setup) -> None:
        setup.pods.seconds = 1.0
        setup.pods.answers["u1"] = [api_writes.Refused("not now", 403)]
        first = asyncio.create_task(setup.bind([target("u1")]))
        await asyncio.sleep(0.5)
        outcomes = [*await setup.bind([target("u1")]), *await first]
        assert [reason(outcome) for outcome in outcomes] == ["refused", "refused"]

    run(main)


@pytest.mark.parametrize(
    ("old", "new"), [(300.0, 60.0), (1.0, 60.0)], ids=["of the deposed leader longer", "of its successor longer"]
)
@pytest.mark.parametrize("joins", ["the successor", "the deposed leader"])
def test_a_binding_begins_in_the_tenure_that_is_not_over(old: float, new: float, joins: str) -> None:
    """Whichever call came first, and however long the Lease of the deposed leader seems to be valid."""

    async def main(setup: _Setup) -> None:
        deposed = setup.tenure(old)
        before = asyncio.create_task(setup.bind([target("u0")]))
        await asyncio.sleep(0)
        setup.guard.admit(8)
        tenures = [setup.tenure(new), deposed]
        if joins == "the successor":
            tenures.reverse()
        calls = [asyncio.create_task(setup.bind([target("u1")], tenure)) for tenure in tenures]
        await before
        assert [await call for call in calls] == [[BOUND], [BOUND]]

    run(main, concurrency=1)


def test_the_first_result_waits_a_moment_for_others_and_the_last_for_none() -> None:
    """A message on a stream costs as much as a binding."""

    async def main(clock: Clock) -> None:
        started = clock()
        results: CallResults[str] = CallResults()

        async def put() -> None:
            for index, seconds in enumerate((0.0, 0.5 * LINGER_SECONDS, LINGER_SECONDS)):
                await asyncio.sleep(seconds)
                results.put(index, "")

        putting = asyncio.create_task(put())
        batches = [([index for index, _ in batch], clock() - started) async for batch in results.batches(3)]
        assert [indexes for indexes, _ in batches] == [[0, 1], [2]]
        assert [at for _, at in batches] == pytest.approx([LINGER_SECONDS, 1.5 * LINGER_SECONDS])
        await putting

    virtual_time.run(main)


def test_a_call_that_joins_takes_no_time_from_the_one_before() -> None:
    """Its own right to write ends before the binding's turn comes."""

    async def main(setup: _Setup) -> None:
        before = asyncio.create_task(setup.bind([target("u0")]))
        first = asyncio.create_task(setup.bind([target("u1")]))
        await asyncio.sleep(0.001)
        assert await setup.bind([target("u1")], setup.tenure(0.005)) == [BOUND]
        assert await before == await first == [BOUND]

    run(main, concurrency=1)


def test_a_call_that_joins_prolongs_the_time_in_which_the_binding_may_begin() -> None:
    async def main(setup: _Setup) -> None:
        before = asyncio.create_task(setup.bind([target("u0")]))
        first = asyncio.create_task(setup.bind([target("u1")], setup.tenure(0.005)))
        await asyncio.sleep(0.001)
        assert await setup.bind([target("u1")]) == [BOUND]
        assert await before == await first == [BOUND]

    run(main, concurrency=1)


def test_a_pod_that_was_read_unbound_is_not_posted_again_once_the_lease_ran_out() -> None:
    """It may be bound yet by the POST that was not answered: it is read until that can have no effect."""

    async def main(setup: _Setup) -> None:
        setup.pods.answers["u1"] = [api_writes.Uncertain("late")]
        setup.pods.readings["u1"] = [api_writes.Unbound("no node")] * 3
        (outcome,) = await setup.bind([target("u1")], setup.tenure(0.05))
        assert reason(outcome) == "unanswered"
        assert len(setup.pods.posts) == 1
        assert setup.pods.readings["u1"] == []

    run(main)


def test_bindings_under_way_and_those_that_wait_for_a_turn_are_counted_apart() -> None:
    async def main(setup: _Setup) -> None:
        call = asyncio.create_task(setup.bind([target(name) for name in "abc"]))
        await asyncio.sleep(0.005)
        statistics = setup.binder.statistics()
        assert (statistics.in_flight, statistics.waiting) == (1, 2)
        await call

    run(main, concurrency=1)


def test_a_pod_that_was_read_unbound_is_not_posted_again_for_a_caller_that_has_gone() -> None:
    async def main(setup: _Setup) -> None:
        setup.pods.answers["u1"] = [api_writes.Uncertain("late")]
        setup.pods.readings["u1"] = [api_writes.Unbound("no node")] * 3
        caller = asyncio.create_task(setup.bind([target("u1")]))
        await asyncio.sleep(0.005)
        caller.cancel()
        await asyncio.sleep(60.0)
        assert len(setup.pods.posts) == 1

    run(main)
