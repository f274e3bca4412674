"""Real processes of the phases, and frontends of other releases. Bind's part is in test_bind_service.py."""

import contextlib
import pathlib

import pytest

from tests.contract import followed_frontend
from tests.contract.linked_frontend import Frontend
from trireme.framework import release

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("program", ["filter", "score", "insight"])
async def test_a_frontend_of_a_distant_release_is_refused(program: str, tmp_path: pathlib.Path) -> None:
    """The reason is in the frontend's log and status; the frontend of the phase's own release is served then."""
    with followed_frontend.process(f"unix:{tmp_path}/phase.sock", program=program) as address:
        async with contextlib.AsyncExitStack() as stack:
            distant, own = Frontend(release="99.0.0"), Frontend(release=release.TRIREME)
            for frontend in (distant, own):
                stack.push_async_callback(frontend.links.close)
            distant.links.set_endpoints([address])
            await distant.fails(
                "INVALID_ARGUMENT: hello.configuration: the frontend is of release 99.0.0 and this process of "
                f"{release.TRIREME}: they may be one minor release apart (https://trireme.dev/docs/upgrade.html)"
            )
            own.links.set_endpoints([address])
            await own.follows()
