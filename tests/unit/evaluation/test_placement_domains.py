"""Batches end as one-by-one cycles: hard and soft spread, affinity and anti-affinity to the class itself and others."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.helpers import domain_cluster
from trireme.framework import domain_rules, status
from trireme.wire import domain_constraints, node_columns

Json = dict[str, Any]

ZONE, RACK, HOST = "topology.kubernetes.io/zone", "rack", "kubernetes.io/hostname"
KEYS = (ZONE, RACK, HOST)
APPS = ("red", "blue")


@st.composite
def nodes(draw: st.DrawFn) -> list[Json]:
    """Some nodes, not all of which have all labels."""
    out = []
    for number in range(draw(st.integers(2, 12))):
        labels = {HOST: f"n{number}"} if draw(st.integers(0, 9)) else {}
        if draw(st.integers(0, 9)):
            labels[ZONE] = draw(st.sampled_from(("a", "b", "c")))
        if draw(st.integers(0, 4)):
            labels[RACK] = draw(st.sampled_from(("r1", "r2", "r3", "r4")))
        taints = draw(
            st.lists(
                st.sampled_from(
                    (("t", "1", "PreferNoSchedule"), ("u", "1", "PreferNoSchedule"), ("hard", "1", "NoSchedule"))
                ),
                max_size=2,
                unique=True,
            )
        )
        size = {"cpu": draw(st.sampled_from((1, 4, 4))), "pods": draw(st.sampled_from((2, 5, 20, 20)))}
        out.append(domain_cluster.node(f"n{number}", labels, taints=taints, **size))
    return out


def _terms(apps: st.SearchStrategy[str]) -> st.SearchStrategy[Json]:
    return st.builds(lambda key, app: domain_cluster.term(key, {"app": app}), st.sampled_from(KEYS), apps)


def _some(what: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[list[Any]]:
    return st.one_of(st.just([]), st.lists(what, max_size=most))


def _constraints(apps: st.SearchStrategy[str]) -> st.SearchStrategy[Json]:
    def build(key: str, hard: bool, app: str, skew: int, domains: int, taints: bool) -> Json:
        fields: Json = {"minDomains": domains} if hard and domains else {}
        if taints:
            fields["nodeTaintsPolicy"] = "Honor"
        return domain_cluster.spread(key, hard, {"app": app}, skew, **fields)

    keys, skews = st.sampled_from(KEYS), st.integers(1, 2)
    return st.builds(build, keys, st.booleans(), apps, skews, st.sampled_from((0, 0, 2, 3)), st.booleans())


def _own_wish(app: str) -> st.SearchStrategy[Json]:
    """One wish of a pod about pods like itself."""
    own = st.just(app)
    terms = _terms(own)
    weighted = st.tuples(st.integers(1, 100), terms)
    return st.one_of(
        _constraints(own).map(lambda constraint: {"topologySpreadConstraints": [constraint]}),
        terms.map(lambda term: {"affinity": domain_cluster.affinity([term])}),
        terms.map(lambda term: {"affinity": domain_cluster.affinity((), [term])}),
        weighted.map(lambda pair: {"affinity": domain_cluster.affinity(rather_near=[pair])}),
        weighted.map(lambda pair: {"affinity": domain_cluster.affinity(rather_apart=[pair])}),
    )


@st.composite
def pods(draw: st.DrawFn) -> Json:
    """A pod of a class that spreads, attracts or keeps apart: pods like itself, or many kinds in many ways."""
    app = draw(st.sampled_from(APPS))
    if draw(st.booleans()):
        wishes = draw(_own_wish(app))
    else:
        apps = st.sampled_from(APPS)
        weighted = st.tuples(st.integers(1, 100), _terms(apps))
        lists = [draw(_some(each)) for each in (_terms(apps), _terms(apps), weighted, weighted)]
        wishes = {
            "topologySpreadConstraints": draw(_some(_constraints(apps))),
            "affinity": domain_cluster.affinity(*lists),
        }
    return domain_cluster.pod(
        {"app": app},
        tolerations=draw(_some(st.sampled_from(({"key": "t", "operator": "Exists"}, {"operator": "Exists"})), 1)),
        requests={"cpu": draw(st.sampled_from(("10m", "400m"))), "memory": "64Mi"},
        **wishes,
    )


@st.composite
def situations(draw: st.DrawFn) -> Json:
    """Nodes, pods that are there, and classes with how many of each are to be placed, in order."""
    some_nodes = draw(nodes())
    classes = draw(st.lists(pods(), min_size=1, max_size=3))
    there = draw(st.lists(st.tuples(pods(), st.integers(0, len(some_nodes) - 1), st.booleans()), max_size=6))
    rounds = draw(st.lists(st.tuples(st.integers(0, len(classes) - 1), st.integers(1, 12)), min_size=1, max_size=4))
    return {"nodes": some_nodes, "there": there, "classes": classes, "rounds": rounds, "owned": draw(st.booleans())}


def _cluster(situation: Json) -> domain_cluster.Cluster:
    cluster = domain_cluster.Cluster()
    if situation["owned"]:
        service = {"kind": "Service", "metadata": {"name": "s", "namespace": "default"}}
        cluster.add_object({**service, "spec": {"selector": {"app": "red"}}})
    for node in situation["nodes"]:
        cluster.add_node(node)
    for pod, number, terminating in situation["there"]:
        cluster.place(pod, f"n{number}", terminating=terminating)
    return cluster


def _run(situation: Json, at_once: int) -> tuple[list[list[str]], domain_cluster.Cluster]:
    cluster = _cluster(situation)
    hosts = [cluster.schedule(situation["classes"][number], count, at_once) for number, count in situation["rounds"]]
    return hosts, cluster


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(situations(), st.sampled_from((2, 3, 5, 16)))
def test_a_batch_lands_as_one_by_one_cycles(situation: Json, at_once: int) -> None:
    """A batch that ends elsewhere than one-by-one scheduling breaks spread, affinity or scores in the middle.

    A small one where a node that stood for others was not like them.
    """
    one_by_one, alone = _run(situation, 1)
    together, batched = _run(situation, at_once)
    note(f"one by one: {one_by_one}")
    alone.close()
    batched.close()
    assert together == one_by_one


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(situations(), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2)), max_size=3))
def test_incremental_counts_equal_counts_from_scratch(situation: Json, changes: list[tuple[int, int]]) -> None:
    """Tallies that lose count after placements, removals or relabelled nodes would make every later answer wrong."""
    _, kept = _run(situation, 16)
    for number, what in changes:
        name = f"n{number % len(situation['nodes'])}"
        if kept.cache.slot_of(name) < 0:
            continue
        if what == 0:
            kept.remove_node(name)
        elif what == 1:
            kept.add_node(domain_cluster.node(name, {ZONE: "c", RACK: "r9"}))
        else:
            gone = next((pod.uid for pod in kept.cache.pods() if pod.node_name == name), None)
            if gone is not None:
                kept.cache.remove_pod(gone)
        for pod in situation["classes"]:
            kept.ask_filter(kept.class_of(pod))
    fresh = domain_cluster.Cluster(registry=kept.registry)
    fresh.cache = kept.cache
    class_ids = [kept.class_of(pod) for pod in situation["classes"]]
    kept.follow()
    for delta in kept.cache.full_sync():
        fresh.snap.apply(delta)
    for class_id in class_ids:
        answers = [each.ask_filter(class_id, 16) for each in (kept, fresh)]
        slots = [kept.cache.slot_of(name) for name in kept.cache.node_names()]
        verdicts = []
        for columns in (node_columns.from_message(each.columns) for each in answers):
            refusals = (columns.statuses[i - 1] if i else None for i in columns.index[slots].tolist())
            verdicts.append((list(refusals), columns.capacity[slots].tolist()))
        assert verdicts[0] == verdicts[1]
        chosen = [each.ask_place(class_id, 16, answer) for each, answer in zip((kept, fresh), answers, strict=True)]
        assert chosen[0] == chosen[1]
    kept.close()
    fresh.close()


def _zones(count: int, each: int, **fields: Any) -> list[Json]:
    return [
        domain_cluster.node(f"{'abc'[zone]}{number}", {ZONE: "abc"[zone], HOST: f"{'abc'[zone]}{number}"}, **fields)
        for zone in range(count)
        for number in range(each)
    ]


OWN = {"app": "red"}
BY_ZONE = domain_cluster.term(ZONE, OWN)
BATCHES = [
    pytest.param(
        {"topologySpreadConstraints": [domain_cluster.spread(ZONE, True, OWN)]}, 12, [4, 4, 4], 12, id="hard-spread"
    ),
    pytest.param(
        {"topologySpreadConstraints": [domain_cluster.spread(ZONE, False, OWN)]}, 12, [4, 4, 4], 12, id="soft-spread"
    ),
    pytest.param({"affinity": domain_cluster.affinity([domain_cluster.term(ZONE, OWN)])}, 12, [12], 12, id="affinity"),
    pytest.param(
        {"affinity": domain_cluster.affinity((), [domain_cluster.term(ZONE, OWN)])},
        5, [1, 1, 1], 3, id="anti-affinity-by-zone",
    ),
    pytest.param(
        {"affinity": domain_cluster.affinity((), [domain_cluster.term(HOST, OWN)])},
        12, [4, 4, 4], 12, id="anti-affinity-by-node",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "count", "by_zone", "batch"), BATCHES)
def test_a_batch_is_placed_by_one_answer(spec: Json, count: int, by_zone: list[int], batch: int) -> None:
    """Answers that place fewer pods at once than they could make each pod pay for calls of its own."""
    cluster = domain_cluster.Cluster()
    for node in _zones(3, 4):
        cluster.add_node(node)
    hosts = cluster.schedule(domain_cluster.pod(OWN, **spec), count, 16)
    zones = [host[0] for host in hosts]
    assert sorted((zones.count(zone) for zone in set(zones)), reverse=True) == by_zone
    assert cluster.most_at_once == batch
    cluster.close()


def test_pods_with_affinity_to_themselves_follow_the_first() -> None:
    """The first of a group may go anywhere, the others only beside it: also when its domain is full."""
    cluster = domain_cluster.Cluster()
    for node in _zones(3, 2, pods=2):
        cluster.add_node(node)
    hosts = cluster.schedule(domain_cluster.pod(OWN, affinity=domain_cluster.affinity([BY_ZONE])), 8, 16)
    assert len(hosts) == 4
    assert len({host[0] for host in hosts}) == 1
    assert cluster.most_at_once == 4
    cluster.close()


SOFT_TAINTS = [(key, "1", "PreferNoSchedule") for key in ("t", "u", "v")]


def test_static_scores_are_normalised_over_what_is_left() -> None:
    """When the domain with the most taints closes, taints weigh otherwise on the nodes that are left."""
    hosts = []
    for at_once in (1, 16):
        cluster = domain_cluster.Cluster()
        for zone, (taints, labels) in enumerate(((2, {"q": ""}), (2, {"p": "", "q": ""}), (3, {"q": ""}), (2, {}))):
            in_zone = {ZONE: f"z{zone}"}
            cluster.add_node(domain_cluster.node(f"n{zone}", labels | in_zone, taints=SOFT_TAINTS[:taints]))
        for zone, taints in enumerate((2, 2, 3, 2)):
            cluster.add_node(domain_cluster.node(f"m{zone}", {ZONE: f"z{zone}"}, taints=SOFT_TAINTS[:taints]))
        preferred = [
            {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
            for key, weight in (("p", 3), ("q", 1))
        ]
        affinity = domain_cluster.affinity((), [BY_ZONE])
        affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        hosts.append(cluster.schedule(domain_cluster.pod(OWN, affinity=affinity), 4, at_once))
        cluster.close()
    assert hosts == [["n1", "n0", "n2", "m3"]] * 2


@pytest.mark.parametrize("hard", [False, True])
def test_pods_go_where_the_total_of_all_plugins_scores_is_highest(hard: bool) -> None:
    """As it is when its turn comes; and the plugins' scores add up to that total."""
    cluster = domain_cluster.Cluster()
    for number, node in enumerate(_zones(3, 3)):
        node["spec"]["taints"] = [{"key": "t", "effect": "PreferNoSchedule"}] if number % 2 else []
        cluster.add_node(node)
    wishes = domain_cluster.affinity(rather_near=[(40, domain_cluster.term(ZONE, {"app": "blue"}))])
    constraint = domain_cluster.spread(HOST, hard, OWN, 3)
    pod = domain_cluster.pod(OWN, affinity=wishes, topologySpreadConstraints=[constraint])
    cluster.place(domain_cluster.pod({"app": "blue"}), "a1")
    class_id = cluster.class_of(pod)
    engine = cluster.score._engine
    answer = cluster.ask_filter(class_id, 6)
    columns, stated = node_columns.from_message(answer.columns), domain_constraints.from_messages(answer.constraints)
    cycle = cluster._cycle(class_id)
    batch = cluster._run(engine.place(cycle, 6, columns, stated))
    for slot, total in zip(batch.slots, batch.totals, strict=True):
        alone = cluster._run(engine.place(cycle, 1, columns, stated))
        slots, totals = cluster._run(engine.totals(cycle))
        assert (alone.slots, alone.totals) == ([slot], [total])
        assert dict(zip(slots.tolist(), totals.tolist(), strict=True))[slot] == total == max(totals)
        twice = np.concatenate([slots, slots[:2]])
        raw = cluster._run(engine.raw_scores(cycle, twice))
        normalized = cluster._run(engine.normalized_scores(cycle, twice, raw))
        added = sum(each.weight * each.scores for each in normalized if each.scores is not None)
        assert added.tolist() == [*totals.tolist(), *totals[:2].tolist()]
        cluster.place(pod, cluster.cache.node_at(slot, cluster.snap.generation) or "")
        answer = cluster.ask_filter(class_id, 6)
        columns = node_columns.from_message(answer.columns)
        stated = domain_constraints.from_messages(answer.constraints)
        cycle = cluster._cycle(class_id)
    cluster.close()


def test_the_last_node_that_is_open_is_chosen_without_a_score() -> None:
    """As kube-scheduler chooses it; of two both are scored."""
    cluster = domain_cluster.Cluster()
    for node in _zones(3, 1):
        cluster.add_node(node)
    pod = domain_cluster.pod(OWN, affinity=domain_cluster.affinity((), [domain_cluster.term(HOST, OWN)]))
    class_id = cluster.class_of(pod)
    answer = cluster.ask_filter(class_id, 3)
    columns, stated = node_columns.from_message(answer.columns), domain_constraints.from_messages(answer.constraints)
    batch = cluster._run(cluster.score._engine.place(cluster._cycle(class_id), 3, columns, stated))
    cluster.close()
    assert [total > 0 for total in batch.totals] == [True, True, False]


def test_another_class_sees_what_a_batch_changed() -> None:
    """A class that is kept away by pods placed a moment ago must not be told what was true before."""
    cluster = domain_cluster.Cluster()
    for node in _zones(2, 2):
        cluster.add_node(node)
    other = domain_cluster.pod({"app": "blue"}, affinity=domain_cluster.affinity((), [domain_cluster.term(ZONE, OWN)]))
    assert cluster.filtered(other).refused == {}
    near = domain_cluster.affinity([domain_cluster.term(ZONE, OWN)])
    hosts = cluster.schedule(domain_cluster.pod(OWN, affinity=near), 3, 16)
    zone = hosts[0][0]
    reason = ("node(s) didn't match pod anti-affinity rules",)
    assert cluster.filtered(other).refused == {f"{zone}0": reason, f"{zone}1": reason}
    cluster.close()


def test_a_node_refused_by_skew_alone_keeps_its_capacity() -> None:
    """Without its capacity, a node that a placement elsewhere admits could not be chosen within the batch."""
    cluster = domain_cluster.Cluster()
    for node in _zones(2, 1, pods=5):
        cluster.add_node(node)
    pod = domain_cluster.pod(OWN, topologySpreadConstraints=[domain_cluster.spread(ZONE, True, OWN)])
    cluster.place(pod, "a0")
    answer = cluster.filtered(pod)
    assert answer.refused == {"a0": ("node(s) didn't match pod topology spread constraints",)}
    assert answer.capacity == {"a0": 4, "b0": 5}
    cluster.close()


RULES = [
    pytest.param(domain_rules.SkewRule(2, 1, 3, np.array([True, False, True])), id="skew"),
    pytest.param(domain_rules.PresenceRule(True, 4), id="presence"),
    pytest.param(domain_rules.AbsenceRule(), id="absence"),
]


@pytest.mark.parametrize("rule", RULES)
def test_constraints_survive_the_wire(rule: domain_rules.Rule) -> None:
    """What Place reads must be what Filter stated, whole counts included."""
    domain, count = np.array([0, 1, -1], dtype=np.int32), np.array([3, 70_000], dtype=np.int64)
    refusal = status.unschedulable("PodTopologySpread", "why")
    stated = domain_rules.DomainConstraint(refusal, domain, count, 1, rule)
    (read,) = domain_constraints.from_messages([domain_constraints.to_message(stated)])
    assert (read.refusal, read.placement_adds) == (refusal, 1)
    assert read.domain.tolist() == [0, 1, -1]
    assert read.count.tolist() == [3, 70_000]
    if isinstance(rule, domain_rules.SkewRule):
        assert isinstance(read.rule, domain_rules.SkewRule)
        assert (read.rule.max_skew, read.rule.self_match, read.rule.min_domains) == (2, 1, 3)
        assert read.rule.counts.tolist() == [True, False, True]
    else:
        assert read.rule == rule


BAD = [
    pytest.param(lambda message: message.domain.append(9), "constraints[0].domain", id="domain-beyond-counts"),
    pytest.param(lambda message: message.skew.counts.append(True), "constraints[0].skew.counts", id="counts-too-long"),
    pytest.param(lambda message: message.ClearField("skew"), "constraints[0].rule", id="no-rule"),
]


@pytest.mark.parametrize(("spoil", "field"), BAD)
def test_constraints_that_do_not_fit_are_named(spoil: Any, field: str) -> None:
    """A message from elsewhere that is indexed by unchecked would end in an answer about other nodes."""
    rule = domain_rules.SkewRule(1, 1, 1, np.array([True]))
    stated = domain_rules.DomainConstraint(
        status.unschedulable("P", "why"), np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int64), 1, rule
    )
    message = domain_constraints.to_message(stated)
    spoil(message)
    with pytest.raises(ValueError, match="must") as raised:
        domain_constraints.from_messages([message])
    assert str(raised.value).startswith(field)
