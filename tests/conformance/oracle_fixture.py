"""Tests that ask Kubernetes' own framework: skipped where it is not built, failed where that must not be (CI=true)."""

from tests.conformance import real_framework
from tests.helpers import requirements

MISSING = "the oracle is not built: `python -m tests.conformance.real_framework` (needs Go 1.26)"


def require_oracle() -> None:
    """Skips the calling test where the oracle is not built, or fails it where CI has to have it."""
    requirements.require(real_framework.available(), MISSING)
