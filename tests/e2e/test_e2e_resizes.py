"""Running pods whose resize is deferred, on the real control plane, beside kube-scheduler: who is evicted for them.

No kubelet runs here: that a pod runs and that its resize is deferred is written into its status.
"""

from collections.abc import Iterator

import pytest

from tests.e2e import group_sides, installation
from tests.e2e.group_sides import PODS, Json, Stage
from tools.controlplane import launcher
from trireme.framework import resizes

pytestmark = [pytest.mark.timeout(180), pytest.mark.controlplane]

RESIZING = (resizes.GATE,)
NODES = "/api/v1/nodes"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
JSON_MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[group_sides.BothSides]:
    """Both schedulers, on control planes whose nodes have a preemption policy, for all of these tests."""
    gates = {**group_sides.GATES, resizes.GATE: True}
    options = launcher.Options(feature_gates=gates, runtime_config=group_sides.SERVED)
    with group_sides.both_sides(options, tmp_path_factory.mktemp("sides")) as both:
        yield both


async def _running(on: Stage, name: str, cpu: str, priority: str = "") -> None:
    """A pod that runs on node-0."""
    spec: Json = {"nodeName": "node-0", "terminationGracePeriodSeconds": 0}
    if priority:
        spec["priorityClassName"] = priority
    await on.pods([installation.pod(name, cpu=cpu, **spec)])


async def _defer(on: Stage, name: str, allocated: str) -> None:
    """The kubelet says that there is no room for what the pod asks for by now."""
    pod = await on.here.request("GET", f"{PODS}/{name}")
    container = pod["spec"]["containers"][0]["name"]
    amounts = {"cpu": allocated}
    status = {
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "PodResizePending", "status": "True", "reason": "Deferred"},
        ],
        "containerStatuses": [
            {
                "name": container,
                "image": "i",
                "imageID": "i",
                "ready": True,
                "restartCount": 0,
                "allocatedResources": amounts,
                "resources": {"requests": amounts},
            }
        ],
    }
    await on.here.request("PATCH", f"{PODS}/{name}/status", {"status": status}, JSON_MERGE)


async def _gone(on: Stage, name: str) -> None:
    async def gone() -> bool:
        return name not in {pod["metadata"]["name"] for pod in await on.here.pods()}

    await installation.until(gone, 30, lambda: f"{name} is still there: {on.logs()}")


async def room_for_a_resize(on: Stage) -> None:
    """A pod of lower priority on its node goes; the one elsewhere stays."""
    await on.priorities()
    await on.nodes(2)
    await _running(on, "low", "1")
    await _running(on, "grows", "2", "high")
    await on.pods([installation.pod("elsewhere", cpu="1", nodeName="node-1")])
    await _defer(on, "grows", "500m")
    await _gone(on, "low")
    await on.until_told("Preempted")


async def a_resize_on_a_node_that_lets_none_preempt(on: Stage) -> None:
    """Nobody goes until the administrator changes his mind."""
    await on.priorities()
    await on.nodes(1)
    await on.patch(f"{NODES}/node-0", {"spec": {"podPreemptionPolicy": {"disableResizePreemption": ["test"]}}})
    await _running(on, "low", "1")
    await _running(on, "grows", "2", "high")
    await _defer(on, "grows", "500m")
    await on.settled()
    assert "low" in {pod["metadata"]["name"] for pod in await on.here.pods()}
    await on.patch(f"{NODES}/node-0", {"spec": {"podPreemptionPolicy": None}})
    await _gone(on, "low")


async def a_resize_of_a_pod_that_must_not_preempt(on: Stage) -> None:
    """Its policy holds for resizes, too; nothing is reported, for it runs."""
    await on.nodes(1)
    await on.here.request(
        "POST",
        CLASSES,
        {"metadata": {"name": "polite"}, "value": 1000, "preemptionPolicy": "Never"},
    )
    await _running(on, "low", "1")
    await _running(on, "grows", "2", "polite")
    await _defer(on, "grows", "500m")


SCENARIOS = (room_for_a_resize, a_resize_on_a_node_that_lets_none_preempt, a_resize_of_a_pod_that_must_not_preempt)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_trireme_and_kube_scheduler_make_the_same_of_it(
    scenario: group_sides.Scenario, sides: group_sides.BothSides
) -> None:
    """A user who moves over has the same pods evicted for resizes, and no others."""

    async def played(on: Stage) -> None:
        try:
            await scenario(on)
        finally:
            await on.here.session.delete(
                f"{on.here.url}/apis/scheduling.k8s.io/v1/priorityclasses/polite",
                headers=on.here.headers,
                ssl=on.here.tls,
            )

    ours, theirs = await sides.play(played, RESIZING)
    assert not group_sides.differences(ours, theirs)
