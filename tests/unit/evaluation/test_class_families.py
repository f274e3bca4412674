"""Classes that share what plugins answered, as they differ in requests or in the nodes that they name alone."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

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
from trireme.evaluation import plugin_timer
from trireme.v1 import cycle_pb2, snapshot_pb2
from trireme.wire import node_columns

Json = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


@pytest.fixture(name="cluster")
def _ten_nodes() -> Iterator[Cluster]:
    with ten_nodes() as cluster:
        yield cluster


def _cluster(nodes: Mapping[str, Json], placed: Iterable[tuple[Json, str]] = ()) -> contextlib.closing[Cluster]:
    """A cluster that knows nothing but these nodes and pods, for a block."""
    cluster = cluster_of([*nodes.values()])
    for each, at in placed:
        cluster.place(each, at)
    return contextlib.closing(cluster)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_classes_that_state_the_same_about_nodes_follow_each_change(data: st.DataObject) -> None:
    """They share scores: of each class a node counts as it is now, whichever class was evaluated since its change."""
    nodes = {f"n{number}": node(f"n{number}", {HOST: f"n{number}", ZONE: f"z{number % 3}"}) for number in range(5)}
    kinds = [pod({"app": "a"}, requests={"cpu": cpu}, affinity=PREFERS_ZONE_0) for cpu in ("100m", "200m", "300m")]
    placed: list[tuple[Json, str]] = []
    with _cluster(nodes) as known:
        for _ in range(data.draw(st.integers(2, 8))):
            name = data.draw(st.sampled_from(sorted(nodes)))
            taints = [("k", "", "PreferNoSchedule")] if data.draw(st.booleans()) else []
            zone = data.draw(st.sampled_from(["z0", "z1"]))
            nodes[name] = node(name, {HOST: name, ZONE: zone}, taints=taints)
            known.add_node(nodes[name])
            for wanted in data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
                with _cluster(nodes, placed) as fresh:
                    hosts = known.schedule(wanted, 1, 1)
                    assert hosts == fresh.schedule(wanted, 1, 1)
                placed += [(wanted, host) for host in hosts]


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_class_that_differs_from_another_in_requests_is_decided_as_if_it_were_the_first(data: st.DataObject) -> None:
    """It begins with what the other was told, though nodes and pods may have changed since."""
    labels = {"app": "a"}
    families: list[Json] = [
        {},
        {"topologySpreadConstraints": [spread(ZONE, True, labels, 1)]},
        {"topologySpreadConstraints": [spread(ZONE, False, labels, 1)]},
        {"affinity": affinity([term(ZONE, labels)])},
        {"affinity": affinity((), [term(HOST, labels)])},
        {"affinity": affinity(rather_near=[(10, term(ZONE, labels))])},
        {"affinity": PREFERS_ZONE_0, "tolerations": [{"key": "k", "operator": "Exists"}]},
    ]
    nodes = {f"n{number}": node(f"n{number}", {HOST: f"n{number}", ZONE: f"z{number % 3}"}) for number in range(6)}
    placed: list[tuple[Json, str]] = []
    with _cluster(nodes) as known:
        for step in range(data.draw(st.integers(2, 10))):
            name = data.draw(st.sampled_from(sorted(nodes)))
            taints = [("k", "", data.draw(st.sampled_from(["NoSchedule", "PreferNoSchedule"])))]
            if data.draw(st.booleans()):
                zone = data.draw(st.sampled_from(["z0", "z1", "z3"]))
                nodes[name] = node(name, {HOST: name, ZONE: zone}, taints=taints if data.draw(st.booleans()) else [])
                known.add_node(nodes[name])
            cpu = data.draw(st.sampled_from(["10m", "700m", "9"]))
            wanted = pod(
                labels, requests={"cpu": cpu, "memory": f"{step + 1}Mi"}, **data.draw(st.sampled_from(families))
            )
            with _cluster(nodes, placed) as fresh:
                assert known.filtered(wanted) == fresh.filtered(wanted)
                hosts = known.schedule(wanted, 1, 1)
                assert hosts == fresh.schedule(wanted, 1, 1)
            placed += [(wanted, host) for host in hosts]


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_classes_follow_each_change_though_some_are_only_looked_at_for_others(data: st.DataObject) -> None:
    """A class is brought up to date in part where a new one of its family comes, and as a whole once it comes again."""
    # What the classes of a family have, and pods that others place, which matter to it and take no resources.
    port: Json = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    families: list[tuple[Json, Json]] = [
        ({"nodeSelector": {ZONE: "z1"}, "tolerations": [{"key": "k", "operator": "Exists"}]}, {}),
        (port, port),
        ({"affinity": affinity((), [term(ZONE, {"app": "b"})])}, {}),
        ({}, {"affinity": affinity((), [term(ZONE, {"app": "a"})])}),
    ]
    nodes = {f"n{number}": node(f"n{number}", {HOST: f"n{number}", ZONE: f"z{number % 3}"}) for number in range(6)}
    placed: list[tuple[Json, str]] = []
    others: dict[str, tuple[Json, str]] = {}
    family, other = data.draw(st.sampled_from(families))
    with _cluster(nodes) as known:
        for step in range(data.draw(st.integers(3, 10))):
            name, change = (
                data.draw(st.sampled_from(sorted(nodes))),
                data.draw(st.sampled_from(["node", "pod", "gone"])),
            )
            if change == "node":
                taints = [("k", "", "NoSchedule")] if data.draw(st.booleans()) else []
                zone = data.draw(st.sampled_from(["z0", "z1"]))
                nodes[name] = node(name, {HOST: name, ZONE: zone}, taints=taints)
                known.add_node(nodes[name])
            elif change == "pod":
                another = pod({"app": "b"}, requests={}, **other), name
                others[known.place(*another)] = another
            elif others:
                uid = min(others)
                known.cache.remove_pod(uid)
                del others[uid]
            comes_again = data.draw(st.booleans())
            wanted = pod({"app": "a"}, requests={"cpu": "100m" if comes_again else f"{101 + step}m"}, **family)
            with _cluster(nodes, (*placed, *others.values())) as fresh:
                if comes_again:
                    assert known.filtered(wanted) == fresh.filtered(wanted)
                hosts = [host for hosts in known.schedule_in_turn([(wanted, 1)]) for host in hosts]
                event(f"{len(hosts)} placed in turn")
                hosts = hosts or known.schedule(wanted, 1, 1)
                assert hosts == fresh.schedule(wanted, 1, 1)
            placed += [(wanted, host) for host in hosts]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_class_that_names_other_nodes_is_decided_as_if_it_were_the_first(data: st.DataObject) -> None:
    """The pods of a DaemonSet share what plugins say, but for what follows from the nodes that each names."""
    labels = {"app": "a"}
    ports = [{"containerPort": 80, "hostPort": 80}]
    known_kinds: list[Json] = [
        {"requests": {"cpu": "1500m"}},
        {"ports": ports},
        {"topologySpreadConstraints": [spread(HOST, True, labels, 1), spread(ZONE, True, labels, 1)]},
        {"tolerations": [{"key": "k", "operator": "Exists"}], "nodeSelector": {ZONE: "z1"}},
        {"affinity": affinity([term(ZONE, labels)])},
        {"affinity": affinity((), [term(HOST, labels)])},
    ]
    kinds = data.draw(st.lists(st.sampled_from(known_kinds), min_size=1, max_size=2))
    in_zones = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z0", "z1"]}]}
    nodes = {f"n{number}": node(f"n{number}", {HOST: f"n{number}", ZONE: f"z{number % 3}"}) for number in range(4)}
    placed: list[tuple[Json, str]] = []

    def daemon_pod(*names: str) -> Json:
        spec = dict(data.draw(st.sampled_from(kinds)))
        required = to_nodes(*names)["nodeAffinity"]
        if data.draw(st.booleans()):
            for each in required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]:
                each.update(in_zones)
        return pod(labels, **{**spec, "affinity": {**spec.get("affinity", {}), "nodeAffinity": required}})

    def answers(cluster: Cluster, wanted: Json) -> list[Any]:
        class_id = cluster.class_of(wanted)
        cluster.follow()
        slots = {cluster.cache.slot_of(name): name for name in cluster.cache.node_names()}
        return [
            (
                {name for slot, name in slots.items() if each.admitted[slot // 8] >> (slot % 8) & 1},
                list(each.narrowed_by),
                sorted(each.evaluated_plugins),
                dict(each.demand.amounts),
            )
            for each in cluster.ask_filter_classes([(class_id, 1)]).answers
        ]

    with _cluster(nodes) as known:
        for _ in range(data.draw(st.integers(2, 10))):
            name = data.draw(st.sampled_from(sorted(nodes)))
            if data.draw(st.integers(0, 3)) == 0:
                taints = [("k", "", "NoSchedule")] if data.draw(st.booleans()) else []
                nodes[name] = node(
                    name, {HOST: name, ZONE: data.draw(st.sampled_from(["z0", "z1", "z3"]))}, taints=taints
                )
                known.add_node(nodes[name])
            wanted = daemon_pod(*data.draw(st.sets(st.sampled_from([*sorted(nodes), "gone"]), min_size=1, max_size=2)))
            with _cluster(nodes, placed) as fresh:
                assert answers(known, wanted) == answers(fresh, wanted)
                hosts = known.schedule(wanted, 1, 1)
                assert hosts == fresh.schedule(wanted, 1, 1)
            placed += [(wanted, host) for host in hosts]


def test_the_pods_of_a_daemon_set_are_asked_about_together(cluster: Cluster) -> None:
    """If this fails, a rollout calls each plugin for each node."""
    evaluator = cluster.filter._engine.evaluator
    named = [
        (
            cluster.class_of(
                pod({"app": "a"}, affinity=to_nodes(f"n{number}"), tolerations=[{"key": key, "operator": "Exists"}])
            ),
            1,
        )
        for number in range(5)
        for key in "ab"
    ]
    cluster.follow()
    plugin = evaluator._profiles[PROFILE].chain.demanding
    assert plugin is not None
    with mock.patch.object(plugin, "pre_filter", wraps=plugin.pre_filter) as pre_filter:
        assert len(cluster.ask_filter_classes(named).answers) == 10
    assert pre_filter.call_count == 2, "once for each DaemonSet"


def _admitted(cluster: Cluster, *pods: Json) -> list[set[str]]:
    """The nodes that take each of these pods, by one call."""
    numbers = [(cluster.class_of(each), 1) for each in pods]
    cluster.follow()
    slots = {cluster.cache.slot_of(name): name for name in cluster.cache.node_names()}
    return [
        {name for slot, name in slots.items() if each.admitted[slot // 8] >> (slot % 8) & 1}
        for each in cluster.ask_filter_classes(numbers).answers
    ]


def test_a_smaller_class_fits_where_the_one_before_does_not(cluster: Cluster) -> None:
    """All but the room that pods leave is the same for both."""
    for number in range(9):
        cluster.place(pod({"app": "x"}, requests={"cpu": "3"}), f"n{number}")
    labels = {"app": "a"}
    large, small = (pod(labels, requests={"cpu": cpu}) for cpu in ("2", "1"))
    every = {f"n{number}" for number in range(10)}
    assert _admitted(cluster, large, small, large) == [{"n9"}, every, {"n9"}]


def test_a_class_fits_nowhere_where_its_family_is_refused_everywhere(cluster: Cluster) -> None:
    """Of a family that PreFilter refuses no node is known."""
    names = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("n0", "n1")]
    required = {"nodeSelectorTerms": [{"matchFields": names}]}
    never = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    first, second = (pod({"app": "a"}, affinity=never, requests={"cpu": cpu}) for cpu in ("1", "2"))
    class_id = cluster.class_of(first)
    assert cluster.ask_filter(class_id).pre_filter.status.messages
    assert _admitted(cluster, second) == []


def test_a_class_that_names_its_nodes_fits_only_where_there_is_room(cluster: Cluster) -> None:
    """For as many pods as each node may have, too; and for another that differs in the nodes that it names alone."""
    cluster.place(pod({"app": "x"}, requests={"cpu": "4"}), "n1")
    cluster.add_node(node("n2", {HOST: "n2", ZONE: "z0"}, pods=1))
    cluster.place(pod({"app": "x"}), "n2")
    cluster.add_node(node("n3", {HOST: "n3", ZONE: "z1"}, taints=[("k", "", "NoSchedule")]))
    daemons = [pod({"app": "a"}, affinity=to_nodes(*names)) for names in (["n0", "n1"], ["n1", "n2", "n4"], ["n3"])]
    assert _admitted(cluster, *daemons[:2]) == [{"n0"}, {"n4"}]
    assert _admitted(cluster, daemons[2]) == []


def test_a_class_that_names_many_nodes_is_filtered_as_any_other() -> None:
    """Though another, which differs in the nodes that it names alone, named few."""
    names = [f"n{number}" for number in range(20)]
    with _cluster({name: node(name, {HOST: name}) for name in names}) as large:
        assert _admitted(large, pod({"app": "a"}, affinity=to_nodes("n1"))) == [{"n1"}]
        assert _admitted(large, pod({"app": "a"}, affinity=to_nodes(*names[:17]))) == [set(names[:17])]
        assert _admitted(large, pod({"app": "a"}, affinity=to_nodes("n2", "gone"))) == [{"n2"}]


def test_a_pod_has_only_the_nodes_filtered_again_that_it_may_change(cluster: Cluster) -> None:
    """Of a class that spreads over zones, those in the zone where one more pod is."""
    evaluator = cluster.filter._engine.evaluator
    wanted = pod({"app": "a"}, topologySpreadConstraints=[spread(ZONE, True, {"app": "a"}, 5)])
    class_id = cluster.class_of(wanted)
    cluster.place(wanted, "n1")
    cluster.ask_filter(class_id)
    before = evaluator.statistics().slots_evaluated
    cluster.place(wanted, "n0")
    cluster.ask_filter(class_id)
    # Its own node is filtered by what looks at its resources, too.
    assert evaluator.statistics().slots_evaluated - before <= 5 + 2


def test_a_class_that_differs_in_requests_is_filtered_for_what_reads_them(cluster: Cluster) -> None:
    """The other plugins' verdicts are those of its family."""
    evaluator = cluster.filter._engine.evaluator
    spent = []
    for cpu in ("1", "2"):
        before = evaluator.statistics().slots_evaluated
        cluster.ask_filter(cluster.class_of(pod({"app": "a"}, requests={"cpu": cpu})))
        spent.append(evaluator.statistics().slots_evaluated - before)
    assert spent[1] == 10 < spent[0]


def _nominate(cluster: Cluster, name: str) -> None:
    """A pod of higher priority, which takes all of the node, is nominated to it."""
    large = cluster.class_of(pod({"app": "x"}, requests={"cpu": "4"}, priority=9))
    cluster.follow()
    nominated = cycle_pb2.PodIdentity(uid="u")
    slot = cluster.snap.nodes.slot_of_name[name]
    generation = cluster.snap.generation
    cluster.snap.apply(
        snapshot_pb2.Delta(
            from_generation=generation,
            to_generation=generation + 1,
            nominations=[snapshot_pb2.Nomination(pod=nominated, pod_class=large, slot=slot)],
        )
    )


def test_while_pods_are_nominated_the_pods_of_a_daemon_set_are_not_asked_about_together(cluster: Cluster) -> None:
    """The room that nominated pods are to have is looked at for each class."""
    daemons = [pod({"app": "a"}, affinity=to_nodes(name), requests={"cpu": "1"}) for name in ("n1", "n0")]
    assert _admitted(cluster, *daemons) == [{"n1"}, {"n0"}]
    _nominate(cluster, "n0")
    assert _admitted(cluster, *daemons) == []


def test_while_pods_are_nominated_a_new_class_does_not_fit_where_its_family_does(cluster: Cluster) -> None:
    """The room of a pod that others were evicted for is not taken by another one."""
    every = {f"n{number}" for number in range(10)}
    kinds = [pod({"app": "a"}, requests={"cpu": cpu}) for cpu in ("1", "2", "3")]
    assert _admitted(cluster, *kinds[:2]) == [every, every]
    cluster.class_of(kinds[2])
    _nominate(cluster, "n0")
    assert _admitted(cluster, kinds[2]) == []
    assert cluster.filtered(kinds[2]).capacity["n0"] == 0


def test_of_a_class_that_names_its_nodes_only_these_are_filtered(cluster: Cluster) -> None:
    """A rollout would otherwise filter all nodes for each node; the answer is that of a whole evaluation."""
    evaluator = cluster.filter._engine.evaluator
    cluster.follow()
    before = evaluator.statistics().slots_evaluated
    named = [(cluster.class_of(pod({"app": "a"}, affinity=to_nodes("n3", "n5"))), 1)]
    cluster.follow()
    (answer,) = cluster.ask_filter_classes(named).answers
    assert evaluator.statistics().slots_evaluated - before == 2
    assert list(answer.narrowed_by) == ["NodeAffinity"]
    admitted = [slot for slot in range(10) if answer.admitted[slot // 8] >> (slot % 8) & 1]
    assert admitted == [cluster.cache.slot_of(name) for name in ("n3", "n5")]
    whole = node_columns.from_message(cluster.ask_filter(named[0][0]).columns)
    assert [int(slot) for slot in whole.feasible.nonzero()[0]] == admitted


def test_what_was_known_of_another_class_of_the_family_does_not_end_the_call(cluster: Cluster) -> None:
    """It was scored beside a pod that preferred to be near, and that is gone: replays ended where replicas went on."""
    fond = pod({"app": "b"}, affinity=affinity(rather_near=[(10, term(ZONE, {"app": "family"}))]))
    uid = cluster.place(fond, "n0")
    assert len(cluster.schedule(pod({"app": "family"}, requests={"cpu": "1"}), 1, 1)) == 1
    cluster.cache.remove_pod(uid)
    wanted = [(pod({"app": "other"}), 1), (pod({"app": "family"}, requests={"cpu": "2"}), 1)]
    assert len(cluster.schedule_in_turn(wanted)) == 2


def test_plugins_that_take_long_are_prepared_for_a_class_that_names_its_node(cluster: Cluster) -> None:
    """A device search for an extended resource would keep filter from answering anything else."""
    preparation = cluster.filter._engine.evaluator._profiles[PROFILE].preparation
    classes = [(cluster.class_of(pod({"app": "a"}, affinity=to_nodes("n3"))), 1)]
    cluster.follow()
    with mock.patch.object(preparation, "prepare_in_tree", wraps=preparation.prepare_in_tree) as prepare:
        cluster.ask_filter_classes(classes)
    assert prepare.await_count == 1


def test_a_class_that_names_its_node_has_the_times_of_its_plugins(cluster: Cluster) -> None:
    classes = [(cluster.class_of(pod({"app": "a"}, affinity=to_nodes("n3"))), 1)]
    cluster.follow()
    with mock.patch.object(plugin_timer, "SAMPLED_ONE_IN", 1):
        (answer,) = cluster.ask_filter_classes(classes).answers
    timed = {each.plugin for each in answer.timings if each.plugin and each.extension_point == "Filter"}
    assert {"NodeAffinity", "NodeResourcesFit"} <= timed
