"""The dashboards: written from their source, valid by Grafana's schema, readable, and of metrics that exist."""

import itertools
import json
import pathlib
import subprocess
from typing import Any

import pytest

from deploy import make_dashboards
from tests.alerts import alert_rules
from tests.contract import metrics_document
from tools.programs import build_programs, programs_fixture

Json = dict[str, Any]

SOURCE = make_dashboards.source()
PANELS = [(entry["name"], panel) for entry in SOURCE for panel in make_dashboards.panels(entry)]
each_panel = pytest.mark.parametrize("panel", [panel for _, panel in PANELS], ids=lambda panel: panel["title"])
each_dashboard = pytest.mark.parametrize("entry", SOURCE, ids=lambda entry: entry["name"])


def test_the_files_are_those_of_the_source() -> None:
    """`make manifests` writes them."""
    written = {path: path.read_text() for path in make_dashboards.FOLDER.iterdir()}
    assert written == make_dashboards.generated()


def test_there_are_the_five_dashboards() -> None:
    assert [entry["name"] for entry in SOURCE] == ["overview", "latency", "queue", "replicas", "capacity"]


def test_grafanas_schema_has_every_field(tmp_path: pathlib.Path) -> None:
    """A misspelt field has no effect in Grafana, and no error."""
    programs_fixture.require_programs()
    command = [str(build_programs.DASHBOARDCHECK), *map(str, make_dashboards.generated())]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout
    wrong = make_dashboards.dashboard(SOURCE[0])
    wrong["panels"][1]["options"]["colourMode"] = "value"
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(wrong))
    outcome = subprocess.run([*command[:1], str(path)], capture_output=True, text=True, check=False)
    assert "colourMode" in outcome.stdout


@each_panel
def test_a_panel_asks_a_question_and_says_what_it_shows(panel: Json) -> None:
    assert panel["title"].endswith("?")
    assert panel["description"].endswith(".")
    assert "\n" not in panel["description"]
    assert len(panel["description"]) < 150
    assert panel["unit"] if panel.get("kind") != "stat" else True
    assert all(query["legend"] for query in panel["queries"])


@each_dashboard
def test_panels_have_different_titles_and_places(entry: Json) -> None:
    panels = make_dashboards.dashboard(entry)["panels"]
    titles = [panel["title"] for panel in panels]
    assert len(set(titles)) == len(titles)
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        own = set(itertools.product(columns, range(place["y"], place["y"] + place["h"])))
        assert columns.stop <= 24
        assert not cells & own, panel["title"]
        cells |= own


def test_every_metric_is_one_that_a_process_declares(tmp_path: pathlib.Path) -> None:
    """A misspelt metric is a panel that stays empty."""
    declared = {**metrics_document.of_frontend(tmp_path)}
    for phase in metrics_document.of_phases().values():
        declared |= phase
    known = set()
    for name, instrument in declared.items():
        known |= {name, f"{name}_bucket", f"{name}_sum", f"{name}_count"} if instrument.kind == "histogram" else {name}
    expressions = [query["expr"] for _, panel in PANELS for query in panel["queries"]]
    read = {name for expr in expressions for name in alert_rules.metrics_in(expr)}
    assert len(read) > 50
    assert read - known == set()


def test_levels_are_recorded_by_rules() -> None:
    recorded = {rule["record"] for group in alert_rules.groups() for rule in group["rules"] if "record" in rule}
    expressions = " ".join(query["expr"] for _, panel in PANELS for query in panel["queries"])
    assert "trireme:slow_bindings:ratio_rate1h" in recorded
    for name in ("trireme:slow_bindings:ratio_rate1h", "trireme:failed_decisions:ratio_rate1h"):
        assert name in recorded
        assert name in expressions
