"""What is recorded of a pod's attempt: each step once, with the seconds that it took, and those alone.

Every call takes a time of its own, so that a sum says what is in it.
"""

from collections.abc import Mapping

import pytest

from tests.helpers.frontend_world import GUARD, GUARDED_CPUS, PREPARED_CPUS, World
from tests.helpers.metric_values import counts, sums
from trireme.v1 import filter_pb2, status_pb2

_SECONDS = {
    "Filter": 0.125,
    "Place": 0.25,
    "Reserve": 0.5,
    "Permit": 1.0,
    "RunPostFilter": 2.0,
    "PreBindPreFlight": 4.0,
    "PreBind": 8.0,
    "Bind": 16.0,
}
_WAIT = 3.0
_PLACED = 0.375  # Filter and Place
_LARGE = 9


def _run(world: World, bad: str = "", *, allowed: bool = True) -> None:
    """Answer calls after their times; `bad` is the RPC that refuses, the last one that matters."""
    while world.pending_calls or world.frontend.scheduling.waiting.pods():
        # The calls of an attempt before those that look for places of more pods.
        for call in sorted(world.pending_calls, key=lambda each: each.rpc in ("Filter", "Place"))[:1]:
            waiting = world.frontend.scheduling.waiting.pods()
            world.loop.advance(0.0 if waiting else _SECONDS.get(call.rpc, 0.0))
            world.answer(call, "bad" if call.rpc == bad else "good")
            if call.rpc == bad:
                return
        if not world.pending_calls:
            for pod in world.frontend.scheduling.waiting.pods():
                world.loop.advance(_WAIT)
                if allowed:
                    world.frontend.scheduling.waiting.allow(pod.uid, GUARD)
                else:
                    world.frontend.scheduling.waiting.reject(pod.uid, GUARD, "no")
                world.loop.settle()


def _points(world: World) -> Mapping[str, tuple[float, float]]:
    """By extension point and code: how many pods passed it, and the seconds; PreEnqueue is not of the attempt."""
    found = sums(world.frontend.context.metrics.instruments.point_seconds)
    return {
        labels.removesuffix(" default-scheduler"): value
        for labels, value in found.items()
        if not labels.startswith("PreEnqueue")
    }


_NOT_RESERVED = {"Reserve Success": (1, 0.0)}
_NOT_PREPARED = {"PreBindPreFlight Skip": (1, 0.0), "PreBind Success": (1, 0.0)}
_BOUND = {"Bind Success": (1, 16.0), "PostBind Success": (1, 0.0)}
_RESERVED = {"Reserve Success": (1, 0.5), "Permit Success": (1, 1.0)}
_CHECKED = {**_RESERVED, "PreBindPreFlight Success": (1, 4.0)}
_PREPARED = {**_CHECKED, "PreBind Success": (1, 8.0)}


@pytest.mark.parametrize(
    ("cpus", "bad", "points", "result", "seconds"),
    [
        (1, "", {**_NOT_RESERVED, "Permit Success": (1, 1.0), **_NOT_PREPARED, **_BOUND}, "scheduled", 17),
        (PREPARED_CPUS, "", {**_PREPARED, **_BOUND}, "scheduled", 29.5),
        (PREPARED_CPUS, "Reserve", {"Reserve Unschedulable": (1, 0.5)}, "unschedulable", 0.5),
        (1, "Permit", {**_NOT_RESERVED, "Permit Unschedulable": (1, 1.0)}, "unschedulable", 1),
        (PREPARED_CPUS, "PreBindPreFlight", {**_RESERVED, "PreBindPreFlight Error": (1, 4.0)}, "error", 5.5),
        (PREPARED_CPUS, "PreBind", {**_CHECKED, "PreBind Error": (1, 8.0)}, "error", 13.5),
        (PREPARED_CPUS, "Bind", {**_PREPARED, "Bind Error": (1, 16.0)}, "error", 29.5),
    ],
    ids=["plain", "prepared", "reserve", "permit", "pre-flight", "pre-bind", "bind"],
)
def test_each_step_is_recorded_once_with_its_seconds(
    world: World, cpus: int, bad: str, points: Mapping[str, tuple[float, float]], result: str, seconds: float
) -> None:
    world.create("p", cpus)
    _run(world, bad)
    instruments = world.frontend.context.metrics.instruments
    assert _points(world) == points
    assert sums(instruments.algorithm_seconds) == {"": (1, _PLACED)}
    assert sums(instruments.attempt_seconds) == {f"{result} default-scheduler": (1, _PLACED + seconds)}
    assert counts(instruments.schedule_attempts) == {f"{result} default-scheduler": 1}
    assert counts(instruments.batch_size) == {"default-scheduler": 1}


@pytest.mark.parametrize("allowed", [True, False])
def test_a_wait_on_permit_is_recorded_once_it_ends(world: World, allowed: bool) -> None:
    world.create("p", GUARDED_CPUS)
    _run(world, allowed=allowed)
    permitted = {**_NOT_RESERVED, "Permit Wait": (1, 1.0)}
    assert _points(world) == ({**permitted, **_NOT_PREPARED, **_BOUND} if allowed else permitted)
    waits = sums(world.frontend.context.metrics.instruments.permit_wait_seconds)
    assert waits == {"Success" if allowed else "Unschedulable": (1, _WAIT)}


def test_the_search_for_a_pod_that_fits_nowhere_has_post_filter_in_it(world: World) -> None:
    """As kube-scheduler's, which is observed when both have run."""
    world.create("p", _LARGE)
    _run(world)
    instruments = world.frontend.context.metrics.instruments
    assert sums(instruments.algorithm_seconds) == {"": (1, 2.125)}
    assert counts(instruments.batch_attempts) == {"default-scheduler no_hint": 1}
    assert counts(instruments.preemption_attempts) == {"": 1}


def test_a_batch_counts_each_of_its_pods_with_its_share(world: World) -> None:
    world.set_available("filters", available=False)
    for name in ("a", "b"):
        world.create(name, 1)
    world.set_available("filters", available=True)
    world.create("large", _LARGE, priority=-1)
    _run(world)
    instruments = world.frontend.context.metrics.instruments
    assert counts(instruments.batch_size)["default-scheduler"] >= 1
    assert instruments.batch_size.bucket_counts()[:2] == [1, 1]
    assert _points(world)["Permit Success"] == (2, 1.0)
    assert _points(world)["Reserve Success"] == (2, 0.0)
    assert _points(world)["PreBind Success"] == (2, 0.0)
    batches = counts(instruments.batch_attempts)
    assert batches["default-scheduler hint_used"] == 1


def test_places_that_were_found_before_are_recorded_as_found_again(world: World) -> None:
    """The second pod that takes a place of one answer, as kube-scheduler counts its hints."""
    world.api.put_node("n0", 9)
    world.deliver("nodes", 1)
    for name in "abcde":
        world.create(name, 1)
        _run(world)
    instruments = world.frontend.context.metrics.instruments
    assert counts(instruments.batch_attempts) == {"default-scheduler no_hint": 4, "default-scheduler hint_used": 1}
    assert sums(instruments.algorithm_seconds) == {"": (5, 2 * _PLACED)}
    assert sums(instruments.attempt_seconds)["scheduled default-scheduler"] == (5, 2 * _PLACED + 5 * 17)


def test_places_of_several_classes_are_recorded_by_batch(world: World) -> None:
    """Each has its share of the time that finding them took."""
    world.api.put_node("n0", 9)
    world.deliver("nodes", 1)
    for name, cpus in (("first", 1), ("a", 4), ("b", 3)):
        world.create(name, cpus)
    for rpc in ("Filter", "Place"):
        world.answer(next(call for call in world.pending_calls if call.rpc == rpc), "good")
    for rpc in ("FilterClasses", "PlaceClasses"):
        world.loop.advance(1.0)
        world.answer(next(call for call in world.pending_calls if call.rpc == rpc), "good")
    instruments = world.frontend.context.metrics.instruments
    assert sums(instruments.algorithm_seconds) == {"": (3, 2.0)}
    assert counts(instruments.batch_attempts) == {"default-scheduler no_hint": 3}


def test_the_search_on_the_nodes_that_pods_are_nominated_for_is_recorded(world: World) -> None:
    world.api.put_node("n0", 4)
    world.deliver("nodes", 1)
    world.create("low", 4)
    _run(world)
    world.deliver("pods", 10)
    world.create("high", 4, priority=9)
    while "FilterNominated" not in world.pending_rpcs():
        world.answer_all() if world.pending_calls else world.api.remove("pods", "low")
        world.deliver("pods", 10)
    instruments = world.frontend.context.metrics.instruments
    before = counts(instruments.algorithm_seconds)[""]
    world.loop.advance(1.5)
    world.answer_all()
    assert world.api.pods["high"]["spec"]["nodeName"] == "n0"
    assert counts(instruments.algorithm_seconds)[""] == before + 1
    assert sums(instruments.algorithm_seconds)[""][1] >= 1.5


@pytest.mark.parametrize(("rpc", "stage"), [("reserve", "assume"), ("prebind", "bind")])
def test_an_error_of_volumes_is_counted_by_its_stage(
    world: World, monkeypatch: pytest.MonkeyPatch, rpc: str, stage: str
) -> None:
    error = status_pb2.Status(code=status_pb2.CODE_ERROR, plugin="VolumeBinding", messages=["broken"])
    respond = getattr(world, f"_{rpc}")

    def refuse(request: object) -> object:
        answer = respond(request)
        for each in getattr(answer, "reservations", ()) or answer.results:
            each.status.CopyFrom(error)
        return answer

    monkeypatch.setattr(world, f"_{rpc}", refuse)
    world.create("p", PREPARED_CPUS)
    _run(world, "Bind" if rpc == "prebind" else "Permit")
    assert counts(world.frontend.context.metrics.instruments.volume_errors) == {stage: 1}


def test_what_reserve_refuses_is_undone_in_filter_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins that have reserved before the one that refuses keep the pod's share otherwise."""
    undone: list[str] = []

    def unreserve(request: filter_pb2.UnreserveRequest) -> filter_pb2.UnreserveResponse:
        undone.extend(placement.pod.name for placement in request.placements)
        return filter_pb2.UnreserveResponse()

    monkeypatch.setattr(world, "_unreserve", unreserve)
    world.create("p", PREPARED_CPUS)
    _run(world, "Reserve")
    assert undone == ["p"]
    assert world.frontend.cluster.cache.statistics().assumed_pods == 0
