"""docs/reference/plugin-contract.md says what the protos say."""

import re

import pytest

from tests.helpers import contract_document


@pytest.mark.slow
def test_the_reference_is_what_the_protos_say() -> None:
    """If this fails, authors read of fields that do not exist, or do not learn of new ones."""
    assert contract_document.write() == contract_document.DOCUMENT.read_text(), "run `make docs`"


def test_everything_in_it_is_explained_and_every_link_leads_somewhere() -> None:
    """If this fails, a field stands there without a word, or a link leads to nothing."""
    text = contract_document.write()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) > 300
    assert [row for row in rows if not row.rsplit(" | ", 1)[1].strip(" |")] == []
    headings = {line.removeprefix("### ").lower() for line in text.splitlines() if line.startswith("### ")}
    assert set(re.findall(r"\(#([^)]+)\)", text)) <= headings


def test_it_has_what_plugins_serve_and_nothing_of_phases() -> None:
    """If this fails, the reference misses an RPC, or an author implements one that only phases serve."""
    text = contract_document.write()
    for rpc in ("Configure", "FilterDryRun", "NormalizeScore", "PreBindPreFlight", "QueueingHint", "Sync", "Activate"):
        assert f"| `{rpc}` |" in text
    for other in ("GetPluginStatistics", "FilterPhase", "QueuedPod"):
        assert other not in text.replace("SnapshotFollower", "")
