"""Topology-aware placement of groups: all members in one domain, the one that the plugins prefer."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers.metric_values import counts
from tests.helpers.pod_group_builders import PROFILE, pod_group, too_few
from tests.helpers.pod_group_cluster import Cluster
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.evaluation.scoring import group_placements
from trireme.plugin_api.placements import NodesOfDomain, NoPlacementError
from trireme.registry import score_plugins
from trireme.v1 import core_pb2, score_phase_pb2

T0 = 1_000_000.0


def racked(cluster: Cluster, min_count: int, members: int) -> None:
    """A gang that wants to be in one rack."""
    group = pod_group("g", min_count)
    group.spec.scheduling_constraints.topology.add(key="rack")
    cluster.group(group)
    for number in range(members):
        cluster.add(f"p{number}", "g")


async def test_all_members_go_to_one_domain_though_others_have_room() -> None:
    """The only rack that takes all of them, and no node without the label."""
    cluster = Cluster([1, 9, 2, 1], racks=["a", "", "b", "b"], topology=True)
    racked(cluster, 3, 3)
    await cluster.run()
    assert set(cluster.nodes.values()) == {"n2", "n3"}
    assert cluster.started == [["p0", "p1", "p2"]]
    assert not cluster.scored


async def test_of_several_domains_that_do_the_plugins_choose() -> None:
    """Each was tried as if it were alone, and what was tried last leaves nothing behind."""
    cluster = Cluster([2, 3, 2], racks=["a", "b", "c"], topology=True)
    cluster.totals = [50, 90, 60]
    racked(cluster, 2, 3)
    await cluster.run()
    assert cluster.scored == [([0], 2), ([1], 3), ([2], 2)]
    assert cluster.nodes == dict.fromkeys(("p0", "p1", "p2"), "n1")


async def test_what_is_reserved_for_a_member_is_not_free_for_the_next_when_a_placement_is_taken() -> None:
    """Two pods of one node would get the same device: Reserve finds what is free on the cluster of its generation."""
    cluster = Cluster([2, 3], racks=["a", "b"], topology=True)
    cluster.totals = [50, 90]
    cluster.reserving = True
    racked(cluster, 2, 3)
    await cluster.run()
    assert cluster.nodes == dict.fromkeys(("p0", "p1", "p2"), "n1")
    generations, pods = zip(*cluster.reserved_at[-3:], strict=True)
    assert pods == (["p0"], ["p1"], ["p2"])
    assert list(generations) == sorted(set(generations))


async def test_the_domain_that_members_are_nominated_to_is_taken_if_it_does() -> None:
    """kubernetes/kubernetes#139472: preemption made room there, and the group went to another domain."""
    cluster = Cluster([2, 3], racks=["a", "b"], topology=True)
    cluster.totals = [50, 90]
    racked(cluster, 2, 2)
    pod = cluster.queue.contents.get("ns/p1")
    assert pod is not None
    pod.record = pod.record._replace(nominated_node="n0")
    await cluster.run()
    assert cluster.nodes == dict.fromkeys(("p0", "p1"), "n0")
    assert not cluster.scored


async def test_the_message_is_about_the_first_domain_if_none_is_feasible() -> None:
    """Nodes outside of it are not counted in the message."""
    cluster = Cluster([1, 2], racks=["a", "b"], topology=True)
    racked(cluster, 3, 3)
    await cluster.run()
    assert cluster.nodes == {}
    whole = f"0/2 placements are available, first placement status: {too_few(3, 1, 1, 1)}"
    assert cluster.conditions == [("False", "Unschedulable", whole)]
    assert cluster.text("p1") == "0/1 nodes are available: 1 Insufficient room."


async def test_without_any_such_label_there_is_no_placement() -> None:
    """The constraint is a requirement, not a wish."""
    cluster = Cluster([9], topology=True)
    racked(cluster, 2, 2)
    await cluster.run()
    assert cluster.conditions == [("False", "Unschedulable", "no feasible placements found")]
    assert {cluster.text(name) for name in ("p0", "p1")} == {"no feasible placements found"}


@pytest.mark.parametrize(
    ("nodes", "error"),
    [
        (["n1"], ""),
        (["n0", "n1"], "more than 1 domain found for pod group: "),
        (["n2"], "no topology domain found for pod ns/old0"),
        (["n3"], "empty topology domain found for pod ns/old0"),
        (["gone"], "getting node for pod ns/old0: node gone not found"),
    ],
    ids=["one domain", "two domains", "no domain", "empty domain", "no node"],
)
async def test_members_that_run_already_decide_the_domain(nodes: list[str], error: str) -> None:
    """The rest has to join them; where that is impossible it is an error of the group."""
    cluster = Cluster([9, 9, 9, 9], racks=["a", "b", "", "c"], topology=True)
    unlabelled = core_pb2.Node()
    unlabelled.metadata.name = "n3"
    unlabelled.metadata.labels["rack"] = ""
    cluster.cache.set_node(unlabelled)
    for number, node in enumerate(nodes):
        cluster.occupy(f"old{number}", node, "g")
    racked(cluster, 2, 2)
    await cluster.run()
    if not error:
        assert {cluster.nodes["p0"], cluster.nodes["p1"]} == {"n1"}
        return
    ((_, reason, text),) = cluster.conditions
    assert (reason, text.startswith("cannot determine domain for already scheduled pods: ")) == ("SchedulerError", True)
    assert error in text


class Fixed:
    """A plugin at PlacementGenerate with these placements, or none, or an error."""

    def __init__(self, *placements: tuple[str, tuple[int, ...]], free: bool = False, error: str = "") -> None:
        self._placements = [NodesOfDomain(*each) for each in placements]
        self._free = free
        self._error = error
        self.nodes: list[list[int]] = []

    def generate(self, topology: str, nodes: Any, placed: Any, labels_of: Any) -> Sequence[NodesOfDomain] | None:
        self.nodes.append([slot for slot, _ in nodes])
        if self._error:
            raise NoPlacementError(self._error)
        return None if self._free else self._placements


async def test_placements_of_several_plugins_are_intersected() -> None:
    """kubernetes/kubernetes v1.38: each plugin gets all nodes, and a placement is one of each plugin's."""
    power = Fixed(("p1", (0, 1, 2)), ("p2", (3,)))
    generators = {"Power": power, "Anything": Fixed(free=True)}
    cluster = Cluster([1, 2, 3, 3], racks=["a", "b", "b", "b"], topology=True, generators=generators)
    cluster.totals = [10, 90, 20]
    racked(cluster, 1, 3)
    await cluster.run()
    assert power.nodes == [[0, 1, 2, 3]]
    assert cluster.scored == [([0], 1), ([1, 2], 3), ([3], 3)]
    assert set(cluster.nodes.values()) == {"n1", "n2"}
    counted = counts(cluster.metrics.instruments.generated_placements)
    assert counted == {f"{PROFILE} podgroup": 3}
    runs = counts(cluster.metrics.instruments.plugin_seconds)
    assert {name: runs[name] for name in runs if "PlacementGenerate" in name} == {
        "TopologyPlacementGenerator PlacementGenerate Success": 1,
        "Power PlacementGenerate Success": 1,
        "Anything PlacementGenerate Success": 1,
    }
    points = counts(cluster.metrics.instruments.point_seconds)
    assert points[f"PlacementGenerate Success {PROFILE}"] == points[f"PlacementScore Success {PROFILE}"] == 1


async def test_a_plugin_restricts_a_group_without_a_topology_too() -> None:
    cluster = Cluster([2, 2], topology=True, generators={"Power": Fixed(("p2", (1,)))})
    cluster.group(pod_group("g", 1))
    cluster.add("p0", "g")
    await cluster.run()
    assert cluster.nodes == {"p0": "n1"}


@pytest.mark.parametrize(
    ("generators", "code", "text"),
    [
        ({"Power": Fixed(("p", (9,)))}, "Unschedulable", "no feasible merged placements found"),
        ({"Power": Fixed()}, "Unschedulable", "no feasible placements found"),
        ({"Power": Fixed(("p", (9,))), "Wrong": Fixed(error="no such rack")}, "SchedulerError", "no such rack"),
        ({"Power": Fixed(("p/q", (0,)))}, "SchedulerError", 'placement name "p/q" must not contain "/"'),
    ],
    ids=["no node in common", "no placement", "an error of a later plugin", "a wrong name"],
)
async def test_a_group_without_a_placement_in_common_is_not_tried(
    generators: dict[str, Fixed], code: str, text: str
) -> None:
    """All plugins run before any intersection: an error of the last one wins, as in kube-scheduler.

    Its pods get the message of a refusal as it is, and no plugin: the status of RunPlacementGeneratePlugins is no
    podGroupFitError.
    """
    cluster = Cluster([2], racks=["a"], topology=True, generators=generators)
    racked(cluster, 1, 1)
    await cluster.run()
    assert (cluster.asked, cluster.conditions) == ([], [("False", code, text)])
    failed = cluster.failures["p0"]
    of_pod = text if code == "Unschedulable" else 'parent pod group "g" encountered an error'
    assert (failed.message, failed.reason, failed.rejectors) == (of_pod, code, frozenset())
    outcome = "Unschedulable" if code == "Unschedulable" else "Error"
    assert counts(cluster.metrics.instruments.point_seconds)[f"PlacementGenerate {outcome} {PROFILE}"] == 1


def _totals(
    plugins: dict[str, int], *placements: tuple[list[int], int], scheduled: int = 0, args: bytes = b""
) -> object:
    builder = SnapshotBuilder()
    for number, cpu in enumerate(("4", "4", "8")):
        builder.set_node(f"n{number}", allocatable={"cpu": cpu, "memory": "8Gi", "pods": "9"})
    builder.add_class(1, pod_of(requesting(cpu="1", memory="1Gi")))
    builder.place(1, "n0")
    request = score_phase_pb2.ScorePodGroupPlacementsRequest(scheduled=scheduled)
    for name, weight in plugins.items():
        request.plugins.add(plugin=name, weight=weight)
    for slots, pods in placements:
        request.placements.add(slots=slots, pod_classes=[1] * pods)
    return group_placements.placement_totals(
        request, builder.snap, score_plugins.all_placement_score_plugins(lambda name: args, {})
    )


def test_a_placement_is_better_the_more_of_its_nodes_is_used() -> None:
    """Means over all of its nodes, pods that are there included: (3 of 8 CPU, 3 of 16 GiB) and (2 of 8, 2 of 8)."""
    assert _totals({"NodeResourcesFit": 1}, ([0, 1], 2), ([2], 2)) == [(37 + 18) // 2, (25 + 25) // 2]
    args = b'{"scoringStrategy":{"type":"LeastAllocated","resources":[{"name":"cpu","weight":1}]}}'
    assert _totals({"NodeResourcesFit": 2}, ([0, 1], 2), ([2], 9), args=args) == [74, 200]


def test_plugins_of_this_process_add_up_by_weight() -> None:
    """Those of services do not count here."""
    one = _totals({"NodeResourcesFit": 1}, ([0, 1], 1), ([2], 3))
    other = _totals({"PodGroupPodsCount": 1}, ([0, 1], 1), ([2], 3))
    assert isinstance(one, list)
    assert isinstance(other, list)
    both = _totals({"NodeResourcesFit": 2, "Far": 9, "PodGroupPodsCount": 3}, ([0, 1], 1), ([2], 3))
    assert both == [2 * first + 3 * second for first, second in zip(one, other, strict=True)]


def test_a_placement_is_better_the_more_of_the_group_it_takes() -> None:
    """Relative to the best, with those who have a node already."""
    assert _totals({"PodGroupPodsCount": 1}, ([0], 1), ([1], 3), scheduled=1) == [50, 100]
    failed = _totals({"PodGroupPodsCount": 1}, ([0], 0))
    assert "no pods from pod group are assigned" in str(failed)
