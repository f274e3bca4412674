"""Running pods whose resize is deferred: room is made for them on their own node, and nothing else is done to them."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers import phase_calls
from tests.helpers.frontend_world import World
from tests.helpers.hint_answers import QUEUE, SKIP, Hints, asking, node, on
from tests.helpers.plugin_answers import Answers
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.cache import pod_projection
from trireme.filter import service
from trireme.framework import resizes
from trireme.plugins.deferred_pod_scheduling import filter as deferred_pod_scheduling
from trireme.plugins.node_resources_fit import args as fit_args
from trireme.plugins.node_resources_fit import filter as node_resources_fit
from trireme.queueing.states import BackOff
from trireme.registry import remote_makers
from trireme.v1 import core_pb2, filter_phase_pb2
from trireme_kube.client.informers.watch import EventKind

Json = dict[str, Any]

DEFERRED: Json = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}
ON = {resizes.GATE: True}


def _resized(cpu: str, where: str = "own", uid: str = "uid-0", **spec: Any) -> core_pb2.Pod:
    """The pod as who makes room for it sees it."""
    pod = pod_of({**requesting(cpu=cpu), "nodeName": where, **spec}, status=DEFERRED)
    pod.metadata.uid = uid
    return pod


def _cluster(counted: Json, others: Json, allocatable: Json) -> SnapshotBuilder:
    """Two nodes alike: on `own` the pod, which counts as `counted`, and another one."""
    builder = SnapshotBuilder()
    for name in ("own", "other"):
        builder.set_node(name, allocatable={"pods": "10", **allocatable})
    builder.add_class(1, pod_of(requesting(**counted)))
    builder.add_class(2, pod_of(requesting(**others)))
    builder.place(1, "own")
    builder.place(2, "own")
    return builder


@pytest.mark.parametrize(
    ("counted", "others", "cpu", "refused"),
    [
        pytest.param("2", "1", "2", False, id="counted-whole-and-fits"),
        pytest.param("2", "3", "2", True, id="counted-whole-and-the-node-is-full"),
        pytest.param("1", "2", "2", False, id="counted-as-before-and-grows-into-room"),
        pytest.param("1", "3", "2", True, id="counted-as-before-and-there-is-no-room"),
        pytest.param("3", "1", "2", False, id="counted-for-more-than-it-asks"),
    ],
)
def test_a_resize_needs_room_for_what_it_adds(counted: str, others: str, cpu: str, refused: bool) -> None:
    builder = _cluster({"cpu": counted}, {"cpu": others}, {"cpu": "4"})
    plugin = node_resources_fit.NodeResourcesFitFilter(fit_args.Args(resizing=True))
    refusals = Answers(builder, plugin, _resized(cpu)).refusals()
    assert ("own" in refusals) == refused
    assert "other" not in refusals


def test_of_a_scalar_resource_that_it_has_a_resize_needs_no_more() -> None:
    """kube-scheduler passes over scalar resources that do not grow, though the node has none of them any more."""
    pod = pod_of({**requesting(**{"example.com/gpu": "2"}), "nodeName": "own"}, status=DEFERRED)
    pod.metadata.uid = "uid-0"
    builder = _cluster({"example.com/gpu": "2"}, {"cpu": "1"}, {"cpu": "4", "example.com/gpu": "1"})
    plugin = node_resources_fit.NodeResourcesFitFilter(fit_args.Args(resizing=True))
    assert set(Answers(builder, plugin, pod).refusals()) == {"other"}


def test_without_the_gate_a_resize_counts_in_full() -> None:
    builder = _cluster({"cpu": "2"}, {"cpu": "1"}, {"cpu": "4"})
    plugin = node_resources_fit.NodeResourcesFitFilter(fit_args.Args())
    assert set(Answers(builder, plugin, _resized("2")).refusals()) == {"own"}


def _preemption_policy(builder: SnapshotBuilder, name: str, *owners: str) -> None:
    entry = builder.objects[name]
    entry.spec.pod_preemption_policy.disable_resize_preemption.extend(owners)
    slot = builder.snap.nodes.slot_of_name[name]
    delta = [{"slot": slot, "node": entry}]
    builder.apply(nodes=delta)


def test_only_the_own_node_is_considered_and_only_if_resizes_may_preempt() -> None:
    builder = _cluster({"cpu": "2"}, {"cpu": "1"}, {"cpu": "4"})
    plugin = deferred_pod_scheduling.DeferredPodScheduling(True)
    answers = Answers(builder, plugin, _resized("2"))
    assert answers.messages() == {"other": ("pod assigned to different node",)}
    _preemption_policy(builder, "own", "an-operator")
    assert answers.messages()["own"] == ("node had resize preemption disabled",)
    assert Answers(builder, plugin, pod_of(requesting(cpu="2"))).pre_filter.skip
    off = deferred_pod_scheduling.DeferredPodScheduling(False)
    assert Answers(builder, off, _resized("2")).pre_filter.skip


async def test_other_plugins_pass_over_it() -> None:
    """It stays where it is: a taint that came later, or its own node affinity, must not keep it from its room."""
    builder = SnapshotBuilder()
    builder.set_node("own", allocatable={"cpu": "4", "pods": "10"}, taints=[("a", "b", "NoSchedule")])
    builder.add_class(1, pod_of(requesting(cpu="1")))
    builder.place(1, "own")
    builder.add_class(2, _resized("2", nodeSelector={"gone": "since"}))
    filters = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeResourcesFit")
    for gates, feasible in ((ON, True), ({}, False)):
        asked = service.FilterPhase(builder.snap, remote_makers.no_remote_plugin)
        configuration = phase_calls.configuration(filters, [])
        configuration.feature_gates.update(gates)
        await phase_calls.greet(asked, configuration)
        request = filter_phase_pb2.FilterPhaseFilterRequest(cycle=phase_calls.cycle(builder, 2), count=1)
        response = await asked.Filter(request, phase_calls.context())
        assert bool(response.columns.capacity[0]) == feasible


# Hints


@pytest.mark.parametrize(
    ("resource", "action", "old", "new", "expected"),
    [
        ("AssignedPod", "Delete", on("n", asking("x", cpu="1")), None, QUEUE),
        ("AssignedPod", "Delete", on("m", asking("x", cpu="1")), None, SKIP),
        ("AssignedPod", "UpdatePodScaleDown", on("n", asking("x", cpu="2")), on("n", asking("x", cpu="1")), QUEUE),
        ("AssignedPod", "UpdatePodScaleDown", on("m", asking("x", cpu="2")), on("m", asking("x", cpu="1")), SKIP),
        ("AssignedPod", "UpdatePodScaleUp", on("n", asking("x", cpu="1")), on("n", asking("x", cpu="2")), QUEUE),
        ("AssignedPod", "UpdatePodScaleUp", on("m", asking("x", cpu="1")), on("m", asking("x", cpu="2")), SKIP),
        ("Node", "Add", None, node("n", status={"allocatable": {"cpu": "9", "pods": "9"}}), QUEUE),
        ("Node", "Add", None, node("m", status={"allocatable": {"cpu": "9", "pods": "9"}}), SKIP),
    ],
)
def test_hints_of_node_resources_fit_look_at_its_own_node(
    resource: str, action: str, old: Json | None, new: Json | None, expected: str
) -> None:
    waiting = on("n", {**asking("p", cpu="3"), "status": DEFERRED})
    assert Hints("NodeResourcesFit", features=ON).about(waiting, resource, action, old, new) == expected


def test_a_growing_pod_wakes_only_resizes() -> None:
    """A pending pod has nothing from it."""
    grown = on("n", asking("x", cpu="1")), on("n", asking("x", cpu="2"))
    hints = Hints("NodeResourcesFit", features=ON)
    assert hints.about(asking("p", cpu="3"), "AssignedPod", "UpdatePodScaleUp", *grown) == SKIP
    assert Hints("NodeResourcesFit").about(asking("p", cpu="3"), "AssignedPod", "UpdatePodScaleUp", *grown) == ""


FORBIDS = node("n", podPreemptionPolicy={"disableResizePreemption": ["an-operator"]})


@pytest.mark.parametrize(
    ("action", "old", "new", "expected"),
    [
        ("UpdateNodePreemptionPolicy", FORBIDS, node("n"), QUEUE),
        ("UpdateNodePreemptionPolicy", node("n"), FORBIDS, SKIP),
        ("UpdateNodePreemptionPolicy", {**FORBIDS, "metadata": {"name": "m"}}, node("m"), SKIP),
        ("Add", None, node("n"), QUEUE),
        ("Add", None, FORBIDS, SKIP),
        ("Add", None, node("m"), SKIP),
    ],
)
def test_hints_of_deferred_pod_scheduling(action: str, old: Json | None, new: Json, expected: str) -> None:
    waiting = on("n", {**asking("p", cpu="3"), "status": DEFERRED})
    assert Hints("DeferredPodScheduling", features=ON).about(waiting, "Node", action, old, new) == expected


# The frontend


@pytest.fixture
def world() -> Iterator[World]:
    """A node of 4 CPUs, with a pod of 2 and one of 1 that is of low priority; nobody waits."""
    world = World(f"--feature-gates={resizes.GATE}=true")
    world.api.put_node("n", 4)
    world.deliver("nodes", 10)
    world.create("grows", 2, priority=10)
    world.create("low", 1)
    world.answer_all()
    world.deliver("pods", 100)
    assert all(pod["spec"].get("nodeName") for pod in world.api.pods.values())
    yield world
    world.close()


def _defer(world: World, cpu: int) -> Json:
    """The pod asks for this much, and the kubelet has no room for it."""
    raw = world.api.pods["grows"]
    raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(cpu)
    raw["status"] = copy.deepcopy(DEFERRED)
    world.api.record("pods", EventKind.MODIFIED, raw)
    world.deliver("pods", 100)
    return raw


def test_a_resize_preempts_and_gets_no_event_or_condition(world: World) -> None:
    """It runs: it must not be bound, nominated or called unschedulable."""
    world.api.put_node("n", 8)
    world.deliver("nodes", 10)
    raw = _defer(world, 4)
    waiting = world.frontend.scheduling.queue.contents.get("ns/grows")
    assert waiting is not None
    world.answer_all()
    world.deliver("pods", 100)
    assert "low" not in world.api.pods or world.api.pods["low"]["metadata"].get("deletionTimestamp")
    assert world.frontend.scheduling.queue.contents.get("ns/grows") is not None
    assert raw["status"] == DEFERRED
    assert world.frontend.scheduling.queue.nominator.node_of(raw["metadata"]["uid"]) == ""
    assert world.frontend.scheduling.pending.get(raw["metadata"]["uid"]) is None


def test_one_that_fits_is_tried_again_by_error_and_not_bound(world: World) -> None:
    """Its kubelet resizes it; kube-scheduler cannot assume it a second time."""
    world.api.remove("pods", "low")
    raw = _defer(world, 2)
    world.api.put_node("n", 9)
    world.deliver("nodes", 10)
    world.answer_all()
    waiting = world.frontend.scheduling.queue.contents.get("ns/grows")
    assert waiting is not None
    assert type(waiting.state) is BackOff
    assert waiting.consecutive_errors
    assert raw["status"] == DEFERRED
    assert "Bind" not in world.pending_rpcs()


@pytest.mark.parametrize("how", ["resized", "deleted", "relisted"])
def test_it_leaves_the_queue_with_its_condition(world: World, how: str) -> None:
    raw = _defer(world, 4)
    match how:
        case "resized":
            raw["status"] = {}
            world.api.record("pods", EventKind.MODIFIED, raw)
        case "deleted":
            world.api.remove("pods", "grows")
        case _:
            del world.api.pods["grows"]
            world.relist("pods", twice=False)
    world.deliver("pods", 100)
    world.answer_all()
    assert world.frontend.scheduling.queue.contents.get("ns/grows") is None
    kept = how == "resized"
    assert (world.frontend.cluster.cache.pod(raw["metadata"]["uid"]) is not None) == kept


def test_without_the_gate_a_resize_does_not_preempt() -> None:
    world = World()
    try:
        world.api.put_node("n", 4)
        world.deliver("nodes", 10)
        world.create("grows", 2, priority=10)
        world.answer_all()
        world.deliver("pods", 100)
        _defer(world, 4)
        assert world.frontend.scheduling.queue.contents.get("ns/grows") is None
    finally:
        world.close()


def test_only_running_pods_have_deferred_resizes() -> None:
    raw = on("n", {**asking("p", cpu="1"), "status": DEFERRED})
    assert pod_projection.parse(raw).deferred
    assert not pod_projection.parse({**raw, "spec": {**raw["spec"], "nodeName": ""}}).deferred
    infeasible = {"conditions": [{**DEFERRED["conditions"][0], "reason": "Infeasible"}, *DEFERRED["conditions"]]}
    assert not pod_projection.parse({**raw, "status": infeasible}).deferred
