"""CEL selectors mean, cost and fail as in Kubernetes: each function, and random expressions of all of them."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.conformance import oracle_fixture, real_framework, selector_answers, selector_expressions
from trireme.plugins.dynamic_resources import expressions

_SEED = 5
_MEANT = 1500
_MISTYPED = 300


def test_every_function_answers_as_in_kubernetes() -> None:
    assert _differing_from_recorded() == []


@pytest.mark.parametrize(
    "expression",
    ["(" * 33 + "true" + ")" * 33, " + ".join(["1"] * 33), "[" * 33 + "]" * 33],
    ids=["brackets", "sum", "list"],
)
def test_a_selector_deeper_than_the_library_reads_is_refused_with_the_limit(expression: str) -> None:
    """Kubernetes reads 250 levels: without the limit in the message nobody knows what to change."""
    asked = selector_answers.device(selector_expressions.DEVICE)
    answer = selector_answers.answer(expression, asked, expressions.CompiledExpressions())
    assert answer == {"compile": "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 32"}


def _differing_from_recorded() -> list[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    asked = selector_answers.device(selector_expressions.DEVICE)
    known = expressions.CompiledExpressions()
    differing = []
    rows = [json.loads(line) for line in selector_answers.ROWS.read_text().splitlines()]
    assert len(rows) > 600
    for row in rows:
        expression = row.pop("expression")
        ours = selector_answers.answer(expression, asked, known)
        if ours != row:
            differing.append((expression, row, ours))
    return differing


@pytest.mark.timeout(300)
def test_random_selectors_answer_as_in_kubernetes() -> None:
    """Functions meet in ways that no list of cases has; what is mistyped is refused where Kubernetes refuses it."""
    oracle_fixture.require_oracle()
    source = selector_expressions.Expressions(_SEED)
    meant = [source.selector() for _ in range(_MEANT)]
    mistyped = [source.mistyped(source.selector()) for _ in range(_MISTYPED)]
    asked = selector_answers.device(selector_expressions.DEVICE)
    known = expressions.CompiledExpressions()
    differing = []
    said = real_framework.selectors(selector_expressions.DEVICE, [*meant, *mistyped])
    for at, (expression, go) in enumerate(zip([*meant, *mistyped], said, strict=True)):
        ours, theirs = selector_answers.answer(expression, asked, known), selector_answers.comparable(go)
        # Where several things are wrong the two compilers find more or fewer of them.
        loosely = at >= _MEANT or theirs.get("compile", "").count("ERROR: ") > 1
        if ours != theirs and not (loosely and "compile" in ours and "compile" in theirs):
            differing.append((expression, theirs, ours))
    assert differing == []
