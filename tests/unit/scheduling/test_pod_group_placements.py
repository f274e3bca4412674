"""Topology-aware placement of groups: all members in one domain, the one that the plugins prefer."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers.metric_values import counts
from tests.helpers.pod_group_builders import PROFILE, of_groups, pod_group, too_few
from tests.helpers.pod_group_cluster import Cluster
from trireme.config import scheduler_configuration
from trireme.plugin_api.placements import NodesOfDomain, NoPlacementError
from trireme.v1 import core_pb2, filter_phase_pb2, status_pb2

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
    _nominate(cluster, p1="n0")
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


def _nominate(cluster: Cluster, **nodes: str) -> None:
    """Preemption made room for these members on these nodes."""
    for name, node in nodes.items():
        pod = cluster.queue.contents.get(f"ns/{name}")
        assert pod is not None
        pod.record = pod.record._replace(nominated_node=node)


@pytest.mark.parametrize("rooms", [(1, 2), (1, 1)], ids=["another fits", "none fits"])
async def test_where_a_group_does_not_fit_in_its_nominated_placement_the_others_are_tried(
    rooms: tuple[int, int],
) -> None:
    cluster = Cluster(rooms, racks=["a", "b"], topology=True)
    racked(cluster, 2, 2)
    _nominate(cluster, p0="n0", p1="n0")
    await cluster.run()
    if rooms == (1, 2):
        assert cluster.nodes == {"p0": "n1", "p1": "n1"}
        return
    assert cluster.nodes == {}
    ((_, _, text),) = cluster.conditions
    assert text == f"0/2 placements are available, first placement status: {too_few(2, 1, 1, 0)}"


async def test_a_nominated_placement_that_takes_no_member_is_not_chosen() -> None:
    """The members that run already are enough for the group, so that it fits there."""
    cluster = Cluster((0, 1, 1), topology=True, generators={"Power": Fixed(("a", (0,)), ("b", (1,)))})
    cluster.group(pod_group("g", 1))
    cluster.occupy("runs", "n2", "g")
    cluster.add("p0", "g")
    _nominate(cluster, p0="n0")
    await cluster.run()
    assert cluster.nodes == {"runs": "n2", "p0": "n1"}


async def test_of_members_that_are_nominated_to_two_placements_neither_is_preferred() -> None:
    cluster = Cluster([2, 2], racks=["a", "b"], topology=True)
    cluster.totals = [1, 2]
    racked(cluster, 2, 2)
    _nominate(cluster, p0="n0", p1="n1")
    await cluster.run()
    assert len(cluster.scored) == 2


async def test_a_group_below_another_goes_where_the_plugins_prefer() -> None:
    """Room was made for the whole tree, and a nomination of one of its groups says nothing about that."""
    cluster = Cluster([2, 2], racks=["a", "b"], composite=True)
    cluster.totals = [1, 2]
    cluster.group(of_groups("root", 1))
    group = pod_group("g", 1, parent="root")
    group.spec.scheduling_constraints.topology.add(key="rack")
    cluster.group(group)
    cluster.add("p0", "g")
    _nominate(cluster, p0="n0")
    await cluster.run()
    assert cluster.nodes == {"p0": "n1"}


async def test_victims_that_go_for_one_group_of_a_tree_cost_the_next_one_nothing() -> None:
    """Also where the first one is assumed a second time, in the best of its placements."""
    cluster = Cluster([1, 2], racks=["a", "b"], composite=True, post_filters=("DefaultPreemption",))
    cluster.totals = [1, 2]
    cluster.victims = ("low", "low0", "low1")
    for name, node in (("low", "n0"), ("low0", "n1"), ("low1", "n1")):
        cluster.occupy(name, node)
    cluster.group(of_groups("root", 2))
    first = pod_group("a", 1, parent="root")
    first.spec.scheduling_constraints.topology.add(key="rack")
    cluster.group(first)
    cluster.group(pod_group("b", 1, parent="root"))
    cluster.add("a0", "a")
    cluster.add("b0", "b")
    cluster.reprieve = lambda request: filter_phase_pb2.ReprievePodGroupVictimsResponse(
        status=status_pb2.Status(code=status_pb2.CODE_SUCCESS)
    )
    await cluster.run()
    assert {name: failure.nominated_node for name, failure in cluster.failures.items()} == {"a0": "n1", "b0": "n1"}


class _ManyScorers(Cluster):
    scorers = (scheduler_configuration.Plugin("PodGroupPodsCount", 2), scheduler_configuration.Plugin("Far", 3))


async def test_all_plugins_of_the_profile_score_the_placements() -> None:
    cluster = _ManyScorers([1, 1], racks=["a", "b"], topology=True)
    cluster.totals = [1, 2]
    racked(cluster, 1, 1)
    await cluster.run()
    assert cluster.scored_by == [("PodGroupPodsCount", 2), ("Far", 3)]


async def test_a_member_that_is_being_bound_decides_the_domain_too() -> None:
    """No watch has shown it on its node yet."""
    cluster = Cluster([9, 9], racks=["a", "b"], topology=True)
    cluster.totals = [1, 2]
    racked(cluster, 1, 1)
    await cluster.run()
    assert cluster.nodes == {"p0": "n1"}
    cluster.totals = [2, 1]
    cluster.add("p1", "g")
    await cluster.run()
    assert cluster.nodes["p1"] == "n1"
