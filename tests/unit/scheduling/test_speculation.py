"""A pod that comes alone finds filter's and score's answers ready, for as long as they hold."""

import dataclasses
import types
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest

from tests.helpers.frontend_world import GUARD, World, one_node
from tests.helpers.frontend_world_api import PROFILE
from trireme.queueing import queued_pod
from trireme.scheduling import batch_limit, ports, scheduler, scheduler_settings, speculation
from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer
from trireme_kube.client.informers.watch import EventKind


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    """One node of three CPUs, and the second pod of its class that was placed on it while nothing else happened.

    The first one is gone.
    """
    with one_node() as world:
        world.create("gone", 1)
        world.answer_all()
        world.api.remove("pods", "gone")
        world.deliver("pods", 1000)
        world.create("first", 1)
        world.answer_all()
        yield world


def _start_time(world: World, name: str) -> None:
    raw = world.api.stored("pods")[name]
    raw["status"]["startTime"] = "2026-01-01T00:00:00Z"
    world.api.record("pods", EventKind.MODIFIED, raw)


def _bound_by_another(world: World) -> None:
    world.api.add_pod("other", 1, 0)
    raw = world.api.stored("pods")["other"]
    raw["spec"].update(nodeName="n1", schedulerName="another")
    world.api.record("pods", EventKind.MODIFIED, raw)


def _quiet(world: World) -> None:
    """Nothing happens for a while, but that the answers come."""
    world.loop.advance(2 * scheduler.QUIET_SECONDS)
    assert world.pending_rpcs() == ["Filter"]
    world.answer_all()


def test_a_pod_like_the_one_before_is_bound_without_asking(world: World) -> None:
    """It would wait for two calls whose answers are known."""
    _quiet(world)
    world.create("second", 1)
    assert world.pending_rpcs() == ["Permit"]
    world.answer_all()
    assert world.api.stored("pods")["second"]["spec"]["nodeName"] == "n0"


def test_answers_are_good_once(world: World) -> None:
    """The second pod would be placed as if the first were not there."""
    _quiet(world)
    world.create("second", 1)
    world.create("third", 1)
    assert sorted(world.pending_rpcs()) == ["Filter", "Permit"]


def test_a_class_that_came_once_is_not_speculated_about(world: World) -> None:
    """Where each pod is a class of its own, each would cost two calls in vain."""
    _quiet(world)
    world.create("other", 2)
    world.answer_all()
    world.loop.advance(2 * scheduler.QUIET_SECONDS)
    assert world.pending_rpcs() == []


def _bind_one_by_one(world: World, pods: int) -> list[int]:
    """Pods that come alone, each when the one before is bound; answers for how many filter was asked in between."""
    asked = []
    for number in range(pods):
        world.create(f"pod-{number}", 1)
        world.answer_all()
        world.loop.advance(2 * scheduler.QUIET_SECONDS)
        world.deliver("pods", 1000)
        asked += [call.request.count for call in world.pending_calls if call.rpc == "Filter"]
        world.answer_all()
    return asked


@pytest.fixture(name="roomy")
def _roomy() -> Iterator[World]:
    """Two nodes, of six and of many CPUs, and one pod on them; those that come later are of its class."""
    world = World()
    world.api.put_node("n0", 6)
    world.api.put_node("n1", 500)
    world.deliver("nodes", 2)
    world.create("before", 1)
    world.answer_all()
    yield world
    world.close()


def test_speculation_grows_with_single_pods_of_a_class(roomy: World) -> None:
    """Each lone pod of many would cost two calls."""
    assert _bind_one_by_one(roomy, 16) == [1, 2, 4, 8, 16]
    nodes = [pod["spec"]["nodeName"] for pod in roomy.api.stored("pods").values()]
    assert nodes == ["n0"] * 6 + ["n1"] * 11


def test_speculation_is_bounded(roomy: World) -> None:
    """A class that is seen no more would have had ever more placed in vain."""
    assert max(_bind_one_by_one(roomy, 200)) == batch_limit.MAX_SPECULATIVE


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        pytest.param(lambda world: world.api.put_node("n1", 500), [], id="a node is reported again"),
        pytest.param(lambda world: _start_time(world, "pod-0"), [], id="a pod has started"),
        pytest.param(lambda world: world.api.put_node("n1", 499), ["Filter"], id="a node has less"),
        pytest.param(lambda world: world.api.put_node("n2", 5), ["Filter"], id="a node more"),
        pytest.param(lambda world: world.api.remove("nodes", "n1"), ["Filter"], id="a node less"),
        pytest.param(lambda world: world.api.remove("pods", "pod-0"), ["Filter"], id="a pod has gone"),
        pytest.param(_bound_by_another, ["Filter"], id="a pod has come"),
    ],
)
def test_speculation_is_valid_until_something_changes(
    roomy: World, change: Callable[[World], None], asked: list[str]
) -> None:
    """A pod would go where it does not fit, or everything would be asked again for a heartbeat."""
    _bind_one_by_one(roomy, 4)
    change(roomy)
    roomy.deliver("nodes", 1000)
    roomy.create("next", 1)
    assert [call.rpc for call in roomy.pending_calls if call.rpc != "Permit"] == asked


def test_after_a_change_speculation_shrinks_to_what_was_used(roomy: World) -> None:
    """In a cluster where others place pods too, most speculative placements would never be used."""
    _bind_one_by_one(roomy, 10)  # two of eight
    roomy.api.put_node("n1", 400)
    roomy.deliver("nodes", 1000)
    roomy.create("next", 1)
    roomy.answer_all()
    roomy.loop.advance(2 * scheduler.QUIET_SECONDS)
    assert [call.request.count for call in roomy.pending_calls if call.rpc == "Filter"] == [2 * 2]


def test_a_failed_binding_discards_speculation(roomy: World) -> None:
    """The place of the pod that was not bound would stay empty, and the others go elsewhere."""
    _bind_one_by_one(roomy, 4)
    roomy.create("refused", 1)
    for rpc, how in (("Permit", "good"), ("Bind", "bad")):
        (call,) = (call for call in roomy.pending_calls if call.rpc == rpc)
        roomy.answer(call, how)
    roomy.create("next", 1)
    assert "Filter" in roomy.pending_rpcs()


def test_a_batch_uses_speculation_if_it_covers_all_pods(roomy: World) -> None:
    """Some of a batch would be placed by old answers and some by new ones, in two calls of bind."""
    _bind_one_by_one(roomy, 4)
    for name in ("second", "third"):
        roomy.api.add_pod(name, 1, 0)
    roomy.deliver("pods", 1000)
    assert roomy.pending_rpcs() == ["Permit"]
    roomy.answer_all()
    for number in range(10):
        roomy.api.add_pod(f"many-{number}", 1, 0)
    roomy.deliver("pods", 1000)
    assert [call.request.count for call in roomy.pending_calls if call.rpc == "Filter"] == [10]


def test_replicas_get_deltas_before_the_next_call_only(roomy: World) -> None:
    """Each lone pod would cost a message to every replica, or one of them would answer without it."""
    _bind_one_by_one(roomy, 8)  # all speculative placements, and those found since
    generation = roomy.mirror.generation
    for number in range(7):
        roomy.create(f"more-{number}", 1)
        roomy.answer_all()
    assert roomy.mirror.generation == generation
    roomy.create("large", 400)
    assert roomy.mirror.generation > generation
    assert sum(roomy.free(0).values()) == 505 - 8 - 7


def test_nothing_is_placed_by_answers_that_a_change_has_overtaken(world: World) -> None:
    """A pod would go to a node that has no room for it any more."""
    _quiet(world)
    world.api.put_node("n0", 1)
    world.deliver("nodes", 1000)
    world.create("second", 1)
    assert world.pending_rpcs() == ["Filter"]


def test_a_pod_of_another_class_is_evaluated(world: World) -> None:
    """It would go where a smaller one fits."""
    _quiet(world)
    world.create("large", 2)
    assert world.pending_rpcs() == ["Filter"]


def test_nothing_is_speculated_after_a_refusal(world: World) -> None:
    """A pod that fits nowhere would cost twice at each attempt."""
    _quiet(world)
    world.create("huge", 4)
    world.answer_all()
    assert world.frontend.scheduling.queue.statistics().unschedulable == 1
    world.loop.advance(2 * scheduler.QUIET_SECONDS)
    assert world.pending_rpcs() == []


def test_profiles_with_remote_plugins_do_not_speculate(world: World) -> None:
    """They may answer otherwise by then, though nothing in the cluster has changed."""
    completed = world.frontend.context.completed
    assert scheduler_settings.of_configuration(completed).roles.speculating == {PROFILE}
    own = dataclasses.replace(
        completed.trireme, remote_plugins=(types.SimpleNamespace(name=GUARD, compared_only=False),)
    )
    with_plugin = dataclasses.replace(completed, trireme=own)
    assert not scheduler_settings.of_configuration(with_plugin).roles.speculating


def test_pods_created_one_after_the_other_do_not_wait_for_a_batch(roomy: World) -> None:
    """Bind reports a pod as bound after a watch has shown it, and the next would be held back until then."""
    for number in range(100):  # at once: far more a second than pods of a batch are waited for
        roomy.create(f"pod-{number}", 1)
        while asked := [call for call in roomy.pending_calls if not call.written]:
            roomy.answer(asked[0], "uncertain" if asked[0].rpc == "Bind" else "good")
        roomy.deliver("pods", 1000)
        assert roomy.api.stored("pods")[f"pod-{number}"]["spec"].get("nodeName")


class Alone:
    """Speculation without a frontend: the answers of the phases, and what they were called for."""

    def __init__(self, filtered: FilterAnswer, revision: int = 5) -> None:
        self.revision = revision
        self.filtered = filtered
        self.placed_for: list[int] = []
        self.missing: set[str] = set()
        self.fault: Exception | None = None
        self.speculation = speculation.Speculation(
            cast(Any, self), cast(Any, self), batch_limit.BatchLimit(100), lambda: 7
        )

    def pod(self, uid: str) -> str | None:
        return None if uid in self.missing else uid

    def slot_of(self, name: str) -> int:
        return -1

    async def filter(self, *call: Any) -> FilterAnswer:
        if self.fault is not None:
            raise self.fault
        return self.filtered

    async def place(self, profile: str, class_id: int, count: int, *rest: Any) -> PlaceAnswer:
        self.placed_for.append(count)
        return PlaceAnswer(slots=[0] * count, totals=[1] * count)

    async def after(self, *pods: tuple[str, bool]) -> speculation.SpeculativePlacement | None:
        """What is found after a batch of these pods, with whether each has a deferred resize."""
        batch = types.SimpleNamespace(
            profile=PROFILE,
            class_id=1,
            pods=[
                types.SimpleNamespace(
                    uid=uid,
                    record=types.SimpleNamespace(pod=types.SimpleNamespace(has_deferred_resize=deferred)),
                )
                for uid, deferred in pods
            ],
        )
        await self.speculation.speculate(cast(Any, batch))
        return self.speculation.placement((PROFILE, 1), 1)


FITS = FilterAnswer(
    columns=node_columns.NodeColumns(0, 0, 1, None, (), np.zeros(1, dtype=np.int16), np.full(1, 9, dtype=np.int32))
)


@pytest.mark.parametrize(
    ("filtered", "pods", "missing", "found"),
    [
        pytest.param(FITS, [("a", False), ("b", False)], "", True, id="placed"),
        pytest.param(FITS, [("a", False), ("b", False)], "b", False, id="one-has-no-node"),
        pytest.param(FITS, [("a", False), ("b", True)], "", False, id="one-is-to-be-resized"),
        pytest.param(FilterAnswer(), [("a", False)], "", False, id="it-fits-nowhere-any-more"),
        pytest.param(dataclasses.replace(FITS, needs_reserve=True), [("a", False)], "", False, id="reserves"),
    ],
)
async def test_only_pods_that_could_be_placed_at_once_are_speculated_for(
    filtered: FilterAnswer, pods: list[tuple[str, bool]], missing: str, found: bool
) -> None:
    """Places would be looked for in vain, or be taken without what else the pod needs."""
    alone = Alone(filtered)
    alone.missing = {missing}
    assert (await alone.after(*pods) is not None) is found
    assert alone.placed_for == ([1] if found else [])


async def test_places_are_void_unless_each_pod_that_took_one_was_assumed() -> None:
    """The place of a pod that was not assumed would stay empty, and those after it be wrong."""
    alone = Alone(FITS)
    used = await alone.after(("a", False))
    assert used is not None
    used.take_places(1)
    alone.revision += 1
    alone.speculation.drop_unless_current(used)
    assert (await alone.after(("b", False))) is not None
    assert alone.placed_for == [1, 2], "one was used"
    used = alone.speculation.placement((PROFILE, 1), 1)
    assert used is not None
    used.take_places(1)
    alone.speculation.drop_unless_current(used)
    alone.revision += 1
    assert alone.speculation.placement((PROFILE, 1), 1) is None


def test_a_pod_that_waits_is_tried_before_places_are_looked_for(world: World) -> None:
    """Nothing is waited for meanwhile: not even a millisecond."""
    for name, cpus in (("second", 1), ("other", 2)):
        world.create(name, cpus)
    for rpc in ("Filter", "Place"):
        world.answer(next(call for call in world.pending_calls if call.rpc == rpc), "good")
    (call,) = (call for call in world.pending_calls if call.rpc == "Filter")
    assert call.request.cycle.pod_class == _class_of(world, "other")


def _class_of(world: World, name: str) -> int:
    pod = world.frontend.scheduling.queue.contents.get(f"ns/{name}")
    assert isinstance(pod, queued_pod.QueuedPodInfo)
    return pod.record.class_id


@pytest.mark.parametrize("fault", [ports.PhaseFault("odd"), ports.PhaseUnavailable("nobody")])
async def test_where_a_phase_does_not_answer_no_place_is_known(fault: Exception) -> None:
    """The places found earlier are void too, as the next pods of the class took some of them."""
    alone = Alone(FITS)
    assert await alone.after(("a", False)) is not None
    alone.fault = fault
    assert await alone.after(("b", False)) is None


async def test_places_that_are_forgotten_are_given_to_no_pod() -> None:
    """Another configuration is in force."""
    alone = Alone(FITS)
    assert await alone.after(("a", False)) is not None
    alone.speculation.forget()
    assert alone.speculation.placement((PROFILE, 1), 1) is None
