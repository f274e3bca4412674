"""Files, command lines and events that nobody has written down are answered as Kubernetes answers them."""

import itertools
import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.conformance import drawn_kinds, golden_rows, oracle_fixture, situation_events
from tests.conformance.config import drawn_cases, drawn_files, drawn_flags, real

COUNTS = {"config": 40, "flags": 40, "hints": 96}


def _require(kind: str) -> None:
    if kind == "hints":
        oracle_fixture.require_oracle()
    elif not real.available():
        missing = "the control plane is not built: `make controlplane` (needs Go)"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", sorted(COUNTS))
def test_drawn_values_are_read_as_by_kubernetes(kind: str) -> None:
    _require(kind)
    compared = list(drawn_kinds.KINDS[kind](1, COUNTS[kind]))
    assert {one.row["name"]: one.differences for one in compared if one.differences} == {}
    met = Counter(one.met for one in compared)
    # Neither all accepted nor all refused: both answers of a hint, or at least an eighth of the files and lines.
    assert len(met) >= 2
    assert min(met["Queue"], met["QueueSkip"]) if kind == "hints" else met["accepted"] >= COUNTS[kind] // 8


@pytest.mark.parametrize("kind", sorted(COUNTS))
def test_another_answer_of_ours_is_a_difference(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _require(kind)
    other = {"hint": "neither"} if kind == "hints" else {"exit": 7}
    asked = drawn_kinds.hint_agreement if kind == "hints" else drawn_kinds.agreement
    monkeypatch.setattr(asked, "answer", lambda _case: other)
    assert all(one.differences for one in drawn_kinds.KINDS[kind](1, 1))


def _drawn(kind: str, seed: int) -> Iterator[object]:
    if kind == "config":
        careless = drawn_files.Draw(seed)
        return (drawn_cases.case(careless, "") for _ in itertools.count())
    draw = random.Random(seed)
    if kind == "flags":
        return (drawn_flags.case(draw, "") for _ in itertools.count())
    events = situation_events.Events(
        list(golden_rows.read(golden_rows.HINTS)), list(golden_rows.read(golden_rows.FOUND))
    )
    return (events.draw(draw, "") for _ in itertools.count())


@pytest.mark.parametrize("kind", sorted(COUNTS))
def test_a_seed_draws_the_same_each_time(kind: str) -> None:
    first = list(itertools.islice(_drawn(kind, 7), 40))
    assert first == list(itertools.islice(_drawn(kind, 7), 40))
    assert first != list(itertools.islice(_drawn(kind, 8), 40))
