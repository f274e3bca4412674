"""How good the alternatives are that were taken of prioritized lists: the score of DynamicResources.

Source: pkg/scheduler/framework/plugins/dynamicresources (computeScore).

Tests: tests/unit/evaluation/test_batches_with_devices.py.
"""

from typing import Final

from trireme.plugins.dynamic_resources import allocator
from trireme.v1 import resource_pb2

# The first alternative of a prioritized list counts so much, each further one less by one.
_BEST: Final = 8


def alternatives_score(claim: resource_pb2.ResourceClaim, names: set[str]) -> int:
    """Return a score, the higher the earlier in their lists the chosen alternatives (`names`) are."""
    return sum(
        _BEST - at
        for request in claim.spec.devices.requests
        if not request.HasField("exactly")
        for at, each in enumerate(request.first_available)
        if f"{request.name}/{each.name}" in names
    )


def solution_request_names(solution: allocator.ClaimSolution) -> set[str]:
    """The requests that a search found devices for, alternatives by their own names."""
    return {selected.request.full_name for selected in solution.selected}


def allocated_request_names(claim: resource_pb2.ResourceClaim) -> set[str]:
    """Return the requests that an allocated claim has devices for, alternatives by their own names."""
    return {result.request for result in claim.status.allocation.devices.results}
