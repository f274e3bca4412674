"""Defects by which something that was prepared and not used stays."""

from __future__ import annotations

from typing import Any

from tests.simulation.defects import mutations
from tests.simulation.defects.registry import defect


@defect("kill", "answer_with_error", seed=2, found_by="an object is assumed for a pod that is on no node")
def assumed_objects_stay() -> None:
    """What Reserve assumed for a pod stays assumed when the pod is not bound."""
    mutations.drop_calls("ClusterCache.remove_pod", "forget_objects")
    mutations.drop_calls("ReserveCalls.unreserve", "_changed")


@defect(
    "stall", "slow", seed=2, features=("rates",), found_by="a pod has a node, and its condition says that it has none"
)
def condition_after_binding() -> None:
    """A pod is bound while the condition of its last refusal is still to be written."""

    async def wait_until_written(original: Any, self: Any, uid: str) -> None:
        pass

    mutations.replace("AttemptReporter.has_unwritten", lambda original, self, uid: False)
    mutations.replace("AttemptReporter.wait_until_written", wait_until_written)


@defect("answer_with_error", "kill", found_by="pods are in the binding cycle at rest")
def binding_never_ends() -> None:
    """A pod that is not bound after all counts as in the binding cycle forever."""

    async def undo(original: Any, *arguments: Any, **named: Any) -> None:
        binding, cycle, *_ = arguments
        await original(*arguments, **named)
        binding._binding[cycle.profile] += 1

    mutations.replace("BindingCycle._undo", undo)


@defect("refuse_writes", seed=2, found_by="pods stay pending that fit")
def victim_stays_evicted() -> None:
    """A victim whose eviction failed counts as evicted until it is gone."""
    mutations.drop_calls("PreemptionExecutor._conclude_preemption", "_cache.set_evicting")


@defect("kill", found_by="bind is left with work in flight")
def work_stays_in_flight() -> None:
    """A replica of bind never forgets work that has ended."""
    mutations.drop_calls("WorkInFlight.track", "_works.discard")
