"""What is short, as `trireme explain` shows it."""

import pytest
from rich import console

from trireme.cli import node_tables


def shortage(resource: str, users: int, more: int = 0, *, nominated: bool = False) -> dict[str, object]:
    found = [{"pod": None if nominated else f"shop/web-{number}", "used": "250m"} for number in range(users)]
    amounts = {"requested": "5", "free": "750m", "allocatable": "8"}
    return {"resource": resource, **amounts, "node": "node-3", "users": found, "moreUsers": more}


def shown(*shortages: dict[str, object], wide: bool = False) -> str:
    table = node_tables.shortages_table([{"shortages": list(shortages)}, {}], wide)
    assert table is not None
    out = console.Console(width=120, no_color=True)
    with out.capture() as captured:
        out.print(table)
    return captured.get()


def test_a_shortage_has_its_numbers_and_the_largest_users() -> None:
    """The operator would not know whether a hair is missing, and whose pods to look at."""
    text = shown(shortage("cpu", 5, more=2))
    assert "cpu           5  750m of 8  node-3" in text
    assert "shop/web-0 250m, shop/web-1 250m, shop/web-2 250m, 4 more" in " ".join(text.split())
    assert "shop/web-4 250m, 2 more" in " ".join(shown(shortage("cpu", 5, more=2), wide=True).split())


@pytest.mark.parametrize(
    ("found", "text"),
    [(shortage("pods", 0, more=110), "110 pods"), (shortage("cpu", 1, nominated=True), "a nominated pod 250m")],
)
def test_users_without_names_are_counted(found: dict[str, object], text: str) -> None:
    """A full node would name a hundred pods, and one whose place is kept an empty name."""
    assert text in shown(found)


def test_nothing_is_shown_where_nothing_is_short() -> None:
    """Every refusal by a taint would have an empty table."""
    assert node_tables.shortages_table([{}, {"shortages": []}], wide=False) is None
