"""Where single pods would go, each as if it were the only new one: an attempt of the scheduler that is not carried out.

Nothing is assumed, so all pods are simulated on one fork, and equal pods have one answer.

Tests: tests/unit/simulation/test_questions.py.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from trireme.cache.pod_projection import ParsedPod
from trireme.framework import status
from trireme.scheduling import refusal
from trireme.simulation import reasons, simulation
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2
from trireme.wire import status as wire_status
from trireme.wire.phase_answers import FilterAnswer
from trireme.wire.post_filter_result import PostFilterResult


@dataclass(frozen=True, slots=True)
class SinglePodAnswer:
    """The node that the pod would be bound to, or why it would have none.

    `message` is that of the attempt. With `nominated_node` the pods `victims` would be evicted there, and the pod would
    be bound there once they are gone.
    """

    node_name: str = ""
    message: str = ""
    pre_filter: reasons.NodeRefusals | None = None
    refusals: Sequence[reasons.NodeRefusals] = ()
    nominated_node: str = ""
    victims: Sequence[tuple[cycle_pb2.PodIdentity, str]] = ()
    #: Why preemption makes no room.
    reasons: Sequence[status.Reason] = ()


async def simulate_each(sim: simulation.Simulation, pods: Sequence[ParsedPod]) -> list[SinglePodAnswer]:
    """An answer for each of the pods. Other tasks run between them.

    Raises: InvalidPod, UnknownLabelKeyError, PhaseFault, PhaseUnavailable.
    """
    classes = [sim.class_of(pod) for pod in pods]
    sim.publish()
    answers: dict[tuple[str, int], SinglePodAnswer] = {}
    out = []
    for pod, class_id in zip(pods, classes, strict=True):
        key = (pod.scheduler_name, class_id)
        if key not in answers:
            await asyncio.sleep(0)
            answers[key] = await _simulate_one(sim, pod, class_id)
            # Nobody asks about the class again, and memory that was used last is the fastest.
            sim.engine.drop(*key)
        out.append(answers[key])
    return out


async def _simulate_one(sim: simulation.Simulation, pod: ParsedPod, class_id: int) -> SinglePodAnswer:
    profile, generation = pod.scheduler_name, sim.snap.generation
    filtered = await sim.evaluators.filter(profile, class_id, 1, generation)
    if filtered.is_refused_everywhere(-1):
        return await _explain_refusal(sim, pod, class_id, filtered)
    placed = await sim.evaluators.place(profile, class_id, 1, filtered)
    if placed.failure is not None:
        return SinglePodAnswer(message=placed.failure.message)
    slot = placed.slots[0]
    node_name = sim.snap.nodes.names[slot]
    if filtered.needs_reserve:
        cycle = sim.evaluators.cycle(profile, class_id, generation)
        placement = filter_pb2.Placement(pod=_identity(pod), node_name=node_name, slot=slot)
        response = await sim.evaluators.reserve(cycle, [placement])
        result = wire_status.from_message(response.reservations[0].status)
        await sim.evaluators.unreserve(cycle, [placement])
        if result.code is not status.Code.SUCCESS:
            return SinglePodAnswer(message=refusal.failure_by_reserve(result, node_name).message)
    return SinglePodAnswer(node_name)


async def _explain_refusal(
    sim: simulation.Simulation, pod: ParsedPod, class_id: int, filtered: FilterAnswer
) -> SinglePodAnswer:
    """Why no node takes the pod, and what preemption would do."""
    refused = refusal.Refusal.of(filtered, sim.snap.nodes.count)
    at_once = None
    if filtered.refusal is not None:
        at_once = reasons.refused_at_once(filtered.refusal, sim.snap)
    nodes = reasons.refusals_of(filtered, sim.snap)
    profile = pod.scheduler_name
    if refused.error is not None or not sim.setup.filters.post_filters.get(profile):
        return SinglePodAnswer("", refused.as_failure().message, at_once, nodes)
    preemptor = core_pb2.Pod()
    preemptor.metadata.namespace, preemptor.metadata.name, preemptor.metadata.uid = pod.namespace, pod.name, pod.uid
    found = await sim.evaluators.run_post_filter(profile, class_id, sim.snap.generation, [preemptor], filtered)
    result = PostFilterResult.from_message(found.results[0].answer)
    victims = [
        (action.pod, action.evict.node_name or result.nominated_node or "")
        for action in result.actions
        if action.HasField("evict")
    ]
    message = refused.as_failure(result.message).message
    why = [] if victims else [reason for each in result.refusals for reason in each.reasons]
    return SinglePodAnswer("", message, at_once, nodes, result.nominated_node or "", victims, why)


def _identity(pod: ParsedPod) -> cycle_pb2.PodIdentity:
    return cycle_pb2.PodIdentity(namespace=pod.namespace, name=pod.name, uid=pod.uid)
