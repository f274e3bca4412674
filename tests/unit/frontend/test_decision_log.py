"""DecisionLog: what is recorded of a decision, and that nothing waits for it."""

import dataclasses
import types
from typing import cast

import pytest

from tests.helpers.recorded_decisions import IMPORTANT, LARGE, SMALL, RecordedCluster
from trireme.framework import status
from trireme.frontend.phase_clients import decision_log
from trireme.queueing import queued_pod
from trireme.v1 import decision_pb2, snapshot_pb2


def taken(log: decision_log.DecisionLog) -> list[decision_pb2.Decision]:
    request = snapshot_pb2.SyncRequest.FromString(log.take())
    return [decision_pb2.Decision.FromString(content) for content in request.decisions]


async def test_nothing_is_recorded_for_nobody() -> None:
    """Every scheduler would pay for recordings that it has not."""
    cluster = await RecordedCluster(3).open()
    cluster.log.wanted = lambda: False
    filtered = await cluster.filter(SMALL)
    await cluster.place(SMALL, 1, filtered)
    assert not cluster.log.waiting
    assert cluster.log.take() == b""
    # A number that is left out is a decision that was dropped, and none was.
    cluster.log.wanted = lambda: True
    await cluster.filter(SMALL)
    assert [each.number for each in taken(cluster.log)] == [1]


async def test_a_decision_names_what_it_depends_on() -> None:
    """It could not be made again."""
    cluster = await RecordedCluster(3).open()
    filtered = await cluster.filter(SMALL, 2)
    placed = await cluster.place(SMALL, 2, filtered)
    first, second = taken(cluster.log)
    assert (first.number, second.number) == (1, 2)
    assert (first.generation, first.profile, first.pod_class) == (cluster.generation, "p", SMALL)
    assert (first.filter.count, first.filter.refusals[:], first.inexact) == (2, [], False)
    assert (second.place.count, tuple(second.place.slots)) == (2, placed.slots)
    assert not second.place.HasField("capacities")
    assert not cluster.log.waiting


async def test_a_refusal_counts_the_nodes_of_each_reason() -> None:
    """The columns of 5,000 nodes would be in every decision; or nothing would be compared."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(LARGE, 2)
    cluster.log.take()
    await cluster.schedule(IMPORTANT, 3)
    filled = await cluster.filter(IMPORTANT)
    assert filled.is_refused_everywhere(-1)
    (refusal,) = taken(cluster.log)[-1].filter.refusals
    assert (refusal.status.plugin, refusal.nodes) == ("NodeResourcesFit", 3)


async def test_what_was_published_meanwhile_is_noted() -> None:
    """A replica may have answered from either state."""
    cluster = await RecordedCluster(3).open()
    filtered = await cluster.filter(SMALL)
    cluster.builder.set_node("n9", allocatable={"cpu": "4", "pods": "9"})
    cluster.log.take()
    await cluster.place(SMALL, 1, filtered)
    (placed,) = taken(cluster.log)
    assert placed.inexact
    assert placed.generation == cluster.generation - 1


async def test_what_has_no_room_is_dropped_and_its_number_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frontend without changes to send would grow without limit, or scheduling would wait for insight."""
    monkeypatch.setattr(decision_log, "MAX_WAITING_BYTES", 60)
    cluster = await RecordedCluster(3).open()
    for _ in range(20):
        await cluster.filter(SMALL)
    numbers = [each.number for each in taken(cluster.log)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 0 < len(numbers) < 10
    await cluster.filter(SMALL)
    assert [each.number for each in taken(cluster.log)] == [21]


async def test_decisions_that_wait_take_no_more_room_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many are kept as fit, and not one more."""
    cluster = await RecordedCluster(3).open()
    await cluster.filter(SMALL)
    (first,) = taken(cluster.log)
    monkeypatch.setattr(decision_log, "MAX_WAITING_BYTES", 2 * first.ByteSize())
    for _ in range(5):
        await cluster.filter(SMALL)
    assert [each.number for each in taken(cluster.log)] == [2, 3]


async def test_post_filter_is_of_the_generation_at_which_pre_filter_refused() -> None:
    """Such a refusal leaves the class's last answer as it is, and its generation would be taken for the call's."""
    cluster = await RecordedCluster(3).open()
    before = await cluster.filter(SMALL)
    refused = dataclasses.replace(before, refusal=status.unschedulable("NodeAffinity", "no such node"))
    cluster.builder.set_node("n9", allocatable={"cpu": "4", "pods": "9"})
    cluster.log.take()
    await cluster.filter_with(refused, SMALL)
    await cluster.evaluators.run_post_filter("p", SMALL, before.columns.generation, [cluster.pod()], refused)
    first, second = taken(cluster.log)
    assert first.filter.pre_filter.plugin == "NodeAffinity"
    assert (second.generation, second.inexact) == (cluster.generation, False)


async def test_pods_bound_since_a_message_are_one_decision() -> None:
    """Each would cost the frontend a message; or nobody could say how long a pod took."""
    cluster = await RecordedCluster(2).open()

    def bound(uid: str) -> None:
        pod = cast(
            "queued_pod.QueuedPodInfo",
            types.SimpleNamespace(
                uid=uid, attempts=2, first_queued_at=3.0, initial_attempt_timestamp=10.0, popped_at=12.5
            ),
        )
        cluster.log.add_bound(pod, 13.0, permit_seconds=0.25, pre_bind_seconds=0.0, bind_seconds=0.125)

    cluster.log.wanted = lambda: False
    bound("nobody-records")
    assert not cluster.log.waiting
    cluster.log.wanted = lambda: True
    bound("a")
    bound("b")
    assert cluster.log.waiting
    (decision,) = taken(cluster.log)
    assert decision.number == 1
    assert decision.bound == decision_pb2.BoundPods(
        uid=["a", "b"],
        attempts=[2, 2],
        held_back_us=[7_000_000] * 2,
        queue_us=[2_500_000] * 2,
        attempt_us=[500_000] * 2,
        permit_us=[250_000] * 2,
        pre_bind_us=[0, 0],
        bind_us=[125_000] * 2,
    )
    assert cluster.log.take() == b""


async def test_a_decision_has_the_duration_of_its_call() -> None:
    """Who held a pod up would be a guess."""
    cluster = await RecordedCluster(2).open()
    cluster.call_seconds = 0.002
    filtered = await cluster.filter(SMALL)
    await cluster.place(SMALL, 1, filtered)
    assert [each.duration_us for each in taken(cluster.log)] == [2000, 2000]


def test_no_placement_is_no_decision() -> None:
    log = decision_log.DecisionLog(lambda: 1, lambda profile: True)
    log.wanted = lambda: True
    log.add_placed(("p", SMALL), 1, [])
    log.wanted = lambda: False
    log.add_placed(("p", SMALL), 1, [("u", 4)])
    assert not log.waiting
    log.wanted = lambda: True
    log.add_placed(("p", SMALL), 1, [("u", 4)])
    (decision,) = taken(log)
    assert (list(decision.placed.uid), list(decision.placed.slot)) == (["u"], [4])


@pytest.mark.parametrize(("wanted", "remote"), [(True, True), (True, False), (False, True)])
def test_answers_of_remote_plugins_are_wanted_for_recordings_of_profiles_with_some(wanted: bool, remote: bool) -> None:
    log = decision_log.DecisionLog(lambda: 1, lambda profile: remote)
    log.wanted = lambda: wanted
    assert log.wants_remote_answers("p") is (wanted and remote)


@pytest.mark.parametrize(("seconds", "expected"), [(3.0, 3_000_000), (0.0, 0), (-1.0, 0), (0.0000016, 2)])
def test_durations_are_whole_microseconds(seconds: float, expected: int) -> None:
    log = decision_log.DecisionLog(lambda: 1, lambda profile: True)
    log.add(("p", SMALL), 1, decision_pb2.Decision(), seconds=seconds)
    assert [each.duration_us for each in taken(log)] == [expected]
