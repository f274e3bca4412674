"""Pod groups on the real control plane, beside kube-scheduler: same pods bound, same conditions, same events."""

import pathlib
from collections.abc import Iterator

import controlplane_fixture
import group_sides
import launcher
import pytest
from group_sides import Stage, gang, members

pytestmark = [pytest.mark.timeout(180), pytest.mark.controlplane]


@pytest.fixture(scope="module")
def plane() -> Iterator[launcher.ControlPlane]:
    """One control plane that serves PodGroups, for all of these tests."""
    controlplane_fixture.require_built()
    options = launcher.Options(feature_gates=group_sides.GATES, runtime_config=group_sides.SERVED)
    with launcher.ControlPlane(options) as running:
        yield running


async def _a_gang_that_fits(on: Stage) -> None:
    await on.nodes(2)
    await on.pods(members("a", 2))
    await on.group(gang("a", 3))
    await on.pods(members("a", 1, first=2))
    await on.until_bound(3)
    await on.until_condition("a", "Scheduled")
    await on.until_told("Scheduled", 3)


@pytest.mark.parametrize("scenario", [_a_gang_that_fits], ids=lambda scenario: scenario.__name__.strip("_"))
async def test_trireme_and_kube_scheduler_make_the_same_of_it(
    scenario: group_sides.Scenario, plane: launcher.ControlPlane, tmp_path: pathlib.Path
) -> None:
    """Whoever moves over sees the same of his groups: bindings, conditions, events."""
    theirs = await group_sides.played_to_kube_scheduler(plane, tmp_path / "theirs", scenario)
    ours = await group_sides.played_to_trireme(plane, tmp_path / "ours", scenario)
    assert not group_sides.differences(ours, theirs)
