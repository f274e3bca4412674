"""Insight's answers about random clusters are those of Filter: who refuses, what is free, and who holds the rest.

Amounts are counted again here, pod by pod; the verdicts are compared with those of the filter service, which has
answered before about an earlier state of the same cluster.
"""

import collections
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.phase_calls import PROFILE, configuration, context, cycle, greet
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.filter import service as filter_service
from trireme.insight import service, shortages
from trireme.registry import remote_makers
from trireme.v1 import cycle_pb2, filter_phase_pb2, insight_pb2, snapshot_pb2
from trireme.wire import node_columns
from trireme_kube.apimachinery import quantity

GPU = "example.com/gpu"
FILTERS = ("NodeUnschedulable", "TaintToleration", "NodeResourcesFit")
WAITING = "uid-of-the-waiting-pod"


class Kind(NamedTuple):
    """A class of pods."""

    priority: int
    requests: dict[str, int]

    @property
    def spec(self) -> dict[str, Any]:
        return {
            **requesting(**{name: str(amount) for name, amount in self.requests.items()}),
            "priority": self.priority,
        }


class Cluster(NamedTuple):
    """Nodes with what they have, kinds of pods, and the kinds of the pods and nominated pods on each node."""

    nodes: list[dict[str, int]]
    kinds: list[Kind]
    placed: list[tuple[int, int]]
    #: Node, kind, and whether it is the waiting pod, which is of the first kind.
    nominated: list[tuple[int, int, bool]]
    #: How many of the placed and nominated pods the filter service has seen when it answers first.
    seen: int


def _amounts(most: int) -> st.SearchStrategy[dict[str, int]]:
    amount = st.integers(1, most)
    return st.fixed_dictionaries({}, optional={"cpu": amount, "memory": amount, GPU: amount})


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = draw(st.lists(_amounts(8), min_size=1, max_size=4))
    for node in nodes:
        node["pods"] = draw(st.integers(1, 6))
    kinds = draw(st.lists(st.builds(Kind, st.integers(-1, 1), _amounts(6)), min_size=1, max_size=4))
    number, kind = st.integers(0, len(nodes) - 1), st.integers(0, len(kinds) - 1)
    nominated = draw(st.lists(st.tuples(number, kind, st.just(False)), max_size=4))
    if draw(st.booleans()):
        nominated.append((draw(number), 0, True))
    return Cluster(
        nodes, kinds, draw(st.lists(st.tuples(number, kind), max_size=8)), nominated, draw(st.integers(0, 8))
    )


def _held(cluster: Cluster, number: int, resource: str) -> list[int]:
    """What each pod holds of the resource of a node, that the first kind of pod cannot have."""
    placed = [cluster.kinds[kind] for node, kind in cluster.placed if node == number]
    nominees = [cluster.kinds[kind] for node, kind, own in cluster.nominated if node == number and not own]
    counted = [*placed, *(each for each in nominees if each.priority >= cluster.kinds[0].priority)]
    return [1 if resource == "pods" else each.requests.get(resource, 0) for each in counted]


def _lacking(cluster: Cluster, number: int) -> dict[str, int]:
    """What the node has too little of for a pod of the first kind, and how much of it is free."""
    requests = {**cluster.kinds[0].requests, "pods": 1}
    free = {name: cluster.nodes[number].get(name, 0) - sum(_held(cluster, number, name)) for name in requests}
    return {name: left for name, left in free.items() if left < requests[name]}


def _fill(cluster: Cluster, builder: SnapshotBuilder) -> Any:
    """Put the cluster into the snapshot; yields before each pod that is placed or nominated."""
    for number, node in enumerate(cluster.nodes):
        builder.set_node(f"n{number}", allocatable={name: str(amount) for name, amount in node.items()})
    for number, kind in enumerate(cluster.kinds, start=1):
        builder.add_class(number, pod_of(kind.spec))
    for node, kind in cluster.placed:
        yield
        builder.place(kind + 1, f"n{node}")
    for number, (node, kind, own) in enumerate(cluster.nominated):
        yield
        pod = cycle_pb2.PodIdentity(
            namespace="default", name=f"nominee-{number}", uid=WAITING if own else f"n-{number}"
        )
        builder.apply(nominations=[snapshot_pb2.Nomination(pod=pod, pod_class=kind + 1, slot=node)])


async def _explain(builder: SnapshotBuilder, *nodes: str) -> insight_pb2.ExplainResponse:
    """Insight's answer about a waiting pod of the first kind."""
    explaining = service.InsightService(builder.snap)
    await greet(explaining, configuration(FILTERS, (("NodeResourcesFit", 1),)))
    pod = cycle_pb2.PodIdentity(namespace="default", name="p", uid=WAITING)
    queued = snapshot_pb2.QueuedPod(pod=pod, pod_class=1, profile=PROFILE)
    explaining._cluster.apply_queue(snapshot_pb2.QueueDelta(reset=True, pods=[queued]))
    return await explaining.Explain(insight_pb2.ExplainRequest(pod=pod, nodes=nodes), context())


async def _live_verdicts(phase: Any, builder: SnapshotBuilder) -> dict[str, list[str]]:
    """The messages with which Filter refuses the waiting pod, by node; none where it does not."""
    request = cycle(builder, 1)
    request.pod.metadata.namespace, request.pod.metadata.name, request.pod.metadata.uid = "default", "p", WAITING
    answer = await phase.Filter(filter_phase_pb2.FilterPhaseFilterRequest(cycle=request, count=1), context())
    columns = node_columns.from_message(answer.columns)
    messages = [[], *(list(each.messages) for each in columns.statuses)]
    return {name: messages[columns.index[slot]] for name, slot in builder.snap.nodes.slot_of_name.items()}


@given(clusters())
@settings(max_examples=100)
async def test_an_explanation_is_the_live_verdict(cluster: Cluster) -> None:
    """A user would be told that a node is feasible which refuses the pod, or the other way round."""
    builder = SnapshotBuilder()
    live = filter_service.FilterPhase(builder.snap, remote_makers.no_remote_plugin)
    await greet(live, configuration(FILTERS, ()))
    steps = _fill(cluster, builder)
    for _ in zip(range(cluster.seen), steps, strict=False):
        pass
    if 1 in builder.snap.classes:
        await _live_verdicts(live, builder)
    collections.deque(steps, maxlen=0)
    verdicts = await _live_verdicts(live, builder)
    found = await _explain(builder)
    explained = {node: list(refusal.status.messages) for refusal in found.refusals for node in refusal.nodes}
    assert explained == {node: messages for node, messages in verdicts.items() if messages}
    assert {each.name for each in found.feasible_nodes} == verdicts.keys() - explained.keys()
    assert {int(node[1:]) for node in explained} == {
        number for number in range(len(cluster.nodes)) if _lacking(cluster, number)
    }


@given(clusters())
@settings(max_examples=100)
async def test_what_pods_hold_and_what_is_free_is_what_the_node_has(cluster: Cluster) -> None:
    """A user who adds up the numbers of a shortage would look for pods that are not there, or for too few."""
    builder = SnapshotBuilder()
    collections.deque(_fill(cluster, builder), maxlen=0)
    for number, node in enumerate(cluster.nodes):
        found = await _explain(builder, f"n{number}")
        short = {each.resource: each for refusal in found.refusals for each in refusal.shortages}
        assert {name: _value(each.free) for name, each in short.items()} == _lacking(cluster, number)
        for name, each in short.items():
            held = sorted((amount for amount in _held(cluster, number, name) if amount), reverse=True)
            assert _value(each.allocatable) == node.get(name, 0)
            assert _value(each.allocatable) == _value(each.free) + sum(held)
            shown = held[: shortages.MAX_USERS] if name != "pods" else []
            assert [_value(user.used) for user in each.users] == shown
            assert each.more_users == len(held) - len(shown)
    for refusal in (await _explain(builder)).refusals:
        for each in refusal.shortages:
            free = [_lacking(cluster, int(node[1:]))[each.resource] for node in refusal.nodes]
            assert _value(each.free) == max(free)


def _value(amount: Any) -> int:
    return quantity.parse_quantity(amount.string).value()
