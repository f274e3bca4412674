"""How good each of several placements of a group of pods is: its nodes, and the pods that would be on them.

NodeResourcesFit prefers nodes that are used up, whatever strategy it scores nodes by; PodGroupPodsCount the placement
that takes more of the group.

Source: pkg/scheduler/framework/plugins/noderesources (scorePlacement), …/podgrouppodscount.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import orjson

from trireme.framework import amounts, status
from trireme.snapshot import resources, snapshot
from trireme.v1 import score_pb2

MAX_SCORE = 100

_FIT = "NodeResourcesFit"
_COUNT = "PodGroupPodsCount"
_DEFAULT_RESOURCES = (("cpu", 1), ("memory", 1))


def totals(
    request: score_pb2.ScorePlacementsRequest, snap: snapshot.Snapshot, fit_args: bytes
) -> list[int] | status.Status:
    """The weighted total of each placement, or what failed. `fit_args` are NodeResourcesFit's arguments as JSON."""
    out = [0] * len(request.placements)
    for entry in request.plugins:
        scores = [0] * len(request.placements)
        if entry.plugin == _FIT:
            configured = _configured(fit_args)
            scores = [_most_allocated(candidate, snap, configured) for candidate in request.placements]
        elif entry.plugin == _COUNT:
            counts = [request.scheduled + len(candidate.pod_classes) for candidate in request.placements]
            if not max(counts):
                text = "no pods from pod group are assigned to any of the candidate placements"
                prefix = f'running NormalizePlacementScore on PlacementScore plugins: plugin "{_COUNT}" failed with'
                return status.error(_COUNT, f"{prefix}: {text}")
            scores = [count * MAX_SCORE // max(counts) for count in counts]
        out = [total + entry.weight * score for total, score in zip(out, scores, strict=True)]
    return out


def _configured(fit_args: bytes) -> Sequence[tuple[str, int]]:
    strategy = (orjson.loads(fit_args) if fit_args else {}).get("scoringStrategy") or {}
    found = [(entry["name"], entry.get("weight") or 1) for entry in strategy.get("resources") or ()]
    return found or _DEFAULT_RESOURCES


def _most_allocated(
    candidate: score_pb2.CandidatePlacement, snap: snapshot.Snapshot, configured: Sequence[tuple[str, int]]
) -> int:
    """What is in use of the placement's nodes once the pods are there, in percent; 0 where they have nothing."""
    table = snap.nodes
    slots = np.array(candidate.slots, dtype=np.intp)
    pods = Counter(number for number in candidate.pod_classes if number in snap.classes)
    score = weights = 0
    for name, weight in configured:
        number = table.resource_names.intern(name)
        table.reserve_resources()
        counted = number in (resources.CPU, resources.MEMORY)
        asked = 0
        for pod_class, count in pods.items():
            have = snap.classes[pod_class].amounts
            asked += count * (have.scoring_nonzero[number] if counted else have.scoring.get(name, 0))
        if not asked and amounts.is_scalar(name):
            continue
        allocatable = int(table.allocatable[number, slots].sum())
        if not allocatable:
            continue
        used = int((table.nonzero if counted else table.requested)[number, slots].sum())
        score += weight * (min(used + asked, allocatable) * MAX_SCORE // allocatable)
        weights += weight
    return score // weights if weights else 0
