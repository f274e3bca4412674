"""Preemptors beside each other: each evicts what it needs and no more, in whatever order their victims go."""

import time
from collections.abc import Iterator

import pytest

from tests.helpers.frontend_world import PendingCall, World
from trireme.frontend import leadership_runner
from trireme.frontend.phase_clients import local_phases
from trireme.queueing.states import BackOff
from trireme.scheduling import item_batches
from trireme.v1 import bind_pb2, status_pb2
from trireme_kube.client.informers.watch import EventKind


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    """Two nodes, full of four pods of no importance."""
    world = World()
    for node in ("n0", "n1"):
        world.api.put_node(node, 2)
    world.deliver("nodes", 2)
    for name in ("a", "b", "c", "d"):
        _create(world, name, 0)
        world.answer_all()
    world.deliver("pods", 1000)
    yield world
    world.close()


def _create(world: World, name: str, priority: int) -> None:
    world.create(name, 1, priority)


def _decide(world: World, *, written: bool = True) -> None:
    """Let filter and score answer, and conditions and nominations be `written`, but no victim go."""
    for _ in range(8):
        for call in list(world.pending_calls):
            if call in world.pending_calls and (call.rpc != "Apply" or (written and not _evicts(call.request))):
                world.answer(call, "good")
                world.deliver("pods", 1000)
        world.loop.advance(0.01)


def _evicts(request: object) -> bool:
    return isinstance(request, bind_pb2.Action) and request.HasField("evict")


def _victims(world: World) -> list[str]:
    return sorted(call.request.pod.name for call in world.pending_calls if _evicts(call.request))


def _go(world: World, name: str) -> None:
    """The API server deletes the victim at once, bind answers, and the watch reports it."""
    (call,) = (each for each in world.pending_calls if _evicts(each.request) and each.request.pod.name == name)
    world.api.remove("pods", name)
    world.deliver("pods", 1000)
    world.answer(call, "good")


def _write(world: World, name: str) -> None:
    """The API server takes the pod's condition and nomination."""
    for call in [each for each in world.pending_calls if each.rpc == "Apply" and not _evicts(each.request)]:
        if call.request.pod.name == name:
            world.answer(call, "good")
    world.deliver("pods", 1000)


def _where(world: World) -> dict[str, str]:
    return {name: raw["spec"].get("nodeName", "") for name, raw in sorted(world.api.pods.items())}


@pytest.mark.parametrize("written", [True, False], ids=["nominations-written", "nominations-not-written-yet"])
def test_a_pod_woken_early_does_not_preempt_elsewhere(world: World, written: bool) -> None:
    """Its room is promised to another one, whose victim still stands: it looked elsewhere, and a pod went in vain."""
    for name in ("p", "q", "r"):
        _create(world, name, 100)
        _decide(world, written=written)
    nominator = world.frontend.scheduling.queue.nominator
    assert [pod.key for pod in nominator.pods_for("n0")] == ["ns/p", "ns/r"]
    assert _victims(world) == ["b", "d"]
    _go(world, "d")
    _decide(world, written=written)
    if not written:
        assert not _where(world)["q"], "its nomination is written first, as kube-scheduler does it"
        _write(world, "q")
        _decide(world, written=False)
    assert _where(world)["q"] == "n1"
    _go(world, "b")
    # p is tried again; but r was promised the room of b and a, and a is still there.
    _decide(world, written=written)
    assert _victims(world) == ["a"]
    assert [pod.key for pod in nominator.pods_for("n0")] == ["ns/p", "ns/r"]
    _go(world, "a")
    _decide(world)
    world.loop.advance(30.0)
    _decide(world)
    assert _where(world) == {"c": "n1", "p": "n0", "q": "n1", "r": "n0"}


def _publish_steadily(world: World) -> None:
    """The replicas learn of what happens as they do from a leader."""
    frontend, local = world.frontend, local_phases.LocalPhases({}, {})
    leadership = leadership_runner.LeadershipRunner(
        frontend.context.completed,
        frontend,
        None,  # nothing is read
        local,
        lambda _: local,
        time.monotonic,
    )
    world._tasks.append(world.loop.create_task(leadership._publish_steadily()))


def test_victims_that_go_between_filter_and_post_filter_are_not_replaced_by_others(world: World) -> None:
    """Filter refused the pod its room, since victims of another one stood there.

    PostFilter, on a replica that had learned meanwhile that they are gone, had nobody to wait for, and preempted
    elsewhere, in vain.
    """
    _publish_steadily(world)
    for name in ("p", "q", "r"):
        _create(world, name, 100)
        _decide(world)
    _go(world, "b")
    (nominated,) = (each for each in world.pending_calls if each.rpc == "FilterNominated")
    assert [each.pod.name for each in nominated.request.nominees] == ["p"]
    world.answer(nominated, "good")
    (call,) = (each for each in world.pending_calls if each.rpc == "Filter")
    assert call.request.cycle.pod.metadata.name == "p"
    world.loop.advance(item_batches.LINGER_SECONDS)
    _go(world, "a")
    world.loop.advance(2 * leadership_runner.STEADY_PUBLISH_SECONDS)
    assert call in world.pending_calls, "its answer is unchanged"
    _decide(world)
    assert [pod.key for pod in world.frontend.scheduling.queue.nominator.pods_for("n1")] == ["ns/q"]
    _go(world, "d")
    for _ in range(3):
        world.loop.advance(1.0)
        _decide(world)
    assert _where(world) == {"c": "n1", "p": "n0", "q": "n1", "r": "n0"}


def _come(world: World, *names: str) -> None:
    """Preemptors come at once."""
    for name in names:
        world.api.add_pod(name, 1, 100)
    world.deliver("pods", 1000)
    world.loop.advance(1.0)


def _nominated(world: World) -> list[str]:
    pods_for = world.frontend.scheduling.queue.nominator.pods_for
    return sorted(pod.key for node in ("n0", "n1") for pod in pods_for(node))


def test_many_preemptors_get_their_victims_from_one_call(world: World) -> None:
    """A call for each of them costs more than what is decided; and each is promised room of its own."""
    _come(world, "p", "q", "r", "s")
    world.answer(world.pending_call("Filter"), "good")
    call = world.pending_call("RunPostFilter")
    assert [each.pod.name for each in call.request.preemptors] == ["p", "q", "r", "s"]
    world.answer(call, "good")
    assert not [each for each in world.pending_calls if each.rpc in ("Filter", "RunPostFilter")]
    assert {len(world.frontend.scheduling.queue.nominator.pods_for(node)) for node in ("n0", "n1")} == {2}


def test_preemptors_of_the_class_that_preempted_last_get_their_victims_from_filter(world: World) -> None:
    """They most likely fit nowhere either, so a call of its own for PostFilter costs more than it is worth."""
    _create(world, "p", 100)
    _decide(world)
    _come(world, "q", "r", "s")
    call = world.pending_call("Filter")
    assert [each.pod.name for each in call.request.preemptors] == ["q", "r", "s"]
    world.answer(call, "good")
    assert not [each for each in world.pending_calls if each.rpc in ("Filter", "RunPostFilter")]
    assert _nominated(world) == ["ns/p", "ns/q", "ns/r", "ns/s"]


def test_after_a_pod_that_fits_no_preemption_is_expected(world: World) -> None:
    """Filter would look for victims with each call, and scheduling take as long as preemption does."""
    _create(world, "p", 100)
    _decide(world)
    world.api.put_node("n2", 2)
    world.deliver("nodes", 1)
    for name, preemptors in (("q", ["q"]), ("r", [])):
        _create(world, name, 100)
        call = world.pending_call("Filter")
        assert [each.pod.name for each in call.request.preemptors] == preemptors
        world.answer(call, "good")
        world.answer(world.pending_call("Place"), "good")
        while "Bind" in world.pending_rpcs() or "Permit" in world.pending_rpcs():
            world.answer(next(each for each in world.pending_calls if each.rpc in ("Bind", "Permit")), "good")
        world.deliver("pods", 1000)
        if name == "q":
            world.api.put_node("n2", 3)  # what was found ahead for more pods is void
            world.deliver("nodes", 1)


def test_results_for_several_preemptors_end_with_a_deleted_pod(world: World) -> None:
    """Those behind it were answered for as if it had been promised room: they are asked about again."""
    _come(world, "p", "q", "r", "s")
    world.answer(world.pending_call("Filter"), "good")
    call = world.pending_call("RunPostFilter")
    world.api.remove("pods", "r")
    world.deliver("pods", 1000)
    world.answer(call, "good")
    assert _nominated(world) == ["ns/p", "ns/q"]
    (again,) = (each for each in world.pending_calls if each.rpc == "Filter")
    assert [each.pod.name for each in again.request.preemptors] == ["s"]
    world.answer(again, "good")
    assert _nominated(world) == ["ns/p", "ns/q", "ns/s"]


def test_a_nominated_node_whose_filter_fails_then_ends_the_attempts_behind_by_error(world: World) -> None:
    _come(world, "p", "q", "r", "s")
    world.answer(world.pending_call("Filter"), "good")
    call = world.pending_call("RunPostFilter")
    broken = status_pb2.Status(code=status_pb2.CODE_ERROR, plugin="Fragile", messages=["out of order"])
    call.answer.results[2].changed_status.CopyFrom(broken)
    world.answer(call, "good")
    assert _nominated(world) == ["ns/p", "ns/q"]
    failed = [world.frontend.scheduling.queue.contents.get(key) for key in ("ns/r", "ns/s")]
    assert [(type(pod.state), pod.rejectors) for pod in failed if pod] == [(BackOff, frozenset())] * 2
    assert not [each for each in world.pending_calls if each.rpc in ("Filter", "RunPostFilter")]


def _promised(world: World) -> None:
    """`p` waits for the room of b and q for that of d, on the other node."""
    for name in ("p", "q"):
        _create(world, name, 100)
        _decide(world)
    assert _victims(world) == ["b", "d"]


def _all_go(world: World, *names: str) -> PendingCall:
    """The victims are gone at once; the call that follows."""
    for name in names:
        world.api.remove("pods", name)
    world.deliver("pods", 1000)
    for call in [each for each in world.pending_calls if _evicts(each.request)]:
        world.answer(call, "good")
    (call,) = (each for each in world.pending_calls if each.rpc == "FilterNominated")
    return call


def test_preemptors_whose_victims_are_gone_are_placed_by_one_call(world: World) -> None:
    """A call for each of them, and one to bind each, cost more than what is decided."""
    _promised(world)
    call = _all_go(world, "b", "d")
    assert [each.pod.name for each in call.request.nominees] == ["p", "q"]
    world.answer(call, "good")
    assert not [each for each in world.pending_calls if each.rpc in ("Filter", "FilterNominated", "Place")]
    _decide(world)
    assert _where(world) == {"a": "n0", "c": "n1", "p": "n0", "q": "n1"}


def test_a_pod_refused_on_its_nominated_node_is_filtered_alone(world: World) -> None:
    """It may have to look elsewhere, and must see that the ones before it are placed by then."""
    _promised(world)
    call = _all_go(world, "b", "d")
    call.answer.admitted = 1
    world.answer(call, "good")
    assert world.frontend.cluster.cache.pod(call.request.nominees[0].pod.uid) is not None
    (again,) = (each for each in world.pending_calls if each.rpc == "FilterNominated")
    assert [each.pod.name for each in again.request.nominees] == ["q"]
    world.answer(again, "good")
    _decide(world)
    assert _where(world) == {"a": "n0", "c": "n1", "p": "n0", "q": "n1"}


def test_a_pod_refused_on_its_nominated_node_gets_its_post_filter_result_from_filter(world: World) -> None:
    """Preemptors that are woken too early are refused so; a call for PostFilter alone costs them as much again."""
    _promised(world)
    question = _all_go(world, "b", "d")
    question.answer.admitted = 0
    world.answer(question, "good")
    assert [each.pod.name for each in world.pending_call("Filter").request.preemptors] == ["p"]


def test_a_preemptor_that_somebody_else_binds_preempts_no_more(world: World) -> None:
    """Its preemption would be retried, and gate a pod of its name, though it runs."""
    _create(world, "p", 100)
    _decide(world)
    assert world.frontend.scheduling.queue.held_preemptors
    assert _victims(world)
    raw = world.api.pods["p"]
    raw["spec"]["nodeName"] = "n0"
    world.api.record("pods", EventKind.MODIFIED, raw)
    world.deliver("pods", 1000)
    assert not world.frontend.scheduling.queue.held_preemptors
    for victim in _victims(world):
        _go(world, victim)
    world.loop.advance(100)
    assert not world.frontend.scheduling.preemptions.under_way.still_gates(raw["metadata"]["uid"])
    assert _nominated(world) == []
