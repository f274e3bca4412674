"""Pods that a remote QueueSort plugin orders: when it is called about them, and where they are in the queue."""

import asyncio
import types
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.helpers.frontend_world import World
from tests.helpers.frontend_world_api import PROFILE
from trireme.cli import display, explain_command
from trireme.framework import sort_key, status
from trireme.frontend import queue_plugin_calls
from trireme.frontend.serving import scheduler_explanation, scheduler_status
from trireme.queueing import queued_pod, states
from trireme.remote import remote_queue_sort
from trireme.scheduling import queue_executor
from trireme.v1 import core_pb2
from trireme.wire import json_documents
from trireme_kube.client.informers.watch import EventKind


class Sorter:
    """A plugin that orders pods by `levels`; calls about `failing` names fail, and there are no keys for `keyless`."""

    name = "Sorter"

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        self.failing: set[str] = set()
        self.keyless: set[str] = set()
        self.ignores_failure = False
        self.calls: list[list[str]] = []

    async def sort_keys(self, profile: str, pods: Sequence[core_pb2.Pod]) -> list[remote_queue_sort.Answer]:
        """As RemoteQueueSortPlugin has it."""
        assert profile == PROFILE
        names = [pod.metadata.name for pod in pods]
        self.calls.append(names)
        failed = self.failing.intersection(names)
        return [
            self._failure() if failed or name in self.keyless else sort_key.SortKey((self.levels.get(name, 0),))
            for name in names
        ]

    def _failure(self) -> status.Status | None:
        return None if self.ignores_failure else status.error(self.name, "far:1: UNAVAILABLE: refused")

    def called_about(self) -> list[str]:
        """The pods of all calls, in order."""
        return [name for names in self.calls for name in names]


@pytest.fixture(name="sorter")
def _sorter(world: World) -> Sorter:
    sorter = Sorter()
    _executor(world).remote.sort_keys.configure(sorter, [])  # type: ignore[arg-type]
    return sorter


def _executor(world: World) -> queue_executor.QueueExecutor[queue_plugin_calls.QueuePluginCaller]:
    return world.frontend.scheduling.queue_executor


def _configure(world: World, sorter: Sorter | None, basis: str = "", *, anew: bool = True) -> None:
    """Another plugin orders the queue from now on, or none."""

    async def configure() -> None:
        pods = world.frontend.scheduling.queue.contents.pods()
        _executor(world).remote.sort_keys.configure(sorter, pods, basis, anew=anew)  # type: ignore[arg-type]

    world.loop.run_until_complete(configure())
    world.loop.settle()


def _state(world: World, name: str) -> states.QueueState:
    found = world.frontend.scheduling.queue.contents.get(f"ns/{name}")
    assert found is not None
    return found.state


def _levels(world: World) -> Mapping[str, tuple[int, ...]]:
    pods = world.frontend.scheduling.queue.contents.waiting_pods()
    return {pod.key.removeprefix("ns/"): pod.record.level for pod in pods}


def _pop_all(world: World) -> list[str]:
    """The names of the pods in the active queue, in the order in which they are tried."""
    queue, names = world.frontend.scheduling.queue, []
    while (batch := queue.pop(world.now(), 10)) is not None:
        names += [pod.key.removeprefix("ns/") for pod in batch.pods]  # type: ignore[union-attr]
    return names


def test_pods_are_tried_in_the_order_of_their_keys(world: World, sorter: Sorter) -> None:
    """If this fails, the plugin that the profile names does not order the queue."""
    world.set_available("filters", available=False)
    sorter.levels = {"late": 3, "first": -7, "second": 2}
    for name, priority in (("late", 100), ("second", 0), ("first", 50)):
        world.create(name, 1, priority)
    assert _levels(world) == {"late": (3,), "second": (2,), "first": (-7,)}
    assert _pop_all(world) == ["first", "second", "late"]


def test_a_pod_is_called_about_once(world: World, sorter: Sorter) -> None:
    """If this fails, each attempt of each pod costs a call."""
    world.create("huge", 1000)
    world.answer_all()
    assert isinstance(_state(world, "huge"), states.Unschedulable)
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
    assert _pop_all(world) == (["odd", "better", "good"] if ignored else ["better", "good"])
    if ignored:
        return
    assert isinstance(_state(world, "odd"), states.PreEnqueuePending)
    (report,) = (pod for pod in scheduler_status.status(world.frontend_state()).pending if pod.pod.name == "odd")
    assert report.summary.startswith("plugin Sorter failed: far:1: UNAVAILABLE: refused; is tried again at ")
    sorter.keyless = set()
    world.loop.advance(1.0)
    assert _levels(world)["odd"] == (0,)


def test_a_pod_without_a_key_is_not_in_the_queue(world: World, sorter: Sorter) -> None:
    """If this fails, a plugin that is down lets pods overtake each other, or loses them."""
    sorter.failing = {"p"}
    world.create("p", 1)
    assert isinstance(_state(world, "p"), states.PreEnqueuePending)
    world.loop.advance(1.1)
    assert sorter.called_about() == ["p", "p"]
    sorter.failing = set()
    world.loop.advance(2.1)
    assert isinstance(_state(world, "p"), states.InFlight)


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
    assert isinstance(_state(world, "p"), states.Active)
    assert _levels(world) == {"p": (-9,)}


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
    assert _pop_all(world) == ["b", "a"]


def test_a_pod_that_changes_during_its_attempt_moves_too(world: World, sorter: Sorter) -> None:
    """If this fails, the event that wakes it wakes others first, as its key is only requested then."""
    sorter.levels = {"huge": 5}
    world.create("huge", 1000)
    assert isinstance(_state(world, "huge"), states.InFlight)
    sorter.levels["huge"] = 2
    changed = dict(world.api.stored("pods")["huge"])
    changed["spec"] = {**changed["spec"], "nodeSelector": {"zone": "z"}}
    world.api.record("pods", EventKind.MODIFIED, changed)
    world.deliver("pods", 1)
    assert sorter.called_about() == ["huge"]
    world.answer_all()
    assert isinstance(_state(world, "huge"), states.Unschedulable)
    assert (sorter.called_about(), _levels(world)) == (["huge", "huge"], {"huge": (2,)})


def test_another_version_of_the_plugin_orders_all_anew(world: World, sorter: Sorter) -> None:
    """If this fails, pods from before and after an update of the plugin are in no common order."""
    world.set_available("filters", available=False)
    for name in ("a", "b", "c"):
        world.create(name, 1)
    sorter.levels = {"a": 3, "b": 2, "c": 1}
    _configure(world, sorter)
    assert _pop_all(world) == ["c", "b", "a"]


@pytest.mark.parametrize("same", [True, False])
def test_a_reload_asks_for_keys_anew_only_if_they_depend_on_something_else(
    world: World, sorter: Sorter, same: bool
) -> None:
    """If this fails, each change of a weight asks about all queued pods, or new arguments about none."""
    world.set_available("filters", available=False)
    for name in ("a", "b"):
        world.create(name, 1)
    _configure(world, sorter, "arguments")
    again = Sorter()
    again.levels = {"a": 2, "b": 1, "c": 0}
    _configure(world, again, "arguments" if same else "others", anew=False)
    assert sorted(again.called_about()) == ([] if same else ["a", "b"])
    world.create("c", 1)
    assert again.called_about()[-1] == "c"
    assert _pop_all(world) == (["a", "b", "c"] if same else ["c", "b", "a"])


def _held_pods(world: World) -> Mapping[str, int]:
    return _executor(world).remote.pre_enqueue_calls.held_pods()


@pytest.mark.parametrize("alone", [True, False], ids=["of the pod", "of the call"])
def test_a_new_key_that_failed_is_asked_for_until_it_is_there(world: World, sorter: Sorter, alone: bool) -> None:
    """If this fails, the pod keeps its key of an old configuration as long as it is queued.

    Either the plugin has no key for this pod, or the call fails and with it the other pod has none.
    """
    world.set_available("filters", available=False)
    sorter.levels = {"a": 1, "b": 2}
    for name in ("a", "b"):
        world.create(name, 1)
    sorter.levels = {"a": 11, "b": 10}
    (sorter.keyless if alone else sorter.failing).add("b")
    _configure(world, sorter, "others")
    world.loop.advance(0.5)
    assert _levels(world) == {"a": (11 if alone else 1,), "b": (2,)}
    del sorter.calls[:]
    for seconds, calls in ((0.6, 1), (1.5, 1), (0.6, 2), (4.1, 3), (8.1, 4), (10.1, 5), (10.1, 6)):
        world.loop.advance(seconds)
        assert len(sorter.calls) == calls, world.now()
        assert _held_pods(world) == {"Sorter": 1 if alone else 2}
    assert set(sorter.called_about()) == ({"b"} if alone else {"a", "b"})
    sorter.failing, sorter.keyless = set(), set()
    world.loop.advance(10.1)
    assert _levels(world) == {"a": (11,), "b": (10,)}
    assert _held_pods(world) == {}
    world.loop.advance(60)
    assert len(sorter.calls) == 7
    assert _pop_all(world) == ["b", "a"]


def test_the_status_says_that_a_pod_keeps_its_place_only_because_the_plugin_failed(
    world: World, sorter: Sorter
) -> None:
    """If this fails, the order of the queue is that of two configurations, and nothing shows it."""
    world.set_available("filters", available=False)
    for name in ("a", "b"):
        world.create(name, 1)
    sorter.keyless = {"b"}
    _configure(world, sorter, "others")
    summaries = {pod.example.name: pod.summary for pod in scheduler_status.status(world.frontend_state()).pending_alike}
    waits = "waits for filter, which is not available"
    assert summaries == {
        "a": waits,
        "b": f"{waits}; keeps its place, as plugin Sorter failed: far:1: UNAVAILABLE: refused; the plugin "
        "is called again at 13:46:41 UTC",
    }
    explained = scheduler_explanation.explain(world.frontend_state(), "ns/b")
    assert explained is not None
    assert explained.scheduler.pending.waits_for.kind == "service"
    assert explained.scheduler.pending.waits_for.plugins == ["Sorter"]
    world.loop.advance(1.1)
    assert "the plugin is called again at 13:46:43 UTC" in str(
        scheduler_explanation.explain(world.frontend_state(), "ns/b")
    )
    sorter.keyless = set()
    world.loop.advance(2)
    (alike,) = scheduler_status.status(world.frontend_state()).pending_alike
    assert (alike.count, alike.summary) == (2, waits)


def test_a_new_key_that_failed_and_is_ignored_leaves_the_pod_to_its_priority(world: World, sorter: Sorter) -> None:
    """If this fails, a key of another configuration is compared with those of this one."""
    world.set_available("filters", available=False)
    sorter.levels = {"a": -100, "b": 2}
    for name in ("a", "b"):
        world.create(name, 1, priority=7)
    sorter.levels, sorter.keyless, sorter.ignores_failure = {"b": -8}, {"a"}, True
    _configure(world, sorter, "others")
    assert _levels(world) == {"a": (-7,), "b": (-8,)}
    assert _held_pods(world) == {}


def test_a_pod_that_changes_meanwhile_gets_its_new_key(world: World, sorter: Sorter) -> None:
    """If this fails, the key is kept in an object that an update of the pod has replaced, and the pod has none."""
    world.set_available("filters", available=False)
    world.create("p", 1)
    sorter.levels, sorter.failing = {"p": 5}, {"p"}
    _configure(world, sorter, "others")
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
    assert _levels(world) == {"p": (0,)}
    change("while it is called")
    world.loop.advance(0.6)
    assert (_levels(world), _held_pods(world)) == ({"p": (5,)}, {})
    pod = world.frontend.scheduling.queue.contents.get("ns/p")
    assert pod is not None
    assert not _executor(world).remote.sort_keys.lacks_key(pod)


def test_a_reload_has_a_failed_key_asked_for_by_what_holds_then(world: World, sorter: Sorter) -> None:
    """If this fails, calls for an earlier plugin or arguments go on after a reload, or a pod has a key of these."""
    world.set_available("filters", available=False)
    world.create("p", 1)
    sorter.failing = {"p"}
    _configure(world, sorter, "v2")
    world.loop.advance(8)
    again = Sorter()
    again.levels = {"p": 5}
    asked = len(sorter.calls)
    _configure(world, again, "v3", anew=False)
    assert (_levels(world), again.called_about(), _held_pods(world)) == ({"p": (5,)}, ["p"], {})
    world.loop.advance(60)
    assert (len(sorter.calls), again.called_about()) == (asked, ["p"])


def test_without_the_plugin_no_failed_key_is_asked_for(world: World, sorter: Sorter) -> None:
    """If this fails, a plugin that was taken out of the configuration is called forever."""
    world.set_available("filters", available=False)
    world.create("p", 1, 3)
    sorter.failing = {"p"}
    _configure(world, sorter, "v2")
    _configure(world, None)
    asked = len(sorter.calls)
    world.loop.advance(60)
    assert (len(sorter.calls), _levels(world), _held_pods(world)) == (asked, {"p": (-3,)}, {})


def test_a_pod_that_is_gone_is_not_called_about_again(world: World, sorter: Sorter) -> None:
    """If this fails, the alert goes on about a pod that nobody has any more."""
    world.set_available("filters", available=False)
    world.create("p", 1)
    sorter.failing = {"p"}
    _configure(world, sorter, "v2")
    asked = len(sorter.calls)
    world.api.remove("pods", "p")
    world.deliver("pods", 1000)
    world.loop.advance(60)
    assert (len(sorter.calls), _held_pods(world)) == (asked, {})


def test_without_the_plugin_priorities_decide_again(world: World, sorter: Sorter) -> None:
    """If this fails, keys of a plugin that is not configured any more are compared with priorities."""
    world.set_available("filters", available=False)
    sorter.levels = {"low": -1000}
    for name, priority in (("low", 1), ("high", 2)):
        world.create(name, 1, priority)
    _configure(world, None)
    world.create("middle", 1, 1)
    assert _pop_all(world) == ["high", "low", "middle"]


def test_a_plugin_that_joins_gives_keys_to_those_that_wait(world: World) -> None:
    """If this fails, pods that came before the plugin keep a key that compares with nothing."""
    world.set_available("filters", available=False)
    for name, priority in (("a", 5), ("b", 6)):
        world.create(name, 1, priority)
    sorter = Sorter()
    sorter.levels = {"a": 1, "b": 2}
    _configure(world, sorter)
    assert _pop_all(world) == ["a", "b"]


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
    monkeypatch.setattr(_executor(world).remote, "_gates", {PROFILE: [types.SimpleNamespace(name="Far")]})
    monkeypatch.setattr(_executor(world).remote, "execute", lambda instructions: None)
    world.create("p", 1)
    report = scheduler_explanation.explain(world.frontend_state(), "ns/p")
    assert report is not None
    assert report.scheduler.summary == "may enter the queue if Far agrees, and Sorter gives it a place"


def test_a_plugin_that_fails_again_later_is_called_again_after_a_second(world: World, sorter: Sorter) -> None:
    """The first failure's back-off and its end count for that one alone."""
    world.set_available("filters", available=False)
    world.create("p", 1)
    for number in range(2):
        sorter.failing = {"p"}
        _configure(world, sorter, f"broken-{number}")
        for seconds in (1.1, 2.1, 4.1):
            world.loop.advance(seconds)
        sorter.failing = set()
        world.loop.advance(10)
        assert _held_pods(world) == {}
        del sorter.calls[:]
    sorter.failing = {"p"}
    _configure(world, sorter, "broken")
    world.loop.advance(1.1)
    assert len(sorter.calls) == 2
    sorter.failing = set()
    world.loop.advance(2.1)
    assert _held_pods(world) == {}


def test_a_new_configuration_forgets_what_failed_before_it(world: World, sorter: Sorter) -> None:
    """The status would name a failure of the plugin, though this one was not called about the pod yet."""
    world.set_available("filters", available=False)
    world.create("p", 1)
    sorter.failing = {"p"}
    _configure(world, sorter, "v2")
    world.loop.advance(8)
    assert _executor(world).remote.sort_keys.failed_renewals()
    sort_keys = _executor(world).remote.sort_keys

    async def configure() -> None:
        sort_keys.configure(sorter, world.frontend.scheduling.queue.contents.pods(), "v3")  # type: ignore[arg-type]
        assert not sort_keys.failed_renewals()

    world.loop.run_until_complete(configure())
    world.loop.settle()
    world.loop.advance(7.5)
    calls = len(sorter.calls)
    world.loop.advance(1.0)
    assert len(sorter.calls) == calls + 1, "its back-off began with a second"


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


def test_a_failed_call_is_repeated_once_at_a_time(world: World, sorter: Sorter) -> None:
    """Each pod that fails would begin a row of calls about all of them."""
    world.set_available("filters", available=False)
    for name in ("a", "b", "c"):
        world.create(name, 1)
    sorter.keyless = {"a", "b", "c"}
    _configure(world, sorter, "broken")
    calls = len(sorter.calls)
    world.loop.advance(1.1)
    assert len(sorter.calls) == calls + 1
    assert sorted(sorter.calls[-1]) == ["a", "b", "c"]


def test_a_pod_that_has_no_key_yet_is_called_about_by_who_waits_for_it(
    world: World, sorter: Sorter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not in the queue, though it may have changed meanwhile: its place there cannot be kept."""
    sort_keys = _executor(world).remote.sort_keys
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
    sort_keys = _executor(world).remote.sort_keys
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
    _configure(world, sorter, "v2")
    if then != "no plugin":
        again = Sorter()
        again.levels = {"p": 9}
        _configure(world, again, "v3")
    else:
        _configure(world, None)
    world.loop.advance(0.4)
    before = _levels(world)
    found: list[tuple[int, ...]] = []
    sort_anew = _executor(world).remote.sort_keys._sort_anew

    def note(key: str, uid: str) -> None:
        sort_anew(key, uid)
        found.append(_levels(world)["p"])

    _executor(world).remote.sort_keys._sort_anew = note
    world.loop.advance(2.0)
    assert before == {"p": (-3,) if then == "no plugin" else (5,)}
    assert found == levels


def test_a_pod_that_waits_to_enter_the_queue_is_no_renewal_any_more(world: World, sorter: Sorter) -> None:
    """It is called about until it may enter; two rows of calls would be made about it."""
    world.set_available("filters", available=False)
    world.create("huge", 1000)
    sorter.failing = {"huge"}
    _configure(world, sorter, "others")
    sort_keys = _executor(world).remote.sort_keys
    assert len(sort_keys.failed_renewals()) == 1
    world.set_available("filters", available=True)
    world.create("other", 1)
    while world.pending_calls:
        world.answer_all()
    assert isinstance(_state(world, "huge"), states.Unschedulable)
    world.loop.advance(400)
    assert isinstance(_state(world, "huge"), states.PreEnqueuePending)
    world.loop.advance(20)
    assert sort_keys.failed_renewals() == {}
