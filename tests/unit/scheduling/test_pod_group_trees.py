"""Groups of groups in the queue and in their cycle: one attempt for a whole tree, all or nothing."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.pod_group_builders import (
    PROFILE,
    T0,
    Notified,
    grouping_queue,
    member,
    of_groups,
    pod_group,
    too_few,
)
from tests.helpers.pod_group_cluster import Cluster
from tests.helpers.queue_builders import NODE_ADD
from trireme.queueing.batch_key import GroupKey
from trireme.queueing.groups.queue_groups import NOTIFY_AFTER, GroupAttemptResult
from trireme.queueing.scheduling_queue import SchedulingQueue
from trireme.queueing.states import Active, Gated, Gone, QueueState, WaitingForGroup
from trireme.scheduling import ports
from trireme.v1 import filter_phase_pb2, scheduling_pb2, status_pb2

NOWHERE = "0/1 placements are available, first placement status: "

Group = scheduling_pb2.PodGroup | scheduling_pb2.CompositePodGroup


def sharing(group: Group, key: str) -> Group:
    """The group has to be in one domain of the label."""
    group.spec.scheduling_constraints.topology.add(key=key)
    return group


def filled(cluster: Cluster, counts: dict[str, int]) -> None:
    for group, count in counts.items():
        for number in range(count):
            cluster.add(f"{group}{number}", group)


def tree_of_two(cluster: Cluster, rooms_for: int = 2, min_groups: int = 2) -> None:
    """Groups a and b of two pods each, one tree."""
    cluster.group(of_groups("root", min_groups))
    cluster.group(pod_group("a", 2, parent="root"))
    cluster.group(pod_group("b", rooms_for, parent="root"))


def conditions(cluster: Cluster) -> dict[str, tuple[str, str, str]]:
    """By group: status, reason, message."""
    said = {action.pod.name: action.set_group_condition.condition for action in cluster.written}
    for action in cluster.written:
        written = action.set_group_condition
        kind = "CompositePodGroup" if written.composite else "PodGroup"
        assert written.condition.type == f"{kind}InitiallyScheduled"
    return {name: (each.status, each.reason, each.message) for name, each in said.items()}


async def test_a_tree_that_fits_is_bound_whole() -> None:
    """One attempt binds the pods of all groups."""
    cluster = Cluster([2, 2], composite=True)
    tree_of_two(cluster)
    filled(cluster, {"a": 2, "b": 2})
    await cluster.run()
    assert sorted(cluster.nodes) == ["a0", "a1", "b0", "b1"]
    assert conditions(cluster) == dict.fromkeys(("root", "a", "b"), ("True", "Scheduled", ""))
    assert {each.pod.name for each in cluster.written if each.set_group_condition.composite} == {"root"}
    assert not cluster.failures


async def test_placed_groups_are_undone_when_their_tree_fails() -> None:
    cluster = Cluster([2, 1], composite=True)
    cluster.reserving = True
    tree_of_two(cluster)
    filled(cluster, {"a": 2, "b": 2})
    await cluster.run()
    await asyncio.sleep(0)
    assert cluster.nodes == {}
    assert sorted(cluster.unreserved) == ["a0", "a1", "b0"]
    assert conditions(cluster)["b"][2] == f"{NOWHERE}{too_few(2, 1, 1, 0)}"
    assert conditions(cluster)["a"][2] == 'ancestor composite pod group "root" is unschedulable'
    assert cluster.text("a0") == 'parent pod group "a" is unschedulable'
    assert cluster.text("b0") == 'parent pod group "b" is unschedulable'
    assert cluster.text("b1") == "0/2 nodes are available: 2 Insufficient room."


async def test_where_one_group_is_enough_the_others_wait() -> None:
    """They are tried again at once; who has a node is not tried again."""
    cluster = Cluster([2, 1], composite=True)
    tree_of_two(cluster, min_groups=1)
    filled(cluster, {"a": 2, "b": 2})
    await cluster.run()
    assert sorted(cluster.nodes) == ["a0", "a1"]
    assert (conditions(cluster)["a"][0], conditions(cluster)["b"][0]) == ("True", "False")
    assert sorted(cluster.failures) == ["b0", "b1"]
    await cluster.run()
    assert sorted(cluster.nodes) == ["a0", "a1"]
    assert conditions(cluster)["a"][0] == "True"


async def test_groups_after_the_last_that_can_help_are_not_tried() -> None:
    """They are told what their tree is told."""
    cluster = Cluster([1], composite=True)
    tree_of_two(cluster)
    filled(cluster, {"a": 2, "b": 2})
    await cluster.run()
    assert conditions(cluster)["b"][2] == 'ancestor composite pod group "root" is unschedulable'
    assert cluster.text("b0") == 'parent pod group "b" is unschedulable'
    assert cluster.text("a1") == "0/1 nodes are available: 1 Insufficient room."
    assert {kind for kind, _, _ in cluster.asked} == {"filter", "place"}


@pytest.mark.parametrize("middle", [1, 2], ids=["one of the two below", "both below"])
async def test_levels_are_tried_from_the_top(middle: int) -> None:
    """What is below a group that fits need not fit itself; what is below one that does not is undone."""
    cluster = Cluster([2, 2], composite=True)
    cluster.group(of_groups("root", 2))
    cluster.group(of_groups("m", middle, parent="root"))
    for group in (pod_group("a", 2, parent="m"), pod_group("b", 3, parent="m"), pod_group("c", 2, parent="root")):
        cluster.group(group)
    filled(cluster, {"a": 2, "b": 3, "c": 2})
    await cluster.run()
    assert sorted(cluster.nodes) == (["a0", "a1", "c0", "c1"] if middle == 1 else [])
    assert {name: said[0] for name, said in conditions(cluster).items()} == (
        {"root": "True", "m": "True", "a": "True", "b": "False", "c": "True"}
        if middle == 1
        else dict.fromkeys(("root", "m", "a", "b", "c"), "False")
    )


async def test_placements_of_groups_lie_within_that_of_their_tree() -> None:
    """Racks y1, x1 and z1 would take one group each, but they are not in one zone."""
    cluster = Cluster([2, 2, 1, 1, 2], racks=["y1", "z1", "z2", "z2", "x1"], composite=True)
    cluster.group(sharing(of_groups("root", 2), "zone"))
    for name in "ab":
        cluster.group(sharing(pod_group(name, 2, parent="root"), "rack"))
    cluster.totals = [1, 9]
    filled(cluster, {"a": 2, "b": 2})
    await cluster.run()
    nodes = cluster.nodes
    assert sorted((nodes["a0"], nodes["a1"], nodes["b0"], nodes["b1"])) == ["n1", "n1", "n2", "n3"]
    assert nodes["b0"] == nodes["b1"] == "n1"


async def test_a_group_goes_where_its_own_members_run_and_not_where_others_do() -> None:
    """Rack y1, where a member of the other group runs, has no room for two."""
    cluster = Cluster([2, 3, 3], racks=["y1", "z1", "z2"], composite=True)
    cluster.group(of_groups("root"))
    for name in "ab":
        cluster.group(sharing(pod_group(name, parent="root"), "rack"))
    cluster.occupy("old-a", "n0", "a")
    cluster.occupy("old-b", "n2", "b")
    filled(cluster, {"b": 2})
    await cluster.run()
    assert cluster.nodes == {"old-a": "n0", "old-b": "n2", "b0": "n2", "b1": "n2"}


async def test_a_group_whose_placements_cannot_be_scored_is_an_error_and_goes_nowhere() -> None:
    """The plugin's text is what there is to find out why."""
    cluster = Cluster([2, 2], racks=["y1", "z1"], topology=True)
    cluster.group(sharing(pod_group("g", 2), "rack"))
    cluster.score_status = status_pb2.Status(code=status_pb2.CODE_ERROR, plugin="Far", messages=["odd", "racks"])
    cluster.totals = [1, 9]
    filled(cluster, {"g": 2})
    await cluster.run()
    assert cluster.scored == [([0], 2), ([1], 2)]
    assert cluster.nodes == {}
    assert conditions(cluster)["g"] == ("False", "SchedulerError", "odd, racks")
    assert {each.unschedulable for each in cluster.failures.values()} == {False}


async def test_the_message_counts_no_nodes_of_other_domains() -> None:
    """The first zone stands for all of them."""
    cluster = Cluster([1, 1, 1], racks=["y1", "z1", "z2"], composite=True)
    cluster.group(sharing(of_groups("root", 2), "zone"))
    for name in "ab":
        cluster.group(pod_group(name, 2, parent="root"))
    filled(cluster, {"a": 2, "b": 2})
    await cluster.run()
    assert cluster.nodes == {}
    assert cluster.text("a1") == "0/1 nodes are available: 1 Insufficient room."
    assert conditions(cluster)["a"][2] == f"{NOWHERE}{too_few(2, 1, 1, 0)}"


@pytest.mark.parametrize("of_root", [True, False], ids=["root", "leaf"])
async def test_pods_of_a_group_without_placements_get_its_message_and_those_below_it_the_plugin(of_root: bool) -> None:
    """As in kube-scheduler, whose status of an ancestor is a podGroupFitError and that of the group itself is none."""
    cluster = Cluster([4], composite=True)
    constrained = (
        sharing(of_groups("root", 1), "zone") if of_root else sharing(pod_group("a", 1, parent="root"), "zone")
    )
    cluster.group(constrained)
    cluster.group(pod_group("a", 1, parent="root") if of_root else of_groups("root", 1))
    cluster.add("a0", "a")
    await cluster.run()
    failed = cluster.failures["a0"]
    expected = (
        ('parent pod group "a" is unschedulable', {"TopologyPlacementGenerator"})
        if of_root
        else ("no feasible placements found", frozenset())
    )
    assert (failed.message, failed.rejectors) == expected
    assert conditions(cluster)["root" if of_root else "a"][2] == "no feasible placements found"


@pytest.mark.parametrize("fault", [ports.PhaseFault("filter is odd"), RuntimeError("a defect")], ids=["odd", "defect"])
async def test_an_error_in_one_group_is_one_of_the_whole_tree(fault: Exception) -> None:
    """Nothing of it is left, and everybody is told where it happened."""
    cluster = Cluster([9], composite=True)
    tree_of_two(cluster)
    filled(cluster, {"a": 2, "b": 2})

    def meanwhile() -> None:
        if sum(kind == "filter" for kind, _, _ in cluster.asked) == 2:
            raise fault

    cluster.meanwhile = meanwhile
    if isinstance(fault, RuntimeError):
        with pytest.raises(RuntimeError):
            await cluster.run()
    else:
        await cluster.run()
        why = "failed to schedule other pod from a pod group: filter is odd"
        ancestor = 'ancestor composite pod group "root" encountered an error'
        assert conditions(cluster) == {
            "root": (
                "False",
                "SchedulerError",
                f'composite pod group "root" evaluation failed due to child "b" error: {why}',
            ),
            "a": ("False", "SchedulerError", ancestor),
            "b": ("False", "SchedulerError", why),
        }
        others = {name: f'parent pod group "{name[0]}" encountered an error' for name in ("a0", "a1", "b1")}
        assert {name: cluster.text(name) for name in cluster.failures} == {**others, "b0": "filter is odd"}
    assert cluster.nodes == {}


def _refused_trees() -> Iterator[Any]:
    """Groups that must not be in one tree, and the message about them; `a` has a pod."""
    names = [f"x{number}" for number in range(4)]
    deep = [of_groups(name, parent=parent) for name, parent in itertools.pairwise([*names, ""])]
    text = 'hierarchy depth exceeds maximum allowed depth 4 at "compositepodgroup/ns/x0"'
    yield pytest.param([*deep, pod_group("a", parent="x0")], text, id="depth")

    of_workload = pod_group("a", parent="root")
    of_workload.spec.workload_ref.workload_name = "w"
    text = (
        'pod group workload does not match root workload, got: "w" ("podgroup/ns/a") and "" '
        '("compositepodgroup/ns/root")'
    )
    yield pytest.param([of_groups("root"), of_workload], text, id="workload")

    text = (
        "all pod groups in a hierarchy should have the same priority as the root pod group's priority, got 7 "
        '("podgroup/ns/a") and 0 ("compositepodgroup/ns/root")'
    )
    yield pytest.param([of_groups("root"), pod_group("a", priority=7, parent="root")], text, id="priority")

    others = [pod_group("0", parent="x0"), of_groups("x0", parent="root")]
    last = pod_group("a", priority=7, parent="root")
    yield pytest.param([of_groups("root"), *others, last], text, id="priority of the last")

    never = pod_group("a", parent="root")
    never.spec.preemption_policy = "Never"
    text = (
        'all pod groups in a hierarchy should have the same preemption policy, got Never ("podgroup/ns/a") and '
        "PreemptLowerPriority"
    )
    yield pytest.param([of_groups("root"), never], text, id="policy")

    text = 'gang parent "compositepodgroup/ns/root" cannot have basic child "podgroup/ns/a"'
    yield pytest.param([of_groups("root", 1), pod_group("a", parent="root")], text, id="gang over basic")

    together, alone = of_groups("root"), pod_group("a", parent="root")
    together.spec.disruption_mode.all.SetInParent()
    alone.spec.disruption_mode.single.SetInParent()
    text = (
        'parent "compositepodgroup/ns/root" with All disruption mode cannot have child "podgroup/ns/a" with Single '
        "disruption mode"
    )
    yield pytest.param([together, alone], text, id="disruption")


@pytest.mark.parametrize(("groups", "text"), list(_refused_trees()))
async def test_groups_of_a_tree_that_contradict_each_other_are_an_error(groups: list[Group], text: str) -> None:
    """kubernetes/kubernetes#142719: such trees were scheduled, or waited in vain."""
    cluster = Cluster([9], composite=True)
    for group in groups:
        cluster.group(group)
    cluster.add("p", "a")
    await cluster.run()
    assert (cluster.asked, cluster.text("p")) == ([], text)
    assert conditions(cluster) == {
        group.metadata.name: ("False", f"{type(group).__name__}Error", text) for group in groups
    }


@pytest.mark.parametrize("levels", [2, 3, 4])
async def test_a_tree_may_have_four_levels_with_the_groups_of_pods(levels: int) -> None:
    """One that kube-scheduler schedules would wait forever."""
    cluster = Cluster([9], composite=True)
    names = ["root", *(f"x{number}" for number in range(levels - 2))]
    for name, parent in zip(names, ["", *names], strict=False):
        cluster.group(of_groups(name, parent=parent))
    cluster.group(pod_group("a", parent=names[-1]))
    cluster.add("p", "a")
    await cluster.run()
    assert cluster.nodes == {"p": "n0"}


async def test_the_topmost_group_preempts_for_all() -> None:
    """Filter is asked for the tree as one, and every member gets its place."""
    cluster = Cluster([1, 1], ["DefaultPreemption"], composite=True)
    for number in range(2):
        cluster.occupy(f"old{number}", f"n{number}")
    cluster.group(of_groups("root", 2, priority=5))
    for name in "ab":
        cluster.group(pod_group(name, 1, parent="root", priority=5))
        cluster.add(name, name, priority=5)
    cluster.victims = ("old0", "old1")

    def reprieve(
        request: filter_phase_pb2.ReprievePodGroupVictimsRequest,
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        response = filter_phase_pb2.ReprievePodGroupVictimsResponse(
            status={"code": status_pb2.CODE_SUCCESS, "messages": ["found"]}
        )
        response.actions.add(pod={"name": "old0"}, evict={"message": "go"})
        return response

    cluster.reprieve = reprieve
    await cluster.run()
    first, second = cluster.group_questions
    assert first.priority == second.priority == 5
    assert (second.composite, second.pod_group.name) == (True, "root")
    assert [each.pod.name for each in second.placed] == ["a", "b"]
    assert {name: each.nominated_node for name, each in cluster.failures.items()} == {"a": "n0", "b": "n1"}
    assert [action.pod.name for action in cluster.preempting] == ["old0"]
    assert cluster.room_made_on == {"n0", "n1"}
    assert sorted(cluster.nodes) == ["old0", "old1"]


async def test_a_placed_member_is_nominated_though_its_group_did_not_fit() -> None:
    """kube-scheduler counts such pods when victims are let back; without, their victims would stay."""
    cluster = Cluster([1, 1], ["DefaultPreemption"], composite=True)
    for number in range(2):
        cluster.occupy(f"old{number}", f"n{number}")
    cluster.group(of_groups("root", 1, priority=5))
    cluster.group(pod_group("a", 3, parent="root", priority=5))
    cluster.group(pod_group("b", 1, parent="root", priority=5))
    for name, group in (("a0", "a"), ("a1", "a"), ("a2", "a"), ("b0", "b")):
        cluster.add(name, group, priority=5)
    cluster.victims = ("old0", "old1")

    def reprieve(
        request: filter_phase_pb2.ReprievePodGroupVictimsRequest,
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        response = filter_phase_pb2.ReprievePodGroupVictimsResponse(status={"code": status_pb2.CODE_SUCCESS})
        response.disruption.victims = 2
        response.disruption.violations = 1
        return response

    cluster.reprieve = reprieve
    await cluster.run()
    assert [(each.pod.name, each.slot) for each in cluster.group_questions[1].placed] == [
        ("a0", 0),
        ("a1", 1),
        ("b0", 0),
    ]
    promised = {name: each.nominated_node for name, each in cluster.failures.items()}
    assert {name: node for name, node in promised.items() if node} == {"a0": "n0", "a1": "n1", "b0": "n0"}
    assert sorted(cluster.nodes) == ["old0", "old1"]
    samples = cluster.metrics.instruments.budget_violations.family().samples
    violations = [(sample.labels, sample.value) for sample in samples]
    assert violations == [({"preemptor": "compositepodgroup"}, 1)]


async def test_nominations_of_a_tree_do_not_count_during_its_attempt() -> None:
    """Promises to groups that did not fit would keep the others from their places for good."""
    cluster = Cluster([1], composite=True)
    cluster.group(of_groups("root", 1))
    cluster.group(pod_group("a", 2, parent="root"))
    cluster.group(pod_group("b", 1, parent="root"))
    for name, group in (("a0", "a"), ("a1", "a"), ("b0", "b")):
        cluster.add(name, group)
    for name in ("a0", "b0"):
        found = cluster.queue.contents.get(f"ns/{name}")
        assert found is not None
        cluster.queue.nominator.nominate(found.record, "n0")
    seen: list[dict[str, str]] = []
    cluster.meanwhile = lambda: seen.append(dict(cluster.promises_seen))
    await cluster.run()
    assert seen
    assert not any(seen)
    assert cluster.nodes == {"b0": "n0"}
    assert cluster.queue.nominator.node_of("uid-b0") == "", "it is there, so nothing is promised to it"
    assert cluster.queue.nominator.node_of("uid-a0") == cluster.promises_seen.get("uid-a0", "")


# The queue


def place(queue: SchedulingQueue, name: str) -> type[QueueState]:
    found = queue.contents.get(f"ns/{name}")
    return type(found.state) if found else Gone


def test_a_tree_waits_until_enough_of_its_groups_are_there() -> None:
    """kube-scheduler's words for it: waiting for the composite pod group's tree to meet quorum."""
    queue = grouping_queue(composite=True)
    for group in (of_groups("root", 2), pod_group("a", 1, parent="root"), pod_group("b", 2, parent="root")):
        queue.groups.set_group(group, T0)
    for name, group_name in (("a0", "a"), ("b0", "b")):
        queue.add(member(name, group_name), T0)
    assert (place(queue, "a0"), queue.pop(T0, 9)) == (Gated, None)
    queue.add(member("b1", "b"), T0)
    batch = queue.pop(T0, 9)
    assert batch is not None
    group = batch.group
    assert (group.key, len(group.attempt)) == ("compositepodgroup/ns/root", 3)
    assert queue.statistics().groups_by_queue["active"] == 0


@pytest.mark.parametrize("kind", ["parent", "leaf"])
def test_members_wait_while_a_parent_group_is_missing(kind: str) -> None:
    """They come back with it, and the rest of the tree is tried without them meanwhile."""
    queue = grouping_queue(composite=True)
    groups = {"parent": of_groups("m", parent="root"), "leaf": pod_group("a", parent="m")}
    for group in (of_groups("root"), *groups.values(), pod_group("b", parent="root")):
        queue.groups.set_group(group, T0)
    for name in "ab":
        queue.add(member(name, name), T0)
    assert (place(queue, "a"), place(queue, "b")) == (Active, Active)
    gone = groups[kind].metadata
    queue.groups.remove_group(f"ns/{gone.name}", gone.uid, T0, composite=kind == "parent")
    assert (place(queue, "a"), place(queue, "b")) == (WaitingForGroup, Active)
    where = queue.contents.status_of(next(pod for pod in queue.contents.pods() if pod.key == "ns/a"))
    lack = {"parent": "for CompositePodGroup ns/m to appear", "leaf": "for PodGroup ns/a to appear"}[kind]
    assert (where.group, where.state) == ("ns/a", WaitingForGroup(lack))
    queue.groups.set_group(groups[kind], T0)
    assert (place(queue, "a"), place(queue, "b")) == (Active, Active)


def test_a_tree_that_loses_its_root_during_its_attempt_is_requeued_in_parts() -> None:
    """Its pods come back from the attempt to groups that have no tree, and go when there is one again."""
    queue = grouping_queue(composite=True)
    for group in (of_groups("root"), pod_group("a", parent="root"), pod_group("b", parent="root")):
        queue.groups.set_group(group, T0)
    for name in "ab":
        queue.add(member(name, name), T0)
    batch = queue.pop(T0, 9)
    assert batch is not None
    tried = batch.group
    pods = queue.contents.pods()
    queue.groups.remove_group("ns/root", "uid-of-root", T0, composite=True)
    queue.add(member("late", "a"), T0)
    for pod in pods:
        queue.requeue(pod, T0)
    queue.groups.finish_attempt(tried, GroupAttemptResult.UNSCHEDULABLE, T0)
    assert {place(queue, name) for name in ("a", "b", "late")} == {WaitingForGroup}
    queue.groups.set_group(of_groups("root"), T0)
    assert {place(queue, name) for name in ("a", "b", "late")} == {Active}
    assert len(queue.groups.registry) == 1


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([pod_group("a", parent="x")], "for CompositePodGroup ns/x to appear"),
        ([pod_group("a", parent="x"), of_groups("x", parent="x")], "in vain: CompositePodGroup ns/x is part of itself"),
        ([pod_group("a", parent="x"), of_groups("x", 2)], ""),
    ],
    ids=["no parent", "a circle", "never whole"],
)
def test_a_tree_that_stays_incomplete_is_reported(groups: list[Group], says: str) -> None:
    """Nobody but its owner can help it."""
    said: list[tuple[str, str]] = []
    queue = grouping_queue(Notified(), composite=True)
    queue.groups._notify = lambda group, missing: said.append((group.key, missing))
    for group in groups:
        queue.groups.set_group(group, T0)
    queue.add(member("a", "a"), T0)
    queue.flush_unschedulable(T0 + NOTIFY_AFTER)
    queue.flush_unschedulable(T0 + 2 * NOTIFY_AFTER)
    assert said == [("podgroup/ns/a" if says else "compositepodgroup/ns/x", says)]


def test_a_group_that_may_be_bound_in_part_waits_for_no_member() -> None:
    notified = Notified()
    queue = grouping_queue(notified, gang_profiles=frozenset())
    queue.groups.set_group(pod_group("a", 3), T0)
    queue.add(member("a1", "a"), T0)
    assert place(queue, "a1") is Active
    queue.flush_unschedulable(T0 + NOTIFY_AFTER)
    assert not notified.lacking


def test_a_group_in_flight_is_not_reported_though_its_profile_was_changed() -> None:
    """Its members do not wait, so a report about them ends the frontend."""
    notified = Notified()
    gang_profiles = {PROFILE}
    queue = grouping_queue(notified, gang_profiles=gang_profiles)
    queue.groups.set_group(pod_group("a", 3), T0)
    queue.add(member("a1", "a"), T0)
    gang_profiles.clear()
    queue.groups.recheck_held_back(NODE_ADD, T0 + 1)
    assert queue.pop(T0 + 1, 9) is not None
    queue.flush_unschedulable(T0 + NOTIFY_AFTER)
    assert not notified.lacking


def test_the_tree_has_the_priority_of_its_root() -> None:
    """Who comes first is decided between roots, not between their groups."""
    queue = grouping_queue(composite=True)
    queue.groups.set_group(pod_group("low", priority=3), T0)
    queue.groups.set_group(of_groups("root", priority=5), T0)
    queue.groups.set_group(pod_group("a", priority=1, parent="root"), T0)
    queue.add(member("low", "low"), T0)
    queue.add(member("a", "a"), T0 + 1)
    batch = queue.pop(T0 + 1, 9)
    assert batch is not None
    assert batch.group.group_key == GroupKey("ns/root", composite=True)
