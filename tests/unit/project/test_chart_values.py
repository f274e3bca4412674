"""The chart's values, their schema and their documentation belong together, and with what the processes know."""

import json
from collections.abc import Iterator
from typing import Any

from tests.helpers import chart_values_document
from trireme.config import remote_plugin_settings

CHART = chart_values_document.CHART


def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    return schema


def _properties(schema: dict[str, Any], part: dict[str, Any], path: str) -> Iterator[str]:
    """The paths that the schema has, but for those of entries of lists and free maps."""
    part = schema["definitions"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    if not part.get("properties"):
        yield path
    for name, below in part.get("properties", {}).items():
        yield from _properties(schema, below, f"{path}.{name}" if path else name)


def test_every_value_has_its_documentation_and_a_rule() -> None:
    """A value without documentation is not found, and one without a rule takes what breaks the installation later."""
    assert chart_values_document.write() == chart_values_document.DOCUMENT.read_text(), "run `make docs`"
    documented = {path for path, _, _ in chart_values_document.rows_of(CHART / "values.yaml")}
    whole = {"resources", "issuer"}  # documented as one value
    ruled = set()
    for path in _properties(_schema(), _schema(), ""):
        words = path.split(".")
        cut = next((index for index, word in enumerate(words) if word in whole), len(words))
        ruled.add(".".join(words[: cut + 1]))
    assert ruled - {"global"} == documented  # Helm's own


def test_plugins_may_be_where_remote_plugins_may_be() -> None:
    points = _schema()["definitions"]["plugin"]["properties"]["extensionPoints"]["items"]["enum"]
    assert set(points) == {point.value for point in remote_plugin_settings.REMOTE_POINTS}
