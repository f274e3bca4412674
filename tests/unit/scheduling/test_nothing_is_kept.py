"""Of a pod that is gone the scheduler keeps nothing, whatever happened to it before.

A scheduler runs for months. What it keeps of each pod fills its memory, and where a name or a UID comes again it is
taken for what holds now.
"""

from collections.abc import Callable

import pytest

from tests.helpers.frontend_world import GUARD, GUARDED_CPUS, PREPARED_CPUS, World
from tests.helpers.held_entries import held_entries

# Counted by what was, and limited: metrics and what is shown of the last decisions.
_LIMITED = (
    "SchedulerMetrics",
    "SchedulerInstruments",
    "Histogram",
    "Counter",
    "PreemptionHistory",
    "PreemptionDecision",
    "TransitionLog",
    "RecentEvents",
)


def _settle(world: World, bad: str = "") -> None:
    """Answer all calls, and show what follows from them; the RPC `bad` refuses."""
    for _ in range(12):
        while world.pending_calls:
            call = world.pending_calls[0]
            world.answer(call, "bad" if call.rpc == bad else "good")
        world.deliver("pods", 1000)
        world.deliver("nodes", 1000)


def _remove_all(world: World, extended: bool) -> None:
    for name in list(world.api.pods):
        world.api.remove("pods", name)
    _settle(world)
    # Timers end: of retries, of what is remembered for a while, of what an extender says.
    world.loop.advance(305 if extended else 65)
    _settle(world)


def _bound(world: World, name: str) -> None:
    world.create(name, 1)
    _settle(world)


def _prepared(world: World, name: str) -> None:
    world.create(name, PREPARED_CPUS)
    _settle(world)


def _refused(world: World, name: str) -> None:
    world.create(name, 9)
    _settle(world)


def _gated(world: World, name: str) -> None:
    world.create(name, 1, gated=True)
    _settle(world)


def _waiting(world: World, name: str) -> None:
    world.create(name, GUARDED_CPUS)
    _settle(world)


def _allowed(world: World, name: str) -> None:
    _waiting(world, name)
    for pod in world.frontend.scheduling.waiting.pods():
        world.frontend.scheduling.waiting.allow(pod.uid, GUARD)
    world.loop.settle()
    _settle(world)


def _rejected(world: World, name: str) -> None:
    _waiting(world, name)
    for pod in world.frontend.scheduling.waiting.pods():
        world.frontend.scheduling.waiting.reject(pod.uid, GUARD, "no")
    world.loop.settle()
    _settle(world)


def _preempting(world: World, name: str) -> None:
    for number in range(2):
        world.create(f"{name}-low-{number}", 2)
        _settle(world)
    world.create(f"{name}-high", 4, priority=9)
    _settle(world)
    for each in [each for each in world.api.pods if "low" in each]:
        world.api.remove("pods", each)
    _settle(world)
    world.loop.advance(20)
    _settle(world)


def _preempting_in_vain(world: World, name: str) -> None:
    world.create(f"{name}-low", 4)
    _settle(world)
    world.create(f"{name}-high", 4, priority=9)
    for _ in range(4):
        _settle(world, "Apply")
        world.loop.advance(20)
    _settle(world)


def _losing_its_node(world: World, name: str) -> None:
    world.api.put_node(f"{name}-node", 6)
    world.deliver("nodes", 10)
    for number in range(2):
        world.create(f"{name}-{number}", GUARDED_CPUS)
    _settle(world)
    world.api.remove("nodes", f"{name}-node")
    _settle(world)


def _failing(rpc: str) -> Callable[[World, str], None]:
    def fail(world: World, name: str) -> None:
        world.create(name, PREPARED_CPUS)
        _settle(world, rpc)

    return fail


def _deleted_during(rpc: str) -> Callable[[World, str], None]:
    def delete(world: World, name: str) -> None:
        world.create(name, PREPARED_CPUS)
        for _ in range(20):
            calls = world.pending_calls
            if not calls or calls[0].rpc == rpc:
                break
            world.answer(calls[0], "good")
        world.api.remove("pods", name)
        world.deliver("pods", 1000)
        _settle(world)

    return delete


_RPCS = ("Filter", "Place", "Reserve", "Permit", "PreBindPreFlight", "PreBind", "Bind")
_LIVES: dict[str, Callable[[World, str], None]] = {
    "bound": _bound,
    "prepared": _prepared,
    "refused": _refused,
    "gated": _gated,
    "waiting": _waiting,
    "allowed": _allowed,
    "rejected": _rejected,
    "preempting": _preempting,
    "preempting in vain": _preempting_in_vain,
    "losing its node": _losing_its_node,
    **{f"failing at {rpc}": _failing(rpc) for rpc in _RPCS},
    **{f"deleted during {rpc}": _deleted_during(rpc) for rpc in _RPCS},
}


def _held(world: World) -> dict[str, int]:
    frontend = world.frontend
    found = held_entries(frontend.scheduling, frontend.cluster.cache, frontend.cluster.registry)
    return {name: count for name, count in found.items() if not name.startswith(_LIMITED)}


@pytest.mark.parametrize(
    ("life", "extended"),
    [
        *((life, False) for life in _LIVES),
        *((life, True) for life in ("bound", "refused", "failing at Bind", "deleted during Bind")),
    ],
)
def test_nothing_is_kept_of_pods_that_are_gone(life: str, extended: bool) -> None:
    world = World(extended=extended)
    world.api.put_node("n0", 4)
    world.deliver("nodes", 1)
    live = _LIVES[life]
    for number in range(2):
        live(world, f"first-{number}")
        _remove_all(world, extended)
    before = _held(world)
    live(world, "second")
    _remove_all(world, extended)
    after = _held(world)
    world.close()
    assert {name: count for name, count in after.items() if count > before.get(name, 0)} == {}
