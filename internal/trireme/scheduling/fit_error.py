"""Why no node takes a pod, in the words of kube-scheduler's event and condition.

Source: pkg/scheduler/framework/types.go FitError.Error.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from trireme.framework import fit_reasons, status
from trireme.snapshot import arrays

NO_NODES = "no nodes available to schedule pods"


def message(
    nodes: int, pre_filter: status.Status | None, refusals: Iterable[tuple[status.Status, int]], post_filter: str
) -> str:
    """The whole text of event and condition. `refusals` are the distinct statuses and how many nodes have each."""
    if pre_filter is not None and pre_filter.message:
        text = f"0/{nodes} nodes are available: {pre_filter.message}."
    else:
        text = fit_reasons.reasons_sentence(nodes, refusals)
    return f"{text} {post_filter}" if post_filter else text


def nodes_by_status(statuses: Sequence[status.Status], index: arrays.Int16Array) -> list[tuple[status.Status, int]]:
    """Each status and how many nodes have it. Shape: index (node,), 0 where a node passes."""
    counts = np.bincount(index, minlength=len(statuses) + 1)
    return [(entry, int(count)) for entry, count in zip(statuses, counts[1:], strict=False) if count]
