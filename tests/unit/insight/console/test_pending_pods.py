"""PendingPods: the queue grouped by why pods wait, kept up to date by what changes."""

from tests.helpers.console_states import T0, queued
from trireme.insight.console import pending_pods
from trireme.v1 import snapshot_pb2


def reasons(known: pending_pods.PendingPods) -> dict[tuple[str, ...], int]:
    return {(*reason.plugins, reason.text, reason.state): len(pods) for reason, pods in known.by_reason()}


def test_pods_are_grouped_by_the_plugins_that_refused_them() -> None:
    """An operator would read a list of thousands of pods."""
    known = pending_pods.PendingPods()
    backoff = snapshot_pb2.QUEUED_POD_STATE_BACKOFF
    known.apply(
        snapshot_pb2.QueueDelta(
            reset=True,
            pods=[
                queued("a", "NodeResourcesFit"),
                queued("b", "NodeResourcesFit", state=backoff),
                queued("c", "NodeResourcesFit", "TaintToleration"),
                queued("d", state=snapshot_pb2.QUEUED_POD_STATE_ACTIVE),
            ],
        )
    )
    assert reasons(known) == {
        ("NodeResourcesFit", "", ""): 2,
        ("NodeResourcesFit", "TaintToleration", "", ""): 1,
        ("", "active"): 1,
    }


def test_a_pod_moves_from_reason_to_reason_and_leaves() -> None:
    """A pod would be counted twice, or forever."""
    known = pending_pods.PendingPods()
    known.apply(snapshot_pb2.QueueDelta(pods=[queued("a", "Fit"), queued("b", "Fit")]))
    known.apply(snapshot_pb2.QueueDelta(pods=[queued("a", "Taint")]))
    assert reasons(known) == {("Fit", "", ""): 1, ("Taint", "", ""): 1}
    known.apply(snapshot_pb2.QueueDelta(removed_pods=["uid-of-a", "unknown"]))
    assert reasons(known) == {("Fit", "", ""): 1}
    known.apply(snapshot_pb2.QueueDelta(reset=True))
    assert (reasons(known), len(known)) == ({}, 0)


def test_pods_of_a_reason_come_in_the_order_in_which_they_wait() -> None:
    """The pod that waits longest is the one to look at."""
    known = pending_pods.PendingPods()
    pods = [queued("late", "Fit", queued_since_ms=T0 + 5), queued("early", "Fit", queued_since_ms=T0)]
    known.apply(snapshot_pb2.QueueDelta(pods=pods))
    ((reason, _),) = known.by_reason()
    assert [pod.name for pod in known.of_reason(reason.id)] == ["early", "late"]
    assert known.of_reason("no such reason") == []


def test_members_are_counted_by_group_and_state() -> None:
    """A gang would look complete while its members wait."""
    known = pending_pods.PendingPods()
    waiting = snapshot_pb2.QUEUED_POD_STATE_WAITING_FOR_GROUP
    known.apply(
        snapshot_pb2.QueueDelta(
            pods=[queued("a", pod_group="gang", state=waiting), queued("b", "Fit", pod_group="gang")]
        )
    )
    assert known.groups() == {("default", "gang"): {"waiting for its group": 1, "unschedulable": 1}}
    known.apply(snapshot_pb2.QueueDelta(removed_pods=["uid-of-a", "uid-of-b"]))
    assert known.groups() == {}


def test_reasons_that_a_reader_sees_as_the_same_one_are_one() -> None:
    """Their number would say how many different texts there are, and one page would have two rows of one id."""

    def plugins_alone(reason: pending_pods.WaitReason) -> pending_pods.WaitReason:
        return reason._replace(text="")

    known = pending_pods.PendingPods()
    pods = [queued("a", "Quota", reason="team a"), queued("b", "Quota", reason="team b"), queued("c", "Fit")]
    known.apply(snapshot_pb2.QueueDelta(pods=pods))
    assert len(known.by_reason()) == 3
    quota, _ = known.by_reason(plugins_alone)
    assert (quota[0].plugins, quota[0].text, len(quota[1])) == (("Quota",), "", 2)
    assert [pod.name for pod in known.of_reason(quota[0].id, plugins_alone)] == ["a", "b"]
    assert known.of_reason(quota[0].id) == []
