"""What is short, as `trireme explain` shows it."""

import pytest
from rich import console

from trireme.cli import node_tables
from trireme.v1 import insight_pb2, shortage_pb2


def shortage(resource: str, users: int, more: int = 0, *, nominated: bool = False) -> shortage_pb2.Shortage:
    found = shortage_pb2.Shortage(resource=resource, node_name="node-3", more_users=more)
    found.requested.string, found.free.string, found.allocatable.string = "5", "750m", "8"
    for number in range(users):
        user = found.users.add(nominated=nominated)
        user.used.string = "250m"
        if not nominated:
            user.pod.namespace, user.pod.name = "shop", f"web-{number}"
    return found


def shown(*shortages: shortage_pb2.Shortage, wide: bool = False) -> str:
    table = node_tables.shortages_table([insight_pb2.NodeRefusal(shortages=shortages), insight_pb2.NodeRefusal()], wide)
    assert table is not None
    out = console.Console(width=120, no_color=True)
    with out.capture() as captured:
        out.print(table)
    return captured.get()


def test_a_shortage_has_its_numbers_and_the_largest_users() -> None:
    """The operator would not know whether a hair is missing, and whose pods to look at."""
    text = shown(shortage("cpu", 5, more=2))
    assert "cpu          5 CPUs  750m of 8 CPUs  node-3" in text
    assert "shop/web-0 250m, shop/web-1 250m, shop/web-2 250m, 4 more" in " ".join(text.split())
    assert "shop/web-4 250m, 2 more" in " ".join(shown(shortage("cpu", 5, more=2), wide=True).split())


@pytest.mark.parametrize(
    ("found", "text"),
    [(shortage("pods", 0, more=110), "110 pods"), (shortage("cpu", 1, nominated=True), "a nominated pod 250m")],
)
def test_users_without_names_are_counted(found: shortage_pb2.Shortage, text: str) -> None:
    """A full node would name a hundred pods, and one whose place is kept an empty name."""
    assert text in shown(found)


def test_nothing_is_shown_where_nothing_is_short() -> None:
    """Every refusal by a taint would have an empty table."""
    assert node_tables.shortages_table([insight_pb2.NodeRefusal()], wide=False) is None
