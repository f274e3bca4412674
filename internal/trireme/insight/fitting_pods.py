"""Finds the waiting pods that a node would take now, within a budget of processor time.

Filter is evaluated as for an attempt; nothing is scored. HTTP extenders are the frontend's.

Also change: protos/trireme/v1/insight.proto (the messages).

Tests: tests/unit/insight/test_fitting_pods.py.
"""

import asyncio
import time
from collections.abc import Callable

import numpy as np

from trireme.evaluation import engine, request_errors
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, insight_pb2

# More pods than this are not counted on a node: a plugin that bounds nothing leaves room for very many.
_MOST_ON_A_NODE = 1 << 16


async def find(
    evaluating: engine.Engine,
    request: insight_pb2.FindFittingPodsRequest,
    deadline: float,
    *,
    cpu: Callable[[], float] = time.thread_time,
    monotonic: Callable[[], float] = time.monotonic,
) -> insight_pb2.FindFittingPodsResponse:
    """Evaluate the pods in order until the budget, or the deadline (of `monotonic`, in seconds), is over.

    At least one is evaluated, so that all have their turn. What other calls compute meanwhile counts as well. A pod
    whose class the snapshot does not have, or whose evaluation a change interrupts, does not fit.
    """
    response = insight_pb2.FindFittingPodsResponse()
    began = cpu()
    for index, pod in enumerate(request.pods):
        used = cpu() - began
        if index and (used * 1000 >= request.max_cpu_ms or monotonic() >= deadline):
            break
        found = await _evaluate(evaluating, request.cycle, pod)
        if found is not None:
            found.index = index
            response.fitting.append(found)
        response.evaluated_count = index + 1
        # Other calls are answered between two pods.
        await asyncio.sleep(0)
    response.cpu_ms = (cpu() - began) * 1000
    return response


async def _evaluate(
    evaluating: engine.Engine, caller: cycle_pb2.Cycle, pod: insight_pb2.RefusedPod
) -> insight_pb2.FittingPod | None:
    """Where the pod fits; None: nowhere."""
    snap = evaluating.snap
    cycle = cycle_pb2.Cycle(
        fence=caller.fence,
        config_hash=caller.config_hash,
        generation=snap.generation,
        profile=pod.profile,
        pod_class=pod.pod_class,
    )
    metadata = cycle.pod.metadata
    metadata.namespace, metadata.name, metadata.uid = pod.pod.namespace, pod.pod.name, pod.pod.uid
    try:
        answer = await evaluating.filter.filter(cycle)
    except (snapshot.OutOfStepError, request_errors.InvalidRequestError, request_errors.StaleRequestError):
        return None
    if answer.refusal is not None:
        return None
    columns = answer.columns
    feasible = np.flatnonzero((columns.index == 0) & (columns.capacity > 0) & snap.nodes.alive[: columns.size])
    if not feasible.size:
        return None
    capacity = int(np.minimum(columns.capacity[feasible], _MOST_ON_A_NODE).sum(dtype=np.int64))
    return insight_pb2.FittingPod(
        node_name=snap.nodes.names[feasible[0]], feasible_count=feasible.size, capacity=min(capacity, (1 << 32) - 1)
    )
