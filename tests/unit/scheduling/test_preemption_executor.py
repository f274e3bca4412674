"""Preempting: victims in order, the preemptor held back meanwhile, and let go when something fails."""

import asyncio
import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers import queue_builders
from tests.helpers.held_entries import held_entries
from tests.helpers.metric_values import counts, sums
from tests.helpers.virtual_time import on_virtual_time
from trireme.cache import class_registry, cluster_cache, pod_projection
from trireme.framework import status
from trireme.frontend import scheduler_metrics
from trireme.queueing import nominator, pod_info, queued_pod
from trireme.scheduling import (
    attempt_reporter,
    item_batches,
    pods_in_pre_bind,
    preemption_executor,
    preemption_history,
    preemption_retries,
    preemptions_under_way,
    status_outbox,
    waiting_pods,
)
from trireme.v1 import bind_pb2, cycle_pb2
from trireme.wire import status as wire_status
from trireme_kube.client.events import event_series


def _evict(uid: str) -> bind_pb2.Action:
    action = bind_pb2.Action(pod=cycle_pb2.PodIdentity(namespace="ns", name=f"name-{uid}", uid=uid))
    action.evict.message = "m"
    action.evict.node_name = "node"
    return action


def _record(uid: str, priority: int) -> pod_info.PodInfo:
    return pod_info.make_pod_info(f"ns/{uid}", uid, 1, "p", priority, pod=queue_builders.pending(uid, uid))


class World:
    """Placed pods, and a bind that deletes them when it is let."""

    def __init__(self, *uids: str) -> None:
        self.placed = {uid: SimpleNamespace(flags=0, evicting=0, generation=3) for uid in uids}
        self.failing: set[str] = set()
        self.asked: list[list[str]] = []
        self.generations: dict[str, int] = {}
        self.go = asyncio.Event()
        self.activated: list[tuple[str, str]] = []
        self.told: list[str] = []
        self.lagging = False
        self.held: dict[str, str] = {}
        self.patience = 0.0
        self.deletion_callbacks: dict[str, list[Callable[[], None]]] = {}
        self.waiting = waiting_pods.WaitingPods()
        self.nominations = nominator.Nominator()
        self.pre_binding = pods_in_pre_bind.PodsInPreBind()
        self.metrics = scheduler_metrics.SchedulerMetrics(groups=True)
        cache: Any = SimpleNamespace(
            pod=self.placed.get, set_evicting=self._set_evicting, call_on_deletion=self._call_on_deletion
        )
        results: Any = SimpleNamespace(report_preempted=self._preempted, report_not_preempted=self._not_preempted)
        self.under_way = preemptions_under_way.PreemptionsUnderWay(cache)
        self.preempting = preemption_executor.PreemptionExecutor(
            cache=cache,
            nominations=self.nominations,
            waiting=self.waiting,
            reporter=results,
            apply=self._apply,
            activate=self.activated.extend,
            observer=self.metrics,
            pre_binding=self.pre_binding,
            version_of=lambda uid: f"1{len(uid)}",
            held_preemptors=self.held,
            retries=preemption_retries.PreemptionRetries(
                lambda times: self.patience if times else 0.0, self.activated.extend, lambda: 1000.0
            ),
            under_way=self.under_way,
            history=preemption_history.PreemptionHistory(lambda: 12.5),
        )
        self.vip = queued_pod.QueuedPodInfo(_record("vip", 100), 0.0)

    def start(self, *uids: str, preemptor: str = "vip") -> None:
        pod = self.vip
        if preemptor != "vip":
            pod = queued_pod.QueuedPodInfo(_record(preemptor, 100), 0.0)
        self.preempting.evict_in_background(pod, "node", [_evict(uid) for uid in uids])

    def evicting(self) -> set[str]:
        return {uid for uid, pod in self.placed.items() if pod.evicting}

    def go_away(self, uid: str) -> None:
        """The watch tells that the pod is gone."""
        self.placed.pop(uid, None)
        for callback in self.deletion_callbacks.pop(uid, ()):
            callback()

    def _call_on_deletion(self, uid: str, callback: Callable[[], None]) -> Callable[[], None]:
        callbacks = self.deletion_callbacks.setdefault(uid, [])
        callbacks.append(callback)
        return lambda: callbacks.remove(callback) if callback in callbacks else None

    def _set_evicting(self, uid: str, evicting: bool) -> None:
        if uid in self.placed:
            self.placed[uid].evicting = int(evicting)

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        await asyncio.sleep(2 * item_batches.LINGER_SECONDS)
        for _ in range(20):
            await asyncio.sleep(0)

    def _not_preempted(self, pod: queued_pod.QueuedPodInfo, victim: Any, node_name: str, failure: str) -> None:
        self.told.append(f"{pod.uid}: not {victim.name} on {node_name}: {failure}")

    def _preempted(self, victim: Any, message: str, profile: str) -> None:
        self.told.append(f"{victim.name}: {message}")
        assert victim.resource_version == f"1{len(victim.uid)}"

    async def _apply(
        self, actions: Sequence[bind_pb2.Action], on_result: Callable[[int, bind_pb2.BindResult], None]
    ) -> None:
        self.asked.append([f"{action.WhichOneof('action')} {action.pod.uid}" for action in actions])
        self.generations.update({action.pod.uid: action.evict.observed_generation for action in actions})
        await self.go.wait()
        for index, action in enumerate(actions):
            failed = action.pod.uid in self.failing
            if not failed and not self.lagging:
                self.go_away(action.pod.uid)
            said = status.error("", "no") if failed else status.SUCCESS
            on_result(index, bind_pb2.BindResult(index=index, status=wire_status.to_message(said)))


async def test_the_last_victim_goes_last_and_the_pod_is_held_until_it_is_going() -> None:
    """The event of the last deletion must find the preemptor free, or nothing wakes it."""
    world = World("a", "b", "c")
    world.start("a", "b", "c")
    await world.settle()
    assert world.asked == [["evict a", "evict b"]]
    assert world.generations == {"a": 3, "b": 3}
    assert world.under_way.still_gates("vip")
    assert world.held == {"ns/vip": "vip"}
    world.go.set()
    await world.settle()
    assert world.asked[1:] == [["evict c"]]
    assert not world.under_way.still_gates("vip")
    assert world.held == {}
    assert world.told[0] == "name-a: Preempted by pod vip on node node"
    assert world.activated == []


async def test_pods_nominated_beside_the_preemptor_are_not_tried_in_vain() -> None:
    """All victims have gone: the event of each wakes those that it may help."""
    world = World("a", "b")
    world.nominations.nominate(_record("waits", 100), "node")
    world.go.set()
    world.start("a", "b")
    await world.settle()
    assert world.activated == []


async def test_it_is_held_while_bind_deletes_the_last_victim_unless_that_is_gone() -> None:
    """Without a grace period it is seen to be terminating a moment before it is gone: it would be tried in vain."""
    world = World("a")
    world.lagging = True
    world.start("a")
    await world.settle()
    assert world.under_way.still_gates("vip")
    world.placed["a"].flags = 1
    assert world.under_way.still_gates("vip")
    gone = world.placed.pop("a")
    assert not world.under_way.still_gates("vip"), "bind's answer may come later than the informer's"
    world.placed["a"] = gone
    world.go.set()
    await world.settle()
    assert not world.under_way.still_gates("vip"), "it may take its grace period"
    await world.preempting.close()


async def test_it_is_held_until_the_deletion_is_seen_although_bind_answered_before() -> None:
    """Tried before, it would find its room taken still, and have the same victims deleted again."""
    world = World("a", "b")
    world.lagging = True
    world.go.set()
    world.start("a", "b")
    await world.settle()
    assert world.asked == [["evict a"], ["evict b"]]
    world.placed.pop("a")
    assert world.under_way.still_gates("vip")
    assert world.held == {"ns/vip": "vip"}
    world.go_away("b")
    assert world.held == {}, "the event of the deletion asks about who is not held for sure"
    assert not world.under_way.still_gates("vip")
    world.placed["b"] = SimpleNamespace(flags=0, evicting=0, generation=3)
    assert not world.under_way.still_gates("vip"), "another pod of that UID is not waited for"


async def test_a_deletion_that_came_while_it_was_held_is_made_up_for() -> None:
    """Another preemptor's victims may be its own: when they went it was held, and nothing would ever wake it."""
    world = World("a", "b")
    world.start("a", "b")
    await world.settle()
    world.placed.clear()
    assert world.under_way.still_gates("vip"), "the event of the deletion finds it held"
    world.go.set()
    await world.settle()
    assert world.activated == [("ns/vip", "vip")]
    assert not world.under_way.still_gates("vip")


async def test_a_preemptor_that_is_gone_is_forgotten() -> None:
    """What is kept for each preemptor would grow forever."""
    world = World("a")
    world.lagging = True
    world.go.set()
    world.start("a")
    await world.settle()
    assert world.under_way.still_gates("vip")
    world.preempting.forget("vip")
    assert not world.under_way.still_gates("vip")


async def test_after_a_failure_the_last_victim_is_spared_and_the_pod_tried_again() -> None:
    """Half a preemption must not evict more, and the preemptor must not wait for what will not come."""
    world = World("a", "b")
    world.failing.add("a")
    world.go.set()
    world.start("a", "b")
    await world.settle()
    assert world.asked == [["evict a"]]
    assert world.activated == [("ns/vip", "vip")]
    assert not world.under_way.still_gates("vip")
    assert world.told == ["vip: not name-a on node: no"]


async def test_repeated_failures_back_off_together_with_waiting_calls() -> None:
    """What is refused forever would be asked for dozens of times a second, by all who want the node."""
    world = World("a")
    world.patience = 3600.0
    world.failing.add("a")
    world.nominations.nominate(_record("other", 100), "node")
    world.go.set()
    for preemptor in ("vip", "other"):
        world.start("a", preemptor=preemptor)
        await world.settle()
    assert world.activated == [("ns/vip", "vip"), ("ns/other", "other"), ("ns/other", "other")]
    assert world.generations == {"a": 3}
    world.activated.clear()
    for preemptor in ("vip", "other"):
        world.start("a", preemptor=preemptor)
        await world.settle()
        assert not world.under_way.still_gates(preemptor)
    assert world.activated == []
    assert world.generations == {"a": 0}, "it is marked already, and a patch would say so again"
    why = "pod ns/name-a could not be preempted: no"
    assert world.preempting.retries.delayed_retry("vip") == (why, 4600.0)
    world.failing.clear()
    world.start("a")
    assert world.preempting.retries.delayed_retry("vip") is None
    await world.settle()
    assert "vip" not in world.preempting.retries
    world.preempting.forget("other")
    assert len(world.preempting.retries) == 0
    await world.preempting.close()


async def test_a_victim_of_a_failed_attempt_does_not_wake_a_later_one() -> None:
    """The pod would be tried while its victims are being evicted, in vain."""
    world = World("a", "b", "c")
    world.failing = {"b"}
    world.go.set()
    world.start("a", "b")
    await world.settle()
    assert world.held == {}
    world.go.clear()
    world.start("c")
    await world.settle()
    world.go_away("b")
    assert world.held == {"ns/vip": "vip"}
    await world.preempting.close()


@pytest.mark.parametrize("failing", [set(), {"a"}], ids=["deleted", "refused"])
async def test_an_answer_that_comes_late_ends_no_later_preemption(failing: set[str]) -> None:
    """The watch shows that the victim is gone before bind says so, and the preemptor, tried again, preempts elsewhere.

    The answer about the first victim ended the second preemption, and the frontend with it: nothing was scheduled
    more.
    """
    world = World("a", "b")
    world.failing = failing
    failure = asyncio.create_task(world.preempting.background.failure())
    world.start("a")
    await world.settle()
    world.go_away("a")
    assert not world.under_way.still_gates("vip")
    first, world.go = world.go, asyncio.Event()
    world.start("b")
    first.set()
    await world.settle()
    assert world.under_way.still_gates("vip")
    assert world.held == {"ns/vip": "vip"}
    assert world.activated == []
    world.go.set()
    await world.settle()
    assert not world.under_way.still_gates("vip")
    assert world.held == {}
    assert not failure.done()
    failure.cancel()
    await world.preempting.close()


async def test_a_victim_that_waits_on_permit_is_refused_in_memory() -> None:
    """Nothing is deleted, and no deletion will wake the preemptor: it is activated."""
    world = World("a")
    waiting = asyncio.create_task(world.waiting.begin_wait("a", "ns/name-a", {"Plugin": 60.0})())
    await world.settle()
    world.start("a")
    await world.settle()
    refused = await waiting
    assert (refused.code, refused.message) == (status.Code.ERROR, "waiting on permit for pod: preempted")
    assert world.asked == []
    assert world.activated == [], "its room is not free yet"
    assert world.under_way.still_gates("vip")
    world.go_away("a")
    await world.settle()
    assert world.told == ["name-a: Preempted by pod vip on node node (in kube-scheduler memory)."]
    assert world.activated == [("ns/vip", "vip")]


async def test_an_interrupted_deletion_of_the_last_victim_counts_as_failed() -> None:
    world = World("a", "b")
    world.start("a", "b")
    await world.settle()
    world.go.set()
    world.go.clear()
    await world.settle()
    assert world.asked == [["evict a"], ["evict b"]]
    await world.preempting.close()
    assert not world.held
    assert not world.under_way.still_gates("vip")


async def test_a_victim_in_pre_bind_is_cancelled_without_a_deletion() -> None:
    """What is being prepared for it is given up; once PreBind is through, it is deleted as any other."""
    world = World("a", "b")
    given_up = asyncio.Event()

    async def prepare() -> status.Status:
        try:
            await asyncio.sleep(3600)
        finally:
            given_up.set()
        return status.SUCCESS

    async def prepared() -> status.Status:
        return status.SUCCESS

    preparing = asyncio.create_task(world.pre_binding.run("a", prepare()))
    assert (await world.pre_binding.run("b", prepared())) == status.SUCCESS
    world.go.set()
    world.start("b", "a")
    await world.settle()
    assert given_up.is_set()
    assert (await preparing) == status.error("", "preempted by DefaultPreemption")
    world.go_away("a")
    await world.settle()
    assert world.asked == [["evict b"]]
    assert world.told == [
        "name-b: Preempted by pod vip on node node",
        "name-a: Preempted by pod vip on node node (in kube-scheduler memory).",
    ]
    assert world.activated == [("ns/vip", "vip")]


async def test_victims_are_known_as_such_from_the_decision_until_they_are_gone() -> None:
    """Who is woken beside the preemptor would find its room promised away and preempt elsewhere, in vain."""
    world = World("a", "b", "c")
    world.lagging = True
    world.start("a", "b")
    assert world.evicting() == {"a", "b"}
    world.go.set()
    await world.settle()
    assert world.evicting() == {"a", "b"}, "bind deleted them, but nobody has seen them go"


async def test_a_surviving_victim_wakes_the_pods_that_waited_for_it() -> None:
    """They were told that room is being made on their node, and nothing else would wake them."""
    world = World("a", "b", "c")
    for uid in ("waits", "elsewhere"):
        node = "node" if uid == "waits" else "other"
        world.nominations.nominate(_record(uid, 100), node)
    world.failing.add("a")
    world.lagging = True
    world.go.set()
    world.start("a", "b", "c")
    await world.settle()
    assert world.evicting() == {"b"}, "a was refused, c was spared, b is as good as gone"
    assert world.activated == [("ns/vip", "vip"), ("ns/waits", "waits")]


async def test_giving_up_leaves_no_victim_behind() -> None:
    """The next leader would take pods for terminating that nobody evicts."""
    world = World("a", "b")
    world.start("a", "b")
    await world.settle()
    await world.preempting.close()
    assert world.evicting() == set()


async def test_a_victim_of_two_preemptors_is_evicted_once_and_both_wait_for_it() -> None:
    """The API server would be asked again, and people told twice, of what is under way."""
    world = World("a", "b")
    world.start("b")
    world.start("a", "b", preemptor="second")
    await world.settle()
    assert world.asked == [["evict b", "evict a"]]
    assert world.under_way.still_gates("second")
    world.go.set()
    await world.settle()
    assert world.asked == [["evict b", "evict a"]]
    assert sorted(text.split(" on ")[0] for text in world.told) == [
        "name-a: Preempted by pod second",
        "name-b: Preempted by pod vip",
    ]
    assert not world.under_way.still_gates("vip")
    assert not world.under_way.still_gates("second")


async def test_a_victim_of_two_preemptors_that_stays_fails_both() -> None:
    """The second would wait forever for what the first could not do."""
    world = World("a")
    world.failing.add("a")
    world.start("a")
    world.start("a", preemptor="second")
    world.go.set()
    await world.settle()
    assert world.asked == [["evict a"]]
    assert sorted(world.activated) == [("ns/second", "second"), ("ns/vip", "vip")]
    assert not world.under_way.still_gates("second")


async def test_less_important_pods_lose_their_nomination() -> None:
    """They would find their room taken: kube-scheduler has them look elsewhere at once."""
    world = World("a")
    for uid, priority in (("less", 5), ("same", 100)):
        world.nominations.nominate(_record(uid, priority), "node")
    world.go.set()
    world.start("a")
    await world.settle()
    assert world.asked == [["clear_nomination less"], ["evict a"]]


async def test_less_important_pods_lose_their_nominations_on_all_nodes_of_a_group() -> None:
    """kubernetes/kubernetes#142684: they kept room that was made for the members of a group."""
    world = World("a")
    for uid, node in (("less", "node"), ("lesser", "more"), ("elsewhere", "other")):
        world.nominations.nominate(_record(uid, 5), node)
    world.go.set()
    world.preempting.evict_in_background(world.vip, "node", [_evict("a")], {"node", "more"})
    await world.settle()
    assert world.asked == [["clear_nomination lesser", "clear_nomination less"], ["evict a"]]


async def test_synchronous_preemption_evicts_all_victims_at_once() -> None:
    """With the gate off the attempt ends when the victims have gone, so that the pod is woken by what comes after."""
    world = World("a", "b")
    world.nominations.nominate(_record("less", 5), "node")
    world.go.set()
    assert await world.preempting.evict(world.vip, "node", [_evict("a"), _evict("b")]) == ""
    assert world.asked == [["evict a", "evict b"], ["clear_nomination less"]]
    assert not world.under_way.still_gates("vip")
    assert world.held == {}
    assert sorted(text.split(" on ")[0] for text in world.told) == [
        "name-a: Preempted by pod vip",
        "name-b: Preempted by pod vip",
    ]


async def test_synchronous_preemption_returns_the_refusal() -> None:
    """With the gate off nobody tries the pod again at once: its condition has to say why its victims stay."""
    world = World("a", "b")
    world.nominations.nominate(_record("less", 5), "node")
    world.failing.add("b")
    world.go.set()
    assert await world.preempting.evict(world.vip, "node", [_evict("a"), _evict("b")]) == "no"
    assert world.asked == [["evict a", "evict b"]]
    assert world.evicting() == set()
    assert world.activated == []


async def test_failed_preemptions_leave_nothing_behind() -> None:
    """A webhook protects the victim: its preemptor is tried forever, and each time left a callback at the victim."""
    world = World("a", "b")
    world.failing.add("b")
    world.go.set()
    for _ in range(5):
        world.start("a", "b")
        await world.settle()
    assert world.told.count("vip: not name-b on node: no") == 5
    assert world.deletion_callbacks.get("b", []) == []
    world.preempting.retries.close()


async def test_a_preemption_that_another_one_replaced_leaves_nothing_behind() -> None:
    """The watch is faster than bind, and the preemptor preempts again before bind has answered."""
    world = World("a", "b")
    world.lagging = True
    world.start("a")
    await world.settle()
    world.start("b")
    world.go.set()
    await world.settle()
    assert world.deletion_callbacks.get("a", []) == []
    assert len(world.deletion_callbacks["b"]) == 1
    world.go_away("b")
    assert not world.under_way.still_gates("vip")


def test_deletion_callbacks_run_when_a_pod_is_terminating_or_deleted() -> None:
    """A preemptor would be held back forever, and its room stay empty."""
    registry = class_registry.ClassRegistry()
    cache = cluster_cache.ClusterCache(registry)
    told: list[str] = []
    for uid in ("a", "b"):
        _show(cache, registry, uid)
        cache.call_on_deletion(uid, functools.partial(told.append, uid))
        _show(cache, registry, uid)
    assert told == []
    _show(cache, registry, "a", deletionTimestamp="2026-01-01T00:00:00Z")
    cache.remove_pod("b")
    assert told == ["a", "b"]
    cache.remove_pod("a")
    assert told == ["a", "b"]
    _show(cache, registry, "c")
    cancels = [cache.call_on_deletion("c", functools.partial(told.append, text)) for text in ("one", "two")]
    for _ in range(2):
        cancels[0]()
    cache.remove_pod("c")
    cancels[1]()
    assert told == ["a", "b", "two"]
    assert not cache._deletion_callbacks


def _show(cache: cluster_cache.ClusterCache, registry: class_registry.ClassRegistry, uid: str, **metadata: str) -> None:
    raw = {"metadata": {"namespace": "ns", "name": uid, "uid": uid, **metadata}, "spec": {"nodeName": "node"}}
    parsed = pod_projection.parse(raw)
    base = registry.intern_base(parsed.base)
    cache.set_pod(parsed, registry.intern(base, parsed.labels), base)


@pytest.mark.parametrize(("parsed", "on"), [(True, "vip"), (False, "name-a")], ids=["a pod", "a group"])
def test_a_refused_eviction_gets_an_event(parsed: bool, on: str) -> None:
    """The event says which victim stays and why; where the preemptor is no pod, the victim has it."""
    told: list[tuple[Any, ...]] = []
    shown = SimpleNamespace(namespace="ns", name="vip", uid="vip", resource_version=7)
    unused: Any = None
    recorder: Any = SimpleNamespace(record=lambda regarding, *rest: told.append((regarding.name, *rest)))
    preemptor: Any = SimpleNamespace(parsed=shown) if parsed else None
    results = attempt_reporter.AttemptReporter(
        unused,
        recorder,
        pending=lambda uid: preemptor,
        execute=lambda instructions: None,
        outbox=status_outbox.StatusOutbox(unused),
        now=lambda: 0.0,
        wall=lambda: 0.0,
        observer=scheduler_metrics.SchedulerMetrics(),
    )
    pod = queued_pod.QueuedPodInfo(_record("vip", 100), 0.0)
    results.report_not_preempted(pod, event_series.pod_reference("ns", "name-a", "a", "1"), "n0", "forbidden")
    text = "cannot preempt pod ns/name-a on node n0: forbidden"
    assert told == [(on, "Warning", "PreemptionFailed", "Preempting", text, "p")]


async def test_what_is_evicted_for_whom_is_remembered() -> None:
    """The console could not say who had to go, once they are gone."""
    world = World("low-0", "low-1")
    history = world.preempting.history
    world.go.set()
    world.start("low-0", "low-1")
    (decision,) = history.after(0)
    assert (decision.number, decision.at, decision.key, decision.priority) == (1, 12.5, world.vip.key, 100)
    assert (decision.node_name, decision.victim_count) == ("node", 2)
    assert [victim.uid for victim in decision.victims] == ["low-0", "low-1"]
    assert history.after(1) == []
    await world.preempting.close()


def test_the_last_preemptions_are_remembered_with_some_victims() -> None:
    """A gang that evicts hundreds, again and again, would fill the memory."""
    history = preemption_history.PreemptionHistory(lambda: 0.0)
    vip = queued_pod.QueuedPodInfo(_record("vip", 100), 0.0)
    victims = [_evict(f"low-{number}") for number in range(100)]
    for _ in range(preemption_history.LENGTH + 5):
        history.add(vip, "node", victims)
    found = history.after(0)
    assert [decision.number for decision in found] == list(range(6, preemption_history.LENGTH + 6))
    assert (found[0].victim_count, len(found[0].victims)) == (100, preemption_history.MAX_VICTIMS)
    assert len(history.after(preemption_history.LENGTH)) == 5


async def test_a_preemption_that_is_replaced_before_its_others_are_deleted_leaves_nothing_behind() -> None:
    """It begins to wait for its last victim after another one has taken its place."""
    world = World("a", "b", "c")
    world.lagging = True
    world.start("a", "b")
    await world.settle()
    world.start("c")
    world.go.set()
    await world.settle()
    assert world.deletion_callbacks.get("b", []) == []
    assert world.held == {"ns/vip": "vip"}
    await world.preempting.close()


async def test_a_last_victim_that_is_terminating_when_its_turn_comes_does_not_gate() -> None:
    """Its deletion is an event that must find the preemptor free, while bind's answer is still to come."""
    world = World("a", "b")
    world.start("a", "b")
    await world.settle()
    world.placed["b"].flags = pod_projection.TERMINATING
    assert world.held == {"ns/vip": "vip"}
    world.go.set()
    world.go.clear()
    await world.settle()
    assert world.asked == [["evict a"], ["evict b"]]
    assert world.held == {}
    await world.preempting.close()


async def test_a_preemption_that_another_one_replaced_frees_the_preemptor_of_that_one_never() -> None:
    """Its last victim goes while the later preemption still has to delete its own."""
    world = World("a", "b", "c")
    world.start("a", "b")
    await world.settle()
    world.start("c")
    del world.placed["b"]
    world.go.set()
    world.go.clear()
    await world.settle()
    assert world.held == {"ns/vip": "vip"}
    await world.preempting.close()


@on_virtual_time
async def test_a_victim_in_memory_that_stays_is_not_waited_for_forever() -> None:
    world = World("a")
    waiting = asyncio.create_task(world.waiting.begin_wait("a", "ns/name-a", {"Plugin": 600.0})())
    await asyncio.sleep(0)
    world.start("a")
    await asyncio.sleep(preemption_executor.RELEASE_SECONDS + 1)
    await waiting
    assert world.activated == [("ns/vip", "vip")]
    assert world.deletion_callbacks.get("a", []) == []


@pytest.mark.parametrize("failing", [set(), {"b"}], ids=["deleted", "refused"])
@pytest.mark.parametrize("background", [True, False])
async def test_how_preemptions_end_is_recorded(failing: set[str], background: bool) -> None:
    world = World("a", "b")
    world.failing = failing
    world.go.set()
    if background:
        world.start("a", "b")
        await world.settle()
    else:
        await world.preempting.evict(world.vip, "node", [_evict("a"), _evict("b")])
    result = "error" if failing else "success"
    assert sums(world.metrics.instruments.execution_seconds)[f"pod {result}"][1] < 60
    assert world.under_way.get("vip") is None
    assert counts(world.metrics.instruments.execution_seconds) == {f"pod {result}": 1}
    assert counts(world.metrics.instruments.preemptions) == ({result: 1} if background else {})
    await world.preempting.close()


@on_virtual_time
async def test_whoever_leads_no_more_evicts_nobody_and_retries_nothing() -> None:
    world = World("a", "b")
    world.failing, world.patience = {"a"}, 5.0
    world.go.set()
    for _ in range(2):
        world.start("a")
        await asyncio.sleep(1)
    world.go.clear()
    world.start("b", preemptor="other")
    await asyncio.sleep(1)
    world.activated.clear()
    await world.preempting.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await asyncio.sleep(100)
    assert world.activated == []


async def test_evictions_that_are_over_are_forgotten() -> None:
    """Of each victim something would be kept as long as the scheduler leads."""
    world = World("a", "b")
    before = held_entries(world.preempting)
    world.failing = {"a"}
    world.go.set()
    world.start("a")
    world.start("b", preemptor="other")
    await world.settle()
    world.preempting.forget("vip")
    world.preempting.forget("other")
    after = held_entries(world.preempting)
    kept = {name: count for name, count in after.items() if count > before[name]}
    assert {name for name in kept if not name.startswith("Preemption")} <= {"Histogram._series", "Counter._counts"}
    assert not kept.keys() & {"PreemptionExecutor._evictions", "PreemptionExecutor._held_preemptors"}


async def test_the_first_failure_of_some_actions_is_what_failed() -> None:
    world = World("a", "b", "c")
    world.failing = {"b"}
    world.go.set()
    assert await world.preempting.execute([_evict("a")]) == ""
    assert await world.preempting.execute([_evict("a"), _evict("b"), _evict("c")]) == "no"
    assert world.preempting.completed_actions == 4


async def test_the_next_pre_bind_of_a_pod_names_no_plugin_of_the_one_before() -> None:
    pods = pods_in_pre_bind.PodsInPreBind()

    async def wait() -> status.Status:
        await asyncio.sleep(3600)
        return status.SUCCESS

    for plugin, message in (("Volumes", 'running PreBind plugin "Volumes": no'), ("", "no")):
        running = asyncio.create_task(pods.run("a", wait()))
        await asyncio.sleep(0)
        if plugin:
            pods.set_plugin("a", plugin)
        assert pods.fail("a", "no")
        assert (await running).message == message
        assert not pods.fail("a", "no"), "it is in PreBind no more"


async def test_a_cancelled_pre_bind_has_ended_when_its_result_is_known() -> None:
    """What it wrote is undone next: a call that goes on would prepare the pod again after that."""
    pods = pods_in_pre_bind.PodsInPreBind()
    ended = False

    async def prepare() -> status.Status:
        nonlocal ended
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.001)
            ended = True
        return status.SUCCESS

    running = asyncio.create_task(pods.run("a", prepare()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    pods.cancel("a", status.error("", "no"))
    assert await running == status.error("", "no")
    assert ended


async def test_the_first_reason_to_cancel_a_pre_bind_counts() -> None:
    pods = pods_in_pre_bind.PodsInPreBind()
    running = asyncio.create_task(pods.run("a", asyncio.sleep(3600, status.SUCCESS)))
    await asyncio.sleep(0)
    assert pods.cancel("a", status.error("", "first"))
    assert pods.cancel("a", status.error("", "second"))
    assert (await running).message == "first"


async def test_a_groups_victim_that_stays_is_reported_with_its_own_node() -> None:
    """The group is nominated to no one node."""
    world = World("a")
    world.failing.add("a")
    world.go.set()
    world.preempting.evict_in_background(world.vip, "", [_evict("a")], {"node"})
    await world.settle()
    assert world.told == ["vip: not name-a on node: no"]
    world.preempting.retries.close()
