"""Shadow beside a real kube-scheduler: its decisions are the same or tied, and it writes nothing."""

import pathlib

import pytest

from tools.controlplane import controlplane_fixture, launcher, shadow_control
from tools.controlplane.controlplane_fixture import start_controlplane

__all__ = ["start_controlplane"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]


async def test_beside_kube_scheduler_every_binding_is_the_same_or_tied_and_nothing_is_written(
    start_controlplane: controlplane_fixture.StartControlPlane, tmp_path: pathlib.Path
) -> None:
    """A figure of agreement below 100 % would be the tool's mistake, and a write would be a change of the cluster.

    Pods of all kinds come one by one; kube-scheduler scores every node. `shadow_control.py` runs the same with 5,000
    pods.
    """
    launcher.require_comparable("a kube-scheduler that decides as Trireme")
    plan = shadow_control.Plan(nodes=30, pods=150)
    plane = start_controlplane(shadow_control.options(tmp_path))
    outcome = await shadow_control.run(plan, tmp_path, plane)
    found = outcome.report["comparison"]
    assert found["compared"] >= 0.9 * plan.pods
    assert found["same"] + found["tied"] == found["compared"], found["examples"]
    assert (found["unknown"], found["error"]) == (0, 0)
    assert outcome.report["final"]
    assert outcome.report["worlds"]["trireme"]["pods"] > 0
    assert {each.verb for each in outcome.requests} <= shadow_control.READS
    assert not [each for each in outcome.requests if not each.allowed]
    assert {each.resource for each in outcome.requests} >= {"pods", "nodes", "persistentvolumeclaims"}
    assert "same or tied" in outcome.page
