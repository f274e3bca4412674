"""What is shown of an answer to callers who may not list nodes or pods."""

from typing import Any

import pytest
from google.protobuf import message

from tests.helpers import texts_in_messages
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.insight import observed_cluster
from trireme.insight.http_api import visibility
from trireme.v1 import (
    cycle_pb2,
    decision_explanation_pb2,
    insight_pb2,
    simulation_pb2,
    snapshot_pb2,
    status_pb2,
)

NONE = visibility.Viewer(lists_nodes=False, lists_pods=False)
NODES = visibility.Viewer(lists_nodes=True, lists_pods=False)
PODS = visibility.Viewer(lists_nodes=False, lists_pods=True)
ALL = visibility.Viewer(lists_nodes=True, lists_pods=True)


def _nothing_past() -> tuple[frozenset[str], frozenset[str]]:
    """The cluster has always been as it is now."""
    return frozenset(), frozenset()


@pytest.fixture
def cluster() -> observed_cluster.ObservedCluster:
    """Two nodes, the pod pod-0 on one, and the queued pods mine and theirs."""
    builder = SnapshotBuilder()
    for name in ("n0", "ip-10-0-0-1.ec2.internal"):
        builder.set_node(name, allocatable={"cpu": "4", "pods": "9"})
    builder.add_class(1, pod_of(requesting(cpu="1")))
    builder.place(1, "n0")
    made = observed_cluster.ObservedCluster(builder.snap)
    pods = [
        snapshot_pb2.QueuedPod(pod=cycle_pb2.PodIdentity(namespace="ns", name=name, uid=name))
        for name in ("mine", "theirs")
    ]
    made.apply_queue(snapshot_pb2.QueueDelta(reset=True, pods=pods))
    return made


def _answer() -> insight_pb2.ExplainResponse:
    answer = insight_pb2.ExplainResponse(evaluated_generation=7, node_count=2, feasible_count=1)
    answer.queued_pod.pod.name, answer.queued_pod.pod.namespace = "mine", "ns"
    answer.queued_pod.reason = "waits for ns/theirs"
    for node in ("n0", "ip-10-0-0-1"):
        message = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin="Remote", messages=[f"node {node} full"])
        message.reasons.add(code="full", parameters={"by": "pod-0", "node": node})
        answer.refusals.add(status=message, nodes=[node], node_count=1)
    answer.feasible_nodes.add(name="n0", total=3, scores=[3])
    answer.score_plugins.add(name="Remote", weight=1)
    return answer


def _shown(viewer: visibility.Viewer, cluster: observed_cluster.ObservedCluster) -> insight_pb2.ExplainResponse:
    return visibility.limit(_answer(), viewer, visibility.NameReplacer(cluster, viewer, "mine", _nothing_past))


def test_who_may_list_both_sees_the_answer_as_it_is(cluster: observed_cluster.ObservedCluster) -> None:
    """An operator would miss what the RPC has."""
    assert _shown(ALL, cluster) == _answer()


def test_who_may_list_neither_sees_counts_and_reasons(cluster: observed_cluster.ObservedCluster) -> None:
    """The names of nodes and pods of others are not everybody's, in texts neither."""
    shown = _shown(NONE, cluster)
    text = str(shown)
    assert not any(name in text for name in ("n0", "ip-10", "theirs", "pod-0", "internal"))
    assert shown.queued_pod.reason == "waits for (a pod)"
    assert shown.queued_pod.pod.name == "mine"
    (refusal,) = shown.refusals  # they differed by names alone
    assert (refusal.node_count, list(refusal.nodes)) == (2, [])
    assert list(refusal.status.messages) == ["node (a node) full"]
    assert dict(refusal.status.reasons[0].parameters) == {"by": "(a pod)", "node": "(a node)"}
    assert (shown.node_count, shown.feasible_count, list(shown.feasible_nodes)) == (2, 1, [])
    assert shown.score_plugins == _answer().score_plugins


def test_who_may_list_nodes_alone_sees_no_other_pods(cluster: observed_cluster.ObservedCluster) -> None:
    """One right would give the other."""
    shown = _shown(NODES, cluster)
    assert [list(refusal.nodes) for refusal in shown.refusals] == [["n0"], ["ip-10-0-0-1"]]
    assert list(shown.refusals[0].status.messages) == ["node n0 full"]
    assert shown.refusals[0].status.reasons[0].parameters["by"] == "(a pod)"
    assert shown.feasible_nodes == _answer().feasible_nodes
    assert "theirs" not in str(shown)


def test_who_may_list_pods_alone_sees_no_nodes(cluster: observed_cluster.ObservedCluster) -> None:
    """One right would give the other."""
    shown = _shown(PODS, cluster)
    assert shown.queued_pod.reason == "waits for ns/theirs"
    assert shown.refusals[0].status.reasons[0].parameters["by"] == "pod-0"
    assert "n0" not in str(shown)


@pytest.mark.parametrize(("viewer", "name"), [(NONE, "(a node)"), (PODS, "(a node)"), (NODES, "n0"), (ALL, "n0")])
def test_the_node_of_a_placed_pod(
    cluster: observed_cluster.ObservedCluster, viewer: visibility.Viewer, name: str
) -> None:
    """An answer without any node would not say that the pod has one."""
    answer = insight_pb2.ExplainResponse(node_name="n0")
    names = visibility.NameReplacer(cluster, viewer, "mine", _nothing_past)
    assert visibility.limit(answer, viewer, names).node_name == name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Insufficient cpu", "Insufficient cpu"),
        ("on n0.", "on (a node)."),
        ("on N0, n0;n0", "on (a node), (a node);(a node)"),
        ("node/n0 is full", "node/(a node) is full"),
        ("n0.Then", "(a node)"),
        ("n0/pod-0", "(a pod)"),
        ("ip-10-0-0-1.ec2.internal:10250", "(a node):10250"),
        ("host ip-10-0-0-1", "host (a node)"),
        ("ns/theirs and mine, ns/mine", "(a pod) and mine, ns/mine"),
        ("n01 no-n0 n0-no", "n01 no-n0 n0-no"),
        ("'n0' \"theirs\" (pod-0)", "'(a node)' \"(a pod)\" ((a pod))"),
        ("n0=1,x=n0", "(a node)=1,x=(a node)"),
        ("", ""),
        ("." * 70_000, "." * 70_000),
        ("a." * 70_000, "a." * 70_000),
    ],
)
def test_names_in_texts_are_replaced(cluster: observed_cluster.ObservedCluster, text: str, shown: str) -> None:
    """A plugin writes names as it likes."""
    assert visibility.NameReplacer(cluster, NONE, "mine", _nothing_past).without_names(text) == shown


def test_names_of_other_groups_in_texts_are_replaced(cluster: observed_cluster.ObservedCluster) -> None:
    """A pod waits for what its group's group lacks, which its reader may not list."""
    snap = cluster.snap
    delta = snapshot_pb2.Delta(from_generation=snap.generation, to_generation=snap.generation + 1)
    group = delta.objects.add().pod_group
    group.metadata.namespace, group.metadata.name = "ns", "gang"
    group.spec.parent_composite_pod_group_name = "launch"
    member = delta.classes.add(id=5)
    member.pod.metadata.namespace = "ns"
    member.pod.spec.scheduling_group.pod_group_name = "placed-gang"
    delta.pods.MergeFrom(
        snapshot_pb2.PodColumns(
            row=[7], pod_class=[5], slot=[0], uid=["u"], name=["member"], start_time_s=[0], flags=[0]
        )
    )
    snap.apply(delta)
    queued = [
        snapshot_pb2.QueuedPod(pod=cycle_pb2.PodIdentity(namespace="ns", name=name, uid=name), pod_group=group)
        for name, group in (("mine", "gang"), ("theirs", "their-gang"))
    ]
    cluster.apply_queue(snapshot_pb2.QueueDelta(pods=queued))
    text = "waits for CompositePodGroup ns/launch of gang, beside their-gang and placed-gang"

    def shown(viewer: visibility.Viewer, own_pod: str) -> str:
        names = visibility.NameReplacer(cluster, viewer, own_pod, _nothing_past, own_namespace="ns")
        return names.without_names(text)

    assert shown(NONE, "mine") == "waits for CompositePodGroup (a group) of gang, beside (a group) and (a group)"
    assert (
        shown(NODES, "member") == "waits for CompositePodGroup (a group) of (a group), beside (a group) and placed-gang"
    )
    assert shown(PODS, "mine") == text


def test_a_field_that_nobody_listed_is_left_out(
    cluster: observed_cluster.ObservedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A field that an RPC gets later may have any names."""
    fields = dict(visibility._FIELDS["trireme.v1.ExplainResponse"])
    del fields["refusals"]
    monkeypatch.setattr(visibility, "_FIELDS", {**visibility._FIELDS, "trireme.v1.ExplainResponse": fields})
    for viewer in (NONE, NODES, PODS):
        assert not _shown(viewer, cluster).refusals
    assert _shown(ALL, cluster).refusals


def test_the_fields_listed_exist() -> None:
    """A misspelt field would be hidden from all."""
    for descriptor in (
        insight_pb2.ExplainResponse.DESCRIPTOR,
        insight_pb2.NodeRefusal.DESCRIPTOR,
        insight_pb2.FeasibleNode.DESCRIPTOR,
        insight_pb2.WeightedScorePlugin.DESCRIPTOR,
        snapshot_pb2.QueuedPod.DESCRIPTOR,
        cycle_pb2.PodIdentity.DESCRIPTOR,
        status_pb2.Status.DESCRIPTOR,
        status_pb2.Reason.DESCRIPTOR,
    ):
        assert set(visibility._FIELDS[descriptor.full_name]) <= {field.name for field in descriptor.fields}


def _decision() -> decision_explanation_pb2.ExplainDecisionResponse:
    answer = decision_explanation_pb2.ExplainDecisionResponse(node_name="n0", margin=3, batch_size=2)
    for node in ("n0", "gone-node"):
        message = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin="Remote", messages=[f"on {node}"])
        answer.refusals.add(status=message, nodes=[node], node_count=1)
    answer.feasible_nodes.add(name="n0", total=3)
    answer.batch_before.add(node_name="n0").pod.name = "theirs"
    answer.not_known.append("its preemption: gone-pod")
    found = answer.preemption
    found.node_name, found.decided_by, found.candidate_count = "n0", "victims", 2
    found.victims.add(priority=1).pod.name = "theirs"
    found.spared.add(priority=1).pod.name = "pod-0"
    found.candidates.add(name="n0", victims=1)
    return answer


def _shown_decision(
    viewer: visibility.Viewer, cluster: observed_cluster.ObservedCluster
) -> decision_explanation_pb2.ExplainDecisionResponse:
    past = frozenset({"gone-node"}), frozenset({"gone-pod"})
    return visibility.limit(_decision(), viewer, visibility.NameReplacer(cluster, viewer, "mine", lambda: past))


def test_a_decision_of_the_past_names_nothing_that_is_gone(cluster: observed_cluster.ObservedCluster) -> None:
    """The names of nodes and pods of that time are hidden as those of now are."""
    shown = _shown_decision(NONE, cluster)
    assert not any(name in str(shown) for name in ("n0", "gone-node", "gone-pod", "theirs", "pod-0"))
    assert (shown.node_name, shown.preemption.node_name) == ("(a node)", "(a node)")
    (refusal,) = shown.refusals
    assert (refusal.node_count, list(refusal.status.messages)) == (2, ["on (a node)"])
    assert list(shown.not_known) == ["its preemption: (a pod)"]
    assert (shown.margin, shown.batch_size, shown.preemption.decided_by) == (3, 2, "victims")


def test_victims_and_other_pods_are_for_who_may_list_both(cluster: observed_cluster.ObservedCluster) -> None:
    """A list of the pods of a node has names and places of pods."""
    for viewer in (NODES, PODS):
        shown = _shown_decision(viewer, cluster)
        assert not shown.batch_before
        assert not shown.preemption.victims
        assert not shown.preemption.spared
    assert len(_shown_decision(NODES, cluster).preemption.candidates) == 1
    assert _shown_decision(ALL, cluster) == _decision()


# By RPC the fields of its answer whose texts are shown as they are to a reader who may get the pod alone: what the pod
# itself has, and names of plugins, profiles and steps.
_OWN_POD = {
    f"queued_pod.{name}" for name in ("pod.namespace", "pod.name", "pod.uid", "profile", "plugins", "pod_group")
} | {"pod.namespace", "pod.name", "pod.uid"}
_SCORE_PLUGINS = {"score_plugins.name"}
_SHOWN_AS_THEY_ARE: dict[str, set[str]] = {
    "Explain": _OWN_POD
    | _SCORE_PLUGINS
    | {
        "pre_filter.plugin",
        "refusals.status.plugin",
        "score_failure.plugin",
        "preemption.decided_by",
        "preemption.pod_group",
    },
    "ExplainDecision": _SCORE_PLUGINS
    | {
        "profile",
        "refusals.status.plugin",
        "preemption.decided_by",
        "preemption.pod_group",
        "steps.name",
        "longest_step",
    },
    # It is answered to nobody else than who may list nodes and pods.
    "Simulate": set(),
}
# Names of nodes, for who may list these.
_NODE_NAMES = {
    "node_name",
    "refusals.nodes",
    "feasible_nodes.name",
    "preemption.node_name",
    "preemption.candidates.name",
}
# FindFittingPods is called by the leader alone, and HTTP does not offer it.
_RPCS = tuple(
    each for each in insight_pb2.DESCRIPTOR.services_by_name["InsightService"].methods if each.name != "FindFittingPods"
)
_ANSWERS: dict[str, type[message.Message]] = {
    each.__name__: each
    for each in (
        insight_pb2.ExplainResponse,
        decision_explanation_pb2.ExplainDecisionResponse,
        simulation_pb2.SimulateResponse,
    )
}


def _filled(rpc: Any) -> message.Message:
    answer = _ANSWERS[rpc.output_type.name]()
    texts_in_messages.fill(answer, lambda _: "n0 and theirs")
    return answer


def _fields_with(name: str, viewer: visibility.Viewer, rpc: Any, cluster: observed_cluster.ObservedCluster) -> set[str]:
    names = visibility.NameReplacer(cluster, viewer, "mine", _nothing_past)
    shown = visibility.limit(_filled(rpc), viewer, names)
    return {path for path, text in texts_in_messages.texts(shown) if name in text}


@pytest.mark.parametrize("rpc", _RPCS, ids=[each.name for each in _RPCS])
def test_no_text_of_an_answer_has_names_that_the_reader_may_not_list(
    cluster: observed_cluster.ObservedCluster, rpc: Any
) -> None:
    """A field or an RPC that is added later would show what nobody thought of."""
    shown = _SHOWN_AS_THEY_ARE[rpc.name]
    assert _fields_with("theirs", NONE, rpc, cluster) == shown
    assert _fields_with("theirs", NODES, rpc, cluster) == (shown | _NODE_NAMES if shown else set())
    for viewer in (NONE, PODS):
        assert _fields_with("n0", viewer, rpc, cluster) == shown
    whole = {path for path, _ in texts_in_messages.texts(_filled(rpc))}
    assert _fields_with("theirs", ALL, rpc, cluster) == _fields_with("n0", ALL, rpc, cluster) == whole
