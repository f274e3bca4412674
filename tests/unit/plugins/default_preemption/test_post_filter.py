"""DefaultPreemption: victims, budgets, reprieve, the best candidate, and how long it takes."""

import asyncio
import random
import time
from typing import Any

import numpy as np
import pytest

from tests.helpers import phase_calls
from tests.helpers.phase_calls import context
from tests.helpers.preemption_cluster import FILTERS, PREEMPTOR, Preemption, pod_of_priority
from trireme.evaluation.preemption import dry_run
from trireme.framework import status
from trireme.snapshot import arrays, pods
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, meta_pb2, policy_pb2, snapshot_pb2
from trireme.wire import identities, node_columns


def _victims(answer: filter_pb2.PostFilterResponse) -> list[str]:
    return [action.pod.uid for action in answer.actions if action.HasField("evict")]


def _text(answer: filter_pb2.PostFilterResponse) -> str:
    return ", ".join(answer.status.messages)


async def test_the_least_important_are_evicted_and_the_rest_reprieved() -> None:
    """Reprieve begins with the most important; only who stands in the way goes."""
    case = Preemption(1)
    low, middle, small = (case.add(p, cpu, "n0")[0] for p, cpu in ((1, "1500m"), (50, "1500m"), (0, "500m")))
    answer = await case.ask()
    assert _victims(answer) == [f"uid-{low}"]
    assert answer.nominated_node == "n0"
    assert (middle, small) == (1, 2)
    assert _text(answer) == "preemption: found a potential placement for pod on node n0, preempting 1 victims"


async def test_of_equal_priority_the_one_that_started_last_goes() -> None:
    """A longer run is worth more; a pod that has not started counts as starting now."""
    case = Preemption(1)
    case.add(1, "2", "n0", start=100)
    newest = case.add(1, "2", "n0", start=0)
    answer = await case.ask()
    assert _victims(answer) == [f"uid-{newest[0]}"]


def _budget(allowed: int) -> snapshot_pb2.ClusterObject:
    budget = policy_pb2.PodDisruptionBudget()
    budget.metadata.namespace, budget.metadata.name = "default", "b"
    budget.spec.selector.match_labels["app"] = "kept"
    budget.status.disruptions_allowed = allowed
    return snapshot_pb2.ClusterObject(pod_disruption_budget=budget)


def _expression(operator: str) -> meta_pb2.LabelSelector:
    expressions = [meta_pb2.LabelSelectorRequirement(key="app", operator=operator)]
    return meta_pb2.LabelSelector(match_expressions=expressions)


@pytest.mark.parametrize(("allowed", "expected"), [(0, 1), (1, 0)], ids=["protected", "within-budget"])
async def test_a_budget_protects_the_less_important(allowed: int, expected: int) -> None:
    """Who is protected by a budget with nothing left is let back first, even before more important pods."""
    case = Preemption(1)
    case.add(1, "2", "n0", labels={"app": "kept"})
    case.add(50, "2", "n0")
    case.builder.apply(objects=[_budget(allowed)])
    assert _victims(await case.ask()) == [f"uid-{expected}"]


@pytest.mark.parametrize(
    ("selector", "protected"),
    [
        pytest.param(meta_pb2.LabelSelector(), True, id="empty"),
        pytest.param(None, False, id="none"),
        pytest.param(_expression("DoesNotExist"), True, id="that-labels-are-absent"),
        pytest.param(_expression("Exists"), False, id="that-labels-exist"),
        pytest.param(_expression("Near"), False, id="invalid"),
    ],
)
async def test_a_budget_protects_pods_without_labels(selector: meta_pb2.LabelSelector | None, protected: bool) -> None:
    """kubernetes/kubernetes#141785: an empty selector selected no pod, and no selector one without labels."""
    case = Preemption(1)
    plain, labelled = case.add(1, "2", "n0")[0], case.add(50, "2", "n0", labels={"app": "x"})[0]
    budget = policy_pb2.PodDisruptionBudget()
    budget.metadata.namespace, budget.metadata.name = "default", "b"
    if selector is not None:
        budget.spec.selector.CopyFrom(selector)
    # The more important pod counts first, and is within an empty selector's budget.
    budget.status.disruptions_allowed = int(selector == meta_pb2.LabelSelector())
    case.builder.apply(objects=[snapshot_pb2.ClusterObject(pod_disruption_budget=budget)])
    assert _victims(await case.ask()) == [f"uid-{labelled if protected else plain}"]


async def test_candidates_are_searched_until_one_breaks_no_budget() -> None:
    """Enough candidates are not enough while each of them breaks a budget; else chance says whether one does."""
    for uid in range(6):
        case = Preemption(5, wanted="4")
        case.uid = f"me-{uid}"
        case.add(1, "3", "n0", "n1", "n2", "n4", labels={"app": "kept"})
        (unprotected,) = case.add(50, "3", "n3")
        case.builder.apply(objects=[_budget(0)])
        answer = await case.ask(args='{"minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": 1}')
        assert _victims(answer) == [f"uid-{unprotected}"]


async def test_no_more_candidates_are_evaluated_than_the_arguments_allow() -> None:
    chosen = set()
    for uid in range(12):
        case = Preemption(4, wanted="4")
        case.uid = f"me-{uid}"
        for priority, name in enumerate(case.names, start=1):
            case.add(priority, "3", name)
        chosen.add(
            (await case.ask(args='{"minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": 1}')).nominated_node
        )
    # The node of the lowest priority is the best of all, and not always among those looked at.
    assert len(chosen) > 1


async def test_no_more_candidates_that_break_a_budget_are_compared_than_the_arguments_allow() -> None:
    """All nodes are looked at for one that breaks none; of the others only as many are kept as are asked for."""
    chosen = set()
    for uid in range(12):
        case = Preemption(4, wanted="4")
        case.uid = f"me-{uid}"
        for priority, name in enumerate(case.names, start=1):
            case.add(priority, "3", name, labels={"app": "kept"})
        case.builder.apply(objects=[_budget(0)])
        chosen.add(
            (await case.ask(args='{"minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": 1}')).nominated_node
        )
    assert len(chosen) > 1


_CHOICES: dict[str, tuple[list[tuple[int, str, int]], list[tuple[int, str, int]]]] = {
    # The pods of each node: priority, cpu, start. The second node is the better one.
    "lowest highest priority": ([(9, "3", 0)], [(8, "3", 0)]),
    "lowest sum": ([(9, "1", 0), (9, "2", 0)], [(9, "1", 0), (8, "2", 0)]),
    "fewest": ([(9, "1500m", 5), (-2147483648, "1500m", 0)], [(9, "3", 1)]),
    "latest start": ([(9, "3", 5)], [(9, "3", 6)]),
    "not started yet": ([(9, "3", 5)], [(9, "3", 0)]),
}


@pytest.mark.parametrize("pair", _CHOICES.values(), ids=_CHOICES.keys())
async def test_the_candidate_that_hurts_least_is_chosen(
    pair: tuple[list[tuple[int, str, int]], list[tuple[int, str, int]]],
) -> None:
    """The ordered tie-breaks decide between nodes, whichever comes first."""
    for swapped in (False, True):
        case = Preemption(2, wanted="4")
        for name, of_node in zip(case.names, reversed(pair) if swapped else pair, strict=True):
            for priority, cpu, start in of_node:
                case.add(priority, cpu, name, start=start)
        assert (await case.ask()).nominated_node == case.names[0 if swapped else 1]


async def test_nominated_pods_count_for_preemption_and_filter() -> None:
    """Room that is promised to another pod is not taken: not by Filter, and not as what preemption would free."""
    case = Preemption(2, cpu="2")
    case.add(1, "2", "n0", "n1")
    case.builder.add_class(500, pod_of_priority(100, "2"))
    nomination = snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid="other"), pod_class=500, slot=0)
    case.builder.apply(nominations=[nomination])
    assert (await case.ask()).nominated_node == "n1"
    case.builder.remove(0)
    cycle = phase_calls.cycle(case.builder, PREEMPTOR)

    async def passes(uid: str) -> bool:
        cycle.pod.metadata.uid = uid
        cycle.generation = case.builder.snap.generation
        answer = await case.service.Filter(filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle, count=1), context())
        return bool(answer.columns.capacity[0])

    assert not await passes("me")
    assert await passes("other"), "a pod does not stand in its own way"
    case.builder.apply(removed_nominations=["other"])
    assert await passes("me")


async def test_only_the_nominated_node_is_evaluated_first() -> None:
    """A preemptor whose victims have gone needs no other node; where it does not fit there it needs them all."""
    case = Preemption(2, cpu="2")
    (row,) = case.add(1, "2", "n1")
    nomination = snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid="me"), pod_class=PREEMPTOR, slot=1)
    case.builder.apply(nominations=[nomination])
    await case.ask()

    assert (await _admitted(case, ("me", 1))) == 0
    case.builder.remove(row)
    assert (await _admitted(case, ("me", 1))) == 1
    assert (await _admitted(case, ("me", 0))) == 0, "the caller is mistaken about the node"


async def _admitted(case: Preemption, *nominees: tuple[str, int]) -> int:
    """How many of these pods (UID, slot) may run where they are nominated to."""
    request = filter_phase_pb2.FilterNominatedRequest(cycle=phase_calls.cycle(case.builder, PREEMPTOR))
    for uid, slot in nominees:
        request.nominees.add(pod=cycle_pb2.PodIdentity(uid=uid), slot=slot)
    return (await case.service.FilterNominated(request, context())).admitted


@pytest.mark.parametrize(
    ("slots", "full", "admitted"),
    [
        pytest.param((0, 1, 2), (), 3, id="all"),
        pytest.param((0, 1, 2, 3), (2,), 2, id="up-to-one-that-does-not-fit"),
        pytest.param((0, 1, 2, 2, 3), (), 2, id="up-to-two-on-one-node"),
        pytest.param((0, 1, 9), (), 2, id="up-to-one-that-is-nominated-nowhere"),
        pytest.param((0,), (), 1, id="no-other"),
        pytest.param((3, 1), (3,), 0, id="not-without-the-first"),
    ],
)
async def test_pods_on_the_nodes_that_they_are_nominated_to_are_answered_for_together(
    slots: tuple[int, ...], full: tuple[int, ...], admitted: int
) -> None:
    """Of many preemptors each may have its room; none may have room that another one is nominated for."""
    case = Preemption(4, cpu="2")
    for slot in full:
        case.add(1, "2", f"n{slot}")
    case.builder.apply(
        nominations=[
            snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid=f"u{number}"), pod_class=PREEMPTOR, slot=slot)
            for number, slot in enumerate(slots)
            if slot < 4
        ]
    )
    await case.ask()
    assert await _admitted(case, *[(f"u{number}", slot) for number, slot in enumerate(slots)]) == admitted


async def test_where_nodes_depend_on_each_other_nominated_pods_are_answered_for_one_by_one() -> None:
    """What the first one changes for the others by being placed would not be seen."""
    case = Preemption(2, cpu="2", filters=(*FILTERS, "PodTopologySpread"))
    spread = core_pb2.TopologySpreadConstraint(max_skew=1, topology_key="host", when_unsatisfiable="DoNotSchedule")
    spread.label_selector.match_labels["app"] = "x"
    pod = pod_of_priority(100, "2", labels={"app": "x"})
    pod.spec.topology_spread_constraints.append(spread)
    case.builder.add_class(PREEMPTOR, pod)
    case.builder.apply(
        nominations=[
            snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid=f"u{slot}"), pod_class=PREEMPTOR, slot=slot)
            for slot in (0, 1)
        ]
    )
    await case.ask()
    assert await _admitted(case, ("u0", 0), ("u1", 1)) == 1


@pytest.mark.slow
async def test_cached_dry_runs_equal_fresh_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preemptor after others of its class gets the victims that it would get had nobody asked before."""
    asked: list[int] = []
    plainly = dry_run.DryRun.run

    async def counted(run: dry_run.DryRun, slots: arrays.SlotArray) -> dry_run.DryRunResult:
        asked.append(slots.size)
        return await plainly(run, slots)

    monkeypatch.setattr(dry_run.DryRun, "run", counted)
    draw = random.Random(7)
    with_memory = without = 0
    for _ in range(6):
        case, rows = Preemption(8), []
        for name in case.names * 4:
            cpu = draw.choice(("500m", "1", "1500m"))
            rows += case.add(draw.choice((0, 0, 1)), cpu, name, start=draw.randint(1, 9))
        case.builder.add_class(900, pod_of_priority(100, "1"))
        await case.ask()
        for _ in range(12):
            _change(case, draw, rows)
            case.uid, before = f"me{draw.randint(0, 2)}", case.service
            asked.clear()
            answer = await case.again()
            with_memory += sum(asked)
            asked.clear()
            anew = await case.ask()
            without += sum(asked)
            case.service = before
            assert (answer.nominated_node, _victims(answer)) == (anew.nominated_node, _victims(anew))
    assert with_memory < without / 2


async def test_a_start_time_alone_can_change_the_order_of_victims() -> None:
    """A kubelet tells when a pod started, which changes nothing that filters look at."""
    case = Preemption(1)
    case.builder.add_class(900, pod_of_priority(1, "2"))
    for _ in range(2):
        case.builder.place(900, "n0")

    def start(row: int, seconds: int) -> None:
        columns = snapshot_pb2.PodColumns(
            row=[row], pod_class=[900], slot=[0], uid=[""], name=[""], start_time_s=[seconds], flags=[0]
        )
        case.builder.apply(pods=columns)

    start(0, 5)
    assert _victims(await case.ask()) == ["uid-1"]
    start(1, 3)
    assert _victims(await case.again()) == ["uid-0"]


def _change(case: Preemption, draw: random.Random, rows: list[int]) -> None:
    """Something happens to a node, a pod or a nomination."""
    table, names = case.builder.snap.pods, case.names
    row = draw.choice(rows)
    slot = int(table.slot[row])
    nominee = snapshot_pb2.Nomination(
        pod=cycle_pb2.PodIdentity(uid=f"me{draw.randint(0, 2)}"), pod_class=900, slot=draw.randrange(len(names))
    )
    match draw.randrange(6):
        case 0 if slot >= 0:
            case.builder.remove(row)
        case 1 | 2 if slot >= 0:
            # The kubelet says when the pod started, or it is being evicted.
            columns = snapshot_pb2.PodColumns(
                row=[row],
                pod_class=[int(table.pod_class[row])],
                slot=[slot],
                uid=[""],
                name=[""],
                start_time_s=[draw.randint(1, 9)],
                flags=[draw.choice((int(table.flags[row]), pods.PREEMPTED))],
            )
            case.builder.apply(pods=columns)
        case 3:
            case.builder.apply(nominations=[nominee])
        case 4:
            case.builder.apply(removed_nominations=[nominee.pod.uid])
        case _:
            name = draw.choice(names)
            cpu = draw.choice(("3", "4", "5"))
            case.builder.set_node(name, allocatable={"cpu": cpu, "pods": "110"}, labels={"host": name})


@pytest.mark.slow
async def test_vectorised_dry_runs_find_what_one_node_at_a_time_finds() -> None:
    """The slow twin asks about each node alone: its victims are those of the run over all nodes at once."""
    draw = random.Random(5)
    for _ in range(10):
        case = Preemption(6, wanted=f"{draw.randint(1, 4)}")
        placed = [
            (draw.randint(-5, 120), f"{draw.choice((250, 500, 1000, 1500))}m", name, draw.randint(0, 3))
            for name in case.names
            for _ in range(draw.randint(2, 6))
        ]
        for priority, cpu, name, start in placed:
            case.add(priority, cpu, name, start=start)
        together = await case.ask()
        alone = {}
        for name in case.names:
            for other in case.names:
                blocked = other != name
                case.builder.set_node(
                    other, allocatable={"cpu": "4", "pods": "110"}, unschedulable=blocked, labels={"host": other}
                )
            answer = await case.again()
            if answer.nominated_node:
                alone[name] = _victims(answer)
        assert bool(together.nominated_node) == bool(alone)
        if together.nominated_node:
            assert alone[together.nominated_node] == _victims(together)


async def test_a_thousand_full_nodes_take_milliseconds() -> None:
    """500 preemptors on a full cluster are to be served at 100 a second and more, so one must not take long."""
    case = Preemption(1000)
    for priority in range(8):
        case.add(priority, "500m", *case.names, start=priority + 1)
    await case.ask()
    best = 1.0
    for _ in range(5):
        started = time.process_time()
        answer = await case.again()
        best = min(best, time.process_time() - started)
        assert len(_victims(answer)) == 4
        await asyncio.sleep(0)
    # It takes about 5 ms of this process's own time, whatever else the machine does.
    assert best < 0.05


def _group(name: str, priority: int, *, together: bool) -> snapshot_pb2.ClusterObject:
    entry = snapshot_pb2.ClusterObject()
    group = entry.pod_group
    group.metadata.namespace, group.metadata.name = "default", name
    group.spec.priority = priority
    (group.spec.disruption_mode.all if together else group.spec.disruption_mode.single).SetInParent()
    return entry


def _of(name: str) -> dict[str, Any]:
    return {"schedulingGroup": {"podGroupName": name}}


async def test_a_group_that_is_disrupted_as_one_goes_from_all_of_its_nodes() -> None:
    """What is left of it would be worth nothing; so a node where one pod has to go is better."""
    case = Preemption(3)
    whole = case.add(1, "3", "n0", "n1", **_of("together"))
    case.builder.apply(objects=[_group("together", 1, together=True)])
    case.add(100, "3", "n2")
    answer = await case.ask(gates={"GenericWorkload": True})
    assert answer.nominated_node in ("n0", "n1")
    assert sorted(_victims(answer)) == [f"uid-{row}" for row in whole]
    case = Preemption(3)
    case.add(1, "3", "n0", "n1", **_of("together"))
    case.builder.apply(objects=[_group("together", 1, together=True)])
    case.add(1, "3", "n2")
    answer = await case.ask(gates={"GenericWorkload": True})
    assert (answer.nominated_node, len(answer.actions)) == ("n2", 1)


@pytest.mark.parametrize(
    ("gate", "priority", "together", "victims"),
    [
        (True, 5, True, 2),
        (True, 5, False, 1),
        (True, 100, True, 0),
        (False, 5, True, 1),
    ],
    ids=["as one", "each alone", "as important as the pod", "the gate is off"],
)
async def test_a_pod_of_a_group_goes_with_it(gate: bool, priority: int, together: bool, victims: int) -> None:
    """The pods' own priority counts, whatever the group's is now; without the gate groups mean nothing."""
    case = Preemption(2)
    case.add(priority, "3", "n0", **_of("g"))
    case.add(priority, "1", "n1", **_of("g"))
    case.add(100, "3", "n1")
    case.builder.apply(objects=[_group("g", 1, together=together)])
    answer = await case.ask(gates={"GenericWorkload": gate})
    assert len(_victims(answer)) == victims


async def test_a_group_is_reprieved_before_a_pod_of_its_priority_unless_a_budget_protects_it() -> None:
    """The group is the more important of two victims, unless a budget protects the other."""
    for label, gone in (("free", "pod"), ("kept", "group")):
        case = Preemption(2)
        group = case.add(1, "2", "n0", "n1", labels={"app": "free"}, **_of("g"))
        (single,) = case.add(1, "2", "n0", labels={"app": "kept" if label == "kept" else "none"})
        case.add(100, "2", "n1")
        case.builder.apply(objects=[_group("g", 1, together=True), _budget(0)])
        answer = await case.ask(gates={"GenericWorkload": True})
        expected = [f"uid-{single}"] if gone == "pod" else [f"uid-{row}" for row in group]
        assert sorted(_victims(answer)) == expected


async def test_victims_on_other_nodes_count_for_plugins_of_the_whole_cluster() -> None:
    """The pod refuses to be in a zone with the group's; that one is let go in both nodes makes the zone free."""
    own = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "foe"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}
    for together, victims in ((True, 2), (False, 0)):
        case = Preemption(2, filters=(*FILTERS, "InterPodAffinity"))
        for name in case.names:
            case.builder.set_node(name, allocatable={"cpu": "4", "pods": "110"}, labels={"zone": "a"})
        case.builder.add_class(PREEMPTOR, pod_of_priority(100, "2", affinity=affinity))
        case.add(1, "1", "n0", "n1", labels={"app": "foe"}, **_of("g"))
        case.builder.apply(objects=[_group("g", 1, together=together)])
        assert len(_victims(await case.ask(gates={"GenericWorkload": True}))) == victims


async def test_victims_elsewhere_survive_a_second_opinion() -> None:
    """An extender hands back a candidate whose group is on two nodes.

    One on another node that is of no group is not believed.
    """
    case = Preemption(2)
    whole = case.add(1, "3", "n0", "n1", **_of("g"))
    (other,) = case.add(1, "500m", "n1")
    case.builder.apply(objects=[_group("g", 1, together=True)])
    await case.ask(gates={"GenericWorkload": True})
    cycle = phase_calls.cycle(case.builder, PREEMPTOR)
    filtered = await case.service.Filter(filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle, count=1), context())
    for victims, evicted in ((whole, 2), ([*whole, other], 0)):
        request = filter_phase_pb2.SelectPreemptionCandidateRequest(cycle=cycle, columns=filtered.columns)
        candidate = request.candidates.add(node_name="n0")
        candidate.victims.extend(cycle_pb2.PodIdentity(uid=f"uid-{row}") for row in victims)
        response = await case.service.SelectPreemptionCandidate(request, context())
        assert len(_victims(response.answer)) == evicted


async def test_random_choices_depend_on_the_seed_alone() -> None:
    case = Preemption(30)
    for name in case.names:
        case.add(1, "4", name)
    await case.ask(args='{"minCandidateNodesPercentage":1,"minCandidateNodesAbsolute":1}')

    async def chosen(seed: int) -> str:
        cycle = phase_calls.cycle(case.builder, PREEMPTOR)
        filtered = await case.service.Filter(filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle), context())
        request = filter_phase_pb2.RunPostFilterRequest(cycle=cycle, columns=filtered.columns)
        request.preemptors.add(pod=cycle_pb2.PodIdentity(uid="me"), seed=seed)
        response = await case.service.RunPostFilter(request, context())
        return str(response.results[0].answer.nominated_node)

    before = [await chosen(seed) for seed in range(8)]
    case.builder.apply(removed_classes=[])
    assert [await chosen(seed) for seed in range(8)] == before
    assert len(set(before)) > 3


async def test_a_node_that_needs_no_victim_is_a_candidate_for_extenders_alone() -> None:
    """kubernetes/kubernetes#135486: only what an extender manages is short, so that one of them has to name victims."""
    case = Preemption(1, cpu="8")
    case.add(1, "1", "n0")
    await case.ask()
    cycle = phase_calls.cycle(case.builder, PREEMPTOR)
    cycle.pod.metadata.uid = cycle.pod.metadata.name = case.uid
    refusal = status.unschedulable("", "extender: none left")
    columns = node_columns.NodeColumns.complete(
        cycle.generation, (refusal,), np.ones(1, dtype=np.int16), np.zeros(1, dtype=np.int32)
    )
    request = filter_phase_pb2.RunPostFilterRequest(
        cycle=cycle,
        columns=node_columns.to_message(columns),
        preemptors=[identities.preemptor(cycle.pod, cycle.generation)],
    )
    answer = (await case.service.RunPostFilter(request, context())).results[0].answer
    assert _text(answer) == "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    listed = await case.service.ListPreemptionCandidates(
        filter_phase_pb2.ListPreemptionCandidatesRequest(
            cycle=cycle, columns=request.columns, preemptor=request.preemptors[0]
        ),
        context(),
    )
    assert [(each.node_name, len(each.victims)) for each in listed.candidates] == [("n0", 0)]
