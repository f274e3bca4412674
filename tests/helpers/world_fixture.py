"""The fixture `world` of unit tests; only those that use it import the frontend."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.helpers import frontend_world


@pytest.fixture(name="world")
def _world() -> "Iterator[frontend_world.World]":
    """A frontend with one node of three CPUs."""
    from tests.helpers import frontend_world  # noqa: PLC0415 - half a second, for the tests that need it

    with frontend_world.one_node() as world:
        yield world
