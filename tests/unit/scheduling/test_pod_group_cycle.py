"""The cycle of a group: all that fit are bound or none is, each step seen by the next, and everything undone."""

from typing import Any

import pytest

from tests.helpers.pod_group_builders import pod_group, too_few
from tests.helpers.pod_group_cluster import Cluster
from trireme.framework import status
from trireme.plugin_api.placements import PlacementProgress
from trireme.plugins.gang_scheduling import placement_feasible
from trireme.queueing.states import Active, BackOff, Gone, QueueState, WaitingForGroup
from trireme.scheduling import ports
from trireme.v1 import bind_pb2, filter_phase_pb2, status_pb2
from trireme.wire.phase_answers import PlaceAnswer

UNSCHEDULABLE = 'parent pod group "g" is unschedulable'
FULL = "0/{} nodes are available: {} Insufficient room."


def full(nodes: int) -> str:
    return FULL.format(nodes, nodes)


def place(cluster: Cluster, name: str) -> type[QueueState]:
    pod = cluster.queue.contents.get(f"ns/{name}")
    return type(pod.state) if pod else Gone


@pytest.mark.parametrize(
    ("min_count", "scheduled", "unschedulable", "remaining", "verdict", "text"),
    [
        (3, 1, 2, 1, status.Code.UNSCHEDULABLE, too_few(3, 1, 2, 1)),
        (3, 1, 2, 2, status.Code.WAIT, too_few(3, 1, 2, 2).replace("cannot be", "is not yet")),
        (3, 3, 0, 0, status.Code.SUCCESS, ""),
        (1, 0, 0, 0, status.Code.UNSCHEDULABLE, too_few(1, 0, 0, 0)),
        (0, 0, 0, 0, status.Code.SUCCESS, ""),
    ],
)
def test_a_group_is_feasible_as_long_as_enough_may_still_fit(
    min_count: int, scheduled: int, unschedulable: int, remaining: int, verdict: status.Code, text: str
) -> None:
    """It decides when a trial ends; its words are in events and conditions."""
    progress = PlacementProgress(remaining, scheduled, unschedulable)
    said = placement_feasible.make().placement_feasible(min_count, progress)
    assert (said.code, said.message) == (verdict, text)


async def test_a_gang_of_one_class_is_placed_by_one_call() -> None:
    """A thousand pods are one question, not a thousand."""
    cluster = Cluster([2, 2])
    cluster.group(pod_group("g", 3))
    for number in range(3):
        cluster.add(f"p{number}", "g")
    await cluster.run()
    assert [what for what, _, _ in cluster.asked] == ["filter", "place"]
    assert cluster.started == [["p0", "p1", "p2"]]
    assert sorted(cluster.nodes.values()) == ["n0", "n0", "n1"]
    assert cluster.conditions == [("True", "Scheduled", "")]
    assert not cluster.failures


async def test_members_of_several_classes_are_evaluated_in_sequence() -> None:
    """Each class must see the members before it, and their order is that of scheduling."""
    cluster = Cluster([1, 1, 1])
    cluster.group(pod_group("g", 3))
    for number, kind in enumerate("abb"):
        cluster.add(f"p{number}", "g", kind, now=1_000_000.0 + number)
    await cluster.run()
    classes = [class_id for _, class_id, _ in cluster.asked]
    assert [(what, count) for what, _, count in cluster.asked] == [
        ("filter", 1),
        ("place", 1),
        ("filter", 2),
        ("place", 2),
    ]
    assert classes[0] == classes[1] != classes[2] == classes[3]
    assert cluster.nodes == {"p0": "n0", "p1": "n1", "p2": "n2"}
    assert cluster.started == [["p0"], ["p1", "p2"]]


async def test_nothing_is_left_of_a_gang_of_which_too_few_fit() -> None:
    """Two gangs can never hold half of the cluster each."""
    cluster = Cluster([1, 1])
    cluster.group(pod_group("g", 3))
    for number in range(4):
        cluster.add(f"p{number}", "g")
    await cluster.run()
    assert (cluster.nodes, cluster.started) == ({}, [])
    assert {name: cluster.text(name) for name in ("p0", "p1")} == dict.fromkeys(("p0", "p1"), UNSCHEDULABLE)
    assert (cluster.text("p2"), cluster.text("p3")) == (full(2), full(2))
    assert cluster.conditions == [("False", "Unschedulable", too_few(3, 2, 2, 0))]
    assert [place(cluster, f"p{n}") for n in range(4)] == [BackOff] * 4


async def test_the_trial_ends_as_soon_as_too_few_are_left() -> None:
    """Pods that were not looked at get the group's result."""
    cluster = Cluster([1])
    cluster.group(pod_group("g", 3))
    for number, kind in enumerate("abc"):
        cluster.add(f"p{number}", "g", kind, now=1_000_000.0 + number)
    await cluster.run()
    assert cluster.text("p1") == full(1)
    assert cluster.text("p2") == UNSCHEDULABLE
    assert cluster.conditions == [("False", "Unschedulable", too_few(3, 1, 1, 1))]
    assert len(cluster.asked) == 3


async def test_members_beyond_the_minimum_that_do_not_fit_are_requeued() -> None:
    """The rest is bound, and the group counts as scheduled."""
    cluster = Cluster([2])
    cluster.group(pod_group("g", 2))
    for number in range(3):
        cluster.add(f"p{number}", "g")
    await cluster.run()
    assert cluster.started == [["p0", "p1"]]
    assert (list(cluster.failures), cluster.text("p2")) == (["p2"], full(1))
    assert cluster.conditions == [("True", "Scheduled", "")]
    assert place(cluster, "p2") is Active
    await cluster.run()
    assert cluster.conditions == [("True", "Scheduled", "")]


async def test_pods_that_run_already_count_for_the_minimum() -> None:
    """A pod of a gang that died comes back alone."""
    cluster = Cluster([3])
    cluster.group(pod_group("g", 3))
    cluster.occupy("old0", "n0", "g")
    cluster.occupy("old1", "n0", "g")
    cluster.add("p0", "g")
    await cluster.run()
    assert cluster.started == [["p0"]]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (
            [{}, {"preemptionPolicy": "Never"}],
            "all pods in a pod group hierarchy should have the same preemption policy, "
            'got Never ("p1") and PreemptLowerPriority',
        ),
        (
            [{"priority": 5}],
            "all pods in a pod group hierarchy should have the same priority as the root pod group's priority, "
            'got 5 ("p0") and 0 ("podgroup/ns/g")',
        ),
    ],
    ids=["policy", "priority"],
)
async def test_members_that_do_not_agree_are_an_error_of_the_whole_group(
    members: list[dict[str, Any]], text: str
) -> None:
    """Nobody is asked about pods that cannot be scheduled as one."""
    cluster = Cluster([9])
    cluster.group(pod_group("g"))
    for number, spec in enumerate(members):
        cluster.add(f"p{number}", "g", now=1_000_000.0 + number, **spec)
    await cluster.run()
    assert (cluster.asked, cluster.nodes) == ([], {})
    assert {failure.message for failure in cluster.failures.values()} == {text}
    assert cluster.conditions == [("False", "PodGroupError", text)]
    assert place(cluster, "p0") is BackOff


@pytest.mark.parametrize(
    ("of_group", "of_pod", "agrees"),
    [("Never", "Never", True), ("Never", "", False), ("", "Never", True), ("PreemptLowerPriority", "Never", False)],
    ids=["agree", "the pod may", "only the pod states it", "the group may"],
)
async def test_a_preemption_policy_of_the_group_itself_is_what_its_pods_must_have(
    of_group: str, of_pod: str, agrees: bool
) -> None:
    """A group that states none takes that of its pods."""
    cluster = Cluster([9])
    group = pod_group("g")
    if of_group:
        group.spec.preemption_policy = of_group
    cluster.group(group)
    cluster.add("p0", "g", **({"preemptionPolicy": of_pod} if of_pod else {}))
    await cluster.run()
    text = (
        "all pods in a pod group hierarchy should have the same preemption policy, "
        f'got {of_pod or "PreemptLowerPriority"} ("p0") and {of_group}'
    )
    assert {failure.message for failure in cluster.failures.values()} == (set() if agrees else {text})


async def test_an_error_fails_the_whole_group_and_undoes_what_was_assumed() -> None:
    """A phase that is broken must not leave half a gang on nodes."""
    cluster = Cluster([3])
    cluster.group(pod_group("g", 2))
    cluster.add("p0", "g", "a")
    cluster.add("p1", "g", "b", now=1_000_001.0)

    def break_down() -> None:
        if len(cluster.asked) == 3:
            cluster.fault = ports.PhaseFault("filter answered UNKNOWN: odd")

    cluster.meanwhile = break_down
    await cluster.run()
    assert (cluster.nodes, cluster.started) == ({}, [])
    assert cluster.text("p1") == "filter answered UNKNOWN: odd"
    whole = "failed to schedule other pod from a pod group: filter answered UNKNOWN: odd"
    assert cluster.text("p0") == 'parent pod group "g" encountered an error'
    assert cluster.conditions == [("False", "SchedulerError", whole)]
    assert cluster.failures["p0"].reason == "SchedulerError"


async def test_a_failed_reserve_unreserves_the_whole_gang() -> None:
    """Volumes and devices that were reserved for a gang must not stay so when it does not go."""
    cluster = Cluster([3])
    cluster.reserving = True
    cluster.unreservable = {"p1"}
    cluster.group(pod_group("g", 3))
    for number in range(3):
        cluster.add(f"p{number}", "g")
    await cluster.run()
    assert cluster.nodes == {}
    assert cluster.text("p1") == "0/1 nodes are available: 1 no volume left."
    assert cluster.text("p2") == cluster.text("p0") == UNSCHEDULABLE
    counts = {
        sample.labels["status"]: sample.value
        for sample in cluster.metrics.instruments.point_seconds.family().samples
        if sample.labels["extension_point"] == "Reserve" and sample.name.endswith("_count")
    }
    assert counts == {"Success": 2, "Unschedulable": 1}


async def test_a_member_that_goes_away_meanwhile_does_not_hold_the_others_back() -> None:
    """kubernetes/kubernetes#141182: they were placed together, and nobody waits on Permit for one that comes later."""
    cluster = Cluster([3])
    cluster.group(pod_group("g", 2))
    cluster.add("p0", "g", "a")
    cluster.add("p1", "g", "b", now=1_000_001.0)

    def vanish() -> None:
        if len(cluster.asked) == 3:
            cluster.queue.delete("ns/p0", "uid-p0", 1_000_000.0)

    cluster.meanwhile = vanish
    await cluster.run()
    assert cluster.nodes == {"p1": "n0"}
    assert cluster.started == [["p1"]]


async def test_a_pod_group_that_is_gone_when_its_turn_comes_fails_its_pods() -> None:
    """They wait for the next one of its name."""
    cluster = Cluster([3])
    cluster.group(pod_group("g", 1))
    cluster.add("p0", "g")
    batch = cluster.queue.pop(1_000_000.0, 9)
    assert batch is not None
    cluster.queue.groups.remove_group("ns/g", "uid-of-g", 1_000_000.0)
    await cluster.run_group(batch)
    assert cluster.text("p0") == 'podgroup.scheduling.k8s.io "g" not found'
    assert (cluster.written, place(cluster, "p0")) == ([], WaitingForGroup)


async def test_two_gangs_that_are_too_big_together_go_one_after_the_other() -> None:
    """The first takes what it needs, the second takes nothing until it is whole."""
    cluster = Cluster([2, 2])
    for name in "ab":
        cluster.group(pod_group(name, 3))
        for number in range(3):
            cluster.add(f"{name}{number}", name)
    await cluster.run()
    await cluster.run()
    assert sorted(cluster.nodes) == ["a0", "a1", "a2"]
    for number in range(3):
        cluster.cache.forget(f"uid-a{number}")
    cluster.queue.flush_backoff(1_000_002.0)
    await cluster.run()
    assert sorted(cluster.nodes) == ["b0", "b1", "b2"]


async def test_a_gang_is_placed_as_if_all_lesser_pods_were_gone_and_then_they_are_there_again() -> None:
    """The members are promised what was found, and only who has to go is evicted."""
    cluster = Cluster([2, 1], post_filters=("DynamicResources", "DefaultPreemption"))
    for name, node in (("low0", "n0"), ("low1", "n0"), ("low2", "n1")):
        cluster.occupy(name, node)
    cluster.group(pod_group("g", 2))
    cluster.add("p0", "g")
    cluster.add("p1", "g")
    cluster.victims = ("low0", "low1", "low2")
    cluster.victim_priorities = {"low2": 1}

    def reprieve(
        request: filter_phase_pb2.ReprievePodGroupVictimsRequest,
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        out = filter_phase_pb2.ReprievePodGroupVictimsResponse()
        out.status.code = status_pb2.CODE_SUCCESS
        out.status.messages.append("pod group preemption: found a placement for podgroup, preempting 1 victims")
        out.actions.add(pod=request.victims[0].pods[0].pod, evict=bind_pb2.Evict(message="go"))
        return out

    cluster.reprieve = reprieve
    await cluster.run()
    seen = cluster.placed_then
    assert seen == [{"low0": 0, "low1": 0, "low2": 1}, {"low0": -1, "low1": -1, "low2": -1, "p0": 0, "p1": 0}]
    assert len(cluster.group_questions[0].members) == 2
    assert [(member.pod.name, member.slot) for member in cluster.group_questions[1].placed] == [("p0", 0), ("p1", 0)]
    assert {pod.key.removeprefix("ns/"): pod.slot for pod in cluster.cache.pods()} == seen[0]
    assert [action.pod.name for action in cluster.preempting] == ["low0"]
    found = "pod group preemption: found a placement for podgroup, preempting 1 victims"
    whole = f"{too_few(2, 0, 1, 1)}, {found}"
    assert cluster.conditions == [("False", "Unschedulable", whole)]
    assert [cluster.failures[name].nominated_node for name in ("p0", "p1")] == ["n0", "n0"]
    assert cluster.text("p0") == full(2)
    assert cluster.text("p1") == UNSCHEDULABLE


async def test_members_of_a_group_that_preempts_go_where_the_least_important_victims_are() -> None:
    """The first makes room on a node, and the second goes there too; then the next cheapest node is taken.

    Nothing of it lasts: a group that does not preempt afterwards goes to the first node.
    """
    cluster = Cluster([1, 2, 2], post_filters=("DefaultPreemption",))
    cluster.victims = ("dear", "middle", "middle2", "cheap", "cheap2")
    cluster.victim_priorities = {"dear": 30, "middle": 20, "middle2": 20, "cheap": 10, "cheap2": 10}
    for name, node in (("dear", "n0"), ("middle", "n1"), ("middle2", "n1"), ("cheap", "n2"), ("cheap2", "n2")):
        cluster.occupy(name, node)
    cluster.group(pod_group("g", 3))
    for number in range(3):
        cluster.add(f"p{number}", "g")
    cluster.reprieve = lambda request: filter_phase_pb2.ReprievePodGroupVictimsResponse(
        status=status_pb2.Status(code=status_pb2.CODE_SUCCESS)
    )
    await cluster.run()
    assert [cluster.failures[f"p{number}"].nominated_node for number in range(3)] == ["n2", "n2", "n1"]
    cluster.room = {"n0": 9, "n1": 9, "n2": 9}
    cluster.group(pod_group("h", 1))
    cluster.add("q", "h")
    await cluster.run()
    assert cluster.nodes["q"] == "n0"


@pytest.mark.parametrize("refusal", [pytest.param("", id="they-go"), pytest.param("no", id="one-is-refused")])
async def test_synchronous_evictions_report_the_nominations_of_a_gang(refusal: str) -> None:
    """With the gate off a gang whose victims stay would be promised their places, and nobody told why it waits."""
    cluster = Cluster([1], post_filters=("DefaultPreemption",), asynchronous=False)
    cluster.occupy("low", "n0")
    cluster.group(pod_group("g", 1))
    cluster.add("p0", "g")
    cluster.refusal = refusal

    cluster.victims = ("low",)

    def reprieve(
        request: filter_phase_pb2.ReprievePodGroupVictimsRequest,
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        out = filter_phase_pb2.ReprievePodGroupVictimsResponse()
        out.status.code = status_pb2.CODE_SUCCESS
        out.actions.add(pod=request.victims[0].pods[0].pod, evict=bind_pb2.Evict(message="go"))
        return out

    cluster.reprieve = reprieve
    await cluster.run()
    assert [action.pod.name for action in cluster.preempting] == ["low"]
    assert cluster.failures["p0"].nominated_node == ("" if refusal else "n0")
    ((_, reason, text),) = cluster.conditions
    if refusal:
        assert reason == "SchedulerError"
        assert text.endswith('error in "DefaultPreemption" PodGroupPostFilter plugins: pod group preemption: no')
    else:
        assert reason == "Unschedulable"


async def test_a_gang_that_no_eviction_helps_evicts_nobody() -> None:
    """And who was hidden for the trial is shown again."""
    cluster = Cluster([1], post_filters=("DynamicResources", "DefaultPreemption"))
    cluster.occupy("low", "n0")
    cluster.group(pod_group("g", 2))
    cluster.add("p0", "g")
    cluster.add("p1", "g")
    cluster.victims = ("low",)
    await cluster.run()
    assert (cluster.nodes, cluster.preempting) == ({"low": "n0"}, [])
    first, then = too_few(2, 0, 1, 1), too_few(2, 1, 1, 0)
    completed = "deallocation and deletion of ResourceClaims completed"
    whole = f"{first}, {completed}, pod group preemption: {then}"
    assert cluster.conditions == [("False", "Unschedulable", whole)]
    moved = cluster.cache.pod("uid-low")
    assert moved is not None
    assert moved.slot == 0


async def test_a_gang_refused_before_any_pod_was_tried_is_an_error_of_dynamic_resources() -> None:
    """As kube-scheduler has it: DynamicResources finds nothing of its own then."""
    cluster = Cluster([3], post_filters=("DynamicResources", "DefaultPreemption"))
    cluster.group(pod_group("g", 2))
    cluster.add("p0", "g")
    cluster.add("p1", "g")
    batch = cluster.queue.pop(1_000_000.0, 9)
    assert batch is not None
    cluster.queue.delete("ns/p1", "uid-p1", 1_000_000.0)
    await cluster.run_group(batch)
    text = 'error in "DynamicResources" PodGroupPostFilter plugins: not found'
    assert cluster.text("p0") == 'parent pod group "g" encountered an error'
    assert cluster.conditions == [("False", "SchedulerError", text)]


@pytest.mark.parametrize("code", [status_pb2.CODE_UNSCHEDULABLE, status_pb2.CODE_ERROR])
async def test_where_preemption_fails_nothing_is_evicted_or_nominated(
    code: "status_pb2.Code.ValueType",
) -> None:
    cluster = Cluster([1], post_filters=("DefaultPreemption",))
    cluster.occupy("low", "n0")
    cluster.group(pod_group("g", 1))
    cluster.add("p0", "g")
    cluster.victims = ("low",)

    def reprieve(
        request: filter_phase_pb2.ReprievePodGroupVictimsRequest,
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        out = filter_phase_pb2.ReprievePodGroupVictimsResponse(status=status_pb2.Status(code=code, messages=["no"]))
        out.actions.add(pod=request.victims[0].pods[0].pod, evict=bind_pb2.Evict(message="go"))
        return out

    cluster.reprieve = reprieve
    await cluster.run()
    assert cluster.preempting == []
    assert cluster.failures["p0"].nominated_node in (None, "")


@pytest.mark.parametrize("plugins", [("Unknown", "DefaultPreemption"), ("DynamicResources", "Unknown")])
async def test_a_post_filter_plugin_of_an_unknown_kind_is_left_out(plugins: tuple[str, str]) -> None:
    cluster = Cluster([0], post_filters=plugins)
    cluster.group(pod_group("g", 1))
    cluster.add("p0", "g")
    await cluster.run()
    ((_, _, text),) = cluster.conditions
    alone = Cluster([0], post_filters=[name for name in plugins if name != "Unknown"])
    alone.group(pod_group("g", 1))
    alone.add("p0", "g")
    await alone.run()
    assert alone.conditions[0][2] == text


async def test_a_pod_is_evicted_only_where_that_makes_room() -> None:
    cluster = Cluster([1], post_filters=("DynamicResources",))
    cluster.group(pod_group("g", 1))
    cluster.hopeless = {1}
    cluster.add("p0", "g", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])

    def release(request: filter_phase_pb2.ListReleasableClaimsRequest) -> Any:
        code = status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE
        out = filter_phase_pb2.ListReleasableClaimsResponse(status=status_pb2.Status(code=code))
        out.actions.add(pod=request.tried[0].pod, remove_claim_user=bind_pb2.RemoveClaimUser(name="c"))
        out.actions.add(pod=request.tried[0].pod, evict=bind_pb2.Evict(message="go"))
        return out

    cluster.release = release
    await cluster.run()
    assert [action.WhichOneof("action") for action in cluster.preempting] == ["remove_claim_user"]


async def test_members_must_agree_with_those_that_are_being_bound() -> None:
    cluster = Cluster([9])
    cluster.group(pod_group("g"))
    cluster.add("p0", "g")
    await cluster.run()
    assert cluster.nodes == {"p0": "n0"}
    cluster.add("p1", "g", preemptionPolicy="Never")
    await cluster.run()
    assert cluster.text("p1") == (
        "all pods in a pod group hierarchy should have the same preemption policy, "
        'got PreemptLowerPriority ("p0") and Never'
    )


async def test_members_that_score_places_nowhere_fail_by_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([2])

    async def place(*_: Any) -> PlaceAnswer:
        return PlaceAnswer(slots=(), failure=status.error("Far", "odd scores"))

    monkeypatch.setattr(cluster, "place", place)
    cluster.group(pod_group("g", 1))
    cluster.add("p0", "g")
    await cluster.run()
    assert cluster.text("p0") == "odd scores"
    assert cluster.conditions == [
        ("False", "SchedulerError", "failed to schedule other pod from a pod group: odd scores")
    ]
