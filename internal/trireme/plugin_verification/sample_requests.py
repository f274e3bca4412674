"""The requests that a plugin is called with at each extension point, as a scheduler would make them.

Also change: protos/trireme/v1/filter.proto (the messages).
Also change: protos/trireme/v1/score.proto (the messages).
Also change: protos/trireme/v1/bind.proto (the messages).
Also change: protos/trireme/v1/queue.proto (the messages).
Also change: protos/trireme/v1/pod_groups.proto (the messages).
Also change: internal/trireme/bind/remote_bind_plugins.py (the requests that a plugin gets).

Tests: tests/contract/test_plugin_verification.py.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from trireme.plugin_verification import exchanges, outcomes, rpcs
from trireme.plugin_verification.session import CONFIG_HASH, Session
from trireme.v1 import (
    bind_pb2,
    core_pb2,
    cycle_pb2,
    filter_pb2,
    plugin_pb2,
    pod_groups_pb2,
    queue_pb2,
    score_pb2,
    status_pb2,
)

PODS_PER_CALL = 2
"""Placements and items in a call."""

_UNLIMITED = 2**31 - 1


async def samples(session: Session, rpc: rpcs.Rpc) -> Sequence[exchanges.Exchange]:
    """The answers to the RPC's sample requests, failures included.

    Raises: NotApplicable: an earlier step leaves the RPC out for every sample pod.
    """
    if session.has_samples(rpc):
        return await session.samples(rpc)
    requests = await _REQUESTS[rpc.name](session)
    if not requests:
        raise outcomes.NotApplicable(f"{rpc.name} is left out for every sample pod, as the plugin's earlier step says")
    return await session.samples(rpc, requests)


async def answered(session: Session, rpc: rpcs.Rpc) -> Sequence[exchanges.Exchange]:
    """The sample calls of the RPC that have a response. Raises: NotApplicable, NotChecked: there is none."""
    out = [each for each in await samples(session, rpc) if each.response is not None]
    if not out:
        raise outcomes.NotChecked(f"{rpc.name} fails")
    return out


async def first_request(session: Session, rpc: rpcs.Rpc) -> Message:
    """The RPC's first sample request. Raises: NotApplicable: there is none."""
    return (await samples(session, rpc))[0].request


async def states_before(session: Session, rpc: rpcs.Rpc) -> Mapping[int, bytes]:
    """The sample pods that PreFilter (or PreScore) does not leave out, with the state that it returned."""
    before = {rpcs.FILTER: rpcs.PRE_FILTER, rpcs.FILTER_DRY_RUN: rpcs.PRE_FILTER}.get(rpc, rpcs.PRE_SCORE)
    pods = range(len(session.cluster.pods))
    if not session.declares(*before.points):
        return dict.fromkeys(pods, b"")
    out = {}
    for pod, each in enumerate(await samples(session, before)):
        answer = each.response
        assert answer is None or isinstance(answer, filter_pb2.PreFilterResponse | score_pb2.PreScoreResponse)
        if answer is not None and answer.status.code == status_pb2.CODE_SUCCESS:
            out[pod] = answer.state
    return out


async def cycle_for(session: Session, rpc: rpcs.Rpc) -> cycle_pb2.Cycle:
    """The cycle of the first sample pod that the RPC is called for. Raises: NotApplicable: there is none."""
    states = await states_before(session, rpc)
    for pod, state in states.items():
        return session.cycle(pod, state)
    raise outcomes.NotApplicable(f"{rpc.name} is left out for every sample pod, as the plugin's earlier step says")


async def any_rpc_with_cycle(session: Session) -> tuple[rpcs.Rpc, cycle_pb2.Cycle]:
    """An RPC with a cycle that the plugin serves, and a copy of the cycle. Raises: NotApplicable, NotChecked."""
    for rpc in rpcs.WITH_CYCLE:
        if session.declares(*rpc.points):
            first = (await samples(session, rpc))[0]
            if first.failure is not None:
                raise outcomes.NotChecked(f"{rpc.name} fails")
            request: Any = first.request
            cycle = cycle_pb2.Cycle()
            cycle.CopyFrom(request.cycle)
            return rpc, cycle
    raise outcomes.NotApplicable("the plugin serves no RPC with a cycle")


async def with_cycle(session: Session, rpc: rpcs.Rpc, cycle: cycle_pb2.Cycle) -> Message:
    """The RPC's first sample request with another cycle. Raises: NotApplicable."""
    request: Any = rpc.request()
    request.CopyFrom(await first_request(session, rpc))
    request.cycle.CopyFrom(cycle)
    copy: Message = request
    return copy


def items(session: Session, count: int = PODS_PER_CALL, first: int = 0) -> list[bind_pb2.BindItem]:
    """So many pods on nodes; `first` is the number of the first pod."""
    return [
        bind_pb2.BindItem(pod=each.pod, node_name=each.node_name) for each in placements(session, count, first=first)
    ]


def placements(session: Session, count: int = PODS_PER_CALL, *, first: int = 0) -> list[filter_pb2.Placement]:
    """The same as placements."""
    out = []
    for number in range(first, first + count):
        slot = number % len(session.cluster.nodes)
        pod = cycle_pb2.PodIdentity(namespace="verify", name=f"pod-{number}", uid=f"uid-of-pod-{number}")
        out.append(filter_pb2.Placement(pod=pod, node_name=session.cluster.nodes[slot].name, slot=slot))
    return out


def dry_run(session: Session, node: int, *, removed: bool = False, added: bool = False) -> filter_pb2.DryRun:
    """A dry run on the sample node, with one pod removed from it or added to it."""
    pod: list[core_pb2.Pod] = [session.pod(session.cluster.pods[0])]
    if session.info.node_data == plugin_pb2.NODE_DATA_SNAPSHOT:
        # The full sync places the pod of row 0 on the node of slot 0.
        return filter_pb2.DryRun(slot=node, removed_rows=[0] if removed else [], added_classes=[1] if added else [])
    view = session.view(session.cluster.nodes[node])
    return filter_pb2.DryRun(node=view, removed_pods=pod if removed else [], added_pods=pod if added else [])


async def _pre_enqueue(session: Session) -> list[Message]:
    pods = [session.named_pod(pod) for pod in session.cluster.pods]
    return [queue_pb2.PreEnqueueRequest(profile=session.settings.profile, pods=pods, config_hash=CONFIG_HASH)]


async def _queue_sort(session: Session) -> list[Message]:
    pods = [session.named_pod(pod) for pod in session.cluster.pods]
    return [queue_pb2.QueueSortRequest(profile=session.settings.profile, pods=pods, config_hash=CONFIG_HASH)]


async def _queueing_hint(session: Session) -> list[Message]:
    pods = [session.pod(pod) for pod in session.cluster.pods]
    profile = core_pb2.Pod(spec=core_pb2.PodSpec(scheduler_name=session.settings.profile))
    pods = [core_pb2.Pod.FromString(pod.SerializeToString() + profile.SerializeToString()) for pod in pods]
    node = session.cluster.nodes[0].json
    out: list[Message] = []
    for event in session.info.events_to_register:
        if event.hint:
            of_node = event.resource == "Node"
            out.append(
                queue_pb2.QueueingHintRequest(
                    plugin=session.info.name,
                    event=plugin_pb2.ClusterEvent(resource=event.resource, actions=event.actions[:1]),
                    new_json=node if of_node else b'{"metadata":{"name":"verify","namespace":"verify"}}',
                    pods=pods,
                    config_hash=CONFIG_HASH,
                )
            )
    return out


async def _pre_filter(session: Session) -> list[Message]:
    return [filter_pb2.PreFilterRequest(cycle=session.cycle(pod)) for pod in range(len(session.cluster.pods))]


async def _filter(session: Session) -> list[Message]:
    out: list[Message] = []
    for pod, state in (await states_before(session, rpcs.FILTER)).items():
        nodes = session.selection(session.all_nodes)
        out.append(filter_pb2.FilterRequest(cycle=session.cycle(pod, state), count=_UNLIMITED, nodes=nodes))
    return out


async def _filter_dry_run(session: Session) -> list[Message]:
    runs = [dry_run(session, 0), dry_run(session, 0, removed=True), dry_run(session, 1, added=True)]
    states = await states_before(session, rpcs.FILTER_DRY_RUN)
    return [filter_pb2.FilterDryRunRequest(cycle=session.cycle(pod, state), runs=runs) for pod, state in states.items()]


async def _post_filter(session: Session) -> list[Message]:
    size = len(session.cluster.nodes)
    refusal = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin="Other", messages=["Insufficient cpu"])
    columns = filter_pb2.NodeColumns(
        generation=session.cycle(0).generation,
        size=size,
        statuses=[refusal],
        status_index=[1] * size,
        capacity=[0] * size,
    )
    return [
        filter_pb2.PostFilterRequest(cycle=session.cycle(pod), columns=columns)
        for pod in range(len(session.cluster.pods))
    ]


async def _reserve(session: Session) -> list[Message]:
    return [filter_pb2.ReserveRequest(cycle=session.cycle(0), placements=placements(session))]


async def _unreserve(session: Session) -> list[Message]:
    return [filter_pb2.UnreserveRequest(cycle=session.cycle(0), placements=placements(session)[::-1])]


async def _pre_score(session: Session) -> list[Message]:
    nodes = session.selection(session.all_nodes)
    return [
        score_pb2.PreScoreRequest(cycle=session.cycle(pod), nodes=nodes) for pod in range(len(session.cluster.pods))
    ]


async def _score(session: Session) -> list[Message]:
    nodes = session.selection(session.all_nodes)
    states = await states_before(session, rpcs.SCORE)
    return [score_pb2.ScoreRequest(cycle=session.cycle(pod, state), nodes=nodes) for pod, state in states.items()]


async def _normalize_score(session: Session) -> list[Message]:
    out: list[Message] = []
    for each in await answered(session, rpcs.SCORE):
        request, answer = each.request, each.response
        assert isinstance(request, score_pb2.ScoreRequest)
        assert isinstance(answer, score_pb2.ScoreResponse)
        if answer.status.code == status_pb2.CODE_SUCCESS and len(answer.scores) == len(session.cluster.nodes):
            out.append(score_pb2.NormalizeScoreRequest(cycle=request.cycle, nodes=request.nodes, scores=answer.scores))
    return out


async def _permit(session: Session) -> list[Message]:
    return [bind_pb2.PermitRequest(cycle=session.cycle(0), items=items(session))]


async def _pre_bind_pre_flight(session: Session) -> list[Message]:
    return [bind_pb2.PreBindPreFlightRequest(cycle=session.cycle(0), items=await _reserved_items(session))]


async def _pre_bind(session: Session) -> list[Message]:
    """Empty: PreBindPreFlight says that there is no work for any pod."""
    items_with_work = [
        item
        for each in await samples(session, rpcs.PRE_BIND_PRE_FLIGHT)
        for at, item in enumerate(_items_of(each))
        if _has_work(each, at)
    ]
    return [bind_pb2.PreBindRequest(cycle=session.cycle(0), items=items_with_work)] if items_with_work else []


def _items_of(each: exchanges.Exchange) -> Sequence[bind_pb2.BindItem]:
    assert isinstance(each.request, bind_pb2.PreBindPreFlightRequest)
    return each.request.items


def _has_work(each: exchanges.Exchange, at: int) -> bool:
    """Whether the scheduler would call PreBind for the item; also where the answer is wrong, which P157 is about."""
    answer = each.response
    if not isinstance(answer, bind_pb2.PreBindPreFlightResponse) or at >= len(answer.statuses):
        return True
    return answer.statuses[at].code == status_pb2.CODE_SUCCESS


async def _bind(session: Session) -> list[Message]:
    return [bind_pb2.BindRequest(cycle=session.cycle(0), items=items(session))]


async def _post_bind(session: Session) -> list[Message]:
    return [bind_pb2.PostBindRequest(cycle=session.cycle(0), items=items(session))]


async def _reserved_items(session: Session) -> list[bind_pb2.BindItem]:
    """The items, with the state that Reserve returned for each."""
    out = items(session)
    if session.declares(rpcs.RESERVE_POINT):
        for each in await samples(session, rpcs.RESERVE):
            if isinstance(each.response, filter_pb2.ReserveResponse):
                for item, reservation in zip(out, each.response.reservations, strict=False):
                    item.state = reservation.state
                    item.assumed.extend(reservation.assumed)
    return out


async def _placement_feasible(session: Session) -> list[Message]:
    """A gang of two in a placement, before the first pod and after both; then on all nodes; then a group of groups."""
    names = [node.name for node in session.cluster.nodes]
    pods = session.cluster.pods[:PODS_PER_CALL]
    count = len(pods)

    def request(*, steps: Sequence[int], placement: str = "", composite: bool = False) -> Message:
        made = pod_groups_pb2.PlacementFeasibleRequest(cycle=session.cycle(0), min_count=count)
        made.cycle.ClearField("pod")
        group: Any = made.composite_pod_group if composite else made.pod_group
        group.metadata.namespace, group.metadata.name, group.metadata.uid = "verify", "group", "uid-of-group"
        if placement:
            made.placement = placement
            made.node_names.extend(names)
        for at in range(steps[-1]):
            pod = made.tried.add(node_name=names[at % len(names)], fields=at)
            identity = session.named_pod(pods[at]).metadata
            metadata = pod.pod.metadata
            metadata.namespace, metadata.name, metadata.uid = identity.namespace, identity.name, identity.uid
            made.pod_fields.append(session.pod(pods[at]))
        for tried in steps:
            made.steps.add(tried=tried, remaining=count - tried, scheduled=tried)
        return made

    after_each = range(1, count + 1)
    return [
        request(steps=(0,), placement="verify-rack"),
        request(steps=after_each, placement="verify-rack"),
        request(steps=after_each),
        request(steps=after_each, composite=True),
    ]


_REQUESTS: Mapping[str, Callable[[Session], Awaitable[list[Message]]]] = {
    rpcs.PRE_ENQUEUE.name: _pre_enqueue,
    rpcs.QUEUE_SORT.name: _queue_sort,
    rpcs.QUEUEING_HINT.name: _queueing_hint,
    rpcs.PRE_FILTER.name: _pre_filter,
    rpcs.FILTER.name: _filter,
    rpcs.FILTER_DRY_RUN.name: _filter_dry_run,
    rpcs.POST_FILTER.name: _post_filter,
    rpcs.RESERVE.name: _reserve,
    rpcs.UNRESERVE.name: _unreserve,
    rpcs.PRE_SCORE.name: _pre_score,
    rpcs.SCORE.name: _score,
    rpcs.NORMALIZE_SCORE.name: _normalize_score,
    rpcs.PERMIT.name: _permit,
    rpcs.PRE_BIND_PRE_FLIGHT.name: _pre_bind_pre_flight,
    rpcs.PRE_BIND.name: _pre_bind,
    rpcs.BIND.name: _bind,
    rpcs.POST_BIND.name: _post_bind,
    rpcs.PLACEMENT_FEASIBLE.name: _placement_feasible,
}
