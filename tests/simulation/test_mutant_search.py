"""Which mutants count, and that a simulation runs the mutant."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

import trireme.queueing
from tests.simulation import mutant_search
from tests.simulation.mutant_search import MutatedModules, Trial
from tests.simulation.simulation_runs import RunCrashed
from tools.mutation.mutants import MutatedFile

PATH, MODULE = "internal/trireme/queueing/backoff.py", "trireme.queueing.backoff"


def _imported(file: MutatedFile) -> tuple[Any, MutatedModules]:
    """The file's module, compiled from its tree; the one that all others use stays."""
    modules = MutatedModules([file])
    spec = modules.find_spec(MODULE, trireme.queueing.__path__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, modules


def test_a_module_is_the_mutant() -> None:
    """If this fails, the product as it is counts as a mutant that is not found."""
    file = MutatedFile(PATH)
    mutant = next(each for each in file.mutants if str(each).endswith("`failures - 1` -> `failures + 1`"))
    mutant.change.apply()
    module, _ = _imported(file)
    assert module.BackoffPolicy(initial=1.0, maximum=100.0).duration(1) == 4.0
    assert MutatedModules([file]).find_spec("trireme.queueing.active", trireme.queueing.__path__) is None


@pytest.mark.parametrize(("failures", "blocks"), [(0, 2), (1, 1)])
def test_blocks_that_are_reached_are_known(failures: int, blocks: int) -> None:
    """If this fails, mutants are tried that no run gets to."""
    file = MutatedFile(PATH)
    file.mark_blocks()
    module, modules = _imported(file)
    module.BackoffPolicy().duration(failures)
    assert len(modules.reached) == blocks
    assert {path for path, _ in modules.reached} == {PATH}


def test_the_order_has_the_mutants_of_reached_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a figure is of other mutants than it says."""
    blocks = {mutant.block for mutant in MutatedFile(PATH).mutants}
    reached = sorted(blocks)[:3]
    monkeypatch.setattr(mutant_search, "_paths", lambda: [PATH])
    monkeypatch.setattr(mutant_search, "_unchanged", lambda: {"reached": [(PATH, each) for each in reached]})
    one, again, other = ([number for number, _ in mutant_search._order(seed)] for seed in (1, 1, 2))
    assert one == again != other
    expected = [number for number, each in enumerate(MutatedFile(PATH).mutants) if each.block in reached]
    assert sorted(one) == sorted(other) == expected


@pytest.mark.parametrize(
    ("outcome", "violation", "differs"),
    [
        (SimpleNamespace(sha256="same", violations=()), "", False),
        (SimpleNamespace(sha256="other", violations=()), "", True),
        (SimpleNamespace(sha256="same", violations=("a pod is lost", "another")), "a pod is lost", True),
        (RunCrashed("the run crashed"), "the run crashed", True),
    ],
)
def test_a_run_differs_by_its_trace_or_a_violation(
    monkeypatch: pytest.MonkeyPatch, outcome: Any, violation: str, differs: bool
) -> None:
    """If this fails, mutants count that change nothing, or the search goes on after the first violation."""

    def run(_: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(mutant_search, "_unchanged", lambda: {"hashes": {"3": "same"}})
    runs: Any = SimpleNamespace(run=run)
    trial = mutant_search._run(runs, Trial(seed=2, differs=False), 0.0)
    assert (trial.seed, trial.violation, trial.differs) == (3, violation, differs)
