"""Ports with nothing behind them: every write succeeds and is handed on, and nothing is measured."""

import inspect
from typing import Any

import pytest

from trireme.scheduling import in_memory, ports
from trireme.v1 import bind_pb2, cycle_pb2, status_pb2
from trireme_kube.client.events import event_series

SUCCESS = status_pb2.CODE_SUCCESS


def _pod(name: str) -> cycle_pb2.PodIdentity:
    return cycle_pb2.PodIdentity(namespace="ns", name=name, uid=f"uid-{name}")


async def test_all_pods_are_bound_and_handed_on_together() -> None:
    """The caller shows a batch by one event, as the watch does."""
    bound: list[list[tuple[str, str]]] = []
    binder = in_memory.Binder(lambda items: bound.append([(item.pod.name, item.node_name) for item in items]))
    items = [bind_pb2.BindItem(pod=_pod(name), node_name=f"n-{name}") for name in "ab"]
    results = [result async for result in binder.bind(bind_pb2.BindRequest(items=items))]
    assert [(result.index, result.status.code) for result in results] == [(0, SUCCESS), (1, SUCCESS)]
    assert bound == [[("a", "n-a"), ("b", "n-b")]]


async def test_each_action_succeeds_and_is_handed_on() -> None:
    actions = [
        bind_pb2.Action(pod=_pod("a"), evict=bind_pb2.Evict(node_name="n")),
        bind_pb2.Action(pod=_pod("b"), clear_nomination=bind_pb2.ClearNomination()),
    ]
    taken: list[bind_pb2.Action] = []
    seen: list[int] = []
    results = await in_memory.Binder(on_action=taken.append).apply(actions, lambda index, result: seen.append(index))
    assert [result.status.code for result in results] == [SUCCESS, SUCCESS]
    assert (taken, seen) == (actions, [0, 1])


async def test_permit_lets_all_pods_pass_and_pre_bind_has_no_work() -> None:
    """Reserve has assumed what PreBind would write."""
    binder = in_memory.Binder()
    items = [bind_pb2.BindItem(pod=_pod(name)) for name in "ab"]
    permitted = await binder.permit(bind_pb2.PermitRequest(items=items))
    assert [result.status.code for result in permitted.results] == [SUCCESS, SUCCESS]
    work: dict[int, Any] = {}
    prepared: dict[int, Any] = {}
    to_prepare = [ports.PreBindItem(cycle_pb2.Cycle(), item) for item in items]
    await binder.pre_bind_pre_flight(to_prepare, lambda index, status: work.update({index: status.code}))
    await binder.pre_bind(
        to_prepare, lambda index, result: prepared.update({index: result.status.code}), lambda index, address: None
    )
    assert work == dict.fromkeys((0, 1), status_pb2.CODE_SKIP)
    assert prepared == dict.fromkeys((0, 1), SUCCESS)


@pytest.mark.parametrize(("reason", "handed_on"), [("FailedScheduling", {"uid-a": "no room"}), ("Preempted", {})])
def test_only_failures_are_handed_on(reason: str, handed_on: dict[str, str]) -> None:
    messages: dict[str, str] = {}
    events = in_memory.Events(messages.__setitem__)
    pod = event_series.pod_reference("ns", "a", "uid-a", "1")
    events.record(pod, "Warning", reason, "Scheduling", "no room", "default-scheduler")
    events.record_scheduled(pod, "n", "default-scheduler")
    assert messages == handed_on


def test_the_observer_has_each_method_and_measures_nothing() -> None:
    observer = in_memory.observer()
    assert observer.clock() == observer.clock()
    methods = {name for name in vars(ports.Observer) if name.startswith("on_")}
    assert len(methods) > 20
    for name in methods:
        method = getattr(observer, name)
        needed = [each for each in inspect.signature(method).parameters.values() if each.default is each.empty]
        assert method(*[None] * len(needed)) is None
    registrations: list[Any] = []
    assert observer.with_timing_of_hints(registrations) is registrations


def test_no_remote_plugin_takes_part_in_queueing() -> None:
    plugins = in_memory.queue_plugins()
    unused: Any = None
    assert (plugins.registrations(unused), plugins.missing("default-scheduler")) == ((), "")
    assert not plugins.make_caller(unused).has_to_be_called(unused)
