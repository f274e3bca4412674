"""What the trial of a group leaves behind where the group is not bound: nothing. And what is recorded of it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.metric_values import counts, sums
from tests.helpers.pod_group_builders import PROFILE, pod_group
from tests.helpers.pod_group_cluster import Cluster
from tests.helpers.virtual_time import Clock
from trireme.cache import cluster_cache
from trireme.framework import status
from trireme.plugin_api.placements import NodesOfDomain
from trireme.v1 import bind_pb2, filter_phase_pb2, status_pb2


def _gang(cluster: Cluster, kinds: str, *, minimum: int = 0, racks: bool = False) -> None:
    """A gang of a pod of each of these kinds, p0 first."""
    group = pod_group("g", minimum or len(kinds))
    if racks:
        group.spec.scheduling_constraints.topology.add(key="rack")
    cluster.group(group)
    for number, kind in enumerate(kinds):
        cluster.add(f"p{number}", "g", kind, now=1_000_000.0 + number)


def _break_at(cluster: Cluster, call: int) -> None:
    """The call of this number, from 1, breaks what nobody expects to break."""

    def breaks() -> None:
        if len(cluster.asked) == call:
            raise RuntimeError("broken")

    cluster.meanwhile = breaks


def _is_trial(cache: cluster_cache.ClusterCache) -> bool:
    """Whether what changes now is marked as part of a trial."""
    while cache.take_delta() is not None:
        pass
    cache.remove_node("n0")
    delta = cache.take_delta()
    assert delta is not None
    return delta.trial


@pytest.mark.parametrize("kinds", ["ab", "aa"], ids=["another class", "the same class"])
async def test_a_trial_that_breaks_leaves_nothing_behind(kinds: str) -> None:
    """Also a cancelled one: the next leader's cache has pods on nodes that nobody binds."""
    cluster = Cluster([1, 1])
    cluster.reserving = True
    _gang(cluster, kinds)
    if kinds == "aa":  # an answer for one of the two
        place = cluster.place

        async def place_one(profile: str, class_id: int, count: int, *rest: Any) -> Any:
            return await place(profile, class_id, 1, *rest)

        cluster.place = place_one  # type: ignore[method-assign]
    _break_at(cluster, 3)
    with pytest.raises(RuntimeError, match="broken"):
        await cluster.run()
    await asyncio.sleep(0)
    assert (cluster.nodes, cluster.unreserved) == ({}, ["p0"])
    assert not _is_trial(cluster.cache)
    assert counts(cluster.metrics.instruments.group_attempts) == {f"error {PROFILE} podgroup": 1}
    cluster.group(pod_group("g", 2))  # its attempt is over: it may change


async def test_nominations_count_again_after_a_trial_that_breaks() -> None:
    """Others would be placed on the room that was made for the members."""
    cluster = Cluster([1, 1])
    _gang(cluster, "a", minimum=1)
    pod = cluster.queue.contents.get("ns/p0")
    assert pod is not None
    cluster.queue.nominator.nominate(pod.record, "n1")
    seen: list[dict[str, str]] = []

    def look() -> None:
        seen.append(dict(cluster.promises_seen))
        raise RuntimeError("broken")

    cluster.meanwhile = look
    with pytest.raises(RuntimeError, match="broken"):
        await cluster.run()
    assert seen == [{}]
    assert cluster.promises_seen == {"uid-p0": "n1"}


@pytest.mark.parametrize("code", [status_pb2.CODE_UNSCHEDULABLE, status_pb2.CODE_ERROR], ids=["refused", "by error"])
async def test_members_behind_one_that_reserve_fails_for_are_undone(code: "status_pb2.Code.ValueType") -> None:
    """They were reserved by the same call."""
    cluster = Cluster([3])
    cluster.reserving, cluster.unreservable, cluster.reserve_code = True, {"p0"}, code
    _gang(cluster, "aaa")
    await cluster.run()
    await asyncio.sleep(0)
    assert cluster.nodes == {}
    assert sorted(cluster.unreserved) == ["p0", "p1", "p2"]


def _after_reserves(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, calls: int, then: Callable[[], None]) -> None:
    """Have something happen before a later call of Reserve than this one."""
    reserve = cluster.reserve

    async def counted(*arguments: Any) -> Any:
        if len(cluster.reserved_at) >= calls:
            then()
        return await reserve(*arguments)

    monkeypatch.setattr(cluster, "reserve", counted)


async def test_in_the_chosen_placement_all_is_reserved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """PreBind gets what the last Reserve answered, and a binding that fails undoes it."""
    cluster = Cluster([2, 2], racks=["a", "b"], topology=True)
    cluster.reserving, cluster.totals = True, [1, 2]
    _gang(cluster, "ab", racks=True)
    await cluster.run()
    assert cluster.nodes == {"p0": "n1", "p1": "n1"}
    assert {name: (each.reserved, each.state) for name, each in cluster.binding.items()} == {
        "p0": (True, b"p0"),
        "p1": (True, b"p1"),
    }
    instruments = cluster.metrics.instruments
    assert counts(instruments.generated_placements) == {f"{PROFILE} podgroup": 2}
    assert counts(instruments.placement_evaluations) == {f"feasible {PROFILE} podgroup": 2}
    assert counts(instruments.group_algorithm_seconds) == {f"{PROFILE} podgroup": 1}


@pytest.mark.parametrize("how", ["refused", "broken"])
async def test_members_that_cannot_be_reserved_again_leave_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    cluster = Cluster([2, 2], racks=["a", "b"], topology=True)
    cluster.reserving, cluster.totals = True, [1, 2]
    _gang(cluster, "ab", racks=True)

    def fail() -> None:
        if how == "broken":
            raise RuntimeError("broken")
        cluster.unreservable.add("p1")

    _after_reserves(monkeypatch, cluster, 5, fail)  # two members in two placements, and the first one again
    if how == "broken":
        with pytest.raises(RuntimeError, match="broken"):
            await cluster.run()
    else:
        await cluster.run()
        ((_, reason, text),) = cluster.conditions
        assert (reason, text.startswith("failed to assume the subtree: ")) == ("SchedulerError", True)
    await asyncio.sleep(0)
    assert (cluster.nodes, cluster.started) == ({}, [])
    assert [cluster.unreserved.count(name) for name in ("p0", "p1")] == [3, 2 if how == "broken" else 3]


async def test_a_trial_without_room_is_recorded_with_its_search_for_victims() -> None:
    cluster = Cluster([1], post_filters=("DynamicResources", "DefaultPreemption"))
    cluster.occupy("low", "n0")
    _gang(cluster, "a")
    cluster.victims = ("low",)

    def reprieve(
        request: filter_phase_pb2.ReprievePodGroupVictimsRequest,
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        out = filter_phase_pb2.ReprievePodGroupVictimsResponse(status=status_pb2.Status(code=status_pb2.CODE_SUCCESS))
        out.actions.add(pod=request.victims[0].pods[0].pod, evict=bind_pb2.Evict(message="go"))
        return out

    cluster.reprieve = reprieve
    await cluster.run()
    instruments = cluster.metrics.instruments
    assert counts(instruments.point_seconds) == {
        f"PodGroupPostFilter Success {PROFILE}": 1,
        f"PlacementFeasible Success {PROFILE}": 1,
        f"PlacementFeasible Unschedulable {PROFILE}": 1,
        f"PlacementFeasible Wait {PROFILE}": 2,
        f"RankNodes Success {PROFILE}": 2,
    }
    assert counts(instruments.plugin_seconds) == {
        "DynamicResources PodGroupPostFilter Unschedulable": 1,
        "DefaultPreemption PodGroupPostFilter Success": 1,
        "DefaultPreemption RankNodes Success": 1,
    }
    assert counts(instruments.group_preemption_attempts) == {"podgroup Success": 1}
    assert counts(instruments.evaluation_seconds) == {"podgroup Success": 1}
    assert counts(instruments.group_attempts) == {f"waiting_on_preemption {PROFILE} podgroup": 1}
    assert counts(instruments.batch_attempts)[f"{PROFILE} no_hint"] >= 1
    (listed,) = (each for each in cluster.group_questions if hasattr(each, "members"))
    assert [member.pod_class > 0 for member in listed.members] == [True]


async def test_groups_that_may_not_preempt_or_have_no_victims_do_not_count_as_evaluated() -> None:
    for code in (status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE, status_pb2.CODE_UNSCHEDULABLE):
        cluster = Cluster([0], post_filters=("DefaultPreemption",))
        _gang(cluster, "a")

        async def list_victims(request: Any, code: Any = code) -> filter_phase_pb2.ListPodGroupVictimsResponse:
            return filter_phase_pb2.ListPodGroupVictimsResponse(status=status_pb2.Status(code=code))

        cluster.list_pod_group_victims = list_victims  # type: ignore[method-assign]
        await cluster.run()
        assert counts(cluster.metrics.instruments.evaluation_seconds) == {}


async def test_a_group_that_has_its_minimum_is_unschedulable_where_no_other_pod_fits() -> None:
    """It would count as scheduled, and nobody be told that its other pods wait."""
    cluster = Cluster([1])
    cluster.group(pod_group("g", 1))
    cluster.occupy("running", "n0", "g")
    cluster.add("p0", "g")
    await cluster.run()
    assert counts(cluster.metrics.instruments.group_attempts) == {f"unschedulable {PROFILE} podgroup": 1}


async def test_members_that_are_tried_are_reported_before_their_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their traces begin with it."""
    cluster = Cluster([2])
    _gang(cluster, "ab")
    popped: list[str] = []
    monkeypatch.setattr(cluster.metrics, "on_group_popped", lambda pods: popped.extend(pod.key for pod in pods))
    await cluster.run()
    assert popped == ["ns/p0", "ns/p1"]


async def test_assumed_members_count_for_the_minimum_of_those_that_come_later() -> None:
    """A member that is being bound has a node, though no watch has shown it yet."""
    cluster = Cluster([3])
    _gang(cluster, "ab")
    await cluster.run()
    assert sorted(cluster.nodes) == ["p0", "p1"]
    cluster.add("p2", "g", "c")
    await cluster.run()
    assert sorted(cluster.nodes) == ["p0", "p1", "p2"]


async def test_a_member_on_a_node_ends_its_attempt_without_another() -> None:
    """While its attempt goes on, the queue records all events for it."""
    cluster = Cluster([3])
    _gang(cluster, "ab", minimum=1)
    batch = cluster.queue.pop(1_000_002.0, 9)
    assert batch is not None
    cluster.occupy("p0", "n0")
    await cluster.run_group(batch)
    assert cluster.started == [["p1"]]
    assert cluster.queue.statistics().in_flight == 1


@pytest.mark.parametrize(("members", "batches"), [(100, [100]), (101, [100, 1])])
async def test_members_are_bound_in_batches_no_larger_than_the_queues(members: int, batches: list[int]) -> None:
    cluster = Cluster([members])
    cluster.group(pod_group("g", members))
    for number in range(members):
        cluster.add(f"p{number:03}", "g")
    batch = cluster.queue.pop(1_000_001.0, members)
    assert batch is not None
    await cluster.run_group(batch)
    assert [len(each) for each in cluster.started] == batches


async def test_members_of_several_classes_are_bound_class_by_class() -> None:
    cluster = Cluster([9])
    _gang(cluster, "aabba")
    await cluster.run()
    assert cluster.started == [["p0", "p1"], ["p2", "p3"], ["p4"]]


async def test_a_group_without_members_to_try_counts_as_scheduled() -> None:
    cluster = Cluster([3])
    _gang(cluster, "a", minimum=1)
    batch = cluster.queue.pop(1_000_002.0, 9)
    assert batch is not None
    cluster.occupy("p0", "n0")
    await cluster.run_group(batch)
    assert counts(cluster.metrics.instruments.group_attempts) == {f"scheduled {PROFILE} podgroup": 1}
    assert (cluster.asked, cluster.conditions) == ([], [])


def _timed(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, **seconds: float) -> None:
    """By the clock of metrics each call of these methods takes so long; it does not begin at zero."""
    clock = Clock(1000.0)
    monkeypatch.setattr(cluster.metrics, "clock", clock)

    def timed(original: Any, duration: float) -> Any:
        async def call(*arguments: Any, **named: Any) -> Any:
            clock.now += duration
            return await original(*arguments, **named)

        return call

    for name, duration in seconds.items():
        monkeypatch.setattr(cluster, name, timed(getattr(cluster, name), duration))


async def test_the_time_of_each_step_of_a_group_that_preempts_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([1], post_filters=("DynamicResources", "DefaultPreemption"))
    cluster.occupy("low", "n0")
    _gang(cluster, "a")
    cluster.victims = ("low",)
    cluster.reprieve = lambda request: filter_phase_pb2.ReprievePodGroupVictimsResponse(
        status=status_pb2.Status(code=status_pb2.CODE_SUCCESS)
    )
    _timed(monkeypatch, cluster, filter=1.0, list_pod_group_victims=10.0, reprieve_pod_group_victims=100.0)
    await cluster.run()
    instruments = cluster.metrics.instruments
    group = f"{PROFILE} podgroup"
    assert sums(instruments.group_attempt_seconds) == {f"waiting_on_preemption {group}": (1, 112.0)}
    assert sums(instruments.group_algorithm_seconds) == {group: (1, 1.0)}
    assert sums(instruments.algorithm_seconds) == {"": (2, 2.0)}
    assert sums(instruments.point_seconds)[f"PodGroupPostFilter Success {PROFILE}"] == (1, 111.0)
    assert sums(instruments.plugin_seconds) == {
        "DynamicResources PodGroupPostFilter Unschedulable": (1, 0.0),
        "DefaultPreemption PodGroupPostFilter Success": (1, 111.0),
        "DefaultPreemption RankNodes Success": (1, 0.0),
    }
    assert sums(instruments.evaluation_seconds) == {"podgroup Success": (1, 111.0)}


class _Racks:
    """Generates a placement of each of two nodes, which takes a while."""

    def __init__(self) -> None:
        self.clock = Clock()

    def generate(self, *_: object) -> list[NodesOfDomain]:
        self.clock.now += 5.0
        return [NodesOfDomain("a", (0,)), NodesOfDomain("b", (1,))]


class _Licences:
    """A remote plugin at PlacementFeasible that takes a while."""

    def __init__(self) -> None:
        self.clock = Clock()

    async def placement_feasible(self, trial: object, steps: list[object]) -> list[status.Status]:
        self.clock.now += 7.0
        return [status.SUCCESS for _ in steps]


async def test_the_time_of_each_step_of_a_group_with_placements_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    racks, licences = _Racks(), _Licences()
    generators: Any = {"Racks": racks}
    remote: Any = {"Licences": licences}
    cluster = Cluster([1, 1], topology=True, generators=generators, remote_feasible=remote)
    cluster.totals = [1, 2]
    _gang(cluster, "a")
    _timed(monkeypatch, cluster, filter=1.0, score_pod_group_placements=1000.0)
    clock: Any = cluster.metrics.clock
    racks.clock = licences.clock = clock
    await cluster.run()
    instruments = cluster.metrics.instruments
    group = f"{PROFILE} podgroup"
    # In each placement the plugin is called before the pod is tried, and after it.
    assert sums(instruments.group_attempt_seconds) == {f"scheduled {group}": (1, 5.0 + 2 * 15.0 + 1000.0)}
    assert sums(instruments.placement_seconds) == {f"feasible {group}": (2, 30.0)}
    points = sums(instruments.point_seconds)
    assert points[f"PlacementGenerate Success {PROFILE}"] == (1, 5.0)
    assert points[f"PlacementScore Success {PROFILE}"] == (1, 1000.0)
    feasible = [found for name, found in points.items() if name.startswith("PlacementFeasible")]
    assert sum(seconds for _, seconds in feasible) == 28.0
    assert sums(instruments.plugin_seconds)["Racks PlacementGenerate Success"] == (1, 5.0)
