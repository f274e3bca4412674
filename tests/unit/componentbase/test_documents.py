"""Messages name a page once, by an address that works where no checkout is."""

import pathlib

import pytest
import yaml

from trireme_kube.componentbase import documents

ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no replica", f"no replica ({documents.NOTHING_IS_SCHEDULED})"),
        (
            f"a: expired ({documents.CERTIFICATE_EXPIRES}); b: expired ({documents.CERTIFICATE_EXPIRES})",
            f"a: expired; b: expired ({documents.CERTIFICATE_EXPIRES})",
        ),
        (
            f"a: expired ({documents.CERTIFICATE_EXPIRES}); b: early ({documents.CLOCKS_THAT_DIFFER}); c: gone (1)",
            f"a: expired; b: early; c: gone (1) ({documents.CERTIFICATE_EXPIRES}) ({documents.CLOCKS_THAT_DIFFER})",
        ),
    ],
    ids=["none-of-its-own", "the-same-twice", "two"],
)
def test_a_message_names_each_page_once(text: str, shown: str) -> None:
    """If this fails, a line of `trireme status` repeats an address for each replica."""
    assert documents.with_page(text, documents.NOTHING_IS_SCHEDULED) == shown


def test_alerts_and_messages_lead_to_one_site() -> None:
    """If this fails, one of the two leads nowhere when the site moves."""
    values = yaml.safe_load((ROOT / "deploy/chart/values.yaml").read_text())
    page = documents.CERTIFICATE_EXPIRES.partition("#")[0]
    assert page == values["monitoring"]["alerts"]["runbookURL"]
    assert documents.ADDRESS in (ROOT / "deploy/chart/templates/NOTES.txt").read_text()
