"""The table of control planes says what `make test-versions` found."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.helpers import versions_document
from tools.controlplane import launcher, versions_run
from trireme_kube.componentbase.cli import versions

REPOSITORY = Path(__file__).parents[3]

_REPORT = """<testsuites><testsuite>
<testcase name="a[real]"/>
<testcase name="b"><failure message="no"/></testcase>
<testcase name="c"><skipped message="not served by Kubernetes v1.35.4: x/v1"/></testcase>
<testcase name="d"><skipped message="not served by Kubernetes v1.35.4: x/v1"/></testcase>
<testcase name="e"><error message="no"/></testcase>
</testsuite></testsuites>"""


def test_the_table_is_up_to_date() -> None:
    assert versions_document.write() == versions_document.DOCUMENT.read_text(), "run `make docs`"


def test_the_oldest_version_is_the_same_everywhere() -> None:
    """The chart would install where readiness then warns of the version, or refuse a version that works."""
    chart = yaml.safe_load((REPOSITORY / "deploy/chart/Chart.yaml").read_text())
    rows = re.findall(r"^\| v(\d+)\.(\d+)\.\d+ \|", versions_document.DOCUMENT.read_text(), re.MULTILINE)
    assert min((int(major), int(minor)) for major, minor in rows) == versions.OLDEST
    assert chart["kubeVersion"] == f">={versions.OLDEST[0]}.{versions.OLDEST[1]}.0-0"


def test_what_came_of_tests_is_counted() -> None:
    """A version would seem to pass what it failed."""
    found = versions_run.outcomes(_REPORT)
    assert found == {"passed": 1, "failed": ["b", "e"], "skipped": {"not served by Kubernetes v1.35.4: x/v1": 2}}


def test_a_version_has_a_row_and_its_gaps_have_reasons() -> None:
    files = {"f.py": versions_run.outcomes(_REPORT)}
    text = versions_document.table({"v1.35.4": {"files": files, "absent": ["x/v1/things"], "not run": ["g.py"]}})
    assert "| v1.35.4 | 1 | 2 | 2 | `x/v1/things` | 1 |\n" in text
    assert "- v1.35.4, 2 tests: not served by Kubernetes v1.35.4: x/v1\n" in text
    assert "- v1.35.4: `b` of `tests/e2e/f.py`\n" in text
    assert "- v1.35.4: `tests/e2e/g.py`\n" in text


def test_options_that_a_version_lacks_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A test would fail in the API server's words, and count as a defect of Trireme."""
    monkeypatch.setattr(launcher, "BINARY", tmp_path / "controlplane")
    monkeypatch.setattr(launcher, "VERSION", "v1.35.4")
    monkeypatch.setattr(launcher, "_known_gates", lambda: {"A": "true", "C": "false"})
    versions = [{"version": "v1", "resources": [{"resource": "things"}]}]
    (tmp_path / "aggregated_v2.json").write_text(
        json.dumps({"items": [{"metadata": {"name": "x"}, "versions": versions}]})
    )
    launcher.require_apis("x/v1", "x/v1/things")
    launcher.require_gates("A")
    with pytest.raises(launcher.NotServedError, match=r"not served by Kubernetes v1.35.4: x/v2"):
        launcher.require_apis("x/v1", "x/v2")
    with pytest.raises(launcher.NotServedError, match=r"no feature gate of Kubernetes v1.35.4: B"):
        launcher.require_gates("A", "B")
    launcher.require_gates_on("A", "gone, as it cannot be off")
    with pytest.raises(launcher.NotServedError, match=r"off by default in Kubernetes v1.35.4: C"):
        launcher.require_gates_on("A", "C")
