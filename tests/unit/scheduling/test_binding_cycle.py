"""The binding cycle while the cluster changes under it: no pod is bound to a node that is gone."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.frontend_world import GUARD, GUARDED_CPUS, PREPARED_CPUS, SUCCESS, World
from tests.helpers.frontend_world_api import PROFILE
from tests.helpers.metric_values import counts, sums
from trireme.framework import cluster_event, status
from trireme.queueing import event_audience
from trireme.scheduling import pre_binding
from trireme.v1 import bind_pb2, cycle_pb2, filter_pb2, meta_pb2, snapshot_pb2, status_pb2

_VOLUMES = "VolumeBinding"
_WAIT = bind_pb2.PreBindResult(status=status_pb2.Status(code=status_pb2.CODE_WAIT, plugin=_VOLUMES, messages=["w"]))
_WAIT.wait_for.add(kind="persistent_volume_claim", namespace="ns", name="c")
_WAIT.timeout.FromSeconds(600)
_NOT_FOUND = 'node "n0" not found'


def _remove_node(world: World) -> None:
    world.api.remove("nodes", "n0")
    world.deliver("nodes", 1000)


def _wait_in_pre_bind(world: World, monkeypatch: pytest.MonkeyPatch, *answers: bind_pb2.PreBindResult) -> None:
    """Have a pod wait in PreBind; `answers` are those of the calls after the first, before it waits again."""
    results = itertools.chain([_WAIT, *answers], itertools.repeat(_WAIT))
    monkeypatch.setattr(world, "_prebind", lambda request: bind_pb2.PreBindResponse(results=[next(results)]))
    world.create("p", PREPARED_CPUS)
    world.answer_until("PreBind")
    world.answer(world.pending_calls[0], "good")
    assert world.frontend.scheduling.binding.pre_bind_wait(world.api.pods["p"]["metadata"]["uid"]) is not None
    assert not world.pending_calls


def _assert_requeued(world: World, message: str) -> None:
    """The pod is not bound, takes no room, is nominated to no node, and its condition has this message."""
    world.answer_all()
    world.deliver("pods", 1000)
    raw = world.api.pods["p"]
    assert "nodeName" not in raw["spec"]
    assert not raw["status"].get("nominatedNodeName")
    assert raw["status"]["conditions"][0]["message"] == message
    if message in (_NOT_FOUND, f"waiting on permit for pod: {_NOT_FOUND}"):
        ((why, _),) = world.frontend.scheduling.reporter.last_statuses(raw["metadata"]["uid"])
        assert why.reasons == (status.Reason.of("nodeGone", {"node": "n0"}),)
    assert world.frontend.scheduling.binding.binding_count == 0
    assert world.frontend.cluster.cache.statistics().assumed_pods == 0
    assert world.frontend.scheduling.queue.statistics().error_backoff == 1


def test_a_pod_that_waits_on_permit_goes_back_when_its_node_goes(world: World) -> None:
    """It does not wait for plugins that would allow it on a node that does not exist."""
    world.create("p", GUARDED_CPUS)
    world.answer_all()
    assert world.frontend.scheduling.waiting.pods()
    _remove_node(world)
    assert not world.frontend.scheduling.waiting.pods()
    _assert_requeued(world, f"waiting on permit for pod: {_NOT_FOUND}")


def test_a_node_that_goes_while_permit_is_called_ends_the_wait(world: World) -> None:
    """The wait begins after the node's removal, and no further event comes."""
    world.create("p", GUARDED_CPUS)
    world.answer_until("Permit")
    _remove_node(world)
    _assert_requeued(world, f"waiting on permit for pod: {_NOT_FOUND}")


@pytest.mark.parametrize("rpc", ["Permit", "PreBindPreFlight", "PreBind"])
def test_a_pod_is_not_bound_to_a_node_that_went_before(world: World, rpc: str) -> None:
    """Whatever plugins answer: they may not look at the node."""
    world.create("p", 1 if rpc == "Permit" else PREPARED_CPUS)
    world.answer_until(rpc)
    _remove_node(world)
    _assert_requeued(world, _NOT_FOUND)


@pytest.mark.parametrize("state", [b"", b"what to undo"])
def test_what_pre_bind_wrote_is_undone_when_bind_fails(
    world: World, monkeypatch: pytest.MonkeyPatch, state: bytes
) -> None:
    """A device that stays reserved for a pod without a node is lost for all others."""
    reserved = filter_pb2.Reservation(status=SUCCESS, state=state)
    monkeypatch.setattr(world, "_reserve", lambda request: filter_pb2.ReserveResponse(reservations=[reserved]))
    undone: list[bytes] = []
    apply = world.api.apply

    def note(action: bind_pb2.Action) -> str:
        if action.HasField("undo_pre_bind"):
            undone.append(action.undo_pre_bind.state)
            return ""
        return apply(action)

    monkeypatch.setattr(world.api, "apply", note)
    world.create("p", PREPARED_CPUS)
    world.answer_until("Bind")
    assert undone == []
    world.answer(world.pending_calls[0], "bad")
    _assert_requeued(world, "the API server says no")
    assert undone == [state] * bool(state)


def test_what_pre_bind_has_not_written_is_not_undone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bind would release what another attempt, or another pod, has by then."""
    reserved = filter_pb2.Reservation(status=SUCCESS, state=b"what to undo")
    monkeypatch.setattr(world, "_reserve", lambda request: filter_pb2.ReserveResponse(reservations=[reserved]))
    world.create("p", 1)
    world.answer_until("Permit")
    assert [call.rpc for call in world.pending_calls] == ["Permit"]
    undone: list[object] = []

    async def note(item: object) -> None:
        undone.append(item)

    monkeypatch.setattr(world.frontend.scheduling.binding._pre_binding, "undo_pre_bind", note)
    world.answer(world.pending_calls[0], "bad")
    world.answer_all()
    assert world.api.pods["p"]["spec"].get("nodeName", "") == ""
    assert undone == []


def test_devices_stay_assumed_until_the_cache_shows_what_pre_bind_wrote(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, another pod gets the devices of a claim whose pod was not bound, while the watch lags."""
    cache = world.frontend.cluster.cache
    claims, allocated = dict[str, snapshot_pb2.ClusterObject](), dict[str, snapshot_pb2.ClusterObject]()
    for name in ("c", "d"):
        claim = claims[name] = snapshot_pb2.ClusterObject()
        existing = meta_pb2.ObjectMeta(namespace="ns", name=name, uid=name, resource_version="7")
        claim.resource_claim.metadata.MergeFrom(existing)
        cache.set_object(claim)
        allocated[name] = snapshot_pb2.ClusterObject()
        allocated[name].CopyFrom(claim)
        allocated[name].resource_claim.status.allocation.SetInParent()
    made = snapshot_pb2.ClusterObject()
    made.resource_claim.metadata.MergeFrom(meta_pb2.ObjectMeta(namespace="ns", name="made"))
    reserved = filter_pb2.Reservation(status=SUCCESS, state=b"state", assumed=[*allocated.values(), made])
    monkeypatch.setattr(world, "_reserve", lambda request: filter_pb2.ReserveResponse(reservations=[reserved]))
    shown: list[tuple[str, str]] = []

    async def until_claim_shown(namespace: str, name: str) -> None:
        assert cache.get_assumed("resource_claim", namespace, name) == allocated[name]
        shown.append((namespace, name))

    monkeypatch.setattr(world.frontend.scheduling.binding, "_until_claim_shown", until_claim_shown)
    world.create("p", PREPARED_CPUS)
    world.answer_until("Bind")
    world.answer(world.pending_calls[0], "bad")
    _assert_requeued(world, "the API server says no")
    assert sorted(shown) == [("ns", "c"), ("ns", "d")]
    for name, claim in claims.items():
        assert cache.get_assumed("resource_claim", "ns", name) == claim


def test_a_pod_that_waits_in_pre_bind_goes_back_when_its_node_goes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin is called again, for its own words; one that does not look at nodes would wait on."""
    _wait_in_pre_bind(world, monkeypatch, _WAIT)
    _remove_node(world)
    _assert_requeued(world, f'running PreBind plugin "{_VOLUMES}": {_NOT_FOUND}')


def test_a_plugin_words_the_loss_of_its_node_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """VolumeBinding has kube-scheduler's text."""
    failed = status_pb2.Status(code=status_pb2.CODE_ERROR, plugin=_VOLUMES, messages=["the text"])
    _wait_in_pre_bind(world, monkeypatch, bind_pb2.PreBindResult(status=failed))
    _remove_node(world)
    _assert_requeued(world, "the text")


def test_an_object_that_arrives_after_the_node_went_does_not_bind_the_pod(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The volume arrives as the node goes, and PreBind succeeds."""
    _wait_in_pre_bind(world, monkeypatch, bind_pb2.PreBindResult(status=SUCCESS))
    _remove_node(world)
    _assert_requeued(world, _NOT_FOUND)


def test_a_changed_node_has_pre_bind_called_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its labels decide whether it reaches a volume; nobody waits for the next look after ten seconds."""
    _wait_in_pre_bind(world, monkeypatch, _WAIT)
    world.api.put_node("n0", 4)
    world.deliver("nodes", 1)
    assert world.pending_rpcs() == ["PreBind"]


def test_a_list_that_was_started_over_has_pre_bind_called_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not say what it leaves out, such as a claim that was deleted meanwhile."""
    _wait_in_pre_bind(world, monkeypatch, _WAIT)
    world.relist("nodes", twice=False)
    assert world.pending_rpcs() == ["PreBind"]


def test_a_victim_in_pre_bind_names_the_plugin_that_it_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its condition and event have kube-scheduler's text."""
    _wait_in_pre_bind(world, monkeypatch)
    world.create("boss", GUARDED_CPUS, priority=10)
    world.answer_all()
    world.deliver("pods", 1000)
    message = f'running PreBind plugin "{_VOLUMES}": preempted by DefaultPreemption'
    assert world.api.pods["p"]["status"]["conditions"][0]["message"] == message


def test_an_allowed_pod_is_bound_to_its_node(world: World) -> None:
    """A node that exists is no reason to go back."""
    world.create("p", GUARDED_CPUS)
    world.answer_all()
    (waiting,) = world.frontend.scheduling.waiting.pods()
    world.frontend.scheduling.waiting.allow(waiting.uid, GUARD)
    world.loop.settle()
    world.answer_all()
    assert world.api.pods["p"]["spec"]["nodeName"] == "n0"


@pytest.mark.parametrize("rpc", ["Permit", "PreBindPreFlight", "PreBind", "Bind", "Unreserve"])
def test_whoever_leads_no_more_has_no_call_under_way(world: World, rpc: str) -> None:
    """The next leader's calls about the same pods would race with them."""
    world.create("p", PREPARED_CPUS)
    if rpc == "Unreserve":
        world.answer_until("Reserve")
        world.answer(world.pending_calls[0], "bad")
    else:
        world.answer_until(rpc)
    assert rpc in world.pending_rpcs()
    world.loop.run_until_complete(world.frontend.scheduling.close())
    assert rpc not in world.pending_rpcs()


def test_a_pod_that_permit_refuses_has_the_message_of_its_node_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin=GUARD, messages=["not now"])
    result = bind_pb2.PermitResult(status=refused)
    monkeypatch.setattr(world, "_permit", lambda request: bind_pb2.PermitResponse(results=[result]))
    world.create("p", 1)
    world.answer_all()
    uid = world.api.pods["p"]["metadata"]["uid"]
    failures = world.frontend.scheduling.reporter
    assert failures.last_failure(uid) == "0/1 nodes are available: 1 not now."
    found = failures.refused_placement(uid)
    assert found is not None
    assert (found.extension_point, found.node) == ("Permit", "n0")


def test_where_permit_cannot_be_called_the_pod_goes_back(world: World) -> None:
    world.create("p", 1)
    world.answer_until("Permit")
    world.answer(world.pending_calls[0], "down")
    _assert_requeued(world, "running Permit plugins: UNAVAILABLE: down")
    ((why, _),) = world.frontend.scheduling.reporter.last_statuses(world.api.pods["p"]["metadata"]["uid"])
    assert [reason.code for reason in why.reasons] == ["phaseFailed"]


def test_an_earlier_wait_on_permit_does_not_depend_on_its_node_any_more(world: World) -> None:
    """The pod waits anew for another node, and its first node may go."""
    world.create("p", GUARDED_CPUS)
    world.answer_all()
    (waiting,) = world.frontend.scheduling.waiting.pods()
    world.frontend.scheduling.waiting.fail(waiting.uid, GUARD, "no", status.Reason("preempted"))
    world.api.put_node("n0", 1)
    world.api.put_node("n1", 3)
    world.deliver("nodes", 2)
    world.loop.advance(20)
    world.answer_all()
    assert world.frontend.scheduling.waiting.pods()
    _remove_node(world)
    (waiting,) = world.frontend.scheduling.waiting.pods()
    world.frontend.scheduling.waiting.allow(waiting.uid, GUARD)
    world.loop.settle()
    world.answer_all()
    assert world.api.pods["p"]["spec"]["nodeName"] == "n1"


def test_the_expected_node_is_written_before_the_pod_is_prepared(world: World) -> None:
    """Others leave the room alone while volumes are provisioned, also other schedulers."""
    world.create("p", PREPARED_CPUS)
    world.answer_until("PreBindPreFlight")
    world.answer(world.pending_calls[0], "good")
    (apply,) = (call for call in world.pending_calls if call.rpc == "Apply")
    assert "PreBind" not in world.pending_rpcs()
    world.answer(apply, "good")
    assert world.api.pods["p"]["status"]["nominatedNodeName"] == "n0"
    assert "PreBind" in world.pending_rpcs()


def test_the_expected_node_is_written_after_an_earlier_condition(world: World) -> None:
    """Written in the other order, the condition clears the nomination that was meant to stay."""
    world.create("p", PREPARED_CPUS)
    world.answer_until("Reserve")
    world.answer(world.pending_calls[0], "bad")
    world.loop.advance(20)
    condition = next(call for call in world.pending_calls if call.rpc == "Apply")
    assert condition.request.HasField("set_condition")
    world.frontend.scheduling.queue_executor.activate([("ns/p", world.api.pods["p"]["metadata"]["uid"])])
    world.loop.settle()
    for _ in range(8):
        for call in list(world.pending_calls):
            if call in world.pending_calls and call.rpc != "Apply":
                world.answer(call, "good")
    assert [call.rpc for call in world.pending_calls] == ["Apply"]
    world.answer(condition, "good")
    assert [call.request.WhichOneof("action") for call in world.pending_calls if call.rpc == "Apply"] == ["nominate"]
    world.answer_all()
    assert world.api.pods["p"]["spec"]["nodeName"] == "n0"


def test_remote_plugins_of_bind_get_the_pods_fields(world: World) -> None:
    """They have no snapshot to look a class up in; and no other profile pays for the fields."""
    world.create("a", 1)
    world.answer_until("Permit")
    assert not world.pending_calls[0].request.cycle.HasField("pod")
    world.answer_all()
    world.frontend.scheduling.roles.remote.add(PROFILE)
    world.create("b", 1)
    world.answer_until("Permit")
    cycle = world.pending_calls[0].request.cycle
    assert cycle.pod.spec.containers[0].resources.requests["cpu"].string == "1"
    assert (cycle.profile, cycle.generation > 0) == (PROFILE, True)


@pytest.mark.parametrize("how", ["good", "bad"])
def test_remote_plugins_are_notified_of_bound_pods_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    notified: list[str] = []

    async def post_bind(request: bind_pb2.PostBindRequest) -> None:
        notified.extend(f"{item.pod.name} on {item.node_name}" for item in request.items)

    monkeypatch.setattr(world.frontend.phases.links.binders, "post_bind", post_bind)
    world.frontend.scheduling.roles.post_bind.add(PROFILE)
    world.create("p", 1)
    world.answer_until("Bind")
    world.answer(world.pending_calls[0], how)
    assert notified == (["p on n0"] if how == "good" else [])
    found = counts(world.frontend.context.metrics.instruments.point_seconds)
    assert found.get(f"PostBind Success {PROFILE}", 0) == len(notified)


def test_a_pod_whose_binding_fails_wakes_those_that_wait_for_its_room(world: World) -> None:
    """Nothing else does: the pod was never seen on the node."""
    world.create("p", 2)
    world.answer_until("Bind")
    bind = world.pending_calls[0]
    world.create("q", 2)
    while others := [call for call in world.pending_calls if call is not bind]:
        world.answer(others[0], "good")
    world.loop.advance(30)
    assert "Filter" not in world.pending_rpcs()
    world.answer(bind, "bad")
    assert "Filter" in world.pending_rpcs()
    events = counts(world.frontend.context.metrics.instruments.event_seconds)
    assert events["AssignedPodDelete"] == 1


def test_a_pod_that_is_seen_bound_leaves_no_room_where_its_binding_fails(world: World) -> None:
    """It is on the node, whatever bind says: others would be placed on its room."""
    world.create("p", 2)
    world.answer_until("Bind")
    bind = world.pending_calls[0]
    assert world.api.bind(bind.request) == ""
    world.deliver("pods", 1000)
    world.answer(bind, "bad")
    world.answer_all()
    events = counts(world.frontend.context.metrics.instruments.event_seconds)
    assert "AssignedPodDelete" not in events
    placed = world.frontend.cluster.cache.pod(world.api.pods["p"]["metadata"]["uid"])
    assert placed is not None
    assert not placed.assumed


def test_the_expected_node_is_not_written_where_that_is_turned_off() -> None:
    with contextlib.closing(World("--feature-gates=NominatedNodeNameForExpectation=false")) as world:
        world.api.put_node("n0", 3)
        world.deliver("nodes", 1)
        world.create("p", PREPARED_CPUS)
        world.answer_until("PreBind")
        assert "nominatedNodeName" not in world.api.pods["p"]["status"]
        world.answer_all()
        assert world.api.pods["p"]["spec"]["nodeName"] == "n0"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (status_pb2.Status(code=status_pb2.CODE_SUCCESS), "success"),
        (status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["device binding timeout"]), "timeout"),
    ],
)
def test_the_wait_for_devices_is_an_event_and_is_recorded_by_driver(
    world: World, monkeypatch: pytest.MonkeyPatch, answer: status_pb2.Status, outcome: str
) -> None:
    claim = snapshot_pb2.ClusterObject()
    claim.resource_claim.metadata.namespace, claim.resource_claim.metadata.name = "ns", "c"
    results = claim.resource_claim.status.allocation.devices.results
    results.add(driver="slow", device="d", binding_conditions=["ready"])
    results.add(driver="quick", device="e")
    reserved = filter_pb2.Reservation(status=SUCCESS, assumed=[claim])
    monkeypatch.setattr(world, "_reserve", lambda request: filter_pb2.ReserveResponse(reservations=[reserved]))
    wait = bind_pb2.PreBindResult(status=status_pb2.Status(code=status_pb2.CODE_WAIT, plugin="DynamicResources"))
    wait.wait_for.add(kind="resource_claim", namespace="ns", name="c")
    wait.timeout.FromSeconds(600)
    events: list[tuple[str, str]] = []
    reporter = world.frontend.scheduling.reporter
    monkeypatch.setattr(reporter, "report_devices_pending", lambda pod, node: events.append((pod.key, node)))
    answers = iter([wait, bind_pb2.PreBindResult(status=answer)])
    monkeypatch.setattr(world, "_prebind", lambda request: bind_pb2.PreBindResponse(results=[next(answers)]))
    world.create("p", PREPARED_CPUS)
    world.answer_until("PreBind")
    world.loop.advance(2.0)
    world.answer(world.pending_calls[0], "good")
    world.loop.advance(pre_binding.LOOK_AGAIN_SECONDS)
    world.loop.advance(1.0)
    world.answer(next(call for call in world.pending_calls if call.rpc == "PreBind"), "good")
    instruments = world.frontend.context.metrics.instruments
    waited = pre_binding.LOOK_AGAIN_SECONDS + 3.0
    assert sums(instruments.device_seconds) == {f"{PROFILE} slow {outcome}": (1, waited)}
    assert counts(instruments.device_attempts) == {f"{PROFILE} slow {outcome}": 1}
    assert events == [("ns/p", "n0")]


def test_a_pod_that_is_bound_makes_room_while_others_of_its_call_are_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One binding that takes long would hold the room of hundreds, and scheduling with it."""
    others, room = asyncio.Event(), list[int]()
    binding = world.frontend.scheduling.binding

    async def bind(request: bind_pb2.BindRequest) -> AsyncIterator[bind_pb2.BindResult]:
        for index in range(len(request.items)):
            yield bind_pb2.BindResult(index=index, status=status_pb2.Status(code=status_pb2.CODE_SUCCESS))
            room.append(binding._room._pods)
            await others.wait()

    monkeypatch.setattr(binding._shared_calls, "bind", bind)
    for number in range(3):
        world.api.add_pod(f"p{number}", 1, 0)
    world.deliver("pods", 1000)
    while not room:
        world.answer(world.pending_calls[0], "good")
    assert binding._room._pods == 2
    world.loop.call_soon(others.set)
    world.loop.advance(1)
    assert (room, binding._room._pods) == ([2, 1, 0], 0)


def test_a_deleted_pod_waits_on_permit_no_more(world: World) -> None:
    """Its room is free at once, not when its plugins' time is over."""
    world.create("p", GUARDED_CPUS)
    world.answer_all()
    assert world.frontend.scheduling.waiting.pods()
    world.api.remove("pods", "p")
    world.deliver("pods", 1000)
    assert not world.frontend.scheduling.waiting.pods()
    assert world.frontend.scheduling.binding.binding_count == 0
    waits = counts(world.frontend.context.metrics.instruments.permit_wait_seconds)
    assert waits == {"Unschedulable": 1}


def test_a_deleted_pod_is_in_pre_bind_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What PreBind wrote for it is undone, and it waits for no volume any more."""
    _wait_in_pre_bind(world, monkeypatch)
    world.api.remove("pods", "p")
    world.deliver("pods", 1000)
    assert world.frontend.scheduling.binding.binding_count == 0
    world.loop.advance(pre_binding.LOOK_AGAIN_SECONDS)
    assert "PreBind" not in world.pending_rpcs()


def test_a_pod_that_was_deleted_before_pre_bind_is_not_prepared(world: World) -> None:
    """Nobody would undo what is prepared for it."""
    world.create("p", PREPARED_CPUS)
    world.answer_until("PreBindPreFlight")
    world.api.remove("pods", "p")
    world.deliver("pods", 1000)
    while world.pending_calls:
        assert world.pending_calls[0].rpc != "PreBind"
        world.answer(world.pending_calls[0], "good")
    assert world.frontend.scheduling.binding.binding_count == 0


def test_a_wait_for_a_volume_is_no_wait_for_devices(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pending: list[str] = []
    reporter = world.frontend.scheduling.reporter
    monkeypatch.setattr(reporter, "report_devices_pending", lambda pod, node: pending.append(pod.key))
    _wait_in_pre_bind(world, monkeypatch)
    assert pending == []


@pytest.mark.parametrize(
    ("step", "lacking_room", "is_excluded"),
    [("Permit", True, True), ("the wait on Permit", False, True), ("PreBind", False, True), ("Bind", False, False)],
)
def test_the_removal_of_a_pod_that_is_not_bound_wakes_those_that_it_may_have_kept_out(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, lacking_room: bool, is_excluded: bool
) -> None:
    """What Permit refuses at once has taken room from nobody but those that were refused for it meanwhile."""
    audiences: list[event_audience.EventAudience] = []
    queue = world.frontend.scheduling.queue
    on_event = queue.on_event

    def note(event: Any, old: Any, new: Any, now: float, *audience: Any) -> Any:
        if event == cluster_event.ASSIGNED_POD_DELETE:
            audiences.extend(audience)
        return on_event(event, old, new, now, *audience)

    monkeypatch.setattr(queue, "on_event", note)
    refused = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin=GUARD, messages=["not now"])
    if step == "Permit":
        result = bind_pb2.PermitResult(status=refused)
        monkeypatch.setattr(world, "_permit", lambda request: bind_pb2.PermitResponse(results=[result]))
    prepared = bind_pb2.PreBindResult(status=refused)
    monkeypatch.setattr(world, "_prebind", lambda request: bind_pb2.PreBindResponse(results=[prepared]))
    world.create("p", {"the wait on Permit": GUARDED_CPUS, "PreBind": PREPARED_CPUS}.get(step, 1))
    uid = world.api.pods["p"]["metadata"]["uid"]
    if step == "Bind":
        world.answer_until("Bind")
        world.answer(world.pending_calls[0], "bad")
    world.answer_all()
    if step == "the wait on Permit":
        world.loop.advance(1.0)
        world.frontend.scheduling.waiting.reject(uid, GUARD, "no")
        world.loop.settle()
    found = audiences[0]
    assert (found.lacking_room, found.exclude_uid) == (lacking_room, uid if is_excluded else "")


def test_pods_that_were_all_deleted_have_no_fields_for_remote_plugins(world: World) -> None:
    """Nothing is known of their class any more; their binding ends by itself."""
    scheduling = world.frontend.scheduling
    scheduling.roles.remote.add(PROFILE)
    cycle = cycle_pb2.Cycle(profile=PROFILE)
    pods: Any = [SimpleNamespace(pod=SimpleNamespace(uid=uid)) for uid in ("gone", "gone-too")]
    assert scheduling.binding._cycle_with_pod_for_remote_plugins(cycle, pods) is cycle
