"""Groups whose pods share claims for devices: what Kubernetes' own framework answers, as data and asked anew.

python -m tests.conformance.test_group_claims    # asks Kubernetes anew, and writes data/group_claims.jsonl.gz
"""

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from tests.conformance import (
    differential,
    golden_rows,
    group_decisions,
    oracle_fixture,
    real_framework,
    situation_groups,
)
from tests.conformance.decision_phases import Phases
from tests.conformance.decisions import AnyPhases
from tests.conformance.in_process_phases import InProcessPhases
from trireme.evaluation import request_errors
from trireme.v1 import bind_phase_pb2

GOLDEN = golden_rows.DATA / "group_claims.jsonl.gz"

_SEED = 5
_ROWS = 60
_RANDOM = 80


@pytest.fixture(scope="module", params=[Phases, InProcessPhases], ids=["services", "in-process"])
def phases(request: pytest.FixtureRequest) -> Iterator[AnyPhases]:
    """Filter with the gates on."""
    with request.param(group_decisions.configuration()) as asked:
        yield asked


def _differences(phases: AnyPhases, row: golden_rows.Row) -> dict[str, Any]:
    """What the framework says, and we say otherwise; what varies there is not looked at."""
    ours = group_decisions.GroupDecision(phases, row["case"]).decide()
    expected = row["expect"]
    skipped = set(row.get("varies", ()))
    return {
        field: (expected.get(field), ours.get(field))
        for field in {*expected, *ours} - skipped
        if expected.get(field) != ours.get(field)
    }


@pytest.mark.parametrize("row", list(golden_rows.read(GOLDEN)), ids=lambda row: row["name"])
def test_a_group_is_tried_as_the_framework_tries_it(phases: AnyPhases, row: golden_rows.Row) -> None:
    assert not _differences(phases, row), row


def test_the_golden_groups_have_every_outcome() -> None:
    """Data in which something never happens says nothing of it."""
    ends = Counter(_end(row["expect"]) for row in golden_rows.read(GOLDEN))
    assert min(ends.values()) >= 2, ends
    assert {"reserved for the group", "reserved for pods", "refused", "given up", "left", "looked at"} == {*ends}


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(b"\xff", id="no-message"),
        pytest.param(
            bind_phase_pb2.PluginStates(plugin_states={"DynamicResources": b"?"}).SerializeToString(), id="no-claims"
        ),
    ],
)
def test_state_that_reserve_did_not_return_is_refused(phases: AnyPhases, state: bytes) -> None:
    """Who asks so has another version; an answer all the same would free devices that are in use."""
    row = next(row for row in golden_rows.read(GOLDEN) if "postFilter" in row["expect"])
    with pytest.raises((grpc.RpcError, request_errors.InvalidRequestError), match="tried: "):
        group_decisions.GroupDecision(phases, row["case"]).ask_about(state)


@pytest.mark.timeout(300)
def test_random_groups_are_tried_as_the_framework_tries_them(phases: AnyPhases) -> None:
    """The same of groups that nobody has seen before."""
    oracle_fixture.require_oracle()
    rows = _rows(random.Random(random.SystemRandom().randrange(1 << 30)), "random", _RANDOM)
    with (
        real_framework.Oracle(4, situation_groups.GATES) as oracle,
        real_framework.Oracle(differential.RUNS_IF_DIFFERENT, situation_groups.GATES) as patient,
    ):
        answered = oracle.ask(rows)
        assert len(answered) == _RANDOM
        for row, answer in zip(rows, answered, strict=True):
            assert "error" not in answer, answer
            if _differences(phases, answer):
                # Which of two claims is released is left to chance, so four answers may be the same one.
                (answer,) = patient.ask([row])
                differences = _differences(phases, answer)
                assert not differences, (json.dumps(answer), differences)


def _end(expect: dict[str, Any]) -> str:
    after = expect.get("postFilter")
    if after is None:
        users = [user for member in expect["members"] for user in member.get("reserves", {}).values()]
        return "reserved for the group" if any("apiGroup" in user for user in users) else "reserved for pods"
    if any("preFilter" in member for member in expect["members"]):
        return "refused"
    return "given up" if "deallocated" in after else "left" if "left" in after else "looked at"


def _rows(draw: random.Random, name: str, count: int) -> list[golden_rows.Row]:
    return [situation_groups.situation(draw, f"{name}-{number:03}") for number in range(count)]


if __name__ == "__main__":
    with real_framework.Oracle(8, situation_groups.GATES) as asked:
        found = [row for row in asked.ask(_rows(random.Random(_SEED), "group", _ROWS)) if not row.get("varies")]
    lines = "".join(json.dumps(row, separators=(",", ":"), sort_keys=True) + "\n" for row in found)
    GOLDEN.write_bytes(gzip.compress(lines.encode(), mtime=0))
    print(Counter(_end(row["expect"]) for row in found))
