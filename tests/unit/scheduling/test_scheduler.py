"""The loop: how far it says it has got, and which classes it has prepared ahead of their turn."""

from collections.abc import Iterator

import pytest

from tests.helpers.frontend_world import PREPARED_CPUS, World, one_node
from trireme.config import trireme_configuration
from trireme.scheduling import batches_in_turn, scheduler_settings
from trireme.scheduling.scheduler import Progress


@pytest.fixture(name="extended")
def _extended() -> Iterator[World]:
    """A world whose classes are placed each by itself, and whose filter prepares classes."""
    world = World(extended=True)
    world.api.put_node("n0", 99)
    world.deliver("nodes", 1)
    _prepare(world)
    yield world
    world.close()


def _prepare(world: World) -> None:
    """Have filter's replica prepare classes."""
    filters = world.frontend.phases.links.filters
    filters.preferred = lambda profile, class_id: [filters]  # type: ignore[method-assign,assignment,misc,list-item]


def _progress(world: World) -> Progress:
    return world.frontend.scheduling.scheduler.progress()


def _prepared(world: World) -> list[int]:
    return [call.request.cycle.pod_class for call in world.pending_calls if call.rpc == "Prepare"]


def _answer(world: World, rpc: str) -> None:
    world.answer(next(call for call in world.pending_calls if call.rpc == rpc), "good")


def test_work_waits_while_a_cycle_could_begin() -> None:
    """The liveness check notices a loop that hangs between two cycles by that alone."""
    with one_node() as world:

        async def between() -> Progress:
            async with world.frontend.scheduling.scheduler.between_cycles():
                world.api.add_pod("p", 1, 0)
                world.frontend.scheduling.queue_executor.execute(())
                return _progress(world)

        world.set_available("filters", available=False)
        world.create("first", 1)
        assert _progress(world) == Progress(0, False)
        world.set_available("filters", available=True)
        assert world.loop.run_until_complete(between()) == Progress(0, True)


@pytest.mark.parametrize("cpus", [(4, 5), (PREPARED_CPUS, PREPARED_CPUS)], ids=["in turn", "alone"])
def test_each_batch_that_was_tried_counts(cpus: tuple[int, int]) -> None:
    """The liveness check takes a scheduler for dead that completes nothing."""
    world = World()
    world.api.put_node("n0", 12)
    world.deliver("nodes", 1)
    world.create("first", 1)
    for number, each in enumerate(cpus):
        world.create(f"p{number}", each)
    while "Bind" not in world.pending_rpcs():
        assert _progress(world).work_waiting
        world.answer(world.pending_calls[0], "good")
    while world.pending_calls:
        world.answer_all()
    assert _progress(world) == Progress(3 if cpus == (4, 5) else 2, False)
    world.close()


def test_the_next_classes_are_prepared_once_each(extended: World) -> None:
    for number in range(3):
        extended.create(f"p{number}", 1 + number)
    (first,) = _prepared(extended) or [0]
    extended.create("q", 5)
    extended.create("r", 6)
    assert _prepared(extended) == ([first] if first else [])
    while "Prepare" not in extended.pending_rpcs():
        extended.answer(extended.pending_calls[0], "good")
    asked = _prepared(extended)
    assert len(asked) == len(set(asked))
    for _ in range(4):
        others = [call for call in extended.pending_calls if call.rpc != "Prepare"]
        if others:
            extended.answer(others[0], "good")
        again = _prepared(extended)
        assert len(again) == len(set(again)), "while a call is under way there is no other about the class"


def test_a_class_that_was_prepared_is_not_prepared_again(extended: World) -> None:
    for number in range(3):
        extended.create(f"p{number}", 1 + number)
    seen: list[int] = []
    for _ in range(60):
        if not extended.pending_calls:
            break
        call = next((each for each in extended.pending_calls if each.rpc == "Prepare"), extended.pending_calls[0])
        if call.rpc == "Prepare":
            seen.append(call.request.cycle.pod_class)
        extended.answer(call, "good")
    assert seen
    assert len(seen) == len(set(seen))


def test_a_new_configuration_prepares_the_classes_again(extended: World) -> None:
    """What was prepared by another one is of no use."""
    extended.set_available("scores", available=False)
    for number in range(3):
        extended.create(f"p{number}", 1 + number)
    extended.set_available("scores", available=True)
    extended.create("p3", 5)
    before = _prepared(extended)
    assert before

    async def forget() -> None:
        extended.frontend.scheduling.scheduler.forget_prepared()

    extended.loop.run_until_complete(forget())
    extended.loop.settle()
    assert _prepared(extended) == []
    _answer(extended, "Filter")
    extended.answer_all()
    assert extended.api.pods["p0"]["spec"]["nodeName"] == "n0"


def test_whoever_leads_no_more_evicts_nobody() -> None:
    with one_node() as world:
        world.create("low", 1)
        world.answer_all()
        world.deliver("pods", 10)
        world.create("high", 3, priority=9)
        for _ in range(4):
            for call in list(world.pending_calls):
                if call.rpc != "Apply":
                    world.answer(call, "good")
            world.loop.advance(0.01)
        evictions = [call for call in world.pending_calls if call.rpc == "Apply" and call.request.HasField("evict")]
        assert evictions
        world.loop.run_until_complete(world.frontend.scheduling.close())
        assert not [call for call in world.pending_calls if call in evictions]


def test_a_new_configuration_forgets_places_that_were_found_ahead() -> None:
    """They were found by plugins that are not configured any more."""
    with one_node() as world:
        world.create("a", 1)
        world.answer_all()

        async def forget() -> None:
            world.frontend.scheduling.scheduler.forget_prepared()

        world.loop.advance(0.01)
        while world.pending_calls:
            world.answer_all()
        world.loop.run_until_complete(forget())
        world.create("b", 1)
        assert world.pending_rpcs() == ["Filter"]


def test_a_batch_that_may_grow_is_taken_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else keeps the loop from it."""
    with one_node() as world:
        delays = iter([0.5, 0.25])
        pacer = world.frontend.scheduling.pacer
        monkeypatch.setattr(pacer, "batch_delay", lambda *_: next(delays, 0.0))
        world.create("p", 1)
        for seconds, rpcs in ((0.4, []), (0.2, []), (0.2, ["Filter"])):
            world.loop.advance(seconds)
            assert world.pending_rpcs() == rpcs


@pytest.mark.parametrize(("processors", "prepared"), [(2, False), (4, False), (8, True)])
def test_where_processes_share_few_processors_classes_are_not_prepared(
    processors: int, prepared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of their own would cost what they compute ahead, at no higher rate."""
    monkeypatch.setattr("trireme_kube.componentbase.processors.usable", lambda: processors)
    monkeypatch.setattr(batches_in_turn.BatchesInTurn, "most", 1)
    world = World()
    try:
        world.api.put_node("n0", 99)
        world.deliver("nodes", 1)
        _prepare(world)
        for number in range(3):
            world.create(f"p{number}", 1 + number)
        while world.pending_calls and not _prepared(world):
            world.answer(world.pending_calls[0], "good")
        assert bool(_prepared(world)) is prepared
    finally:
        world.close()


def test_phases_of_their_own_prepare_whatever_processors_the_frontend_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas would otherwise evaluate one class after the other, however many they are."""
    monkeypatch.setattr("trireme_kube.componentbase.processors.usable", lambda: 1)
    phase, phases = trireme_configuration.Phase, trireme_configuration.Phases
    assert not scheduler_settings._prepares_ahead(phases())
    assert scheduler_settings._prepares_ahead(phases(filter=phase(endpoints=("filter:1",))))
    assert scheduler_settings._prepares_ahead(phases(score=phase(local_replicas=2)))
    monkeypatch.setattr("trireme_kube.componentbase.processors.usable", lambda: 16)
    assert scheduler_settings._prepares_ahead(phases())
    assert not scheduler_settings._prepares_ahead(phases(local="InProcess"))


def test_actions_that_a_cycle_waits_for_are_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a client may send little, those of one cycle take longer than any cycle does otherwise."""
    with one_node() as world:
        world.create("first", 1)
        world.answer_all()
        preemptions = world.frontend.scheduling.preemptions
        monkeypatch.setattr(type(preemptions), "completed_actions", 5)
        assert _progress(world).completed == 1 + 5


def test_a_cycle_is_under_way_while_batches_are_placed_in_turn() -> None:
    """What waits for the end of a cycle would come in between."""
    world = World()
    world.api.put_node("n0", 12)
    world.deliver("nodes", 1)
    world.create("first", 1)
    for cpus in (4, 5):
        world.create(f"p{cpus}", cpus)
    while "FilterClasses" not in world.pending_rpcs():
        world.answer(world.pending_calls[0], "good")
    assert world.frontend.scheduling.scheduler.in_cycle
    while world.pending_calls:
        world.answer_all()
    assert not world.frontend.scheduling.scheduler.in_cycle
    world.close()
