"""Documents that are written from the code are those that the code would write now."""

import configuration_document


def test_the_configuration_reference_is_up_to_date() -> None:
    """An operator would look for a field, or rely on a default, that is not there."""
    assert configuration_document.write() == configuration_document.DOCUMENT.read_text(), "run `make docs`"


def test_every_field_is_explained() -> None:
    """A field's row would be empty."""
    rows = [line for line in configuration_document.write().splitlines() if line.startswith("| `")]
    assert len(rows) > 30
    assert [row for row in rows if row.endswith("|  |")] == []
