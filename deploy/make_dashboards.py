"""Writes the dashboards of the chart as Grafana's JSON, from `dashboards.yaml` beside it; a part of `make manifests`.

Also change: deploy/dashboards.yaml (the fields).
Also change: deploy/chart/templates/dashboards.yaml (which publishes them).

Tests: tests/alerts/test_dashboards.py, tests/e2e/test_e2e_dashboards.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parent
SOURCE = DEPLOY / "dashboards.yaml"
FOLDER = DEPLOY / "chart" / "files" / "dashboards"

_COLUMNS = 24
_HEIGHT = 8
_STAT_HEIGHT = 5
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SCHEMA_VERSION = 39  # of Grafana 10.4: newer versions migrate it

Json = dict[str, Any]


def main() -> int:
    """Write the files that differ, and delete those of dashboards that are no longer there."""
    texts = generated()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in sorted(FOLDER.iterdir()):
        if path not in texts:
            path.unlink()
            print(f"deleted {path.relative_to(DEPLOY.parent)}")
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {path.relative_to(DEPLOY.parent)}")
    return 0


def source() -> list[Json]:
    """The dashboards as they are described."""
    found: list[Json] = yaml.safe_load(SOURCE.read_text())
    return found


def generated() -> dict[Path, str]:
    """All files, by path."""
    return {FOLDER / f"{entry['name']}.json": json.dumps(dashboard(entry), indent=1) + "\n" for entry in source()}


def panels(entry: Mapping[str, Any]) -> Iterator[Json]:
    """The panels of a dashboard as they are described."""
    for row in entry["rows"]:
        yield from row["panels"]


def dashboard(entry: Mapping[str, Any]) -> Json:
    """A dashboard in Grafana's format."""
    return {
        "uid": f"trireme-{entry['name']}",
        "title": entry["title"],
        "description": entry["description"],
        "tags": ["trireme"],
        "schemaVersion": _SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [_links()],
        "annotations": {"list": []},
        "templating": {"list": [_datasource_variable(), _job_variable()]},
        "panels": list(_laid_out(entry)),
    }


def _laid_out(entry: Mapping[str, Any]) -> Iterator[Json]:
    """Rows and panels with their places, from left to right."""
    number, top = 0, 0
    for row in entry["rows"]:
        number += 1
        place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row["title"], "collapsed": False, "panels": [], "gridPos": place}
        top, left, height = top + 1, 0, 0
        for described in row["panels"]:
            number += 1
            is_stat = described.get("kind") == "stat"
            width = described.get("width", _width(len(row["panels"])))
            if left + width > _COLUMNS:
                top, left = top + height, 0
            height = _STAT_HEIGHT if is_stat else _HEIGHT
            place = {"x": left, "y": top, "w": width, "h": height}
            left += width
            yield {"id": number, "gridPos": place, **_panel(described, is_stat)}
        top += height


def _width(count: int) -> int:
    """Two in a row where their number is even and small, else three."""
    return 12 if count in (1, 2, 4) else 8


def _panel(described: Mapping[str, Any], is_stat: bool) -> Json:
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": _DATASOURCE,
            "expr": query["expr"],
            "legendFormat": query["legend"],
            "instant": is_stat,
            "range": not is_stat,
            "exemplar": bool(described.get("exemplars")),
        }
        for index, query in enumerate(described["queries"])
    ]
    defaults: Json = {"unit": described.get("unit", "none"), "min": 0}
    if "decimals" in described:
        defaults["decimals"] = described["decimals"]
    defaults |= _stat_defaults(described) if is_stat else {"custom": _curve(bool(described.get("stacked")))}
    return {
        "type": "stat" if is_stat else "timeseries",
        "title": described["title"],
        "description": described["description"],
        "datasource": _DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _stat_options() if is_stat else _curve_options(),
    }


def _stat_defaults(described: Mapping[str, Any]) -> Json:
    """Green where the value is good, red where it is not, and no colour where both may be in order."""
    good = described.get("good")
    if good is None:
        steps = [{"color": "text", "value": None}]
    else:
        first = "green" if good["from"] == 0 else "red"
        steps = [{"color": first, "value": None}]
        steps += [] if good["from"] == 0 else [{"color": "green", "value": good["from"]}]
        steps += [{"color": "red", "value": good["below"]}] if "below" in good else []
    return {"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": steps}}


def _curve(stacked: bool) -> Json:
    return {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 30 if stacked else 5,
        "showPoints": "never",
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }


def _stat_options() -> Json:
    return {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "value_and_name",
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
    }


def _curve_options() -> Json:
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def _links() -> Json:
    """The other dashboards, with the same time and variables."""
    return {
        "title": "Trireme",
        "type": "dashboards",
        "tags": ["trireme"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }


def _datasource_variable() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}


def _job_variable() -> Json:
    """The jobs of Trireme's processes: kube-scheduler, which has metrics of the same names, is none of them."""
    query = "label_values(trireme_event_loop_tasks, job)"
    return {
        "name": "job",
        "label": "Job",
        "type": "query",
        "datasource": _DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": "jobs"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


if __name__ == "__main__":
    sys.exit(main())
