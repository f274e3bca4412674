"""The checks of the runs with real processes: each must find what it is there for."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tools.chaos import chaos_checks, chaos_faults, chaos_load
from tools.chaos.chaos_checks import LOST, OVERCOMMITTED, TWICE

ROOM = {"n": chaos_checks.Amounts(cpu=2000, memory=2 << 30, pods=2), "m": chaos_checks.Amounts(9000, 9 << 30, 9)}


def pod(name: str, node: str = "", cpu: str = "1", memory: str = "1Gi") -> dict[str, Any]:
    """A pod as etcd has it."""
    container = {"resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {"containers": [container], "nodeName": node}}


def found(checks: chaos_checks.Checks) -> list[str]:
    return [each.what for each in checks.violations]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([("a", "1", "1Gi"), ("b", "1", "1Gi")], [], id="full"),
        pytest.param([("a", "1", "1Mi"), ("b", "1001m", "1Mi")], [OVERCOMMITTED], id="CPUs"),
        pytest.param([("a", "1m", "1Gi"), ("b", "1m", "1025Mi")], [OVERCOMMITTED], id="memory"),
        pytest.param([("a", "1m", "1Mi"), ("b", "1m", "1Mi"), ("c", "1m", "1Mi")], [OVERCOMMITTED], id="pods"),
    ],
)
def test_a_node_with_more_than_it_has_room_for(pods: list[tuple[str, str, str]], expected: list[str]) -> None:
    """CPUs, memory and number each count, and what fits exactly fits."""
    checks = chaos_checks.Checks(ROOM)
    for name, cpu, memory in pods:
        checks.write(pod(name, "", cpu, memory), 1.0)
        checks.write(pod(name, "n", cpu, memory), 2.0)
    assert found(checks) == expected


def test_room_that_a_deleted_pod_leaves_can_be_used_again() -> None:
    """A deletion before a binding, in etcd's order, is no overcommitment."""
    checks = chaos_checks.Checks(ROOM)
    for name in "abc":
        checks.write(pod(name), 1.0)
    checks.write(pod("a", "n"), 2.0)
    checks.write(pod("b", "n"), 2.0)
    checks.expect_deletion("a")
    checks.delete("a", 3.0)
    checks.write(pod("c", "n"), 4.0)
    assert not found(checks)


def test_a_pod_whose_node_changes_was_bound_twice() -> None:
    """It counts on the node where it is now."""
    checks = chaos_checks.Checks(ROOM)
    checks.write(pod("a"), 1.0)
    checks.write(pod("a", "n"), 2.0)
    checks.write(pod("a", "m"), 3.0)
    assert found(checks) == [TWICE]
    assert checks.placed == {"a": "m"}


def test_pods_that_are_lost() -> None:
    """A pod that goes without the load's doing, one that others are preferred to forever, one left at the end."""
    checks = chaos_checks.Checks({"n": chaos_checks.Amounts(1 << 30, 1 << 50, 1 << 20)})
    checks.write(pod("gone"), 1.0)
    checks.delete("gone", 2.0)
    assert found(checks) == [LOST]
    checks.write(pod("forgotten"), 3.0)
    for number in range(chaos_checks.PASSED_OVER + 1):
        checks.write(pod(f"p{number}"), 4.0)
        checks.write(pod(f"p{number}", "n"), 4.0)
    checks.check_waiting(5.0)
    checks.check_waiting(6.0)
    assert found(checks) == [LOST, LOST]
    checks.write(pod("left"), 7.0)
    checks.end(8.0)
    assert found(checks) == [LOST, LOST, LOST]


def test_a_gap_lasts_from_the_first_waiting_pod_or_the_last_binding_to_the_next_binding() -> None:
    """While nothing waits there is none."""
    checks = chaos_checks.Checks(ROOM)
    checks.write(pod("a"), 10.0)
    checks.write(pod("a", "n"), 12.0)
    checks.write(pod("b"), 20.0)
    checks.write(pod("c"), 21.0)
    checks.write(pod("b", "n"), 23.0)
    checks.end(24.0)
    assert checks.gaps == [(10.0, 12.0), (20.0, 23.0), (23.0, 24.0)]


def test_a_pod_that_waits_while_others_are_bound_shows() -> None:
    """Each binding ends a gap, so a pod that a stopped replica holds would not show there."""
    checks = chaos_checks.Checks(ROOM)
    checks.write(pod("held"), 1.0)
    for number in range(4):
        checks.write(pod(f"p{number}", cpu="1m", memory="1Mi"), 2.0 + number)
        checks.write(pod(f"p{number}", "m", "1m", "1Mi"), 2.1 + number)
    checks.write(pod("held", "n"), 6.0)
    assert checks.waits == [chaos_checks.Wait(1.0, 6.0)]


def test_the_load_fills_nodes_to_the_brim() -> None:
    """As many pods as a node has places use one of its resources up."""
    for kind in chaos_load.KINDS:
        room = chaos_checks.room(chaos_load.node(kind, 0))
        used = chaos_checks.Amounts(0, 0, 0)
        for number in range(chaos_load.PODS_PER_NODE):
            used = used.plus(chaos_checks.requests(chaos_load.pod(f"p{number}", kind, number % 5)))
            assert not used.exceeds(room)
        assert used.plus(chaos_checks.requests(chaos_load.pod("one more", kind, 0))).exceeds(room)


def test_a_seed_gives_the_same_faults_and_every_kind_in_a_short_run() -> None:
    """A repeated run repeats its faults."""
    deck = sum(count for count, _ in chaos_faults.DECK)
    assert deck <= 40
    first, again, other = (list(itertools.islice(chaos_faults.draw(seed, 4.0), deck)) for seed in (1, 1, 2))
    assert first == again != other
    assert {fault.kind for fault in first} == {kind for _, kind in chaos_faults.DECK}


def test_faults_that_are_to_outlast_a_lease_do() -> None:
    """Others end before the renew deadline."""
    for fault in itertools.islice(chaos_faults.draw(3, 4.0), 200):
        assert fault.kind.beyond_lease == (fault.seconds > 4.0), fault
