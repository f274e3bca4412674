"""The pytest fixture that hands a test real control planes.

In a file of its own, not in a conftest, so that every test folder takes it with one import. Where the binary has not
been built (no Go toolchain) the tests that ask for it are skipped, and pytest's summary says so in one line for all of
them; with CI=true they fail instead, because there a silent gap would pass for a success.

Also change: .github/workflows/ci.yaml (the versions of Python and Go).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.helpers import requirements
from tools.controlplane import launcher

StartControlPlane = Callable[[launcher.Options], launcher.ControlPlane]

MISSING = "the real control plane is not built: `make controlplane` (needs Go 1.26)"


def require_built() -> None:
    """Skips the calling test where the control plane is not built, or fails it where CI has to have it."""
    requirements.require(launcher.available(), MISSING)


@pytest.fixture
def start_controlplane() -> Iterator[StartControlPlane]:
    """A function that starts a fresh control plane; all of them end with the test."""
    require_built()
    with contextlib.ExitStack() as stack:
        yield lambda options: stack.enter_context(launcher.ControlPlane(options))


@pytest.fixture
def controlplane(start_controlplane: StartControlPlane) -> launcher.ControlPlane:
    """A fresh etcd and kube-apiserver, with nothing else running."""
    return start_controlplane(launcher.Options())
