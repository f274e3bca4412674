"""Turns that once lost a pod, or the room that it took: each by itself."""

import pytest

from tests.helpers.frontend_world import GUARD, PREPARED_CPUS, World
from trireme.extenders import reported_bound
from trireme.frontend.serving import scheduler_status
from trireme.v1 import bind_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, status_pb2


def test_a_pod_deleted_during_filter_leaves_the_queue(world: World) -> None:
    """It stayed in flight forever, and with it every event since."""
    world.create("p", 1)
    assert world.pending_rpcs() == ["Filter"]
    world.api.remove("pods", "p")
    world.deliver("pods", 1)
    world.answer_all()
    assert world.frontend.scheduling.queue.contents.in_flight_pods() == []
    assert world.frontend.cluster.cache.statistics().assumed_pods == 0


def test_a_pod_woken_by_a_rejected_permit_is_tried_at_once(world: World) -> None:
    """The room was free, the pod in the active queue, and nobody looked."""
    world.create("guarded", 3)
    world.answer_all()
    world.create("waits", 1)
    world.answer_all()
    assert world.frontend.scheduling.queue.statistics().unschedulable == 1
    (waiting,) = world.frontend.scheduling.waiting.pods()
    world.frontend.scheduling.waiting.reject(waiting.uid, GUARD, "no")
    world.loop.settle()
    assert "Filter" in world.pending_rpcs()


def test_a_pod_deleted_while_permit_is_called_does_not_wait(world: World) -> None:
    """It waited for its timeout, up to 15 minutes, and Unreserve was called no sooner."""
    world.create("guarded", 3)
    for rpc in ("Filter", "Place"):
        (call,) = world.pending_calls
        assert call.rpc == rpc
        world.answer(call, "good")
    (call,) = world.pending_calls
    assert call.rpc == "Permit"
    world.api.remove("pods", "guarded")
    world.deliver("pods", 1)
    world.answer(call, "good")
    assert not world.frontend.scheduling.waiting.pods()
    world.answer_all()
    assert world.frontend.scheduling.binding.binding_count == 0
    assert world.frontend.scheduling.queue.contents.in_flight_pods() == []


@pytest.mark.parametrize("rpc", ["PreBindPreFlight", "PreBind"])
def test_a_pod_deleted_in_pre_bind_does_not_wait(world: World, rpc: str) -> None:
    """PreBind was called for it every ten seconds, until the plugin's timeout; then came an error, and Unreserve."""
    world.create("prepared", PREPARED_CPUS)
    while (call := world.pending_calls[0]).rpc != rpc:
        world.answer(call, "good")
    world.api.remove("pods", "prepared")
    while not world.all_delivered:
        world.deliver("pods", 1)
    if rpc == "PreBindPreFlight":
        world.answer(call, "good")
    # What PreBind and Reserve did is undone; PreBind is not called again, and its answer is not waited for.
    (undoing,) = (each for each in world.pending_rpcs() if each != rpc)
    assert undoing in ("Apply", "Unreserve")
    world.answer_all()
    assert world.frontend.scheduling.binding.binding_count == 0
    assert world.frontend.scheduling.queue.contents.in_flight_pods() == []
    assert world.frontend.cluster.cache.statistics().assumed_pods == 0


def test_a_bind_response_about_other_pods_unassumes_the_pod(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was assumed forever: a bind in another language may answer what ours never would."""
    monkeypatch.setattr(world, "_permit", lambda request: bind_pb2.PermitResponse())
    world.create("p", 1)
    world.answer_all()
    assert "Permit" not in world.pending_rpcs()
    assert world.frontend.scheduling.queue.contents.in_flight_pods() == []
    assert world.frontend.cluster.cache.statistics().assumed_pods == 0
    assert world.frontend.scheduling.queue.statistics().error_backoff == 1


def test_a_pod_bound_and_deleted_between_two_lists_is_not_counted(world: World) -> None:
    """It stayed assumed forever: no watch reports a pod that a list left out."""
    world.create("p", 3)
    world.answer_all()
    (waiting,) = world.frontend.scheduling.waiting.pods()
    world.frontend.scheduling.waiting.allow(waiting.uid, GUARD)
    world.loop.settle()
    world.answer_all()
    assert world.frontend.cluster.cache.statistics().assumed_pods == 1
    world.api.remove("pods", "p")
    world.relist("pods", twice=False)
    assert world.frontend.cluster.cache.statistics().pods == 0


def test_a_late_event_of_a_bound_pod_does_not_queue_it(world: World) -> None:
    """It was pending and placed at once."""
    world.create("p", 1)
    world.answer_all()
    world.deliver("pods", 1000)
    assert world.frontend.cluster.cache.statistics().pods == 1
    world.repeat("pods", back=len(world.api.log["pods"]) - 1)
    assert world.frontend.scheduling.queue.contents.waiting_pods() == []


def test_a_pod_that_somebody_else_binds_leaves_nothing_behind(world: World) -> None:
    """Its condition was written after it had a node, and remembered forever."""
    world.create("large", 4)
    while not any(call.rpc == "Apply" for call in world.pending_calls):
        world.answer(world.pending_calls[0], "bad")
    scheduling, uid = world.frontend.scheduling, world.api.pods["large"]["metadata"]["uid"]
    assert scheduling.reporter.last_failure(uid)
    scheduling.outbox.send(bind_pb2.Action(pod=cycle_pb2.PodIdentity(uid=uid), nominate=bind_pb2.Nominate()))
    assert len(scheduling.outbox) == 1
    identity = cycle_pb2.PodIdentity(namespace="ns", name="large", uid=uid)
    assert not world.api.bind(bind_pb2.BindItem(pod=identity, node_name="n0"))
    world.deliver("pods", 1)
    assert not scheduling.reporter.last_failure(uid)
    assert len(scheduling.outbox) == 0


def test_a_late_event_of_a_node_does_not_restore_its_old_state(world: World) -> None:
    """Pods were placed where there was no room any more."""
    world.api.put_node("n0", 1)
    world.deliver("nodes", 1)
    world.repeat("nodes", back=1)
    node = world.frontend.cluster.cache.node("n0")
    assert node is not None
    assert node.status.allocatable["cpu"].string == "1"


def test_a_very_long_reason_does_not_burst_the_call_that_writes_it(world: World) -> None:
    """Conditions are written many in one call: if one is too long for a call, nobody's is ever written again."""
    world.api.add_pod("p", 1, 0)
    world.deliver("pods", 1)
    (call,) = world.pending_calls
    no = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin="Wordy", messages=["x" * 20_000_000])
    call.answer = filter_phase_pb2.FilterPhaseFilterResponse(
        pre_filter=filter_pb2.PreFilterResponse(status=no), evaluated_generation=call.answer.evaluated_generation
    )
    world.answer(call, "good")
    while not any(call.rpc == "Apply" for call in world.pending_calls):
        world.answer(world.pending_calls[0], "bad")
    (written,) = (call.request for call in world.pending_calls if call.rpc == "Apply")
    assert written.set_condition.condition.reason == "Unschedulable"
    assert len(written.set_condition.condition.message) == 64 << 10


def test_a_pod_that_an_extender_falsely_reports_bound_is_retried() -> None:
    """It took room forever, and nobody tried it or bound it."""
    world = World(extended=True)
    world.api.put_node("n0", 3)
    world.deliver("nodes", 1)
    for name in ("honest", "p"):
        world.create(name, 1)
        while not any(call.rpc == "ExtenderBind" for call in world.pending_calls):
            world.answer(world.pending_calls[0], "good")
        (binding,) = (call for call in world.pending_calls if call.rpc == "ExtenderBind")
        world.answer(binding, "lie" if name == "p" else "good")
        world.answer_all()
        world.deliver("pods", 1000)
    (waits,) = scheduler_status.status(world.frontend_state()).pending
    assert waits.summary == "was bound to node n0 according to an extender; waits until the API server shows it"
    world.loop.advance(reported_bound.BELIEVED_SECONDS - 1.0)
    assert world.frontend.cluster.cache.statistics().assumed_pods == 1
    world.loop.advance(1.0)
    assert world.frontend.cluster.cache.statistics().assumed_pods == 0
    assert world.frontend.scheduling.queue.statistics().error_backoff == 1
    world.answer_all()
    (condition,) = world.api.pods["p"]["status"]["conditions"]
    text = "an extender reported the pod as bound to node n0, and the pod is still without a node"
    assert (condition["reason"], condition["message"]) == ("SchedulerError", text)
    world.loop.advance(3.0)
    world.answer_all()
    world.deliver("pods", 1000)
    assert [pod["spec"]["nodeName"] for pod in world.api.pods.values()] == ["n0", "n0"]
    assert world.frontend.scheduling.binding.binding_count == 0
    world.close()
