"""Each in-tree plugin's events and queueing hints, against kube-scheduler's own, plugin by plugin.

`test_agreement` compares all rows at once, as `make conformance` does. Here a failure names the plugin, and mutation
tests run the rows of the plugins that a change concerns.
"""

import pytest

from tests.conformance import hint_agreement
from tests.conformance.decision_differences import Verdict
from tests.conformance.golden_rows import HINTS, Row, read

ROWS: dict[str, list[Row]] = {}
for row in read(HINTS):
    ROWS.setdefault(row["case"]["plugin"], []).append(row)


@pytest.mark.parametrize("plugin", ROWS)
def test_the_plugin_registers_and_answers_as_in_kube_scheduler(plugin: str) -> None:
    """If this fails, pods that the plugin refused sleep through the event that helps them, or are tried in vain."""
    for row in ROWS[plugin]:
        findings = hint_agreement.compare(row, hint_agreement.answer(row))
        assert [finding for finding in findings if finding.verdict is not Verdict.AGREES] == [], row["name"]
