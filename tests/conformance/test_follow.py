"""What `make follow` prints about another version of Kubernetes."""

import pytest

from tests.conformance import follow, real_framework


def _surface(**parts: dict[str, str]) -> dict[str, dict[str, str]]:
    return {"gates": {}, "flags": {}, "metrics": {}, **parts}


def test_what_is_new_gone_or_different_has_a_line() -> None:
    """What no text here names would be missed: any part that the oracle prints is compared."""
    before = _surface(flags={"qps": "float32 50", "old": "bool false"}, metrics={"a_total": "ALPHA {result}"})
    after = _surface(flags={"qps": "float32 100"}, metrics={"a_total": "ALPHA {code}", "b": "BETA {}"})
    assert list(follow.surface_changes(before, after)) == [
        "flags: old is gone",
        "flags: qps was float32 50, is float32 100",
        "metrics: a_total was ALPHA {result}, is ALPHA {code}",
        "metrics: b is new: BETA {}",
    ]


def test_answers_differ_by_plugin() -> None:
    recorded = {"byPlugin": {"A": {"n": "no"}, "B": {}}, "scores": {"n": {"C": 1, "D": 2}}, "nodes": ["n"]}
    answered = {"byPlugin": {"A": {}, "B": {}}, "scores": {"n": {"C": 1, "D": 3}}, "nodes": ["n"]}
    assert list(follow.changed_parts(recorded, answered)) == ["byPlugin A", "scores D"]
    assert list(follow.changed_parts(recorded, recorded)) == []


def test_the_order_of_reasons_is_no_change() -> None:
    """It is a Go map's: the reference itself answers in another order each time."""
    recorded, answered = ({"filter": {"n": {"reasons": reasons}}} for reasons in (["a", "b"], ["b", "a"]))
    assert list(follow.changed_parts(recorded, answered)) == []
    assert list(follow.changed_parts(recorded, {"filter": {"n": {"reasons": ["a"]}}})) == ["filter"]


@pytest.mark.skipif(not real_framework.available(), reason="the oracle is not built: it needs Go")
def test_metrics_have_their_stability_and_labels() -> None:
    """What dashboards and alerts read would change unseen."""
    metrics = follow.surface(real_framework.build())["metrics"]
    assert metrics["scheduler_schedule_attempts_total"] == "STABLE {result,profile}"
    assert metrics["scheduler_preemption_attempts_total"].startswith("STABLE ")


def test_a_version_that_does_not_compile_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(version: str) -> None:
        raise real_framework.OracleError(f"{version} has no such field")

    monkeypatch.setattr(real_framework, "build_version", fail)
    monkeypatch.setattr("sys.argv", ["follow", "v1.37.2"])
    with pytest.raises(
        SystemExit, match=r"^v1\.37\.2 has no such field\nThe oracle is written for v1.*cannot be followed"
    ):
        follow.main()
