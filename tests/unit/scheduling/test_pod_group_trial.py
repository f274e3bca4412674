"""Who of a group takes part in its trial, and what the trial records of each member."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.pod_group_builders import PROFILE, pod_group
from tests.helpers.pod_group_cluster import FULL, T0, Cluster
from trireme.cache.pod_projection import TERMINATING
from trireme.framework import status
from trireme.queueing import queued_pod
from trireme.v1 import filter_phase_pb2, status_pb2
from trireme.wire import node_columns

IN_USE = status.unschedulable("DynamicResources", "the claim's devices are not there")
CLAIM = [{"name": "r", "resourceClaimName": "c"}]


def _member(cluster: Cluster, name: str) -> queued_pod.QueuedPodInfo:
    group = cluster.groups.group_of_member(f"uid-{name}")
    assert group is not None
    return group.members[f"uid-{name}"]


def _terminating(cluster: Cluster) -> None:
    record = _member(cluster, "p1").record
    parsed = record.pod.parsed._replace(flags=TERMINATING, resource_version=2)
    object.__setattr__(record.pod, "parsed", parsed)


def _bound(cluster: Cluster) -> None:
    record = _member(cluster, "p1").record
    cluster.cache.assume("ns/p1", "uid-p1", "n1", record.pod.base, (), record.class_id)


def _deleted(cluster: Cluster) -> None:
    cluster.queue.delete("ns/p1", "uid-p1", T0)


CHANGES = pytest.mark.parametrize("change", [_terminating, _bound, _deleted], ids=["terminating", "bound", "deleted"])


@CHANGES
@pytest.mark.parametrize("alone", [True, False])
async def test_a_member_that_cannot_be_placed_any_more_is_not_tried(
    change: Callable[[Cluster], None], alone: bool
) -> None:
    """It would be placed though it ends, or twice; the others are tried without it."""
    cluster = Cluster([2, 2])
    cluster.group(pod_group("g"))
    for name in ("p1",) if alone else ("p0", "p1", "p2"):
        cluster.add(name, "g", "k")
    batch: Any = cluster.queue.pop(T0, 100)
    change(cluster)
    await cluster.run_group(batch)
    others = [] if alone else ["p0", "p2"]
    assert [each for call in cluster.started for each in call] == others
    assert cluster.asked == ([] if alone else [("filter", 1, 2), ("place", 1, 2)])
    assert cluster.failures == {}
    assert cluster.queue.statistics().in_flight == len(others)


@pytest.mark.parametrize("gone", ["p0", "p1", "p2"])
@pytest.mark.parametrize("one_at_a_time", [False, True])
async def test_a_member_that_goes_during_the_trial_counts_as_one_that_did_not_fit(
    gone: str, one_at_a_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The members beside it are tried each once, in order, also where an answer is of few pods."""
    cluster = Cluster([3])
    cluster.group(pod_group("g", 2))
    for number in range(3):
        cluster.add(f"p{number}", "g", "k", now=T0 + number)

    def go() -> None:
        if len(cluster.asked) == 1:
            cluster.queue.delete(f"ns/{gone}", f"uid-{gone}", T0)

    cluster.meanwhile = go
    if one_at_a_time:
        place = cluster.place

        async def place_one(profile: str, class_id: int, count: int, *rest: Any) -> Any:
            return await place(profile, class_id, 1, *rest)

        monkeypatch.setattr(cluster, "place", place_one)
    await cluster.run()
    left = {"p0", "p1", "p2"} - {gone}
    assert set(cluster.nodes) == left
    assert {each for call in cluster.started for each in call} == left
    assert cluster.failures.keys() <= {gone}


def _refusing(monkeypatch: pytest.MonkeyPatch, *statuses: status.Status, refusal: bool = False) -> Cluster:
    """A cluster of a node for each of these statuses, which refuses everybody by it, and one that takes a pod."""
    cluster = Cluster([0] * len(statuses) + [1], post_filters=("DynamicResources",))
    ask = cluster.filter

    async def answer(profile: str, class_id: int, *rest: Any, **more: Any) -> Any:
        answered = await ask(profile, class_id, *rest, **more)
        columns = answered.columns
        index = columns.index.copy()
        for number in range(len(statuses)):
            index[number] = number + 1
        index[len(statuses)] = 0 if columns.capacity[len(statuses)] else 1
        made = node_columns.NodeColumns.complete(columns.generation, statuses or (FULL,), index, columns.capacity)
        return dataclasses.replace(answered, columns=made, refusal=statuses[0] if refusal and statuses else None)

    monkeypatch.setattr(cluster, "filter", answer)

    def release(_: filter_phase_pb2.ListReleasableClaimsRequest) -> filter_phase_pb2.ListReleasableClaimsResponse:
        return filter_phase_pb2.ListReleasableClaimsResponse(
            status=status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, messages=["none"])
        )

    cluster.release = release
    return cluster


@pytest.mark.parametrize(
    ("statuses", "claims", "everywhere", "has_columns"),
    [
        ((IN_USE,), CLAIM, False, True),
        ((FULL, IN_USE), CLAIM, False, True),
        ((IN_USE, FULL), CLAIM, False, True),
        ((FULL,), CLAIM, False, False),
        ((IN_USE,), [], False, False),
        ((IN_USE,), CLAIM, True, False),
    ],
    ids=["in use", "in use somewhere", "in use first", "full", "without claims", "refused by PreFilter"],
)
async def test_nodes_are_listed_for_members_whose_claims_keep_them_away(
    statuses: tuple[status.Status, ...],
    claims: list[Any],
    everywhere: bool,
    has_columns: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Filter finds claims to release by them; for others they would be sent for nothing."""
    cluster = _refusing(monkeypatch, *statuses, refusal=everywhere)
    group = pod_group("g", 2)
    group.spec.resource_claims.add(name="c", resource_claim_name="c")
    cluster.group(group)
    for number in range(2):
        cluster.add(f"p{number}", "g", "k", now=T0 + number, resourceClaims=claims)
    await cluster.run()
    (request,) = cluster.group_questions
    assert [member.HasField("columns") for member in request.tried] == [has_columns] * len(request.tried)
    if has_columns:
        for member in request.tried:
            assert [each.plugin for each in member.columns.statuses] == [each.plugin for each in statuses]
    assert request.cycle.profile == PROFILE


def _in_racks(rooms: tuple[int, ...], kinds: str, racks: str = "ab", **more: Any) -> Cluster:
    """A gang of a pod of each kind that goes to one rack of those of the nodes, the last one if several take it."""
    cluster = Cluster(rooms, racks=list(racks), topology=True, **more)
    cluster.totals = list(range(len(set(racks))))
    group = pod_group("g", len(kinds))
    group.spec.scheduling_constraints.topology.add(key="rack")
    cluster.group(group)
    for number, kind in enumerate(kinds):
        cluster.add(f"p{number}", "g", kind, now=T0 + number)
    return cluster


@pytest.mark.parametrize("kinds", ["aa", "ab"])
@pytest.mark.parametrize("reserving", [False, True])
async def test_in_the_chosen_placement_members_are_placed_by_what_the_cluster_is_then(
    kinds: str, reserving: bool
) -> None:
    """Each class is bound by its own cycle, and what Reserve took for a member is not free for the next one."""
    cluster = _in_racks((2, 2), kinds)
    cluster.reserving = reserving
    await cluster.run()
    assert cluster.nodes == {"p0": "n1", "p1": "n1"}
    assert cluster.started == ([["p0", "p1"]] if kinds == "aa" else [["p0"], ["p1"]])
    assert [cycle.pod_class for cycle in cluster.binding_cycles] == sorted({1, len(set(kinds))})
    tried = max(generation for generation, _ in cluster.reserved_at[:2]) if reserving else 0
    assert all(cycle.generation > tried for cycle in cluster.binding_cycles)
    if reserving:
        (first, of_first), (second, of_second) = cluster.reserved_at[-2:]
        assert (of_first, of_second) == (["p0"], ["p1"])
        assert first < second


def _lose_node(cluster: Cluster) -> None:
    cluster.cache.remove_node("n1")


@pytest.mark.parametrize("change", [_lose_node, _bound], ids=["the node is gone", "a member is bound"])
@pytest.mark.parametrize("kinds", ["aa", "ab"])
async def test_a_placement_that_does_not_hold_any_more_places_nobody(
    change: Callable[[Cluster], None], kinds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = _in_racks((2, 2), kinds)
    score = cluster.score_pod_group_placements

    async def then_change(request: Any) -> Any:
        scored = await score(request)
        change(cluster)
        return scored

    monkeypatch.setattr(cluster, "score_pod_group_placements", then_change)
    await cluster.run()
    assert cluster.started == []
    assert set(cluster.nodes) == ({"p1"} if change is _bound else set())
    ((_, reason, text),) = cluster.conditions
    why = "pod ns/p1 is on a node already" if change is _bound else "node n1 is gone"
    assert (reason, why in text) == ("SchedulerError", True)


async def test_a_member_that_fails_by_error_ends_the_trial_and_those_behind_it_fail_with_the_group() -> None:
    cluster = Cluster([4])
    cluster.reserving, cluster.reserve_code = True, status_pb2.CODE_ERROR
    cluster.unreservable = {"p1", "p3"}
    cluster.group(pod_group("g", 1))
    for number in range(4):
        cluster.add(f"p{number}", "g", "k", now=T0 + number)
    await cluster.run()
    assert cluster.nodes == {}
    with_group = 'parent pod group "g" encountered an error'
    assert [cluster.text(f"p{number}") for number in (0, 2, 3)] == [with_group] * 3
    assert cluster.text("p1") != with_group


def _preempting(cluster: Cluster, *victims: tuple[int, ...]) -> None:
    """Each of these victims has a pod on each of the slots; all of them may go, and the room is there without them."""

    async def list_victims(_: Any) -> filter_phase_pb2.ListPodGroupVictimsResponse:
        pods = [[filter_phase_pb2.VictimPod(slot=slot) for slot in slots] for slots in victims]
        listed = [filter_phase_pb2.Victim(pods=each, of_group=True) for each in pods]
        for name in cluster.room:
            cluster.room[name] += 9
        return filter_phase_pb2.ListPodGroupVictimsResponse(victims=listed)

    cluster.list_pod_group_victims = list_victims  # type: ignore[method-assign, assignment]  # a fake
    cluster.reprieve = lambda _: filter_phase_pb2.ReprievePodGroupVictimsResponse(
        status=status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE)
    )


async def test_victims_that_go_for_a_member_cost_the_next_ones_nothing() -> None:
    """The first one is tried alone, as its node costs; the others by one call."""
    cluster = Cluster([0], post_filters=("DefaultPreemption",))
    _preempting(cluster, (0,))
    cluster.group(pod_group("g", 4))
    for number in range(4):
        cluster.add(f"p{number}", "g", "k", now=T0 + number)
    await cluster.run()
    assert [count for call, _, count in cluster.asked if call == "place"] == [1, 3]
    assert cluster.nodes == {}


async def test_victims_cost_again_in_each_placement() -> None:
    """Those of a group of pods that is on nodes of both racks went for the members in the other one."""
    cluster = _in_racks((0, 0), "kkk", post_filters=("DefaultPreemption",))
    _preempting(cluster, (0, 1))
    await cluster.run()
    assert [count for call, _, count in cluster.asked if call == "place"] == [1, 2, 1, 2]
    assert cluster.nodes == {}


async def test_members_that_cannot_be_read_fail_without_a_call() -> None:
    cluster = Cluster([4])
    cluster.group(pod_group("g", 1))
    for name in ("p0", "p1"):
        cluster.add(name, "g", "k")
        pod = _member(cluster, name)
        pod.record = pod.record._replace(
            class_id=0, pod=dataclasses.replace(pod.record.pod, class_id=0, invalid="spec.x: bad")
        )
    await cluster.run()
    assert cluster.asked == []
    reasons = {cluster.failures[name].reasons[0].code for name in ("p0", "p1") if cluster.failures[name].reasons}
    assert (set(cluster.failures), cluster.nodes, reasons) == ({"p0", "p1"}, {}, {"podInvalid"})


@pytest.mark.parametrize(("nominated", "calls"), [("", [3]), ("p0", [1, 2]), ("p1", [1, 1, 1]), ("p2", [2, 1])])
async def test_a_member_that_is_nominated_is_tried_alone(nominated: str, calls: list[int]) -> None:
    """Filter evaluates its node alone, which says nothing about the others."""
    cluster = Cluster([3])
    cluster.group(pod_group("g", 3))
    for number in range(3):
        cluster.add(f"p{number}", "g", now=T0 + number)
    if nominated:
        pod = cluster.queue.contents.get(f"ns/{nominated}")
        assert pod is not None
        cluster.queue.nominator.nominate(pod.record, "n0")
    await cluster.run()
    assert [count for what, _, count in cluster.asked if what == "filter"] == calls
