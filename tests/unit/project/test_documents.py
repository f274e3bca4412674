"""Documents that are written from the code are those that the code would write now."""

import pathlib

import pytest

from tests.contract import metrics_document
from tests.helpers import configuration_document
from trireme.framework import cluster_event

_ROOT = pathlib.Path(__file__).parents[3]


def test_the_configuration_reference_is_up_to_date() -> None:
    """An operator would look for a field, or rely on a default, that is not there."""
    assert configuration_document.write() == configuration_document.DOCUMENT.read_text(), "run `make docs`"


def test_the_metrics_page_is_up_to_date(tmp_path: pathlib.Path) -> None:
    """The page lists the metrics that the processes serve, with their present meaning."""
    assert metrics_document.write(tmp_path) == metrics_document.DOCUMENT.read_text(), "run `make docs`"


@pytest.mark.parametrize(
    ("path", "text"), [pytest.param(*each, id=each[0].name) for each in configuration_document.write_schemas().items()]
)
def test_the_schemas_for_editors_are_up_to_date(path: pathlib.Path, text: str) -> None:
    """Editors know each field of this version, with its default and its values."""
    assert text == path.read_text(), "run `make docs`"


def test_every_field_is_explained() -> None:
    """A field's row would be empty."""
    rows = [line for line in configuration_document.write().splitlines() if line.startswith("| `")]
    assert len(rows) > 30
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_event_that_a_plugin_may_register_is_explained() -> None:
    """An author would guess the names, or register every event."""
    text = (_ROOT / "docs/extension-points.md").read_text()
    names = [resource.value for resource in cluster_event.Resource]
    names += [cluster_event.action_label(action) for action in cluster_event.ActionType]
    names += [
        cluster_event.action_label(each) for each in (cluster_event.ActionType.UPDATE, cluster_event.ActionType.ALL)
    ]
    assert [name for name in names if f"`{name}`" not in text] == []
