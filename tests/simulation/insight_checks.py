"""Insight's answers about the pods that wait, once everything is at rest: no node takes them, and what is short.

The scheduler has refused them, and nothing has woken them since. A node that insight calls feasible shows a wake-up
that was lost, or an explanation that is not the verdict.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tests.simulation import simulated_process
from tests.simulation.observed_calls import observe
from tests.simulation.simulated_process import Process, State
from trireme.insight import service
from trireme.v1 import insight_pb2, snapshot_pb2
from trireme_kube.apimachinery.quantity import parse_quantity

# So many pods are asked about.
_PODS = 5


class InsightChecks:
    """The insight that runs, if there is one."""

    def __init__(self) -> None:
        self._services: dict[str, tuple[Process, Any]] = {}
        observe(service.InsightService, "__init__", self._on_made)

    def _on_made(self, made: Any, *_: Any, **__: Any) -> None:
        process = simulated_process.current()
        assert process is not None
        self._services[process.name] = (process, made)

    async def differences(self) -> list[str]:
        """What it says that is not so. Nothing may be under way."""
        found = []
        for process, made in self._services.values():
            if process.state is State.RUNNING:
                work = _wrong_explanations(made)
                found.extend(await asyncio.get_running_loop().create_task(work, context=process.context.copy()))
        return found


async def _wrong_explanations(made: Any) -> list[str]:
    waiting = [
        queued
        for queued in made._cluster.queue.all()
        if queued.state == snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE and not queued.pod_group
    ]
    found = []
    for queued in waiting[:_PODS]:
        try:
            answer = await made.explain(insight_pb2.ExplainRequest(pod=queued.pod), "simulation")
        except service.NotAnsweredError as error:
            found.append(f"insight says nothing of pod {queued.pod.name}: {error}")
        else:
            found.extend(f"insight on pod {queued.pod.name}: {text}" for text in wrong_texts(answer))
    return found


def wrong_texts(answer: insight_pb2.ExplainResponse) -> list[str]:
    """What is wrong with the explanation of a pod that waits."""
    if answer.node_name:
        return [f"it is on {answer.node_name}"]
    found = [f"{each.name} is feasible" for each in answer.feasible_nodes]
    for each in (shortage for refusal in answer.refusals for shortage in refusal.shortages):
        requested, free = _nanos(each.requested), _nanos(each.free)
        if requested <= free:
            found.append(f"{each.resource} is short on {each.node_name}, where {each.free.string} is free")
        used = sum(_nanos(user.used) for user in each.users)
        if not each.more_users and used + free != _nanos(each.allocatable):
            found.append(f"{each.resource} of {each.node_name} is free and used, which is not all of it")
    return found


def _nanos(amount: Any) -> int:
    return parse_quantity(amount.string).nanos
