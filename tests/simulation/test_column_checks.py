"""A cached column that differs from one computed anew is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.simulation.column_checks import ColumnChecks, _compare_verdicts
from tests.simulation.placed_pods import PlacedPods
from tests.simulation.simulated_process import Process
from trireme.filter import service as filter_service
from trireme.framework import status
from trireme.registry import remote_makers
from trireme.score import service as score_service
from trireme.snapshot import snapshot
from trireme_kube.embedded.storage.store import Store


def _columns(*indices: int, skip: bool = False) -> Any:
    """Verdicts of one plugin about three nodes: 0 passes, 1 and 2 are refusals."""
    refusals = [status.unschedulable("P", message) for message in ("too small", "too full")]
    column = SimpleNamespace(prefilter=SimpleNamespace(skip=skip), index=np.array(indices, dtype=np.int32))
    return SimpleNamespace(plugins={"P": column}, table=SimpleNamespace(statuses=refusals))


@pytest.mark.parametrize(
    ("cached", "computed", "found"),
    [
        (_columns(0, 1, 2), _columns(0, 1, 2), []),
        (
            _columns(0, 0, 2),
            _columns(0, 1, 2),
            ["class 7, P on node-2: cached passes, computed UNSCHEDULABLE: too small"],
        ),
        (_columns(0, 1, 1), _columns(0, 1, 2), ["class 7, P on node-3: cached UNSCHEDULABLE: too small, computed"]),
        (_columns(1, 1, 1, skip=True), _columns(0, 1, 2), []),
    ],
)
def test_a_verdict_that_is_out_of_date_is_found(cached: Any, computed: Any, found: list[str]) -> None:
    """If this fails, filter may answer by what has been otherwise, and no simulation says so."""
    names = ["node-1", "node-2", "node-3"]
    nodes = SimpleNamespace(names=names, live_slots=lambda: np.arange(3))
    texts = list(_compare_verdicts(7, cached, computed, SimpleNamespace(nodes=nodes)))  # type: ignore[arg-type]
    assert [text.startswith(expected) for text, expected in zip(texts, found, strict=True)] == [True] * len(found)


def test_filter_and_score_of_one_process_are_both_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a frontend's process they share a snapshot, so that one may spoil what the other derives of it."""
    phases: tuple[Any, ...] = (filter_service.FilterPhase, score_service.ScorePhase)
    for owner in phases:
        monkeypatch.setattr(owner, "__init__", owner.__init__)  # so that it is set back
    checks = ColumnChecks(Store(), PlacedPods())
    process = Process("frontend-1", "10.0.0.1", 0.0)

    def make() -> list[Any]:
        snap = snapshot.Snapshot()
        return [owner(snap, remote_makers.no_remote_plugin) for owner in phases]

    process.context.run(make)
    made = process.context.run(make)
    assert list(checks.services()) == [("frontend-1", service) for service in made], "the last of each"
