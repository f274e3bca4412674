"""Real processes of the phases, and frontends of other releases. Bind's part is in test_bind_service.py."""

import contextlib
import pathlib

import pytest

from tests.contract import followed_frontend
from tests.contract.linked_frontend import Frontend
from trireme.framework import release
from trireme.v1 import plugin_pb2, snapshot_pb2

pytestmark = pytest.mark.processes


def of_release(name: str) -> Frontend:
    """A frontend of this release."""
    return Frontend(configuration=snapshot_pb2.Configuration(release=name))


@pytest.mark.parametrize("program", ["filter", "score", "insight"])
async def test_a_frontend_of_a_distant_release_is_refused(program: str, tmp_path: pathlib.Path) -> None:
    """The reason is in the frontend's log and status; the frontend of the phase's own release is served then."""
    with followed_frontend.process(f"unix:{tmp_path}/phase.sock", program=program) as address:
        async with contextlib.AsyncExitStack() as stack:
            distant, own = of_release("99.0.0"), of_release(release.TRIREME)
            for frontend in (distant, own):
                stack.push_async_callback(frontend.links.close)
            distant.links.set_endpoints([address])
            await distant.fails(
                "INVALID_ARGUMENT: hello.configuration: the frontend is of release 99.0.0 and this process of "
                f"{release.TRIREME}: they may be one minor release apart (https://trireme.dev/docs/upgrade.html)"
            )
            own.links.set_endpoints([address])
            await own.follows()


# What a release after this one may add.
NEWER = plugin_pb2.ExtensionPoint.ValueType(99)


def of_a_later_release(point: plugin_pb2.ExtensionPoint.ValueType) -> snapshot_pb2.Configuration:
    """A profile whose plugin P is at this point, and at one that this release does not know, with an event of it."""
    info = plugin_pb2.PluginInfo(name="P", extension_points=[point, NEWER])
    info.events_to_register.add(resource="NewKind", actions=["Rise"], hint=True)
    profile = snapshot_pb2.Profile(scheduler_name="default-scheduler")
    for each in info.extension_points:
        profile.plugin_sets.add(extension_point=each).plugins.add(name="P", weight=1)
    plugin = snapshot_pb2.RemotePlugin(name="P", endpoints=["127.0.0.1:1"], deadline_ms=1000, info=info)
    return snapshot_pb2.Configuration(release=release.TRIREME, profiles=[profile], remote_plugins=[plugin])


@pytest.mark.parametrize(
    ("program", "point"),
    [
        ("filter", plugin_pb2.EXTENSION_POINT_FILTER),
        ("score", plugin_pb2.EXTENSION_POINT_SCORE),
        ("insight", plugin_pb2.EXTENSION_POINT_FILTER),
    ],
)
async def test_a_phase_passes_over_what_a_later_frontend_says_of_a_plugin(
    program: str, point: plugin_pb2.ExtensionPoint.ValueType, tmp_path: pathlib.Path
) -> None:
    """Phases that are updated last, or rolled back first, would refuse all frontends because of one plugin."""
    with followed_frontend.process(f"unix:{tmp_path}/phase.sock", program=program) as address:
        later = Frontend(configuration=of_a_later_release(point))
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(later.links.close)
            later.links.set_endpoints([address])
            await later.follows()
