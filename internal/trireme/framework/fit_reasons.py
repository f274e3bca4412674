"""Refusals in the words of kube-scheduler: by nodes, counted (`2 Insufficient cpu, 3 Too many pods`), and of groups.

Source: pkg/scheduler/framework/types.go FitError.Error.
"""

from collections import Counter
from collections.abc import Iterable

from trireme.framework import status

#: No claim can be released for a group. Source: dynamicresources PodGroupPostFilter.
NO_CLAIM_TO_RELEASE = "deallocation and deletion of ResourceClaims completed"


def reasons_sentence(nodes: int, refusals: Iterable[tuple[status.Status, int]]) -> str:
    """How many of the nodes refuse, and why. `refusals` are the distinct statuses and how many nodes have each."""
    counts: Counter[str] = Counter()
    for refusal, count in refusals:
        for reason in refusal.messages:
            counts[reason] += count
    # Sorted as texts, so 10 comes before 2.
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    text = f"0/{nodes} nodes are available:"
    return f"{text} {', '.join(reasons)}." if reasons else text
