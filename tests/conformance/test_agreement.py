"""The comparison itself: a difference is found wherever it is, and what nobody can answer yet is never one."""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import agreement, decision_differences, decision_profiles, golden_rows, hint_agreement
from tests.conformance.decision_differences import Verdict

SETUP = decision_profiles.make()

Json = dict[str, Any]


def _row() -> golden_rows.Row:
    refusal = {"code": "Unschedulable", "plugin": "NodePorts", "reasons": ["taken", "b"]}
    return {
        "name": "ports-1",
        "case": {"nodes": [{"metadata": {"name": name}} for name in ("n0", "n1")], "pod": {}},
        "expect": {
            "filter": {"n0": refusal},
            "feasible": ["n1"],
            "scores": {"n1": {"ImageLocality": 7, "TaintToleration": 300}},
            "total": {"n1": 307},
            "byPlugin": {"NodePorts": {"filter": {"n0": refusal}}},
        },
    }


def _verdicts(row: golden_rows.Row, answer: Json) -> dict[tuple[str, str], Verdict]:
    findings = decision_differences.compare(row, answer, SETUP)
    return {(finding.field, finding.plugin): finding.verdict for finding in findings}


def test_the_golden_answer_agrees_with_itself_in_any_order_of_reasons() -> None:
    row = _row()
    answer = copy.deepcopy(row["expect"])
    answer["filter"]["n0"]["reasons"].reverse()
    assert Verdict.DIFFERS not in _verdicts(row, answer).values()


def _pass_everywhere(answer: Json) -> None:
    del answer["filter"]
    answer["feasible"] = ["n0", "n1"]


def _refuse_for_another_reason(answer: Json) -> None:
    answer["filter"]["n0"]["reasons"] = ["busy"]


def _refuse_by_another_code(answer: Json) -> None:
    answer["byPlugin"]["NodePorts"]["filter"]["n0"]["code"] = "UnschedulableAndUnresolvable"


def _score_higher(answer: Json) -> None:
    answer["scores"]["n1"]["ImageLocality"] = 8


def _leave_out_a_plugin(answer: Json) -> None:
    del answer["scores"]["n1"]["TaintToleration"]


def _refuse_outright(answer: Json) -> None:
    answer["preFilter"] = {"code": "UnschedulableAndUnresolvable", "plugin": "NodeAffinity"}


def _narrow(answer: Json) -> None:
    answer["preFilterNodes"] = ["n1"]


def _speak_up_alone(answer: Json) -> None:
    answer["byPlugin"]["NodeName"] = {"filter": {"n1": {"code": "Unschedulable", "plugin": "NodeName"}}}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        pytest.param(_pass_everywhere, ("filter", "NodePorts"), id="filter"),
        pytest.param(_pass_everywhere, ("feasible", ""), id="feasible"),
        pytest.param(_refuse_for_another_reason, ("filter", "NodePorts"), id="reason"),
        pytest.param(_refuse_by_another_code, ("byPlugin", "NodePorts"), id="code"),
        pytest.param(_score_higher, ("scores", "ImageLocality"), id="score"),
        pytest.param(_leave_out_a_plugin, ("scores", "TaintToleration"), id="skipped"),
        pytest.param(_refuse_outright, ("preFilter", "NodeAffinity"), id="prefilter"),
        pytest.param(_narrow, ("preFilterNodes", ""), id="narrowed"),
        pytest.param(_speak_up_alone, ("byPlugin", "NodeName"), id="alone"),
    ],
)
def test_a_difference_is_found(change: Any, where: tuple[str, str]) -> None:
    row = _row()
    answer = copy.deepcopy(row["expect"])
    change(answer)
    assert _verdicts(row, answer)[where] is Verdict.DIFFERS


def _elsewhere(plugin: str) -> tuple[golden_rows.Row, Json]:
    """A row where a plugin that is not in this setup refuses n2, and an answer that knows nothing of it."""
    row = _row()
    answer = copy.deepcopy(row["expect"])
    answer["feasible"] = ["n1", "n2"]
    row["expect"]["filter"]["n2"] = {"code": "Unschedulable", "plugin": plugin, "reasons": ["no"]}
    row["expect"]["byPlugin"][plugin] = {"filter": {"n2": row["expect"]["filter"]["n2"]}}
    return row, answer


def _setup_without(plugin: str) -> decision_profiles.Setup:
    order = ("NodePorts", plugin, "Last")
    return decision_profiles.Setup(
        SETUP.configuration, ("NodePorts", "Last"), frozenset({plugin}), SETUP.scores, frozenset(), order
    )


def test_rows_of_an_absent_plugin_are_undecided() -> None:
    row, answer = _elsewhere("Absent")
    findings = decision_differences.compare(row, answer, _setup_without("Absent"))
    verdicts = {(finding.field, finding.plugin): finding.verdict for finding in findings}
    assert verdicts["filter", "Absent"] is Verdict.NOT_YET
    assert verdicts["byPlugin", "Absent"] is Verdict.NOT_YET
    assert verdicts["filter", "NodePorts"] is Verdict.AGREES
    assert verdicts["feasible", ""] is Verdict.AGREES
    assert decision_differences.refused_elsewhere(row, _setup_without("Absent")) == {"n2"}


@pytest.mark.parametrize(
    ("plugin", "verdict"),
    [
        pytest.param("NodePorts", Verdict.DIFFERS, id="a-plugin-before-it"),
        pytest.param("Last", None, id="a-plugin-after-it"),
    ],
)
def test_only_later_plugins_may_refuse_what_a_plugin_that_is_not_there_refuses(
    plugin: str, verdict: Verdict | None
) -> None:
    row, answer = _elsewhere("Absent")
    answer["filter"]["n2"] = {"code": "Unschedulable", "plugin": plugin, "reasons": ["no"]}
    findings = decision_differences.compare(row, answer, _setup_without("Absent"))
    assert {(f.field, f.plugin): f.verdict for f in findings}.get(("filter", plugin)) is verdict


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzipped"])
def test_each_golden_row_is_assigned_to_its_suite(tmp_path: Path, packed: bool) -> None:
    rows = [_row(), {"name": "h", "case": {"plugin": "NodeName"}, "expect": {}}, {"name": "c", "file": "x"}]
    content = "\n".join(json.dumps(row) for row in rows).encode() + b"\n\n"
    path = tmp_path / "rows"
    path.write_bytes(gzip.compress(content) if packed else content)
    read = list(golden_rows.read(path))
    assert read == rows
    kinds = golden_rows.RowKind
    assert [golden_rows.kind_of(row) for row in read] == [kinds.DECISION, kinds.HINT, kinds.CONFIGURATION]


@pytest.mark.parametrize("content", [b"{]\n", b"[1]\n", b"\x1f\x8bno gzip"], ids=["no-json", "no-object", "no-gzip"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows"
    path.write_bytes(content)
    with pytest.raises(golden_rows.GoldenFileError, match=str(path)):
        list(golden_rows.read(path))


def test_registrations_hints_and_changes_are_those_of_the_hint_rows() -> None:
    rows = list(golden_rows.read(golden_rows.HINTS))
    findings = [finding for row in rows for finding in hint_agreement.compare(row, hint_agreement.answer(row))]
    assert len(findings) == sum(len(row["expect"]) for row in rows) > 800
    assert [finding for finding in findings if finding.verdict is not Verdict.AGREES] == []


def test_a_different_hint_is_a_disagreement() -> None:
    row = next(row for row in golden_rows.read(golden_rows.HINTS) if row["expect"].get("hint") == "Queue")
    (finding,) = hint_agreement.compare(
        {**row, "expect": {"hint": "Queue"}}, {**hint_agreement.answer(row), "hint": "QueueSkip"}
    )
    assert finding.verdict is Verdict.DIFFERS


def _spoil_decision(row: Json) -> None:
    row["expect"]["feasible"] = ["nowhere"]


def _spoil_hint(row: Json) -> None:
    row["expect"] = {"events": []}


def _spoil_configuration(row: Json) -> None:
    row["exit"] = 77


def _spoil_flag(row: Json) -> None:
    row["section"] = "Nowhere"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("file", "spoil"),
    [
        pytest.param("decisions", _spoil_decision, id="decisions"),
        pytest.param("hints", _spoil_hint, id="hints"),
        pytest.param("config", _spoil_configuration, id="config"),
        pytest.param("flags", _spoil_flag, id="flags"),
    ],
)
def test_the_command_takes_a_file_of_each_kind(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], file: str, spoil: Any
) -> None:
    rows = list(golden_rows.read(golden_rows.DATA / f"{file}.jsonl.gz"))[:2]
    path = tmp_path / "rows.jsonl"

    def asked(*options: str) -> int:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return agreement.main(["--cases", str(path), *options])

    assert asked() == 0
    capfd.readouterr()
    asked("--print-answers")
    printed = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row.keys() for row in printed] == [row.keys() for row in rows]
    assert [row["name"] for row in printed] == [row["name"] for row in rows]
    spoil(rows[0])
    assert asked() == 1
