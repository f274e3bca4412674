"""PostBind: plugins are notified of each pod that is bound, of several by one call, and nothing depends on it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.helpers.metric_values import sums
from tests.helpers.virtual_time import on_virtual_time
from trireme.frontend import scheduler_metrics
from trireme.scheduling import ports, post_binding
from trireme.v1 import bind_pb2, cycle_pb2

_PROFILE = "p"


class _Bind:
    """A call takes a second; it fails with `fault`."""

    def __init__(self, profiles: frozenset[str] = frozenset({_PROFILE})) -> None:
        self.fault: Exception | None = None
        self.calls: list[list[str]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.metrics = scheduler_metrics.SchedulerMetrics(clock=asyncio.get_running_loop().time)
        binder: Any = self
        self.binding = post_binding.PostBinding(binder, self.metrics, profiles, self._start)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        self.calls.append([item.pod.name for item in request.items])
        await asyncio.sleep(1.0)
        if self.fault is not None:
            raise self.fault

    def bound(self, *names: str, pod_class: int = 1) -> None:
        for name in names:
            item = bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(name=name))
            self.binding.on_bound(cycle_pb2.Cycle(profile=_PROFILE, pod_class=pod_class), item)

    def seconds(self) -> tuple[float, float]:
        """How many pods were recorded, and how long it took for them."""
        return sums(self.metrics.instruments.point_seconds)[f"PostBind Success {_PROFILE}"]


@on_virtual_time
async def test_pods_that_are_bound_while_a_call_is_under_way_share_the_next() -> None:
    """Those of another class have a call of their own at once."""
    bind = _Bind()
    bind.bound("a")
    await asyncio.sleep(0.5)
    bind.bound("b", "c")
    bind.bound("x", pod_class=2)
    await asyncio.sleep(0.1)
    assert bind.calls == [["a"], ["x"]]
    await asyncio.sleep(3.0)
    assert bind.calls == [["a"], ["x"], ["b", "c"]]
    assert bind.seconds() == (4, pytest.approx(3.0))


@pytest.mark.parametrize("fails", [False, True])
@on_virtual_time
async def test_a_later_pod_of_the_class_is_notified_too(fails: bool) -> None:
    """Whether or not the call before it failed."""
    bind = _Bind()
    bind.fault = ports.PhaseFault("odd") if fails else None
    for name in "ab":
        bind.bound(name)
        await asyncio.sleep(2.0)
    assert bind.calls == [["a"], ["b"]]
    assert [task.exception() for task in bind.tasks] == [None, None]


@on_virtual_time
async def test_a_profile_without_plugins_is_recorded_and_nobody_called() -> None:
    bind = _Bind(frozenset())
    bind.bound("a")
    await asyncio.sleep(2.0)
    assert (bind.calls, bind.seconds()) == ([], (1, 0.0))
