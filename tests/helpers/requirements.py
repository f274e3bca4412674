"""What a test needs of the machine: skipped where it is missing, failed where CI has to have it."""

import os

import pytest


def require(available: bool, missing: str) -> None:
    """Skip the calling test, or with CI=true fail it: there a silent gap would pass for a success."""
    if available:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)
