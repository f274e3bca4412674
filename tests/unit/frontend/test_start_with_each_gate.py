"""The scheduler is put together and schedules with each feature gate flipped, as far as kube-scheduler starts so."""

import pytest

from tests.helpers.frontend_world import World
from trireme.config import gates
from trireme.filter.service import FilterPhase
from trireme.frontend import phase_configuration
from trireme.registry import remote_makers
from trireme.score.service import ScorePhase
from trireme.snapshot import snapshot
from trireme_kube.componentbase.cli import versions

KNOWN = gates.read_table()
FREE = sorted(
    gate for gate in KNOWN.gates if not KNOWN.at(gate, versions.DEFAULT).locked and gate not in ("AllAlpha", "AllBeta")
)


def _flipped(gate: str) -> dict[str, bool]:
    """The gate flipped, with the gates that it needs on, or without those that need it."""
    value = not KNOWN.at(gate, versions.DEFAULT).default
    chosen = {gate: value}
    while True:
        known = gates.FeatureGates(values=chosen)
        if value:
            more = {need: True for name in chosen for need in KNOWN.dependencies.get(name, ())}
        else:
            needing = (name for name, needs in KNOWN.dependencies.items() if not chosen.keys().isdisjoint(needs))
            more = {name: False for name in needing if known.enabled(name)}
        more = {name: on for name, on in more.items() if known.enabled(name) is not on}
        if not more:
            return chosen
        chosen |= more


@pytest.mark.parametrize(
    "chosen",
    [
        *(pytest.param(_flipped(gate), id=gate) for gate in FREE),
        pytest.param({"AllAlpha": True, "GenericWorkload": True}, id="AllAlpha"),
        pytest.param({"AllBeta": False}, id="AllBeta=false"),
        pytest.param({"AllAlpha": True, "AllBeta": True}, id="AllAlpha,AllBeta"),
    ],
)
def test_the_scheduler_works_with_the_gate(chosen: dict[str, bool]) -> None:
    text = ",".join(f"{gate}={str(on).lower()}" for gate, on in chosen.items())
    world = World(f"--feature-gates={text}")
    try:
        message = phase_configuration.make_configuration(world.frontend.context.completed, {})
        for service in (FilterPhase, ScorePhase):
            service(snapshot.Snapshot(), remote_makers.no_remote_plugin).prepare(message)()
        world.api.put_node("n", 4)
        world.deliver("nodes", 10)
        world.create("a", 1)
        world.answer_all()
        assert world.api.pods["a"]["spec"]["nodeName"] == "n"
    finally:
        world.close()
