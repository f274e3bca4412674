"""Each branch is counted, and the counted code does what it did."""

from __future__ import annotations

import collections
import importlib
import pathlib
import sys

import pytest

from tests.simulation import simulated_coverage
from tests.simulation.branch_counts import BranchCounts

_MODULE = '''"""Counted."""


def sign(number):
    """The sign of a number."""
    if number > 0:
        return "+"
    for _ in range(number, 0):
        return "-"
    try:
        return {0: "0"}[number]
    except KeyError:
        return "?"


async def kind(value):
    match value:
        case int():
            return "number"
        case _:
            return "other"
'''


@pytest.fixture
def counts(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> BranchCounts:
    """The branches of a package, which can be imported."""
    folder = tmp_path / "counted_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "module.py").write_text(_MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    counts = BranchCounts(["counted_package"])
    counts.install()
    return counts


def test_branches_are_counted(counts: BranchCounts) -> None:
    """If this fails, a load is missing and the table does not say so."""
    module = importlib.import_module("counted_package.module")
    assert [module.sign(number) for number in (2, 1, -1, 0)] == ["+", "+", "-", "0"]
    found = {branch.what: counts.counts[number] for number, branch in enumerate(counts.branches)}
    assert found == {
        "def sign": 4,
        "if number > 0": 2,
        "else of if number > 0": 2,
        "for": 1,
        "except KeyError": 0,
        "def kind": 0,
        "case int()": 0,
        "case _": 0,
    }
    seen = collections.Counter(branch for branch, count in zip(counts.branches, counts.counts, strict=True) if count)
    assert list(simulated_coverage.never_reached(counts.branches, seen))[1:] == [
        "counted_package.module:12: except KeyError",
        "counted_package.module:16: def kind",
        "counted_package.module:18: case int()",
        "counted_package.module:20: case _",
    ]
    (_, _, line, total) = simulated_coverage.table(counts.branches, seen, 1)
    assert line.split() == ["counted_package.module", "8", "4", "0", "50%"]
    assert total.split()[-4:] == ["8", "4", "0", "50%"]
    counts.clear()
    assert sum(counts.counts) == 0
