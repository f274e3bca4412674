"""How waits on Permit and in PreBind end when their time is over."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from google.protobuf import duration_pb2

from tests.helpers import fake_binder, virtual_time
from trireme.cache import object_waits
from trireme.framework import status
from trireme.scheduling import bind_limits, item_batches, ports, pre_binding, waiting_pods
from trireme.v1 import bind_pb2, cycle_pb2, snapshot_pb2, status_pb2
from trireme.wire import status as wire_status

_CLAIM = snapshot_pb2.ObjectKey(kind="persistent_volume_claim", namespace="default", name="data")
_VOLUME = snapshot_pb2.ObjectKey(kind="persistent_volume", name="disk")


class _Binder(fake_binder.FakeBinder):
    """Bind, one of whose plugins waits."""

    def __init__(self, message: str) -> None:
        wait = status_pb2.Status(code=status_pb2.CODE_WAIT, plugin="Harbour", messages=[message] if message else [])
        self.result = bind_pb2.PreBindResult(
            status=wait, wait_for=[_CLAIM, _VOLUME], timeout=duration_pb2.Duration(seconds=90, nanos=500_000_000)
        )

    async def prepare_pod(self, item: ports.PreBindItem) -> bind_pb2.PreBindResult:
        return self.result


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            "",
            'running PreBind plugin "Harbour": timed out after 1m30.5s waiting for persistent_volume_claim '
            "default/data, persistent_volume disk",
        ),
        (
            "low tide",
            'running PreBind plugin "Harbour": timed out after 1m30.5s waiting for persistent_volume_claim '
            "default/data, persistent_volume disk: low tide",
        ),
        (
            'running PreBind plugin "Harbour": binding volumes: context deadline exceeded',
            'running PreBind plugin "Harbour": binding volumes: context deadline exceeded',
        ),
    ],
    ids=["no message", "a message", "kube-scheduler's words"],
)
def test_a_wait_in_pre_bind_that_expires_says_for_what_and_how_long(message: str, text: str) -> None:
    async def main(clock: Callable[[], float]) -> None:
        binding = pre_binding.PreBinding(_Binder(message), object_waits.ObjectWaits(), clock, nominating=False)
        started = clock()
        item = bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(namespace="default", name="web", uid="u"))
        running = asyncio.create_task(
            binding.run(cycle_pb2.Cycle(), item, item_batches.FIRST, lambda *_: None, lambda name: True)
        )
        await asyncio.sleep(1)
        wait = binding.wait_of("u")
        assert wait is not None
        assert wait.objects == ["persistent_volume_claim default/data", "persistent_volume disk"]
        assert wait.message in message
        assert wait.seconds_left == pytest.approx(89.5)
        result = await running
        assert binding.wait_of("u") is None
        reason = status.Reason.of("preBindTimedOut", {"after": "1m30.5s"})
        assert result == status.error("Harbour", text, reasons=(reason,))
        assert clock() - started == pytest.approx(90.5)
        await binding.close()

    virtual_time.run(main)


class _PartingBinder(fake_binder.FakeBinder):
    """Bind, whose plugin has a pod wait once, and then answers these in turn; the last one again and again."""

    def __init__(self, *answers: status_pb2.Status) -> None:
        self.answers = list(answers)
        self.generations: list[int] = []

    async def prepare_pod(self, item: ports.PreBindItem) -> bind_pb2.PreBindResult:
        self.generations.append(item.cycle.generation)
        if len(self.generations) == 1:
            return _Binder("low tide").result
        return bind_pb2.PreBindResult(status=self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


_PLUGIN_SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)


def _not_called(plugin: str) -> status_pb2.Status:
    """As bind answers while the circuit breaker of a plugin is open."""
    text = f'running PreBind plugin "{plugin}": PreBind was not called: the circuit breaker is open'
    return wire_status.to_message(dataclasses.replace(status.error(plugin, text), reasons=(status.NOT_CALLED,)))


@pytest.mark.parametrize("answered", ["later", "never", "of another plugin"])
def test_a_pod_that_waits_in_pre_bind_waits_on_while_its_plugin_is_not_called(answered: str) -> None:
    async def main(clock: Callable[[], float]) -> None:
        plugin = "Crane" if answered == "of another plugin" else "Harbour"
        last = _PLUGIN_SUCCESS if answered == "later" else _not_called(plugin)
        binding = pre_binding.PreBinding(
            _PartingBinder(_not_called(plugin), last), object_waits.ObjectWaits(), clock, False
        )
        item = bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(namespace="default", name="web", uid="u"))
        started = clock()
        running = asyncio.create_task(
            binding.run(cycle_pb2.Cycle(), item, item_batches.FIRST, lambda *_: None, lambda name: True)
        )
        await asyncio.sleep(pre_binding.LOOK_AGAIN_SECONDS + pre_binding.NOT_CALLED_SECONDS / 2)
        wait = binding.wait_of("u")
        result = await running
        if answered == "of another plugin":
            assert result == wire_status.from_message(_not_called("Crane"))
            return
        assert wait is not None
        assert wait.message == "low tide; PreBind was not called: the circuit breaker is open"
        if answered == "later":
            assert result == status.SUCCESS
            assert clock() - started == pytest.approx(pre_binding.LOOK_AGAIN_SECONDS + pre_binding.NOT_CALLED_SECONDS)
        else:
            assert clock() - started == pytest.approx(90.5)
            assert result.message.endswith("volume disk: low tide; PreBind was not called: the circuit breaker is open")
            assert "timed out after 1m30.5s waiting for" in result.message
        await binding.close()

    virtual_time.run(main)


@pytest.mark.parametrize("profile", ["remote", "in-tree"])
def test_a_pre_bind_that_is_called_again_is_of_the_generation_that_has_the_change(profile: str) -> None:
    async def main(clock: Callable[[], float]) -> None:
        async def until_published() -> int:
            await asyncio.sleep(0.1)
            return 9

        binder, waits = _PartingBinder(_PLUGIN_SUCCESS), object_waits.ObjectWaits()
        binding = pre_binding.PreBinding(binder, waits, clock, False, {"remote"}, until_published)
        item = bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(namespace="default", name="web", uid="u"))
        cycle, started = cycle_pb2.Cycle(profile=profile, generation=4), clock()
        running = asyncio.create_task(binding.run(cycle, item, item_batches.FIRST, lambda *_: None, lambda name: True))
        await asyncio.sleep(1)
        waits.record([(_CLAIM.kind, _CLAIM.namespace, _CLAIM.name)])
        assert await running == status.SUCCESS
        assert binder.generations == [4, 9 if profile == "remote" else 4]
        assert clock() - started < pre_binding.LOOK_AGAIN_SECONDS
        await binding.close()

    virtual_time.run(main)


class _SlowBinder(fake_binder.FakeBinder):
    """Bind, where one profile's plugin hangs, and any number of pods are prepared at once."""

    def __init__(self) -> None:
        self.calls = 0

    def receive(self, items: Sequence[Any], size: int) -> None:
        self.calls += 1

    async def prepare_pod(self, item: ports.PreBindItem) -> bind_pb2.PreBindResult:
        if item.cycle.profile == "slow":
            await asyncio.Event().wait()
        return await super().prepare_pod(item)


@pytest.mark.parametrize("one_by_one", [False, True], ids=["together", "one by one"])
def test_a_plugin_that_hangs_in_pre_bind_holds_up_no_other_profile(one_by_one: bool) -> None:
    """Where one profile's plugin hung for a thousand pods no volume of any pod was bound."""

    async def main(clock: Callable[[], float]) -> None:
        binder = _SlowBinder()
        binding = pre_binding.PreBinding(binder, object_waits.ObjectWaits(), clock, False)

        def run(profile: str, number: int) -> "asyncio.Task[status.Status]":
            item = bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(name="web", uid=f"{profile}-{number}"))
            cycle = cycle_pb2.Cycle(profile=profile)
            return asyncio.create_task(binding.run(cycle, item, item_batches.FIRST, lambda *_: None, lambda name: True))

        slow = []
        for number in range(pre_binding.MAX_UNDER_WAY + 1):
            slow.append(run("slow", number))
            if one_by_one:
                await asyncio.sleep(0.02)
        await asyncio.sleep(1.0)
        assert binder.calls <= bind_limits.MAX_CALLS_OF_PROFILE
        assert await asyncio.wait_for(run("other", 0), 1.0) == status.SUCCESS
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        await binding.close()

    virtual_time.run(main)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.25, "250ms"), (30.0, "30s"), (90.5, "1m30.5s"), (7200.0, "15m0s")], ids=str
)
def test_a_wait_on_permit_that_expires_is_worded_as_kube_scheduler_does(seconds: float, text: str) -> None:
    async def main(clock: Callable[[], float]) -> None:
        async with asyncio.timeout(10_000):
            result = await waiting_pods.WaitingPods().begin_wait("u", "default/web", {"Gate": seconds})()
        reason = status.Reason.of("permitTimedOut", {"after": text})
        message = f"rejected due to timeout after waiting {text} at plugin Gate"
        assert result == status.unschedulable("Gate", message, reasons=(reason,))

    virtual_time.run(main)


@pytest.mark.parametrize("stops", ["allowed", "gone with its configuration"])
def test_a_plugin_that_a_pod_no_longer_waits_for_does_not_time_out(stops: str) -> None:
    async def main(clock: Callable[[], float]) -> None:
        started = clock()
        waiting = waiting_pods.WaitingPods()
        plugins, messages = {"Quick": 5.0, "Patient": 60.0}, {"Quick": "soon", "Patient": "later"}
        wait = asyncio.create_task(waiting.begin_wait("u", "default/web", plugins, messages)())
        await asyncio.sleep(4.0)
        if stops == "allowed":
            waiting.allow("u", "Quick")
        else:
            waiting.forget_plugins(lambda plugin: plugin == "Patient")
        assert waiting.pods() == [waiting_pods.WaitingPod("default/web", "u", ("Patient",), 56.0, {"Patient": "later"})]
        assert await wait == status.unschedulable(
            "Patient",
            "rejected due to timeout after waiting 1m0s at plugin Patient",
            reasons=(status.Reason.of("permitTimedOut", {"after": "1m0s"}),),
        )
        assert clock() - started == pytest.approx(60.0)
        assert waiting.pods() == []

    virtual_time.run(main)


def test_the_earliest_time_out_of_the_plugins_that_are_missing_ends_a_wait() -> None:
    """Each plugin has a time of its own, whichever comes first in the configuration."""

    async def main(clock: Callable[[], float]) -> None:
        plugins = {"Patient": 60.0, "Middle": 20.0, "Quick": 5.0}
        started = clock()
        waiting = waiting_pods.WaitingPods()
        wait = asyncio.create_task(waiting.begin_wait("u", "default/web", plugins)())
        await asyncio.sleep(1.0)
        waiting.allow("u", "Quick")
        assert (await wait).plugin == "Middle"
        assert clock() - started == pytest.approx(20.0)

    virtual_time.run(main)


def test_a_pod_waits_before_the_task_that_waits_begins() -> None:
    """A pod that was deleted, or allowed, just then waited for its whole time-out, with its room taken."""

    async def main(clock: Callable[[], float]) -> None:
        waiting = waiting_pods.WaitingPods()
        rejected = waiting.begin_wait("gone", "default/gone", {"Gate": 900.0})
        allowed = waiting.begin_wait("good", "default/good", {"Gate": 900.0})
        assert waiting.reject("gone", "", "removed")
        assert waiting.allow("good", "Gate")
        assert await rejected() == status.unschedulable("", "removed", reasons=(status.Reason("permitRejected"),))
        assert await allowed() == status.SUCCESS
        assert waiting.pods() == []

    virtual_time.run(main)


def test_a_pod_is_allowed_by_each_plugin_that_it_waits_for_and_by_no_other() -> None:
    """A plugin may allow a pod twice, or one that does not wait for it; what then fails would be that plugin's call."""

    async def main(clock: Callable[[], float]) -> None:
        waiting = waiting_pods.WaitingPods()
        wait = asyncio.create_task(waiting.begin_wait("u", "default/web", {"A": 900.0, "B": 900.0})())
        for plugin in ("A", "A", "Other"):
            assert waiting.allow("u", plugin)
            await asyncio.sleep(1.0)
            assert [each.plugins for each in waiting.pods()] == [("B",)]
        assert not waiting.allow("unknown", "B")
        assert waiting.allow("u", "B")
        assert waiting.allow("u", "B"), "it is allowed, and its task has not run yet"
        assert await wait == status.SUCCESS
        assert not waiting.allow("u", "B")

    virtual_time.run(main)


@pytest.mark.parametrize("ends", ["rejected", "cancelled", "timed out"])
def test_a_wait_that_has_ended_leaves_no_timer(ends: str) -> None:
    """Timers of 15 minutes would keep each pod that once waited."""

    async def main(clock: Callable[[], float]) -> None:
        waiting = waiting_pods.WaitingPods()
        wait = asyncio.create_task(waiting.begin_wait("u", "default/web", {"A": 900.0, "B": 900.0, "C": 5.0})())
        await asyncio.sleep(0)
        if ends == "rejected":
            waiting.reject("u", "", "no")
        elif ends == "cancelled":
            wait.cancel()
        await asyncio.wait([wait])
        assert waiting.pods() == []
        assert not [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]

    virtual_time.run(main)


class _StatefulBinder(fake_binder.FakeBinder):
    """Bind, whose plugin has each pod wait once, and keeps what it was called with and what is undone where."""

    def __init__(self) -> None:
        self.states: list[bytes] = []
        self.hanging = asyncio.Event()
        self.undone: list[tuple[bytes, str]] = []
        self.pre_flights: list[str] = []

    async def prepare_pod(self, item: ports.PreBindItem) -> bind_pb2.PreBindResult:
        self.states.append(item.item.state)
        if len(self.states) == 2:
            await self.hanging.wait()
        result = _Binder("low tide").result if len(self.states) == 1 else bind_pb2.PreBindResult(status=_PLUGIN_SUCCESS)
        result.state = b"written"
        return result

    async def apply(
        self,
        actions: Sequence[bind_pb2.Action],
        on_result: Callable[[int, bind_pb2.BindResult], None] | None = None,
        address: str = "",
    ) -> list[bind_pb2.BindResult]:
        self.undone += [(action.undo_pre_bind.state, address) for action in actions]
        return await super().apply(actions, on_result, address)


@pytest.mark.parametrize("cancelled", [True, False])
def test_what_pre_bind_wrote_is_undone_by_the_replica_that_runs_it(cancelled: bool) -> None:
    """That replica cancels its call first; once it has answered, any other may undo it."""

    async def main(clock: Callable[[], float]) -> None:
        binder, waits = _StatefulBinder(), object_waits.ObjectWaits()
        binding = pre_binding.PreBinding(binder, waits, clock, False)
        item = bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(namespace="default", name="web", uid="u"), state=b"reserved")
        running = asyncio.create_task(
            binding.run(cycle_pb2.Cycle(), item, item_batches.FIRST, lambda *_: None, lambda name: True)
        )
        await asyncio.sleep(1)
        waits.record([(_CLAIM.kind, _CLAIM.namespace, _CLAIM.name)])
        await asyncio.sleep(1)
        assert binder.states == [b"reserved", b"written"]
        if cancelled:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        else:
            binder.hanging.set()
            assert await running == status.SUCCESS
        await binding.undo_pre_bind(item)
        assert binder.undone == [(b"written", "bind" if cancelled else "")]
        await binding.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual_time.run(main)


def test_only_changes_since_the_last_call_have_pre_bind_called_again() -> None:
    """One change would have the plugin called again and again, without a pause."""

    async def main(clock: Callable[[], float]) -> None:
        class Waiting(_Binder):
            calls = 0

            async def prepare_pod(self, item: ports.PreBindItem) -> bind_pb2.PreBindResult:
                self.calls += 1
                return self.result

        binder, waits = Waiting(""), object_waits.ObjectWaits()
        binding = pre_binding.PreBinding(binder, waits, clock, False)
        item = bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(namespace="default", name="web", uid="u"), node_name="n")
        running = asyncio.create_task(
            binding.run(cycle_pb2.Cycle(), item, item_batches.FIRST, lambda *_: None, lambda name: True)
        )
        await asyncio.sleep(1)
        own = [("pod", "default", "web"), ("node", "", "n"), ("csi_node", "", "n")]
        for number, key in enumerate([(_CLAIM.kind, _CLAIM.namespace, _CLAIM.name), *own]):
            waits.record([key])
            await asyncio.sleep(2)
            assert binder.calls == 2 + number, key
        waits.record([("pod", "default", "other")])
        await asyncio.sleep(2)
        assert binder.calls == 5
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await binding.close()

    virtual_time.run(main)


@pytest.mark.parametrize("stage", ["check_pod", "prepare_pod", "execute_action"])
def test_calls_of_pre_bind_end_when_it_is_closed(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next leader's calls about the same pods would race with them."""

    async def main(clock: Callable[[], float]) -> None:
        async def hang(item: Any) -> Any:
            await asyncio.sleep(3600)

        binder = fake_binder.FakeBinder()
        monkeypatch.setattr(binder, stage, hang)
        binding = pre_binding.PreBinding(binder, object_waits.ObjectWaits(), clock, nominating=True)
        cycle, item = cycle_pb2.Cycle(), bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(name="web", uid="u"))
        call = {
            "check_pod": binding.has_work(cycle, item, item_batches.FIRST),
            "prepare_pod": binding.run(cycle, item, item_batches.FIRST, lambda *_: None, lambda name: True),
            "execute_action": binding.write_nomination(item, item_batches.FIRST),
        }
        running = asyncio.ensure_future(call.pop(stage))
        for other in call.values():
            other.close()
        await asyncio.sleep(1)
        await binding.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual_time.run(main)


def test_a_pod_waits_for_no_plugin_that_went_while_permit_was_called() -> None:
    async def main(_: Callable[[], float]) -> None:
        waiting = waiting_pods.WaitingPods()
        waiting.forget_plugins(lambda plugin: plugin != "Gone")
        wait = waiting.begin_wait("u", "ns/web", {"Gone": 10.0})
        assert waiting.pods() == []
        assert await wait() == status.SUCCESS

    virtual_time.run(main)


def test_a_pod_waits_for_none_of_several_plugins_that_went() -> None:
    async def main(_: Callable[[], float]) -> None:
        waiting = waiting_pods.WaitingPods()
        wait = waiting.begin_wait("u", "ns/web", {"A": 10.0, "B": 10.0, "C": 10.0})
        waiting.forget_plugins(lambda plugin: plugin == "C")
        assert [pod.plugins for pod in waiting.pods()] == [("C",)]
        waiting.allow("u", "C")
        assert await wait() == status.SUCCESS

    virtual_time.run(main)
