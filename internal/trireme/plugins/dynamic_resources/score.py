"""DynamicResources' Score: prefers nodes where claims get alternatives that stand early in their lists.

Tests: tests/conformance/test_decisions.py.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from trireme.plugin_api import scorers
from trireme.plugin_kit import plugin_context
from trireme.plugins.dynamic_resources import args as device_args
from trireme.plugins.dynamic_resources import (
    device_demand,
    device_search,
    node_allocatable,
    pod_claims,
    prioritized_list,
    search_outcomes,
)
from trireme.plugins.dynamic_resources.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot, snapshot_view
from trireme.v1 import core_pb2


class DynamicResourcesScore:
    """The score of DynamicResources: prefers nodes where claims get alternatives that come early in their lists."""

    name = SPEC.name
    normalization = scorers.Normalization.MAX
    reads: tuple[str, ...] = device_search.READS

    def __init__(self, args: device_args.Args, clock: Callable[[], float] = time.monotonic) -> None:
        self._search = device_search.DeviceSearch(args, clock)
        self.depends_on = self._search.depends_on

    async def prepare(self, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray) -> None:
        """Search for devices on these slots, where there are alternatives to score."""
        if isinstance(self.pre_score(pod_class, snap), device_demand.DeviceDemand):
            await self._search.prepare(pod_class, snap, slots)

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """Return the class's demand as state; all nodes score 0 if no request of its claims has alternatives."""
        if not self._search.on.prioritized_list or not pod_class.pod.spec.resource_claims:
            return scorers.ALL_ZERO
        try:
            claims = pod_claims.claims_of_pod(pod_class.pod, snap, of_groups=self._search.on.group_claims)
        except pod_claims.ClaimError:
            return scorers.ALL_ZERO
        if not any(request.first_available for each in claims for request in each.claim.spec.devices.requests):
            return scorers.ALL_ZERO
        return self._search.demand_or_none(pod_class, snap) or scorers.ALL_ZERO

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """Score slots by how early in their lists the alternatives are that claims get there."""
        scores = np.zeros(slots.shape[0], dtype=np.int64)
        fixed = sum(
            prioritized_list.alternatives_score(claim, prioritized_list.allocated_request_names(claim))
            for claim in state.claims
        )
        if not (state.needs_allocation or state.shared):
            # Claims that have their devices count only where something was found out about them.
            if self._search.on.node_allocatable:
                counted = [
                    bool(self._statuses_of_allocated_claims(pod_class, state, snap, slot)) for slot in slots.tolist()
                ]
                scores[np.array(counted, dtype=np.bool_)] = fixed
            return scores
        outcomes = self._search.outcomes(pod_class, state, snap, slots)
        score_of: dict[search_outcomes.SearchOutcome | None, int] = {}
        for at in range(slots.shape[0]):
            outcome = outcomes.outcome_at(at)
            if outcome not in score_of:
                score_of[outcome] = self._score_of_outcome(state, outcome, fixed)
            scores[at] = score_of[outcome]
        return scores

    def _score_of_outcome(
        self, state: device_demand.DeviceDemand, outcome: search_outcomes.SearchOutcome | None, fixed: int
    ) -> int:
        """Score nodes with this outcome; `fixed` is what claims count that have their devices."""
        if outcome is None:
            # All was found for the pods before it, unless something lacks.
            return 0 if state.needs_allocation else fixed
        if outcome.solutions is None:
            return 0
        return fixed + sum(
            prioritized_list.alternatives_score(each.claim, prioritized_list.solution_request_names(each))
            for each in outcome.solutions
        )

    def _statuses_of_allocated_claims(
        self,
        pod_class: classes.PodClass,
        state: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        slot: int,
    ) -> tuple[core_pb2.NodeAllocatableResourceClaimStatus, ...] | None:
        """Return the share of the node's resources that allocated claims take; None: nothing, or not countable."""
        try:
            return self._search.claim_statuses(pod_class, state, snap, slot, ())
        except node_allocatable.NodeAllocatableError:
            return None


def make(context: plugin_context.PluginContext) -> DynamicResourcesScore:
    """Make the scorer, by its arguments and the feature gates."""
    return DynamicResourcesScore(device_args.read(context.args, context.features))
