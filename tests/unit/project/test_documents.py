"""Documents that are written from the code are those that the code would write now."""

import functools
import pathlib
import re
import tomllib
from collections.abc import Callable

import pytest

from tests.contract import metrics_document
from tests.helpers import (
    command_line_document,
    configuration_document,
    flags_document,
    http_document,
    tutorials_document,
)
from trireme.framework import cluster_event

_ROOT = pathlib.Path(__file__).parents[3]


def test_the_configuration_reference_is_up_to_date() -> None:
    """An operator would look for a field, or rely on a default, that is not there."""
    assert configuration_document.write() == configuration_document.DOCUMENT.read_text(), "run `make docs`"


def test_the_metrics_page_is_up_to_date(tmp_path: pathlib.Path) -> None:
    """The page lists the metrics that the processes serve, with their present meaning."""
    assert metrics_document.write(tmp_path) == metrics_document.DOCUMENT.read_text(), "run `make docs`"


@pytest.mark.parametrize(
    ("path", "write"),
    [
        (configuration_document.KUBE_DOCUMENT, configuration_document.write_kube),
        (flags_document.DOCUMENT, flags_document.write),
        (command_line_document.DOCUMENT, command_line_document.write),
        (http_document.DOCUMENT, http_document.write),
        *((path, functools.partial(str, text)) for path, text in tutorials_document.write().items()),
    ],
    ids=lambda value: value.stem if isinstance(value, pathlib.Path) else "",
)
def test_a_reference_is_up_to_date(path: pathlib.Path, write: Callable[[], str]) -> None:
    assert write() == path.read_text(), "run `make docs`"


def test_help_names_no_tests() -> None:
    """A command's description is its module's docstring, which names them for developers."""
    assert "tests/" not in command_line_document.write()


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


def test_fragments_of_the_changelog_have_a_known_type() -> None:
    """Towncrier leaves a file of another type out of the release's changes, in silence."""
    types = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    fragments = sorted((_ROOT / "changelog.d").glob("*.*"))
    assert fragments
    known = {each["directory"] for each in types}
    assert [path.name for path in fragments if path.name.split(".")[1:-1] not in [[each] for each in known]] == []


def test_the_documents_stay_short() -> None:
    """A reader finishes them: outside of decisions and generated parts."""
    generated = re.compile(r"<!-- (?:from here on )?written by `make docs`|<!-- begin: make chaos", re.IGNORECASE)
    left_out = re.compile(r"<!-- Also change: .*?-->|<!-- results: .*?<!-- /results -->", re.DOTALL)
    found = (*_ROOT.glob("*.md"), *(_ROOT / "docs").rglob("*.md"), *(_ROOT / "docs").rglob("*.template"))
    pages = (path for path in found if path.parent.name != "adr")
    texts = (left_out.sub("", generated.split(path.read_text())[0]) for path in pages)
    assert sum(bool(re.search(r"\w", word)) for text in texts for word in text.split()) < 45_000


@pytest.mark.parametrize(
    ("name", "size", "unit"),
    [("docs/architecture.md", 25_000, ""), ("README.md", 90, "\n"), ("docs/reliability.md", 12_000, "")],
    ids=["architecture", "readme", "reliability"],
)
def test_what_is_read_first_stays_short(name: str, size: int, unit: str) -> None:
    assert (_ROOT / name).read_text().count(unit) <= size
