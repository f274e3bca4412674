"""Every call to a phase or plugin goes through a channel that drains, and that does not cancel its caller."""

import pathlib
import re

import pytest

SOURCE = pathlib.Path(__file__).parents[3] / "internal"
MAKES_A_CHANNEL = re.compile(r"\b(?:insecure|secure)_channel\(")
# `sdk` is the plugins' side: what a plugin calls is the frontend.
ALLOWED = {"trireme/rpc/dialing.py", "trireme/sdk/handle.py"}


@pytest.mark.slow
def test_channels_are_made_in_one_place() -> None:
    """A call on a plain channel of grpc.aio ends in silence where its endpoint is removed, and its caller with it."""
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if MAKES_A_CHANNEL.search(path.read_text())}
    assert found == ALLOWED
