"""Pods that a remote QueueSort plugin orders: when it is called about them, and where they are in the queue."""

import asyncio
import types
from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers import queue_sorter
from tests.helpers.frontend_world import World
from tests.helpers.frontend_world_api import PROFILE
from tests.helpers.queue_sorter import Sorter, configure_sorter, executor, held_pods, levels_of, pop_all, state_of
from trireme.cli import display, explain_command
from trireme.frontend.serving import scheduler_explanation, scheduler_status
from trireme.queueing import queued_pod, states
from trireme.remote import remote_queue_sort
from trireme.v1 import core_pb2
from trireme.wire import json_documents
from trireme_kube.client.informers.watch import EventKind


@pytest.fixture(name="sorter")
def _sorter(world: World) -> Sorter:
    return queue_sorter.add_sorter(world)


def test_pods_are_tried_in_the_order_of_their_keys(world: World, sorter: Sorter) -> None:
    """If this fails, the plugin that the profile names does not order the queue."""
    world.set_available("filters", available=False)
    sorter.levels = {"late": 3, "first": -7, "second": 2}
    for name, priority in (("late", 100), ("second", 0), ("first", 50)):
        world.create(name, 1, priority)
    assert levels_of(world) == {"late": (3,), "second": (2,), "first": (-7,)}
    assert pop_all(world) == ["first", "second", "late"]


def test_a_pod_is_called_about_once(world: World, sorter: Sorter) -> None:
    """If this fails, each attempt of each pod costs a call."""
    world.create("huge", 1000)
    world.answer_all()
    assert isinstance(state_of(world, "huge"), states.Unschedulable)
    world.loop.advance(400)
    world.answer_all()
    queued = world.frontend.scheduling.queue.contents.get("ns/huge")
    assert queued is not None
    assert queued.attempts == 2
    assert sorter.called_about() == ["huge"]


@pytest.mark.parametrize("ignored", [False, True])
def test_a_pod_that_the_plugin_has_no_key_for_keeps_no_other_waiting(
    world: World, sorter: Sorter, ignored: bool
) -> None:
    """If this fails, one pod with a wrong label keeps all pods of the cluster out of the queue."""
    world.set_available("filters", available=False)
    sorter.keyless, sorter.levels, sorter.ignores_failure = {"odd"}, {"good": 5, "better": 4}, ignored
    # Together: the second and third come while the call about the first is under way.
    for name in ("good", "odd", "better"):
        world.create(name, 1, priority=7)
    assert pop_all(world) == (["odd", "better", "good"] if ignored else ["better", "good"])
    if ignored:
        return
    assert isinstance(state_of(world, "odd"), states.PreEnqueuePending)
    (report,) = (pod for pod in scheduler_status.status(world.frontend_state()).pending if pod.pod.name == "odd")
    assert report.summary.startswith("plugin Sorter failed: far:1: UNAVAILABLE: refused; is tried again at ")
    sorter.keyless = set()
    world.loop.advance(1.0)
    assert levels_of(world)["odd"] == (0,)


def test_a_pod_without_a_key_is_not_in_the_queue(world: World, sorter: Sorter) -> None:
    """If this fails, a plugin that is down lets pods overtake each other, or loses them."""
    sorter.failing = {"p"}
    world.create("p", 1)
    assert isinstance(state_of(world, "p"), states.PreEnqueuePending)
    world.loop.advance(1.1)
    assert sorter.called_about() == ["p", "p"]
    sorter.failing = set()
    world.loop.advance(2.1)
    assert isinstance(state_of(world, "p"), states.InFlight)


def test_the_time_until_the_key_is_there_is_no_time_in_the_queue(world: World, sorter: Sorter) -> None:
    """If this fails, no step of `trireme explain` shows the wait for the plugin."""
    sorter.failing = {"p"}
    world.create("p", 1)
    world.loop.advance(60)
    sorter.failing = set()
    world.loop.advance(10.1)
    pod = world.frontend.scheduling.queue.contents.get("ns/p")
    assert pod is not None
    assert pod.popped_at - pod.initial_attempt_timestamp < 1
    assert 60 < pod.initial_attempt_timestamp - pod.first_queued_at < 71


def test_an_ignored_failure_leaves_a_pod_to_its_priority(world: World, sorter: Sorter) -> None:
    """If this fails, `failurePolicy: Ignore` keeps pods waiting."""
    world.set_available("filters", available=False)
    sorter.failing, sorter.ignores_failure = {"p"}, True
    world.create("p", 1, 9)
    assert isinstance(state_of(world, "p"), states.Active)
    assert levels_of(world) == {"p": (-9,)}


def test_pods_that_come_together_share_a_call(world: World, sorter: Sorter) -> None:
    """If this fails, a thousand pods are a thousand calls."""
    for number in range(20):
        world.api.add_pod(f"p{number}", 1, 0)
    world.deliver("pods", 20)
    assert len(sorter.calls) <= 2
    assert sorted(sorter.called_about()) == sorted(f"p{number}" for number in range(20))


def test_a_pod_that_changes_moves(world: World, sorter: Sorter) -> None:
    """If this fails, a pod whose label says so now stays behind those that it should be before."""
    world.set_available("filters", available=False)
    sorter.levels = {"a": 1, "b": 2}
    for name in ("a", "b"):
        world.create(name, 1)
    sorter.levels["b"] = 0
    changed = dict(world.api.stored("pods")["b"])
    changed["spec"] = {**changed["spec"], "nodeSelector": {"zone": "z"}}
    world.api.record("pods", EventKind.MODIFIED, changed)
    world.deliver("pods", 1)
    assert sorter.called_about() == ["a", "b", "b"]
    assert pop_all(world) == ["b", "a"]


def test_a_pod_that_changes_during_its_attempt_moves_too(world: World, sorter: Sorter) -> None:
    """If this fails, the event that wakes it wakes others first, as its key is only requested then."""
    sorter.levels = {"huge": 5}
    world.create("huge", 1000)
    assert isinstance(state_of(world, "huge"), states.InFlight)
    sorter.levels["huge"] = 2
    changed = dict(world.api.stored("pods")["huge"])
    changed["spec"] = {**changed["spec"], "nodeSelector": {"zone": "z"}}
    world.api.record("pods", EventKind.MODIFIED, changed)
    world.deliver("pods", 1)
    assert sorter.called_about() == ["huge"]
    world.answer_all()
    assert isinstance(state_of(world, "huge"), states.Unschedulable)
    assert (sorter.called_about(), levels_of(world)) == (["huge", "huge"], {"huge": (2,)})


def test_another_version_of_the_plugin_orders_all_anew(world: World, sorter: Sorter) -> None:
    """If this fails, pods from before and after an update of the plugin are in no common order."""
    world.set_available("filters", available=False)
    for name in ("a", "b", "c"):
        world.create(name, 1)
    sorter.levels = {"a": 3, "b": 2, "c": 1}
    configure_sorter(world, sorter)
    assert pop_all(world) == ["c", "b", "a"]


@pytest.mark.parametrize("same", [True, False])
def test_a_reload_asks_for_keys_anew_only_if_they_depend_on_something_else(
    world: World, sorter: Sorter, same: bool
) -> None:
    """If this fails, each change of a weight asks about all queued pods, or new arguments about none."""
    world.set_available("filters", available=False)
    for name in ("a", "b"):
        world.create(name, 1)
    configure_sorter(world, sorter, "arguments")
    again = Sorter()
    again.levels = {"a": 2, "b": 1, "c": 0}
    configure_sorter(world, again, "arguments" if same else "others", anew=False)
    assert sorted(again.called_about()) == ([] if same else ["a", "b"])
    world.create("c", 1)
    assert again.called_about()[-1] == "c"
    assert pop_all(world) == (["a", "b", "c"] if same else ["c", "b", "a"])


def test_a_pod_that_changes_meanwhile_gets_its_new_key(world: World, sorter: Sorter) -> None:
    """If this fails, the key is kept in an object that an update of the pod has replaced, and the pod has none."""
    world.set_available("filters", available=False)
    world.create("p", 1)
    sorter.levels, sorter.failing = {"p": 5}, {"p"}
    configure_sorter(world, sorter, "others")
    original = sorter.sort_keys

    async def slow(profile: str, pods: Sequence[core_pb2.Pod]) -> list[remote_queue_sort.Answer]:
        await asyncio.sleep(0.5)
        return await original(profile, pods)

    def change(label: str) -> None:
        changed = dict(world.api.stored("pods")["p"])
        changed["metadata"] = {**changed["metadata"], "annotations": {"changed": label}}
        world.api.record("pods", EventKind.MODIFIED, changed)
        world.deliver("pods", 1)

    change("between the calls")
    sorter.failing, sorter.sort_keys = set(), slow  # type: ignore[method-assign]
    world.loop.advance(1.2)
    assert levels_of(world) == {"p": (0,)}
    change("while it is called")
    world.loop.advance(0.6)
    assert (levels_of(world), held_pods(world)) == ({"p": (5,)}, {})
    pod = world.frontend.scheduling.queue.contents.get("ns/p")
    assert pod is not None
    assert not executor(world).remote.sort_keys.lacks_key(pod)


def test_without_the_plugin_priorities_decide_again(world: World, sorter: Sorter) -> None:
    """If this fails, keys of a plugin that is not configured any more are compared with priorities."""
    world.set_available("filters", available=False)
    sorter.levels = {"low": -1000}
    for name, priority in (("low", 1), ("high", 2)):
        world.create(name, 1, priority)
    configure_sorter(world, None)
    world.create("middle", 1, 1)
    assert pop_all(world) == ["high", "low", "middle"]


def test_a_plugin_that_joins_gives_keys_to_those_that_wait(world: World) -> None:
    """If this fails, pods that came before the plugin keep a key that compares with nothing."""
    world.set_available("filters", available=False)
    for name, priority in (("a", 5), ("b", 6)):
        world.create(name, 1, priority)
    sorter = Sorter()
    sorter.levels = {"a": 1, "b": 2}
    configure_sorter(world, sorter)
    assert pop_all(world) == ["a", "b"]


def test_the_status_says_what_a_pod_without_a_key_waits_for(world: World, sorter: Sorter) -> None:
    """If this fails, it says that a plugin has to let the pod in, which no plugin can refuse."""
    answer: dict[str, Any] = {}
    original = sorter.sort_keys

    async def slow(profile: str, pods: Sequence[core_pb2.Pod]) -> Any:
        explained = scheduler_explanation.explain(world.frontend_state(), "ns/p")
        assert explained is not None
        answer.update(json_documents.document(explained))
        return await original(profile, pods)

    sorter.sort_keys = slow  # type: ignore[method-assign]
    world.create("p", 1)
    assert "waits for plugin Sorter to give it a place in the queue" in str(answer)
    shown = " ".join(display.as_text(explain_command.render(answer)).split())
    assert "waiting for PreEnqueue or QueueSort" in shown
    assert "of a PreEnqueue plugin" not in shown


def test_the_status_of_a_pod_without_a_key_names_both_plugins(
    world: World, sorter: Sorter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, it names only the plugin that has let the pod in, and not the one that it waits for."""
    monkeypatch.setattr(executor(world).remote, "_gates", {PROFILE: [types.SimpleNamespace(name="Far")]})
    monkeypatch.setattr(executor(world).remote, "execute", lambda instructions: None)
    world.create("p", 1)
    report = scheduler_explanation.explain(world.frontend_state(), "ns/p")
    assert report is not None
    assert report.scheduler.summary == "may enter the queue if Far agrees, and Sorter gives it a place"


def test_one_call_of_the_plugin_is_under_way_at_a_time(world: World, sorter: Sorter) -> None:
    """A slow plugin would get as many calls as there are pods, and the next pods share none."""
    world.set_available("filters", available=False)
    under_way, most = 0, 0
    original = sorter.sort_keys

    async def slow(profile: str, pods: Sequence[core_pb2.Pod]) -> list[remote_queue_sort.Answer]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.5)
        under_way -= 1
        return await original(profile, pods)

    sorter.sort_keys = slow  # type: ignore[method-assign]
    for name in ("a", "b", "c"):
        world.create(name, 1)
    world.loop.advance(3)
    assert most == 1
    assert [sorted(names) for names in sorter.calls] == [["a"], ["b", "c"]]
    world.create("d", 1)
    world.loop.advance(3)
    assert sorter.called_about()[-1] == "d"


def test_a_pod_that_has_no_key_yet_is_called_about_by_who_waits_for_it(
    world: World, sorter: Sorter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not in the queue, though it may have changed meanwhile: its place there cannot be kept."""
    sort_keys = executor(world).remote.sort_keys
    original = sorter.sort_keys

    async def slow(profile: str, pods: Sequence[core_pb2.Pod]) -> list[remote_queue_sort.Answer]:
        await asyncio.sleep(0.5)
        return await original(profile, pods)

    monkeypatch.setattr(sorter, "sort_keys", slow)
    sorter.failing = {"p", "q"}
    world.create("p", 1)
    world.create("q", 1)  # waits for the call about the first
    pod = world.frontend.scheduling.queue.contents.get("ns/q")
    assert isinstance(pod, queued_pod.QueuedPodInfo)
    again = world.loop.create_task(sort_keys.request(pod))
    changed = dict(world.api.stored("pods")["q"])
    changed["metadata"] = {**changed["metadata"], "annotations": {"a": "b"}}
    world.api.record("pods", EventKind.MODIFIED, changed)
    world.deliver("pods", 1)
    world.loop.advance(1.5)
    assert again.done()
    assert sort_keys.failed_renewals() == {}


@pytest.mark.parametrize("same", [True, False])
def test_a_new_connection_to_the_plugin_is_called_from_then_on(world: World, sorter: Sorter, same: bool) -> None:
    world.set_available("filters", available=False)
    sort_keys = executor(world).remote.sort_keys
    again: Any = Sorter()
    if not same:
        again.name = "Another"
    sort_keys.reconnect(again)
    sort_keys.reconnect(None)
    world.create("p", 1)
    assert (again.called_about(), sorter.called_about()) == ((["p"], []) if same else ([], ["p"]))


@pytest.mark.parametrize(
    ("then", "levels"),
    [("no plugin", []), ("ignored", [(9,)]), ("another plugin", [(7,), (9,)])],
    ids=["no plugin", "ignored", "another plugin"],
)
def test_an_answer_that_comes_after_a_new_configuration_orders_the_pod_until_the_next_alone(
    world: World, sorter: Sorter, then: str, levels: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not where there is no plugin any more, or where it left the pod to its priority."""
    world.set_available("filters", available=False)
    sorter.levels = {"p": 5}
    world.create("p", 1, 3)
    original = sorter.sort_keys

    async def slow(profile: str, pods: Sequence[core_pb2.Pod]) -> list[remote_queue_sort.Answer]:
        answers = await original(profile, pods)
        await asyncio.sleep(0.5)
        return answers

    monkeypatch.setattr(sorter, "sort_keys", slow)
    sorter.levels = {"p": 7}
    sorter.ignores_failure, sorter.keyless = True, {"p"} if then == "ignored" else set()
    configure_sorter(world, sorter, "v2")
    if then != "no plugin":
        again = Sorter()
        again.levels = {"p": 9}
        configure_sorter(world, again, "v3")
    else:
        configure_sorter(world, None)
    world.loop.advance(0.4)
    before = levels_of(world)
    found: list[tuple[int, ...]] = []
    sort_anew = executor(world).remote.sort_keys._sort_anew

    def note(key: str, uid: str) -> None:
        sort_anew(key, uid)
        found.append(levels_of(world)["p"])

    executor(world).remote.sort_keys._sort_anew = note
    world.loop.advance(2.0)
    assert before == {"p": (-3,) if then == "no plugin" else (5,)}
    assert found == levels


def test_a_pod_that_waits_to_enter_the_queue_is_no_renewal_any_more(world: World, sorter: Sorter) -> None:
    """It is called about until it may enter; two rows of calls would be made about it."""
    world.set_available("filters", available=False)
    world.create("huge", 1000)
    sorter.failing = {"huge"}
    configure_sorter(world, sorter, "others")
    sort_keys = executor(world).remote.sort_keys
    assert len(sort_keys.failed_renewals()) == 1
    world.set_available("filters", available=True)
    world.create("other", 1)
    while world.pending_calls:
        world.answer_all()
    assert isinstance(state_of(world, "huge"), states.Unschedulable)
    world.loop.advance(400)
    assert isinstance(state_of(world, "huge"), states.PreEnqueuePending)
    world.loop.advance(20)
    assert sort_keys.failed_renewals() == {}
