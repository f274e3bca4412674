"""Tests that ask Kubernetes' own framework: skipped where it is not built, failed where that must not be (CI=true)."""

import os

import pytest

from tests.conformance import real_framework

MISSING = "the oracle is not built: `python -m tests.conformance.real_framework` (needs Go 1.26)"


def require_oracle() -> None:
    """Skips the calling test where the oracle is not built, or fails it where CI has to have it."""
    if real_framework.available():
        return
    if os.environ.get("CI") == "true":
        pytest.fail(MISSING)
    pytest.skip(MISSING)
