"""Another configuration is put in force while pods are scheduled, wait and are being bound."""

import asyncio
import dataclasses
from collections.abc import Callable

import pytest

from tests.helpers.frontend_world import GUARD, World
from tests.helpers.frontend_world_api import PROFILE
from trireme.config import commandline, scheduler_configuration, trireme_configuration
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import phase_configuration, plugin_monitor, reconfiguration
from trireme.queueing import states
from trireme.remote import remote_client
from trireme_kube.apimachinery.golang import Duration

Change = Callable[[commandline.CompletedConfig], commandline.CompletedConfig]


class Reload:
    """What puts configurations in force in a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        completed = world.frontend.context.completed

        async def make() -> reconfiguration.Reconfiguration:
            monitor = plugin_monitor.PluginMonitor(completed)
            return reconfiguration.Reconfiguration(completed, world.frontend, monitor)

        self.changes = world.loop.run_until_complete(make())

    def start(self, change: Change) -> "asyncio.Task[None]":
        """Begin to put a changed configuration in force."""
        task = self._world.loop.create_task(self.changes.apply(change(self.changes.current)))
        self._world.loop.settle()
        return task

    def put(self, change: Change) -> None:
        """Put a changed configuration in force: what a cycle waits for ends after a moment."""
        task = self.start(change)
        self._world.loop.advance(0.01)
        while not task.done():
            call = next(call for call in self._world.pending_calls if call.rpc in ("Filter", "Place"))
            self._world.answer(call, "good")
        task.result()

    def hash(self) -> int:
        """The hash that calls carry."""
        return self._world.frontend.context.settings.config_hash()


@pytest.fixture(name="reload")
def _reload(world: World) -> Reload:
    return Reload(world)


def _without_guard(completed: commandline.CompletedConfig) -> commandline.CompletedConfig:
    """The Permit plugin is taken out of the profile."""
    (profile,) = completed.profiles
    plugins = {**profile.plugins, ExtensionPoint.PERMIT: ()}
    return dataclasses.replace(completed, profiles=(dataclasses.replace(profile, plugins=plugins),))


def _with_weight(weight: int) -> Change:
    """Another weight of the first score plugin."""

    def change(completed: commandline.CompletedConfig) -> commandline.CompletedConfig:
        (profile,) = completed.profiles
        first, *more = profile.plugins[ExtensionPoint.SCORE]
        plugins = {**profile.plugins, ExtensionPoint.SCORE: (scheduler_configuration.Plugin(first.name, weight), *more)}
        return dataclasses.replace(completed, profiles=(dataclasses.replace(profile, plugins=plugins),))

    return change


def _renamed(name: str) -> Change:
    """The profile has another name, so the old one is gone."""

    def change(completed: commandline.CompletedConfig) -> commandline.CompletedConfig:
        (profile,) = [each for each in completed.profiles if each.scheduler_name not in completed.retired_profiles]
        new = dataclasses.replace(profile, scheduler_name=name)
        return dataclasses.replace(completed, profiles=(new,), retired_profiles=frozenset())

    return change


def test_no_cycle_sees_two_configurations(world: World, reload: Reload) -> None:
    """If this fails, a pod is filtered by one configuration and scored by another."""
    before = reload.hash()
    world.create("p", 1)
    (call,) = world.pending_calls
    assert (call.rpc, call.request.cycle.config_hash) == ("Filter", before)
    task = reload.start(_with_weight(77))
    assert not task.done()
    assert reload.hash() == before
    world.answer(call, "good")
    (call,) = world.pending_calls
    assert (call.rpc, call.request.cycle.config_hash) == ("Place", before)
    world.answer(call, "good")
    world.loop.advance(0.01)
    # After a pod that came alone, places are found for more of them: by the same configuration.
    while calls := [call for call in world.pending_calls if call.rpc in ("Filter", "Place")]:
        assert calls[0].request.cycle.config_hash == before
        world.answer(calls[0], "good")
    assert task.done()
    assert reload.hash() != before
    links = world.frontend.phases.links
    assert (links.filters.restarts, links.scores.restarts, links.binders.restarts) == (1, 1, 1)
    world.answer_all()
    world.create("q", 1)
    (call,) = [call for call in world.pending_calls if call.rpc == "Filter"]
    assert call.request.cycle.config_hash == reload.hash()


def test_a_replica_that_starts_after_a_reload_gets_the_configuration_in_force(world: World, reload: Reload) -> None:
    """If this fails, it answers by the replaced configuration, under the new hash, so nobody notices."""
    settings = world.frontend.context.settings
    before = settings.hello().configuration
    reload.put(_with_weight(77))
    for greeting in (settings.hello(), settings.fence_request()):
        assert greeting.config_hash == reload.hash()
        assert greeting.configuration != before
        assert phase_configuration.config_hash(greeting.configuration) == reload.hash()


def test_what_phases_do_not_need_to_know_disturbs_none(world: World, reload: Reload) -> None:
    """If this fails, a change of batches costs a full sync of every replica."""

    def smaller(completed: commandline.CompletedConfig) -> commandline.CompletedConfig:
        batch = dataclasses.replace(completed.trireme.batch, max_pods=3)
        return dataclasses.replace(completed, trireme=dataclasses.replace(completed.trireme, batch=batch))

    before = reload.hash()
    reload.put(smaller)
    assert reload.hash() == before
    assert world.frontend.scheduling.limit.max_pods == 3
    assert world.frontend.phases.links.filters.restarts == 0


def test_refused_pods_are_tried_again_by_the_new_configuration(world: World, reload: Reload) -> None:
    """If this fails, they wait five minutes for an event, though a plugin that refused them may be gone."""
    world.create("too big", 9)
    world.answer_all()
    world.loop.advance(20)
    reload.put(_with_weight(77))
    (call,) = world.pending_calls
    assert (call.rpc, call.request.cycle.config_hash) == ("Filter", reload.hash())


def test_pods_wait_for_no_permit_plugin_that_is_gone(world: World, reload: Reload) -> None:
    """If this fails, they wait for an answer that nobody can give any more."""
    world.create("guarded", 3)
    world.answer_all()
    assert [pod.plugins for pod in world.frontend.scheduling.waiting.pods()] == [(GUARD,)]
    reload.put(_without_guard)
    world.answer_all()
    assert not world.frontend.scheduling.waiting.pods()
    assert world.frontend.cluster.cache.statistics().pods == 1


def test_pods_wait_for_no_permit_plugin_that_went_while_it_was_called(world: World, reload: Reload) -> None:
    """If this fails, a pod waits up to 15 minutes for a plugin that is no longer configured, and takes up its node."""
    world.create("guarded", 3)
    for rpc in ("Filter", "Place"):
        (call,) = world.pending_calls
        assert call.rpc == rpc
        world.answer(call, "good")
    (call,) = world.pending_calls
    assert call.rpc == "Permit"
    reload.put(_without_guard)
    world.answer(call, "good")
    assert not world.frontend.scheduling.waiting.pods()
    world.answer_all()
    assert world.frontend.scheduling.binding.binding_count == 0
    assert world.frontend.cluster.cache.statistics().pods == 1


def test_refused_pods_are_tried_again_when_another_version_answers_for_them(world: World, reload: Reload) -> None:
    """If this fails, `percent: 0` leaves the pods that a bad canary refused where they are, for five minutes."""
    world.create("too big", 9)
    world.answer_all()
    world.loop.advance(20)
    before = reload.hash()
    # As after a configuration in which a canary answers for all pods.
    world.frontend.plugin_updates._pod_reads.shares.replace({PROFILE: [("P", 100)]})
    reload.put(lambda completed: completed)
    assert reload.hash() == before
    assert world.pending_rpcs() == ["Filter"]


def test_pods_of_a_profile_that_is_removed_are_left_to_others(world: World, reload: Reload) -> None:
    """If this fails, they are scheduled by a profile that nobody configures, or block the queue."""
    world.create("too big", 9)
    world.create("guarded", 3)
    world.answer_all()
    assert world.frontend.scheduling.waiting.pods()
    reload.put(_renamed("another"))
    world.answer_all()
    world.loop.advance(400)
    world.answer_all()
    queue = world.frontend.scheduling.queue
    assert not list(queue.contents.pods())
    assert not world.frontend.scheduling.waiting.pods()
    assert world.frontend.scheduling.handlers.pods.other_scheduler_of("ns/too big") == PROFILE
    assert world.frontend.scheduling.binding.binding_count == 0
    # Nothing is bound any more, so the phases forget the profile at the next change.
    reload.put(_renamed("third"))
    assert [profile.scheduler_name for profile in reload.changes.current.profiles] == ["third"]


def test_a_pod_that_is_being_bound_is_bound_though_its_profile_is_removed(world: World, reload: Reload) -> None:
    """If this fails, bind refuses the call forever, since it does not know the profile."""
    world.create("p", 1)
    for rpc in ("Filter", "Place", "Permit"):
        (call,) = world.pending_calls
        assert call.rpc == rpc
        world.answer(call, "good")
    assert world.pending_rpcs() == ["Bind"]
    reload.put(_renamed("another"))
    names = [profile.scheduler_name for profile in reload.changes.current.profiles]
    assert names == ["another", PROFILE]
    assert world.frontend.scheduling.handlers.pods.profiles == {"another"}
    world.answer_all()
    world.deliver("pods", 10)
    assert world.frontend.scheduling.binding.binding_count == 0
    assert world.frontend.cluster.cache.statistics().pods == 1


def test_pods_of_a_profile_that_comes_back_are_scheduled(world: World, reload: Reload) -> None:
    """If this fails, they are another scheduler's forever."""
    world.create("too big", 9)
    world.answer_all()
    reload.put(_renamed("another"))
    reload.put(_renamed(PROFILE))
    world.relist("pods", False)
    assert world.pending_rpcs() == ["Filter"]
    found = world.frontend.scheduling.queue.contents.get("ns/too big")
    assert found is not None
    assert isinstance(found.state, states.InFlight)


def test_pods_of_a_new_profile_are_listed_however_late(
    world: World, reload: Reload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait ends after `reload.listDeadline`, whether or not the API server has answered."""
    answers = asyncio.Event()
    listed: list[bool] = []

    async def list_pods_again() -> None:
        await answers.wait()
        listed.append(True)

    monkeypatch.setattr(world.frontend.plugin_updates, "list_pods_again", list_pods_again)
    task = reload.start(_renamed("another"))
    world.loop.advance(reload.changes.current.trireme.reload.list_deadline.seconds + 1)
    task.result()
    assert not listed
    answers.set()
    world.loop.settle()
    assert listed == [True]


def test_a_reload_waits_for_lists_as_long_as_its_own_file_says(
    world: World, reload: Reload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the present deadline refuses the reload that would make it longer."""

    def with_ten_minutes(completed: commandline.CompletedConfig) -> commandline.CompletedConfig:
        waits = trireme_configuration.Reload(list_deadline=Duration.of(600))
        return dataclasses.replace(completed, trireme=dataclasses.replace(completed.trireme, reload=waits))

    async def read_more(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(world.frontend.plugin_updates, "read_more", read_more)
    task = reload.start(with_ten_minutes)
    world.loop.advance(599)
    assert not task.done()
    world.loop.advance(2)
    with pytest.raises(remote_client.HandshakeError, match=r"not listed again within 600 s \(reload\.listDeadline\)"):
        task.result()
