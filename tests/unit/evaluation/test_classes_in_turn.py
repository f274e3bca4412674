"""Pods of several classes placed by one call of filter and one of score go where one call for each class puts them."""

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest import mock

import grpc
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.helpers import phase_calls
from tests.helpers.domain_cluster import (
    PREFERS_ZONE_0,
    PROFILE,
    Cluster,
    affinity,
    cluster_of,
    node,
    pod,
    spread,
    ten_nodes,
    term,
    to_nodes,
)
from tests.helpers.phase_calls import Aborted, context
from tests.helpers.snapshot_views import SnapshotBuilder
from trireme.evaluation import plugin_timer
from trireme.evaluation.scoring import classes_in_turn
from trireme.filter.service import FilterPhase
from trireme.registry import remote_makers
from trireme.score.service import ScorePhase
from trireme.v1 import cycle_pb2, filter_pb2, filter_phase_pb2, score_phase_pb2, status_pb2
from trireme.wire import node_columns

Json = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


_MOST_ALLOCATED = {
    "NodeResourcesFit": {
        "scoringStrategy": {
            "type": "MostAllocated",
            "resources": [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 1}, {"name": "a/b", "weight": 3}],
        }
    }
}


_requests = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["50m", "100m", "350m", "1", "2"]),
        "memory": st.sampled_from(["100Mi", "900Mi", "3Gi"]),
        "a/b": st.sampled_from(["1"]),
        "ephemeral-storage": st.sampled_from(["1Gi"]),
    },
)


@pytest.fixture(name="cluster")
def _ten_nodes() -> Iterator[Cluster]:
    with ten_nodes() as cluster:
        yield cluster


@st.composite
def _pods(draw: st.DrawFn, *, related: bool) -> tuple[Json, int]:
    """A pod, and how many of it; `related`: some look at other pods."""
    spec: Json = {"requests": draw(_requests)}
    if draw(st.integers(0, 3)) == 0:
        spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
    kind = draw(st.integers(0 if related else 3, 12))
    labels = {"app": draw(st.sampled_from(["a", "b"]))}
    if kind == 0:
        spec["topologySpreadConstraints"] = [spread(ZONE, draw(st.booleans()), labels, 1)]
    elif kind == 1:
        spec["affinity"] = affinity(rather_near=[(10, term(ZONE, labels))])
    elif kind == 2:
        spec["affinity"] = affinity((), [term(HOST, labels)])
    elif kind == 3:
        spec["affinity"] = PREFERS_ZONE_0
    elif kind == 4:
        spec["nodeSelector"] = {ZONE: "z1"}
    elif kind == 5:
        spec["nodeSelector"] = {HOST: draw(st.sampled_from(["n0", "n1", "n19"]))}
    elif kind == 6:
        spec["affinity"] = to_nodes(*draw(st.lists(st.sampled_from(["n0", "n1", "n19"]), min_size=1, max_size=2)))
    if draw(st.integers(0, 5)) == 0:
        addresses = draw(st.sampled_from(["", "10.0.0.1", "10.0.0.2"]))
        spec["ports"] = [{"containerPort": 80, "hostPort": draw(st.sampled_from([80, 81])), "hostIP": addresses}]
    return pod(labels, **spec), draw(st.sampled_from([1, 1, 1, 2, 4]))


@st.composite
def _nodes(draw: st.DrawFn) -> list[Json]:
    out = []
    tainted = draw(st.sampled_from([(), (), ("NoSchedule",), ("NoSchedule", "PreferNoSchedule")]))
    for number in range(draw(st.integers(2, 20))):
        taints = [("k", "", draw(st.sampled_from(tainted)))] if tainted and draw(st.booleans()) else []
        amounts = {"a/b": str(draw(st.integers(1, 6)))} if draw(st.booleans()) else {}
        amounts["ephemeral-storage"] = "4Gi"
        labels = {HOST: f"n{number}", ZONE: f"z{number % 3}"}
        cpu, pods = draw(st.sampled_from([1, 3, 8, 8])), draw(st.sampled_from([2, 5, 110, 110]))
        out.append(node(f"n{number}", labels, cpu=cpu, pods=pods, taints=taints, amounts=amounts))
    return out


@st.composite
def _cases(draw: st.DrawFn) -> tuple[list[Json], list[tuple[Json, int]], list[tuple[Json, int]]]:
    """Nodes, pods that are on some of them, and pods to place."""
    pods = _pods(related=draw(st.booleans()))
    nodes = draw(_nodes())
    placed = st.lists(st.tuples(pods.map(lambda found: found[0]), st.integers(0, len(nodes) - 1)), max_size=3)
    return nodes, draw(placed), draw(st.lists(pods, min_size=2, max_size=10))


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(case=_cases(), most_allocated=st.booleans(), gone=st.booleans(), few_nodes=st.sampled_from([0, 8192]))
def test_pods_of_several_classes_go_where_they_go_one_class_after_the_other(
    case: tuple[list[Json], list[tuple[Json, int]], list[tuple[Json, int]]],
    most_allocated: bool,
    gone: bool,
    few_nodes: int,
) -> None:
    """Whatever they request, and whatever is full by then; where more than resources matters the call ends before."""
    nodes, placed, batches = case
    args = _MOST_ALLOCATED if most_allocated else {}
    together, apart = cluster_of(nodes, placed, args), cluster_of(nodes, placed, args)
    left = list(batches)
    if gone:
        for cluster in (together, apart):
            cluster.remove_node(nodes[0]["metadata"]["name"])
    try:
        while left:
            with mock.patch.object(classes_in_turn, "FEW_NODES", few_nodes):
                found = together.schedule_in_turn(left)
            event(f"{len(found)} classes in a call")
            for (wanted, count), hosts in zip(left, found, strict=False):
                assert apart.schedule(wanted, len(hosts), len(hosts)) == hosts
                if len(hosts) < count:
                    rest = together.schedule(wanted, count - len(hosts), count)
                    assert apart.schedule(wanted, count - len(hosts), count) == rest
            if not found:
                wanted, count = left[0]
                assert together.schedule(wanted, count, count) == apart.schedule(wanted, count, count)
            left = left[max(len(found), 1) :]
    finally:
        together.close()
        apart.close()


def test_classes_that_differ_in_requests_are_placed_by_one_call(cluster: Cluster) -> None:
    wanted = [(pod({"app": "a"}, requests={"cpu": f"{100 + number}m"}), 1) for number in range(20)]
    assert len(cluster.schedule_in_turn(wanted)) == 20


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_pods_that_want_the_same_few_nodes_go_where_they_go_one_after_the_other(data: st.DataObject) -> None:
    """Each takes the node that is best by then, also one that a pod before it took, as packing does it."""
    cpus = data.draw(st.lists(st.sampled_from([2, 3, 8]), min_size=2, max_size=12))
    nodes = [node(f"n{number}", {HOST: f"n{number}", ZONE: "z0"}, cpu=cpu) for number, cpu in enumerate(cpus)]
    amounts = st.tuples(st.integers(1, 12), st.integers(1, 12), st.sampled_from([1, 1, 1, 3]))
    drawn = data.draw(st.lists(amounts, min_size=2, max_size=40))
    batches = [
        (pod({"app": "a"}, requests={"cpu": f"{50 * cpu}m", "memory": f"{100 * memory}Mi"}), count)
        for cpu, memory, count in drawn
    ]
    args = _MOST_ALLOCATED if data.draw(st.booleans()) else {}
    together, apart = cluster_of(nodes, (), args), cluster_of(nodes, (), args)
    try:
        while batches:
            found = together.schedule_in_turn(batches) or [together.schedule(*batches[0], batches[0][1])]
            for (wanted, _), hosts in zip(batches, found, strict=False):
                assert [apart.schedule(wanted, 1, 1) for _ in hosts] == [[host] for host in hosts]
            batches = batches[len(found) :]
    finally:
        together.close()
        apart.close()


def test_a_class_that_comes_again_after_a_new_one_is_scored_by_what_nodes_have_now(cluster: Cluster) -> None:
    """For the new one its scores are not all brought up to date."""
    again, new = (pod({}, requests={"cpu": cpu}) for cpu in ("100m", "200m"))
    cluster.schedule(again, 1, 1)
    for number in range(8):
        cluster.place(pod({}, requests={"cpu": "2"}), f"n{number}")
    hosts = cluster.schedule_in_turn([(new, 1), (again, 1)])
    assert sorted(host for of_class in hosts for host in of_class) == ["n8", "n9"]


def test_the_call_ends_before_a_class_that_looks_at_other_pods(cluster: Cluster) -> None:
    plain = pod({"app": "a"})
    near = pod({"app": "b"}, affinity=affinity([term(ZONE, {"app": "b"})]))
    assert len(cluster.schedule_in_turn([(plain, 1), (near, 1), (plain, 1)])) == 1


def test_the_call_ends_after_a_class_of_which_not_all_pods_fit(cluster: Cluster) -> None:
    large = pod({"app": "a"}, requests={"cpu": "3"})
    found = cluster.schedule_in_turn([(large, 12), (pod({"app": "b"}), 1)])
    assert [len(hosts) for hosts in found] == [10]


def test_a_pod_with_preferred_affinity_is_the_last_of_its_call(cluster: Cluster) -> None:
    """It changes the scores of pods that it prefers to be near to, though these have no affinity themselves."""
    fond = pod({"app": "a"}, affinity=affinity(rather_near=[(100, term(ZONE, {"app": "b"}))]))
    assert len(cluster.schedule_in_turn([(fond, 1), (pod({"app": "b"}), 1)])) == 1


@pytest.mark.parametrize("zones", [["z0", "z3"], ["z0"]])
def test_the_call_ends_where_a_node_that_holds_the_highest_score_may_be_full(zones: list[str]) -> None:
    """Of preferences the highest counts 100: with n0 full, 10 of 10 on n1 is worth more than all that is free on n2."""
    nodes = [
        node("n0", {HOST: "n0", ZONE: "z0"}, pods=1),
        node("n1", {HOST: "n1", ZONE: "z1"}, cpu=10),
        node("n2", {HOST: "n2", ZONE: "z2"}, cpu=10),
        node("n3", {HOST: "n3", ZONE: "z3"}, cpu=1),
    ]
    load = pod({"app": "load"}, requests={"cpu": "9", "memory": "7Gi"})
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}}
        for weight, zone in ((50, "z0"), (10, "z1"))
    ]
    fond = pod({"app": "fond"}, affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})
    cluster = cluster_of(nodes, [(load, 1)])
    try:
        of_zones = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": zones}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": of_zones}}
        first = pod({"app": "first"}, affinity={"nodeAffinity": required})
        assert cluster.schedule_in_turn([(first, 1), (fond, 1)]) == [["n0"]]
        assert cluster.schedule(fond, 1, 1) == ["n1"]
    finally:
        cluster.close()


def test_pods_with_one_node_may_fill_one_that_holds_the_highest_score() -> None:
    """Two nodes are preferred, and two pods come: these would leave none. With one more node it is certain."""
    fond = pod({"app": "fond"}, affinity=PREFERS_ZONE_0)
    only = pod({"app": "only"}, nodeSelector={HOST: "n0"})
    for preferred, classes in ((2, 1), (3, 2)):
        nodes = [
            node(f"n{number}", {HOST: f"n{number}", ZONE: "z0" if number < preferred else "z1"}) for number in range(5)
        ]
        cluster = cluster_of(nodes)
        try:
            assert len(cluster.schedule_in_turn([(only, 1), (fond, 1)])) == classes
        finally:
            cluster.close()


def test_where_one_node_takes_a_class_nothing_is_scored(cluster: Cluster) -> None:
    """Pods of a DaemonSet are placed with others; metrics count no scores, as kube-scheduler makes none."""
    plain = pod({"app": "a"})
    ones = [pod({"app": "a"}, nodeSelector={HOST: f"n{number}"}) for number in range(3)]
    assert cluster.schedule_in_turn([(ones[0], 1), (plain, 1), (ones[1], 2)])[::2] == [["n0"], ["n1", "n1"]]
    classes = [(cluster.class_of(each), 1) for each in (plain, ones[2])]
    cluster.follow()
    scored, only = cluster.ask_place_classes(classes, cluster.ask_filter_classes(classes)).answers
    assert scored.evaluated_plugins
    assert scored.timings
    assert not only.evaluated_plugins
    assert not only.timings
    assert list(only.totals) == [0]


def test_a_pod_that_fills_the_only_node_of_the_next_ends_the_call(cluster: Cluster) -> None:
    only = [pod({"app": "a"}, requests={"cpu": cpu}, nodeSelector={HOST: "n0"}) for cpu in ("3", "4")]
    assert cluster.schedule_in_turn([(each, 1) for each in only]) == [["n0"]]
    assert cluster.schedule(only[1], 1, 1) == []


def test_the_call_ends_before_a_class_to_which_pods_before_leave_one_node() -> None:
    """Only once they are placed is it certain that nothing is scored."""
    nodes = [node(name, {HOST: name, ZONE: "z0"}, pods=1) for name in ("n0", "n1")]
    cluster = cluster_of(nodes)
    try:
        assert len(cluster.schedule_in_turn([(pod({"app": "a"}), 1), (pod({"app": "b"}), 1)])) == 1
    finally:
        cluster.close()


def test_pods_before_may_fill_the_nodes_that_hold_the_highest_score() -> None:
    """With n0 to n2 full, 10 of 10 on n3 is worth more than all that is free on n4: that is not known here."""
    nodes = [
        node(f"n{number}", {HOST: f"n{number}", ZONE: zone}, pods=pods)
        for number, (zone, pods) in enumerate([*[("z0", 1)] * 3, ("z1", 110), ("z2", 110)])
    ]
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}}
        for weight, zone in ((50, "z0"), (10, "z1"))
    ]
    fond = pod({"app": "fond"}, affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})
    cluster = cluster_of(nodes, [(pod({"app": "load"}, requests={"cpu": "3"}), 3)])
    try:
        first, class_id = cluster.class_of(pod({"app": "first"})), cluster.class_of(fond)
        columns = node_columns.from_message(cluster.ask_filter(class_id).columns)
        wanted = classes_in_turn.PodsToPlace(class_id, 1, {"cpu": 100}, columns.feasible)
        cycle = cycle_pb2.Cycle(profile=PROFILE, pod_class=class_id)
        before = [(first, cluster.cache.slot_of(name)) for name in ("n0", "n1", "n2")]
        place_after = cluster.score._engine.place_after
        beside_one = asyncio.run(place_after(cycle, wanted, before[:1]))
        assert beside_one is not None
        assert beside_one.slots[0] in {slot for _, slot in before[1:]}
        assert asyncio.run(place_after(cycle, wanted, before)) is None
    finally:
        cluster.close()


def test_the_plugins_that_said_something_are_those_of_the_class_not_of_its_family(cluster: Cluster) -> None:
    """One balances what pods request: of a pod that requests nothing it says nothing."""
    classes = [(cluster.class_of(pod({"app": "a"}, requests=each)), 1) for each in ({"cpu": "1"}, {}, {"cpu": "2"})]
    cluster.follow()
    placed = cluster.ask_place_classes(classes, cluster.ask_filter_classes(classes))
    balanced = ["NodeResourcesBalancedAllocation" in each.evaluated_plugins for each in placed.answers]
    assert balanced == [True, False, True]


@pytest.mark.parametrize("count", [0, 2])
def test_where_there_is_no_node_no_pod_is_placed(count: int) -> None:
    """Filter may be behind, and admit nodes that are gone."""
    cluster = Cluster()
    try:
        class_id = cluster.class_of(pod({"app": "a"}))
        for number in range(count):
            cluster.add_node(node(f"n{number}", {HOST: f"n{number}"}))
        cluster.follow()
        for number in range(count):
            cluster.remove_node(f"n{number}")
        cluster.follow()
        columns = filter_pb2.NodeColumns(size=3, generation=1, status_index=[0] * 3, capacity=[1] * 3)
        whole = filter_phase_pb2.FilterPhaseFilterResponse(columns=columns)
        assert cluster.ask_place(class_id, 1, whole) == []
        demand = filter_phase_pb2.ResourceDemand(amounts={"cpu": 100})
        answers = filter_phase_pb2.FilterClassesResponse(
            answers=[filter_phase_pb2.FilterPhaseFilterResponse(admitted=b"\7", demand=demand)]
        )
        assert list(cluster.ask_place_classes([(class_id, 1)], answers).answers) == []
    finally:
        cluster.close()


@pytest.mark.parametrize("in_turn", [False, True])
def test_nodes_that_came_and_are_gone_hinder_no_class_that_was_scored_before(in_turn: bool) -> None:
    """They are more than there was room for, and nothing about the others has changed."""
    fond = pod({"app": "a"}, affinity=PREFERS_ZONE_0)
    nodes = [node(f"n{number}", {HOST: f"n{number}", ZONE: f"z{number % 2}"}, pods=3) for number in range(100)]
    cluster = cluster_of(nodes[:4])
    try:
        assert len(cluster.schedule(fond, 2, 2)) == 2
        for each in nodes[4:]:
            cluster.add_node(each)
        cluster.follow()
        for each in nodes[4:]:
            cluster.remove_node(each["metadata"]["name"])
        found = cluster.schedule_in_turn([(fond, 1)])[0] if in_turn else cluster.schedule(fond, 1, 1)
        assert len(found) == 1
        assert set(found) <= {"n0", "n2"}
    finally:
        cluster.close()


async def test_requests_without_classes_and_without_demand_are_refused() -> None:
    builder = SnapshotBuilder()
    filters, scores = (
        FilterPhase(builder.snap, remote_makers.no_remote_plugin),
        ScorePhase(builder.snap, remote_makers.no_remote_plugin),
    )
    for service in (filters, scores):
        await phase_calls.greet(service, phase_calls.configuration((), ()))
    cycle = phase_calls.cycle(builder, 0)
    with pytest.raises(Aborted, match="classes: there is none") as refused:
        await filters.FilterClasses(filter_phase_pb2.FilterClassesRequest(cycle=cycle), context())
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(Aborted, match="classes: there is none") as refused:
        await scores.PlaceClasses(score_phase_pb2.PlaceClassesRequest(cycle=cycle), context())
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT
    wanted = score_phase_pb2.PlaceClassesRequest(cycle=cycle)
    wanted.classes.add(pod_class=1, count=1)
    with pytest.raises(Aborted, match=r"classes\.demand: is missing") as refused:
        await scores.PlaceClasses(wanted, context())
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT


def test_the_times_of_a_class_have_its_own_code(cluster: Cluster) -> None:
    """If this fails, metrics count placed pods as refused where PreFilter refuses a later class of the call."""
    names = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("n0", "n1")]
    required = {"nodeSelectorTerms": [{"matchFields": names}]}
    never = pod({}, affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})
    wanted = [pod({}, requests={"cpu": "1"}), pod({}, requests={"cpu": "2"}), never]
    classes = [(cluster.class_of(each), 1) for each in wanted]
    cluster.follow()
    answers = cluster.ask_filter_classes(classes).answers
    codes = [{each.code for each in answer.timings if not each.plugin} for answer in answers]
    assert codes == [{status_pb2.CODE_SUCCESS}] * 2


def test_each_class_has_the_times_of_the_points_that_it_passed(cluster: Cluster) -> None:
    """If this fails, classes that are scored by their family are missing in the metrics of PreScore."""
    classes = [(cluster.class_of(pod({}, requests={"cpu": f"{1 + number}"})), 1) for number in range(3)]
    for each in classes:
        cluster.follow()
        filtered = cluster.ask_filter_classes([each])
        (placed,) = cluster.ask_place_classes([each], filtered).answers
        assert {timing.extension_point for timing in filtered.answers[0].timings} == {"PreFilter", "Filter"}
        assert {timing.extension_point for timing in placed.timings} == {"PreScore", "Score"}


def test_the_plugins_that_score_a_new_class_have_times(cluster: Cluster) -> None:
    """In one call of ten, as in all others. If this fails, metrics miss them where all pods differ."""
    for number in range(plugin_timer.SAMPLED_ONE_IN + 1):
        classes = [(cluster.class_of(pod({}, requests={"cpu": f"{1 + number}m"})), 1)]
        cluster.follow()
        (placed,) = cluster.ask_place_classes(classes, cluster.ask_filter_classes(classes)).answers
    timed = {each.plugin for each in placed.timings if each.plugin and each.extension_point == "Score"}
    assert timed == {"NodeResourcesFit", "NodeResourcesBalancedAllocation"}


def test_the_parts_of_a_calls_times_are_all_of_it(cluster: Cluster) -> None:
    """Classes that nothing is scored for report no times: the others have all of them."""
    wanted = [pod({"app": "a"}), *(pod({"app": "d"}, affinity=to_nodes(f"n{number}")) for number in range(7))]
    classes = [(cluster.class_of(each), 1) for each in wanted]
    cluster.follow()
    filtered = cluster.ask_filter_classes(classes)
    answers = cluster.ask_place_classes(classes, filtered).answers
    assert [bool(each.timings) for each in answers] == [True] + [False] * 7
    alone = cluster.ask_place_classes(classes[:1], cluster.ask_filter_classes(classes[:1])).answers[0]
    points = {each.extension_point for each in alone.timings if not each.plugin}
    assert {each.extension_point for each in answers[0].timings if not each.plugin} == points


def test_a_port_that_leaves_one_node_ends_the_call() -> None:
    """With one node to choose from nothing is scored: the class is placed by itself."""
    nodes = [node(f"n{number}", {HOST: f"n{number}", ZONE: "z0"}, cpu=8 - number) for number in range(2)]
    cluster = cluster_of(nodes)
    try:
        ports = [{"containerPort": 80, "hostPort": 80}]
        wanted = [(pod({"app": "p"}, ports=ports, requests={"cpu": cpu}), 1) for cpu in ("1", "1500m")]
        assert len(cluster.schedule_in_turn(wanted)) == 1
    finally:
        cluster.close()
