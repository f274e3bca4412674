"""Which releases of the frontend a phase works for: those that are at most one minor release from its own.

During a rolling update two releases are mixed for some minutes, and what one release adds the one before leaves out
without harm (docs/upgrade.md). Nobody has tested what is further apart.

Also change: docs/upgrade.md.

Tests: tests/unit/phases/test_release_skew.py, tests/contract/test_release_skew.py.
"""

import re
from collections.abc import Callable

from trireme.framework import release
from trireme.v1 import snapshot_pb2
from trireme_kube.componentbase import documents

_NUMBERS = re.compile(r"(\d+)\.(\d+)(\D|$)")
_MAX_MINORS = 1


def check(configuration: snapshot_pb2.Configuration, own: str = release.TRIREME) -> None:
    """Return if a process of release `own` works for the frontend that sent this. Raises: ValueError: it does not."""
    theirs = configuration.release
    if not theirs:
        return
    (major, minor), (own_major, own_minor) = _numbers(theirs), _numbers(own)
    if major != own_major or abs(minor - own_minor) > _MAX_MINORS:
        raise ValueError(
            f"the frontend is of release {theirs} and this process of {own}: they may be one minor release apart "
            f"({documents.UPGRADE})"
        )


def checked(
    configure: Callable[[snapshot_pb2.Configuration], None],
) -> Callable[[snapshot_pb2.Configuration], None]:
    """`configure`, for configurations of frontends of a release that fits alone."""

    def check_and_configure(configuration: snapshot_pb2.Configuration) -> None:
        check(configuration)
        configure(configuration)

    return check_and_configure


def _numbers(text: str) -> tuple[int, int]:
    found = _NUMBERS.match(text)
    if found is None:
        raise ValueError(f"release: {text!r} is no version")
    return int(found[1]), int(found[2])
