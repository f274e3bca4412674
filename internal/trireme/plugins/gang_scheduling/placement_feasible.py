"""GangScheduling's PlacementFeasible: as many pods, or groups, of a group have to fit as its policy requires.

Source: pkg/scheduler/framework/plugins/gangscheduling.

Tests: tests/unit/scheduling/test_pod_group_cycle.py.
"""

from trireme.framework import status
from trireme.plugin_api.placements import PlacementProgress
from trireme.plugins.gang_scheduling.spec import SPEC


class GangPlacementFeasible:
    """GangScheduling at PlacementFeasible: a group fits once its minimum does."""

    def placement_feasible(self, min_count: int, progress: PlacementProgress) -> status.Status:
        """Whether the minimum fits, still may, or cannot any more."""
        remaining, scheduled, unschedulable = progress
        if scheduled >= min_count:
            return status.SUCCESS
        counts = f"{scheduled} scheduled, {unschedulable} unschedulable, {remaining} not-evaluated"
        reason = status.Reason.of(
            "minimumNotMet",
            {
                "required": min_count,
                "scheduled": scheduled,
                "unschedulable": unschedulable,
                "notEvaluated": remaining,
            },
        )
        threshold = f"scheduling policy's minimum threshold ({min_count})"
        if scheduled + remaining < min_count:
            return status.unschedulable(SPEC.name, f"{threshold} cannot be satisfied: {counts}", reasons=(reason,))
        text = f"{threshold} is not yet satisfied: {counts}"
        return status.Status(status.Code.WAIT, SPEC.name, (text,), (reason,))


def make() -> GangPlacementFeasible:
    """Make the plugin."""
    return GangPlacementFeasible()
