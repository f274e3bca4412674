"""Preemption for a group, as filter sees it: who may go, in which order they are let back, and who has to go."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers import phase_calls
from tests.helpers.phase_calls import context
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.filter import service
from trireme.registry import remote_makers
from trireme.snapshot import pods
from trireme.v1 import cycle_pb2, filter_phase_pb2, policy_pb2, snapshot_pb2, status_pb2

FILTERS = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodePorts", "NodeResourcesFit")
MEMBER, OTHER_MEMBER = 1000, 1001


class Cluster:
    """Nodes of 4 CPUs, and a group of priority 100 that fits nowhere."""

    def __init__(self, nodes: int, cpu: str = "2", **spec: Any) -> None:
        self.builder = SnapshotBuilder()
        for number in range(nodes):
            self.builder.set_node(f"n{number}", allocatable={"cpu": "4", "pods": "110"}, labels={"host": f"n{number}"})
        for number in (MEMBER, OTHER_MEMBER):
            self.builder.add_class(number, pod_of({**requesting(cpu=cpu), "priority": 100, **spec}))
        self._next_class = 1
        self.composite = False

    def add(self, priority: int, cpu: str, *nodes: str, group: str = "", start: int = 0, flags: int = 0) -> list[str]:
        """Pods of a class of their own, one on each node; their UIDs."""
        number = self._next_class
        self._next_class += 1
        spec: dict[str, Any] = {**requesting(cpu=cpu), "priority": priority}
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        self.builder.add_class(number, pod_of(spec, labels={"app": f"c{number}"}))
        rows = self.builder.place(number, *nodes, flags=flags)
        self.builder.snap.pods.start[rows] = start
        return [self.builder.snap.pods.uids[row] for row in rows]

    def spreads(self, app: str) -> None:
        """The members count for the constraint of theirs that selects the app."""
        for number in (MEMBER, OTHER_MEMBER):
            pod = self.builder.snap.classes[number].pod
            pod.metadata.labels["app"] = app
            self.builder.add_class(number, pod)

    def group(self, name: str, priority: int, together: bool, parent: str = "", composite: bool = False) -> None:
        entry = snapshot_pb2.ClusterObject()
        group = entry.composite_pod_group if composite else entry.pod_group
        group.metadata.namespace, group.metadata.name = "default", name
        group.spec.parent_composite_pod_group_name = parent
        group.spec.priority = priority
        (group.spec.disruption_mode.all if together else group.spec.disruption_mode.single).SetInParent()
        self.builder.apply(objects=[entry])

    def budget(self, app: str, allowed: int) -> None:
        entry = snapshot_pb2.ClusterObject()
        budget: policy_pb2.PodDisruptionBudget = entry.pod_disruption_budget
        budget.metadata.namespace, budget.metadata.name = "default", app
        budget.spec.selector.match_labels["app"] = app
        budget.status.disruptions_allowed = allowed
        self.builder.apply(objects=[entry])

    async def serve(self, *more: str) -> None:
        """`more` are filter plugins beside the usual ones."""
        self.service = service.FilterPhase(self.builder.snap, remote_makers.no_remote_plugin)
        configuration = phase_calls.configuration((*FILTERS, *more), [])
        configuration.profiles[0].plugin_args.add(name="PodTopologySpread", args_json=b'{"defaultingType":"List"}')
        await phase_calls.greet(self.service, configuration)

    async def potential_victims(self, nominated: str = "") -> filter_phase_pb2.ListPodGroupVictimsResponse:
        request = filter_phase_pb2.ListPodGroupVictimsRequest(
            cycle=phase_calls.cycle(self.builder, MEMBER), priority=100
        )
        request.members.add(pod_class=MEMBER, nominated_node=nominated)
        return await self.service.ListPodGroupVictims(request, context())

    async def reprieve(
        self,
        listed: filter_phase_pb2.ListPodGroupVictimsResponse,
        *placed: tuple[int, str],
        given_up: Sequence[tuple[int, str]] = (),
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        """With the members placed (class, node) as if all of those were gone: the frontend says so by deltas.

        Those whose group did not fit after all (`given_up`) are not there.
        """
        table = self.builder.snap.pods
        gone = {pod.pod.uid for victim in listed.victims for pod in victim.pods}
        self.builder.remove(*[row for row in range(table.size) if table.uids[row] in gone and table.slot[row] >= 0])
        request = filter_phase_pb2.ReprievePodGroupVictimsRequest(
            pod_group=_identity("g", "uid-of-g"), priority=100, composite=self.composite, victims=listed.victims
        )
        for pod_class, node in placed:
            (row,) = self.builder.place(pod_class, node)
            slot = self.builder.snap.nodes.slot_of_name[node]
            request.placed.add(pod=_identity(table.names[row], table.uids[row]), pod_class=pod_class, slot=slot)
        for number, (pod_class, node) in enumerate(given_up):
            slot = self.builder.snap.nodes.slot_of_name[node]
            request.placed.add(pod=_identity(f"given-up-{number}"), pod_class=pod_class, slot=slot)
        request.cycle.CopyFrom(phase_calls.cycle(self.builder, MEMBER))
        return await self.service.ReprievePodGroupVictims(request, context())


def _identity(name: str, uid: str = "") -> cycle_pb2.PodIdentity:
    return cycle_pb2.PodIdentity(namespace="default", name=name, uid=uid or f"uid-{name}")


def _potential(answer: filter_phase_pb2.ListPodGroupVictimsResponse) -> list[list[str]]:
    return [[pod.pod.uid for pod in victim.pods] for victim in answer.victims]


def _evicted(answer: filter_phase_pb2.ReprievePodGroupVictimsResponse) -> list[str]:
    return [action.pod.uid for action in answer.actions]


async def test_lesser_pods_listed_the_most_important_first() -> None:
    """Pods of the group's priority or above are left out of it."""
    cluster = Cluster(2)
    low = cluster.add(1, "1", "n0", start=5)
    older = cluster.add(1, "1", "n1", start=3)
    middle = cluster.add(50, "1", "n1", start=9)
    cluster.add(100, "1", "n0")
    await cluster.serve()
    answer = await cluster.potential_victims()
    assert _potential(answer) == [middle, older, low]


async def test_of_pods_that_started_together_the_lower_uid_is_more_important() -> None:
    """The order is the same in each replica, and kube-scheduler's."""
    cluster = Cluster(2)
    first = cluster.add(1, "1", "n1", start=3)
    second = cluster.add(1, "1", "n0", start=3)
    await cluster.serve()
    assert _potential(await cluster.potential_victims()) == [first, second]


async def test_pods_of_a_group_that_goes_as_one_are_one_victim() -> None:
    """It is more important than a pod of its priority. Pods of a group that is disrupted pod by pod rank as pods.

    The pods' own priority counts, whatever their group's is now.
    """
    cluster = Cluster(2)
    cluster.group("together", 500, together=True)
    cluster.group("apart", 1, together=False)
    cluster.group("great", 1, together=False)
    cluster.group("great-together", 1, together=True)
    whole = cluster.add(10, "1", "n0", "n1", group="together")
    one, other = cluster.add(10, "500m", "n0", "n1", group="apart", start=7)
    cluster.add(200, "500m", "n0", group="great")
    cluster.add(200, "500m", "n0", "n1", group="great-together")
    (single,) = cluster.add(10, "500m", "n0", start=1)
    await cluster.serve()
    answer = await cluster.potential_victims()
    assert _potential(answer) == [whole, [single], [one], [other]]


@pytest.mark.parametrize(
    ("spec", "code", "text"),
    [
        ({}, status_pb2.CODE_UNSCHEDULABLE, "No preemption victims found for incoming preemptor"),
        ({"preemptionPolicy": "Never"}, status_pb2.CODE_UNSCHEDULABLE, "not eligible due to preemptionPolicy=Never."),
    ],
    ids=["nobody is less", "never"],
)
async def test_the_status_says_why_a_group_cannot_preempt(spec: dict[str, Any], code: int, text: str) -> None:
    """The words are those of the PodGroup's condition."""
    cluster = Cluster(1, **spec)
    cluster.add(100, "4", "n0")
    await cluster.serve()
    answer = await cluster.potential_victims()
    assert (answer.status.code, list(answer.status.messages)) == (code, [f"pod group preemption: {text}"])


async def test_a_group_does_not_preempt_while_its_victims_are_going() -> None:
    cluster = Cluster(1)
    cluster.add(1, "4", "n0", flags=pods.TERMINATING | pods.PREEMPTED)
    await cluster.serve()
    answer = await cluster.potential_victims(nominated="n0")
    assert answer.status.code == status_pb2.CODE_SUCCESS
    assert list(answer.status.messages) == ["pod group preemption: ongoing preemption on nominated nodes"]
    assert not answer.victims
    assert (await cluster.potential_victims(nominated="elsewhere")).victims


async def test_a_group_that_never_preempts_waits_for_its_victims_all_the_same() -> None:
    """It keeps its nominations: the policy may have changed since."""
    cluster = Cluster(1, preemptionPolicy="Never")
    cluster.add(1, "4", "n0", flags=pods.TERMINATING | pods.PREEMPTED)
    await cluster.serve()
    assert (await cluster.potential_victims(nominated="n0")).status.code == status_pb2.CODE_SUCCESS


async def test_only_necessary_victims_are_evicted() -> None:
    """Beside two members of 2 CPUs on a node of 4 nobody stays; beside one the more important one does."""
    cluster = Cluster(2)
    cluster.add(1, "1", "n0", "n0", "n0", "n0")
    (least,) = cluster.add(1, "1", "n1", start=9)
    (less,) = cluster.add(2, "1", "n1", start=9)
    (much,) = cluster.add(3, "1", "n1", start=9)
    await cluster.serve()
    listed = await cluster.potential_victims()
    answer = await cluster.reprieve(listed, (MEMBER, "n0"), (MEMBER, "n0"), (MEMBER, "n1"))
    evicted = _evicted(answer)
    assert len(evicted) == 5
    assert least in evicted
    assert not {less, much} & set(evicted)
    assert list(answer.status.messages) == [
        "pod group preemption: found a placement for podgroup, preempting 5 victims"
    ]
    evict = answer.actions[0].evict
    assert (evict.message, evict.node_name, evict.preemptor.uid) == (
        "p: preempting to accommodate a higher priority podgroup",
        "cluster",
        "uid-of-g",
    )


async def test_a_group_that_goes_as_one_goes_although_half_of_it_could_stay() -> None:
    """Half of it would be worth nothing to its owner."""
    cluster = Cluster(2, cpu="4")
    cluster.group("together", 10, together=True)
    whole = cluster.add(10, "1", "n0", "n1", group="together")
    await cluster.serve()
    listed = await cluster.potential_victims()
    answer = await cluster.reprieve(listed, (MEMBER, "n0"))
    assert sorted(_evicted(answer)) == sorted(whole)


async def test_victims_protected_by_a_budget_are_reprieved_first() -> None:
    """Though the other one is more important."""
    cluster = Cluster(1)
    (protected,) = cluster.add(1, "2", "n0")
    (important,) = cluster.add(50, "2", "n0")
    cluster.budget("c1", 0)
    await cluster.serve()
    listed = await cluster.potential_victims()
    answer = await cluster.reprieve(listed, (MEMBER, "n0"))
    assert _evicted(answer) == [important]
    assert _evicted(answer) != [protected]


SPREAD = {
    "maxSkew": 2,
    "minDomains": 10,
    "topologyKey": "host",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "c1"}},
}


@pytest.mark.parametrize(("skew", "goes"), [(2, True), (3, False)], ids=["too-many", "as-many-as-may-be"])
async def test_members_on_one_node_count_for_each_other(skew: int, goes: bool) -> None:
    """With too few domains a node takes as many as the skew says: two members and the pod that was there are three.

    The first member alone would leave room for it, and there are CPUs for all.
    """
    cluster = Cluster(2, cpu="1", topologySpreadConstraints=[{**SPREAD, "maxSkew": skew}])
    cluster.spreads("c1")
    in_the_way, elsewhere = cluster.add(1, "1", "n0", "n1")
    await cluster.serve("PodTopologySpread")
    listed = await cluster.potential_victims()
    answer = await cluster.reprieve(listed, (MEMBER, "n0"), (MEMBER, "n0"))
    assert _evicted(answer) == ([in_the_way] if goes else [])
    assert elsewhere not in _evicted(answer)


async def test_members_whose_group_does_not_fit_count_for_each_other_too() -> None:
    """They are not in the cluster that is asked about."""
    cluster = Cluster(2, cpu="1", topologySpreadConstraints=[SPREAD])
    cluster.spreads("c1")
    (in_the_way,) = cluster.add(1, "1", "n0")
    await cluster.serve("PodTopologySpread")
    listed = await cluster.potential_victims()
    answer = await cluster.reprieve(listed, given_up=[(MEMBER, "n0"), (MEMBER, "n0")])
    assert _evicted(answer) == [in_the_way]


async def test_members_of_several_classes_on_one_node_all_have_to_fit() -> None:
    """Each of them alone would leave room for the pod."""
    cluster = Cluster(1)
    low = cluster.add(1, "1", "n0")
    await cluster.serve()
    listed = await cluster.potential_victims()
    answer = await cluster.reprieve(listed, (MEMBER, "n0"), (OTHER_MEMBER, "n0"))
    assert _evicted(answer) == low


async def test_a_terminating_victim_counts_and_is_not_evicted_again() -> None:
    """It was told to go before."""
    cluster = Cluster(1, cpu="4")
    cluster.add(1, "4", "n0", flags=pods.TERMINATING)
    await cluster.serve()
    answer = await cluster.reprieve(await cluster.potential_victims(), (MEMBER, "n0"))
    assert (list(answer.status.messages), _evicted(answer)) == (
        ["pod group preemption: found a placement for podgroup, preempting 1 victims"],
        [],
    )


async def test_of_a_tree_the_topmost_group_decides() -> None:
    """Where it goes as one all of them are one victim, the most important of its priority.

    One below it that goes as one does so by itself.
    """
    cluster = Cluster(2)
    cluster.group("root", 500, together=True, composite=True)
    cluster.group("m", 500, together=False, parent="root", composite=True)
    cluster.group("a", 500, together=True, parent="m")
    cluster.group("b", 500, together=False, parent="root")
    cluster.group("loose", 10, together=False, composite=True)
    cluster.group("c", 500, together=True, parent="loose")
    cluster.group("lost", 10, together=False, parent="nobody")
    pod = cluster.add(10, "1", "n0")
    tree = [*cluster.add(10, "1", "n0", group="a"), *cluster.add(10, "1", "n1", group="b")]
    large = cluster.add(10, "0", "n0", "n1", "n1", group="c")
    lost = cluster.add(1, "0", "n0", group="lost")
    await cluster.serve()
    answer = await cluster.potential_victims()
    assert [sorted(each) for each in _potential(answer)] == [sorted(tree), sorted(large), pod, lost]


async def test_a_group_of_the_name_of_a_group_of_groups_is_a_victim_of_its_own() -> None:
    """kubernetes/kubernetes#141864, at preemption: the disruption of one is not that of the other."""
    cluster = Cluster(2)
    cluster.group("g", 10, together=True)
    cluster.group("g", 10, together=False, composite=True)
    cluster.group("part", 10, together=False, parent="g")
    group = cluster.add(1, "1", "n0", "n1", group="g")
    one, other = cluster.add(1, "1", "n0", "n1", group="part")
    await cluster.serve()
    assert [sorted(each) for each in _potential(await cluster.potential_victims())] == [sorted(group), [one], [other]]


async def test_groups_that_are_part_of_each_other_decide_once() -> None:
    """A pod that is met again decides nothing: the answer does not depend on how many levels are looked at."""
    cluster = Cluster(1)
    cluster.group("a", 10, together=False, parent="x")
    cluster.group("x", 10, together=False, parent="y", composite=True)
    cluster.group("y", 10, together=True, parent="x", composite=True)
    low = cluster.add(10, "1", "n0", "n0", group="a")
    await cluster.serve()
    assert [sorted(each) for each in _potential(await cluster.potential_victims())] == [sorted(low)]


async def test_the_victims_message_names_a_composite_pod_group() -> None:
    """kube-scheduler names the kind in the condition of the victim."""
    cluster = Cluster(1, cpu="4")
    cluster.add(1, "4", "n0")
    await cluster.serve()
    listed = await cluster.potential_victims()
    cluster.composite = True
    answer = await cluster.reprieve(listed, (MEMBER, "n0"))
    assert answer.actions[0].evict.message.endswith(": preempting to accommodate a higher priority compositepodgroup")


async def test_placed_members_of_a_group_that_did_not_fit_count() -> None:
    """kube-scheduler promises the node to such pods too, so their victims go; the others stay where there is room."""
    cluster = Cluster(3)
    on_n0, on_n1, on_n2 = cluster.add(1, "3", "n0", "n1", "n2")
    await cluster.serve()
    listed = await cluster.potential_victims()
    answer = await cluster.reprieve(listed, (MEMBER, "n0"), given_up=[(OTHER_MEMBER, "n1")])
    assert sorted(_evicted(answer)) == sorted([on_n0, on_n1])
    assert on_n2 not in _evicted(answer)


@pytest.mark.parametrize(("cpu", "staying"), [("2", True), ("3", False)], ids=["beside it", "in its way"])
async def test_no_victim_is_reprieved_where_members_overlap(cpu: str, staying: bool) -> None:
    """The place of a group that did not fit is given to others, and kube-scheduler counts both of them there."""
    cluster = Cluster(2, cpu=cpu)
    (gone,) = cluster.add(1, "1", "n0")
    (far,) = cluster.add(1, "1", "n1")
    await cluster.serve()
    listed = await cluster.potential_victims()
    answer = await cluster.reprieve(listed, (MEMBER, "n0"), given_up=[(OTHER_MEMBER, "n0")])
    assert sorted(_evicted(answer)) == sorted([gone] if staying else [gone, far])


async def test_the_result_counts_violations_victims_and_terminating_pods() -> None:
    """Metrics would not show broken budgets, torn groups, and victims that are going already."""
    cluster = Cluster(2, cpu="4")
    cluster.group("together", 10, together=True)
    cluster.group("apart", 10, together=False)
    cluster.add(10, "1", "n0", "n1", group="together")
    cluster.add(10, "1", "n0", group="apart")
    cluster.add(1, "1", "n0", flags=pods.TERMINATING)
    cluster.budget("c1", 1)
    await cluster.serve()
    listed = await cluster.potential_victims()
    cost = (await cluster.reprieve(listed, (MEMBER, "n0"))).disruption
    assert (cost.victims, cost.violations) == (4, 1)
    assert (cost.of_groups, cost.of_composite_groups, cost.single_pods) == (1, 0, 2)
